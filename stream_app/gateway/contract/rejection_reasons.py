"""The reason codes of a gateway's refusals: those of the wire, and those of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from stream_app.web import NOT_UNDERSTOOD
from stream_app.wire import MAX_EVENT_BYTES, Reason

# Reason of the wire -> what it says of an event. A gateway answers with those of one event alone;
# what the order of the log decides, workers publish on the topic of rejections.
OF_THE_WIRE: Mapping[Reason, str] = {
    Reason.ACCEPTED: "accepted; never the reason of a refusal",
    Reason.EMPTY: "there is no event in the body",
    Reason.TOO_LARGE: f"an event has at most {MAX_EVENT_BYTES} bytes",
    Reason.MALFORMED: "the bytes are not an event: a field is missing, unknown, given twice, of "
    "another type or out of its range",
    Reason.UNKNOWN_VERSION: "the event is of a version that this release does not know",
    Reason.BAD_DEVICE: "device is not a pseudonym of 32 digits 0-9a-f",
    Reason.KEY_MISMATCH: "the record key, or the envelope, names another device than the event",
    Reason.WRONG_PARTITION: "the record is not on the partition that murmur2 of its key gives",
    Reason.MECHANISM_NOT_ALLOWED: "the mechanism is not on the allow-list of the deployment",
    Reason.BAD_ITEM: "an item is not an integer below 2^63 or a text of 1 to 128 bytes of UTF-8",
    Reason.LENGTH_MISMATCH: "there are not as many reports, or masks, as items",
    Reason.REPORT_OUTSIDE_ALPHABET: "a report is not one that the mechanism makes",
    Reason.TEST_EVENT: "the event is a test, and test events are not accepted here",
    Reason.SEQ_JUMP: "seq is more than 64 above the newest of the device; the next event is taken",
    Reason.BAD_MASK: "a mask is missing, not one of the mechanism, or the mechanism has none",
    Reason.FORGOTTEN: "the device was forgotten: its later events are rejected",
    Reason.UNREADABLE: "the record is in a batch that expands beyond what a reader takes",
    Reason.BAD_SIGNATURE: "the event is not signed by the device that it names, for this topic",
    Reason.STALE: "the day of the event is older than what the log still accepts",
    Reason.AHEAD: "the day of the event is more than 7 days away",
}


class HttpReason(StrEnum):
    """Why a gateway refuses a request, besides the reasons of the wire."""

    CONTENT_TYPE = "content_type"
    SEQ_REUSED = "seq_reused"
    RATE = "rate"
    KAFKA = "kafka"
    QUERY = "query"
    REFUSED = "refused"
    BUSY = "busy"
    NO_ANSWER = "no_answer"
    FOREIGN = "foreign"
    NOT_A_DEMO = "not_a_demo"
    NO_CAMPAIGNS = "no_campaigns"
    SIGNED = "signed"
    STAGE = "stage"
    CONTRIBUTED = "contributed"
    CONTRIBUTION = "contribution"
    STREAMS = "streams"
    NO_RELAY = "no_relay"
    SEALED = "sealed"
    HOST = "host"
    NOT_FOUND = "not_found"
    METHOD = "method"
    REQUEST = "request"
    DEFECT = "defect"


OF_HTTP: Mapping[HttpReason, str] = {
    HttpReason.CONTENT_TYPE: "send JSON as application/json, MessagePack or a signed envelope as "
    "application/octet-stream",
    HttpReason.SEQ_REUSED: "the device has used this seq for other bytes",
    HttpReason.RATE: "too many events or queries of this client: send the same again after "
    "Retry-After",
    HttpReason.KAFKA: "Kafka is away or has not confirmed: send the same bytes again, they are "
    "written once",
    HttpReason.QUERY: "a parameter is missing, unknown, given twice or out of its range",
    HttpReason.REFUSED: "the workers refuse this query; the sentence says why",
    HttpReason.BUSY: "too many queries are under way: ask again after Retry-After",
    HttpReason.NO_ANSWER: "no worker has answered in time: ask again after Retry-After",
    HttpReason.FOREIGN: "what the workers publish is in a format that this gateway does not know",
    HttpReason.NOT_A_DEMO: "these numbers exist in a demo alone, whose users are made up",
    HttpReason.NO_CAMPAIGNS: "there are no campaigns here: set privacy_mode = split or central",
    HttpReason.SIGNED: "devices sign here (devices = signed), and a gateway takes no signed "
    "contributions: use murmurec device contribute",
    HttpReason.STAGE: "no stage is open, or not that of the contribution: read /campaign again",
    HttpReason.CONTRIBUTED: "the device has contributed other bytes to this stage: the first count",
    HttpReason.CONTRIBUTION: "no contribution to the open stage, whose plan gives the sizes of the "
    "boxes: seal it again",
    HttpReason.STREAMS: "as many streams are open as there may be: try again after Retry-After",
    HttpReason.NO_RELAY: "this gateway opens no sealed requests: it has no gateway_relay_key",
    HttpReason.SEALED: "it is damaged, or sealed to another key than that of GET /ohttp-keys: "
    "compare, and seal it again",
    HttpReason.HOST: "the gateway does not serve this host name: gateway_hosts has those it does",
    HttpReason.NOT_FOUND: "there is no such page",
    HttpReason.METHOD: "the page does not take this method",
    HttpReason.REQUEST: NOT_UNDERSTOOD,
    HttpReason.DEFECT: "the gateway has a defect; its operator has the place in the log",
}

# What the order of the log decides, or the place of a record: a gateway answers with none of these.
_OF_THE_LOG = {
    *(Reason.ACCEPTED, Reason.WRONG_PARTITION, Reason.SEQ_JUMP, Reason.FORGOTTEN),
    *(Reason.UNREADABLE, Reason.STALE, Reason.AHEAD),
}
OF_EVENTS: tuple[Reason, ...] = tuple(reason for reason in Reason if reason not in _OF_THE_LOG)

OF_REFUSALS: tuple[str, ...] = tuple(str(reason) for reason in (*OF_EVENTS, *HttpReason))
"""Every reason with which a gateway refuses a request."""


def meaning(reason: str) -> str:
    """Return the sentence of a reason code."""
    return {str(key): text for key, text in (*OF_THE_WIRE.items(), *OF_HTTP.items())}[reason]

"""Which messages the topics carry: name, type, encoding and one real example of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from stream_app.wire import (
    LIST_LENGTH,
    CatalogueEntry,
    Cut,
    Entry,
    Event,
    ItemTablePage,
    Query,
    Reason,
    Recommendation,
    Rejection,
    Status,
    encode,
    encode_json,
    encode_message,
    key,
)
from stream_app.wire.authenticity.sealed_replies import SealedReply
from stream_app.wire.campaigns.contribution import Contribution, encode_contribution
from stream_app.wire.campaigns.round_log import Open, RoundEntry, encode_round
from stream_app.wire.events import JsonAny, Packed
from stream_app.wire.public_tables import TableManifest, TableRecord, encode_table_record

JSON, PACKED, BYTES = "application/json", "application/vnd.msgpack", "application/octet-stream"
DEVICE = bytes.fromhex("c61c15392dcb4c0181d456afb280a046")
_ID = "8e7a0f2f1c6d4b5a9d3e0c1b2a495867"
_DIGEST = bytes(range(32))


@dataclass(frozen=True)
class Message:
    """A message of a topic. `kind` is its type; None where it is bytes with a layout of their own,
    which `summary` then says. `example`: the value of a record."""

    name: str
    content_type: str
    summary: str
    kind: Any = None
    example: bytes | None = None

    @property
    def decoded(self) -> Any:
        """The example as JSON values; bytes of MessagePack in base64."""
        if self.example is None:
            return None
        if self.content_type == JSON:
            return msgspec.json.decode(self.example)
        return msgspec.to_builtins(msgspec.msgpack.decode(self.example))


def _json(name: str, summary: str, example: msgspec.Struct, kind: Any = None) -> Message:
    return Message(name, JSON, summary, kind or type(example), encode_message(example))


_ITEMS = np.array([1193, key("a text is an id too")], np.uint64)
_EVENT = Event(DEVICE, 1, "rr:5:2", 20_000, _ITEMS, np.array([3, 0], np.uint8))
_NOTHING = (None,) * (LIST_LENGTH - 2)
_REPLY = Recommendation(
    *(_ID, Status.OK, (318, 50, *_NOTHING), (4.41, 4.27, *_NOTHING), "links", 4812, "local"),
    *(False, 0.1312, 0.0857, (1193, 1193, *_NOTHING)),
    for_="next",
)
_QUERY = Query(_ID, DEVICE.hex(), 10, 1_795_392_000_000, reply_key=2 * _ID)
_PAGE = ItemTablePage(0, 4812, np.array([318, 1193], "<u8").tobytes(), bytes([171, 158]))
CUCKOO = "One Flew Over the Cuckoo's Nest (1975)"
_ENTRY = CatalogueEntry(1193, CUCKOO, ("Drama",), 1975)

EVENT = Message(
    *("event", JSON, "The released ratings of a device, as JSON.", JsonAny),
    encode_json(_EVENT, [1193, "a text is an id too"]),
)

MESSAGES: tuple[Message, ...] = (
    EVENT,
    Message(
        *("packed-event", PACKED),
        "The same as MessagePack, with binary columns: for volume.",
        Packed,
        encode(_EVENT),
    ),
    Message(
        *("signed-event", BYTES),
        "Either of the two in an envelope: byte C1, 32 bytes of public key (Ed25519), 64 of "
        "signature, and the event. The pseudonym is the first 16 bytes of the key's SHA-256.",
    ),
    _json("query", "A query for a list.", _QUERY),
    _json("recommendation", "The answer to a query without a key.", _REPLY),
    Message(
        *("sealed-reply", PACKED),
        "The same, padded, behind a context, in a libsodium sealed box to the query's reply_key.",
        SealedReply,
        msgspec.msgpack.encode(SealedReply(_ID, bytes(112))),
    ),
    _json(
        "rejection",
        "Place and reason of a rejected record, never its payload.",
        Rejection("murmurec.ratings.v1", 0, 77, Reason.MALFORMED, 118),
    ),
    _json("catalogue-entry", "What is public of an item.", _ENTRY),
    _json("item-table-page", "Public mean ratings of items.", _PAGE),
    _json(
        "cut-log-entry",
        "An entry of the cut log; one without kind is a cut.",
        Cut(4812, (1200, 1187, 1215, 1210), 20_000),
        Entry,
    ),
    Message(
        *("table-record", PACKED),
        "A page of a public table, or the manifest that makes the pages of a slot valid.",
        TableRecord,
        encode_table_record(TableManifest(0, 4711, 31, 1_982_739, _DIGEST[:16])),
    ),
    Message(
        *("contribution", PACKED),
        "A sealed vector of a stage of a campaign, a box for each party.",
        Contribution,
        encode_contribution(Contribution(_DIGEST, 0, DEVICE, (bytes(112),))),
    ),
    Message(
        *("round-entry", PACKED, "An entry of the log of rounds of campaigns.", RoundEntry),
        encode_round(Open(_DIGEST, 0, (0, 0, 0, 0))),
    ),
    Message("checkpoint", BYTES, "A page, a manifest or a claim of a checkpoint of the workers."),
    Message("change", BYTES, "What a shard of the workers has learned of items, for the others."),
)

# Property of `Topics` -> names of the messages of that topic.
OF_TOPICS: dict[str, tuple[str, ...]] = {
    "ratings": ("event", "packed-event", "signed-event"),
    "queries": ("query",),
    "recommendations": ("recommendation", "sealed-reply"),
    "rejected": ("rejection",),
    "items": ("catalogue-entry",),
    "item_table": ("item-table-page",),
    "item_links": ("table-record",),
    "item_side": ("table-record",),
    "contributions": ("contribution",),
    "rounds": ("round-entry",),
    "cuts": ("cut-log-entry",),
    "state": ("checkpoint",),
    "exchange": ("change",),
}

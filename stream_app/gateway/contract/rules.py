"""What a schema says of each field beyond its type: the rule in words, and what a decoder checks
that the type alone does not state.

Component -> field -> sentence, or (sentence, keywords of JSON Schema). A field is described here
once; its type, range and length come from the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_app.wire.limits import LIST_LENGTH, MAX_GENRE, MAX_ITEM_BYTES

Rule = str | tuple[str, Mapping[str, Any]]

_NAME = {"minLength": 1, "maxLength": MAX_GENRE, "pattern": r"^\S(.*\S)?$"}
_ITEM = f"an integer below 2^63, or a text of 1 to {MAX_ITEM_BYTES} bytes of UTF-8"
_LISTED = f"{_ITEM}; the item's key, where the catalogue lacks its id; text from 2^53 on"
_GENRES = "up to 16 genres, each once, without blanks around them"
_EVENT: dict[str, Rule] = {
    "seq": "number of the event, 1 more than the device's last: a repeated one changes nothing",
    "mechanism": "id of the mechanism that made the reports; on the deployment's allow-list",
    "epoch": "the day, counted from 1970-01-01",
    "test": "made with a predictable source of noise; refused where test events are not accepted",
}

RULES: Mapping[str, Mapping[str, Rule]] = {
    "Event": {
        **_EVENT,
        "device": ("the pseudonym, also the record key", {"pattern": "^[0-9a-f]{32}$"}),
        "items": f"what was rated, each {_ITEM}",
        "reports": "for each item the level as the mechanism released it, never the rating itself",
        "masks": (
            "for each item the public partition of the levels, of mechanisms that have them",
            {"minItems": 1},
        ),
        "x": (
            "extension of a later release, from version 2 of the format on; at most 512 bytes",
            {"type": "object"},
        ),
    },
    "PackedEvent": {
        **_EVENT,
        "device": "the 16 bytes of the pseudonym",
        "items": "keys of what was rated, uint64, little-endian",
        "reports": "for each item a byte, the level as the mechanism released it",
        "masks": "for each item a uint16, little-endian, of mechanisms that have masks",
        "x": (
            "extension of a later release, from version 2 of the format on; at most 512 bytes",
            {"type": "object"},
        ),
    },
    "Query": {
        "id": "correlation id, random: the key of the answer",
        "user": "pseudonym whose list it is; null with similar_to",
        "k": "how many items are wanted",
        "deadline": "milliseconds since 1970, after which workers refuse it as expired",
        "similar_to": f"ask for items near to this one, {_ITEM}; no other option beside it",
        "reply_key": "one-time public key, X25519, hex: the answer is sealed to it, else clear",
        "for": "ask for what is liked at the next visit, as without it, or now, in this one",
    },
    "Recommendation": {
        "id": "correlation id of the query",
        "status": "ok, refused (see reason), or busy: ask again",
        "items": f"{LIST_LENGTH} entries, best first; null after the last",
        "scores": "predicted ratings on 1 .. 5, in the order of items; they need not fall",
        "method": "how the list was ranked and, after a slash, how its candidates were found",
        "as_of": "number of the cut up to which the model has every record",
        "privacy": "weakest mode of the reports behind the answer",
        "catching_up": "the worker still reads old records: newer ratings are missing",
        "ndcg": "measured nDCG@10 of the lists of this method; null while unknown",
        "ndcg_popular": "the same of the most popular items; null while unknown",
        "because": "for each entry the rated item that adds most to it; null where none is known",
        "reason": "why the query was refused; null else",
        "for": "the visit that a user's list is for; not there in other answers",
    },
    "Rejection": {
        "topic": "where the record is",
        "partition": "where the record is",
        "offset": "where the record is",
        "reason": "why it was rejected",
        "size": "bytes of its value",
    },
    "CatalogueEntry": {
        "item": f"{_ITEM}; as text it is the record key",
        "title": "shown to people",
        "genres": (_GENRES, {"uniqueItems": True, "items": {"type": "string", **_NAME}}),
        "year": "of publication; null where unknown",
        "withdrawn": "never recommended",
    },
    "ItemTablePage": {
        "page": "number of the page, also the record key",
        "cut": "the means are those after this cut",
        "items": "keys, uint64, little-endian",
        "means": "for each item a byte c: its mean is 1 + c / 50 on 1 .. 5",
    },
    "Accepted": {
        "partition": "of the topic",
        "offset": "in this partition; null where the broker has not named it",
        "duplicate": "these bytes were confirmed before; nothing was written now",
    },
    "Refusal": {
        "error": "one sentence for people",
        "reason": "one of the codes, for programs",
        "held": "of the other bytes under a number or stage: 16 bytes of SHA-256, and their tag",
    },
    "CatalogueItem": {
        "item": f"{_ITEM}; text from 2^53 on",
        "key": "the 64-bit key by which the item side names the item, 16 hex digits",
        "title": "shown to people; empty where nothing was published",
        "genres": _GENRES,
        "year": "of publication; null where unknown",
        "withdrawn": "never recommended",
    },
    "Catalogue": {
        "items": "what the item side ranks first, most popular first, then all others",
        "left_out": "how many items are not in this list",
    },
    "AllowedMechanism": {
        "id": "as events name it",
        "family": "which kind of mechanism",
        "levels": "of a rating: levels 0 .. levels - 1",
        "epsilon": "exact, as text: a report is at most e^epsilon times likelier for a neighbour; "
        "null where nothing is protected",
        "adjacency": "which two inputs are neighbours",
        "protected": "what epsilon hides",
        "observed": "what an observer still sees",
        "limit": "limits of the protection, or its cost",
        "certificate": "digest of the one table that was proved; null where there is none, or more",
        "counts": "counts[level][report] of 2^64 equally likely words, as decimal text",
        "in_browser": "a browser can draw its reports",
        "why_not": "why a browser cannot; null where it can",
    },
    "Mechanisms": {
        "default": "id of the first that a browser can use, or else of the first",
        "privacy_mode": "local, central or split: where noise is added besides that of reports",
        "devices": "open, or signed: every event needs a signature",
        "topic": "to which events are written, and which a signature covers",
        "allowed": "the allow-list, in its order",
        "demo": "the users are made up: /demo has how good their lists are",
        "grafana": "address of the operator's boards; null: not set",
    },
    "CampaignStatus": {
        "plan": "JSON of the plan in base64: the bytes of which its digest is made",
        "stage": "index of the stage that the campaign is at; null where it has ended",
        "phase": "of that stage: open while devices contribute",
        "partitions": "of the topic of contributions, in which pseudonyms have their place",
        "notice": "seconds for which the plan was public before it opened; null: not known",
        "contributions": "number that counted in the stage, or in the last of a campaign that has "
        "ended; null before that is known",
    },
    "ListFigures": {
        "here": "of the lists of the deployment",
        "popular": "of the most rated items",
        "users": "people whose lists were measured",
        "error": "standard error of here minus popular",
        "k": "length of the lists",
    },
    "DemoFacts": {
        "mode": "local, split or central",
        "people": "simulated",
        "ratings": "of these people",
        "quality": "of lists; null until it is measured",
    },
    "Unlisted": {"key": "the 64-bit key of a text id that the catalogue lacks, 16 hex digits"},
    "ListedItem": {
        "item": _LISTED,
        "title": "from the public catalogue",
        "genres": "from the public catalogue",
        "year": "from the public catalogue",
        "score": "predicted rating on 1 .. 5; null where it is not known",
        "because": "the rated item that adds most to the entry; null where none is known",
        "because_title": "its title",
    },
    "ItemList": {
        "user": "pseudonym whose list it is; null for near items",
        "items": "best first; fewer than k where the model knows no more",
        "method": "how the list was ranked and how its candidates were found",
        "as_of": "number of the cut up to which the model has every record",
        "privacy": "weakest mode of the reports behind the list",
        "catching_up": "newer ratings are missing",
        "ndcg": "measured nDCG@10 of the lists of this method; null while unknown",
        "ndcg_popular": "the same of the most popular items; null while unknown",
        "for": "the visit that a user's list is for; null for other lists",
    },
    "StreamStatus": {
        "kafka": "the gateway reaches Kafka and its topics",
        "worker": "a worker answers the gateway",
        "ready": "that worker has caught up with the log",
        "waiting_for": "what it waits for; null where it is ready",
        "cut": "the newest cut that it has applied",
        "ratings_per_second": "applied in the last seconds",
        "ratings": "applied since the worker started",
        "devices": "seen so far",
        "rmse": "error in stars of predictions made before each rating was learned; debiased, of "
        "the newest 10,000",
        "rmse_baseline": "the same error of the mean rating of each item",
        "ndcg": "nDCG@10 of the served list against likes of later visits; null where not measured",
        "ndcg_popular": "the same of the most popular items",
        "ndcg_error": "standard error of ndcg",
        "list_devices": "by how many devices' later visits lists are measured",
        "list_method": "the method that ranks lists now",
        "kl_nats": "distance of errors on learned ratings from those on held-out ones: a leak",
        "lag_records": "records published and not yet applied",
        "lag_seconds": "age of the oldest of them",
        "drift": "rmse minus that over all ratings: above 0 the newest are predicted worse",
        "privacy": "weakest mode of the reports in the state",
    },
    "Alive": {"alive": "true"},
    "Ready": {"ready": "events can be written", "waiting_for": "what is missing; null if nothing"},
}

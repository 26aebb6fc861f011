"""Queries, replies, rejections, catalogue entries and the item table, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import force_setattr

from stream_app.wire.campaigns.plan import decode_rational, encode_rational
from stream_app.wire.decoding import checked
from stream_app.wire.events import IntItem, TextItem
from stream_app.wire.ids import Listed, Unlisted, key, parse_item
from stream_app.wire.limits import (
    LIST_LENGTH,
    MAX_EVENT_BYTES,
    MAX_GENRE,
    MAX_GENRES,
    MAX_REPLY_BYTES,
    MAX_SEQ,
    MAX_TITLE,
    MAX_YEAR,
    PAGE_ITEMS,
    VERSION,
)
from stream_app.wire.reasons import Reason, WireError

_json_encoder = msgspec.json.Encoder(enc_hook=encode_rational)

NAME_FORM = f"1 to {MAX_GENRE} printable characters without blanks around them"


def genres_among(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words that are genres, each once, in their order and no more than an item has."""
    return tuple(dict.fromkeys(filter(is_name, words)))[:MAX_GENRES]


def is_name(word: str) -> bool:
    """Return whether a word can name a genre."""
    return 1 <= len(word) <= MAX_GENRE and word.isprintable() and word == word.strip()


Visit = Literal["next", "now"]
"""Whether a list is of what is liked at the next visit, or of what is liked next in this one."""


def is_now(for_: str) -> bool:
    """Return whether a list is for this visit; ValueError unless it is for "next" or "now"."""
    if for_ not in ("next", "now"):
        raise ValueError(f"for_ {for_!r}: give next or now")
    return for_ == "now"


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query for the best k items of a user; `deadline` in milliseconds since 1970.

    At most one option: `similar_to` asks for items near to one, for no user; `for`, which `Visit`
    a list is for, "next" without it. `reply_key` is the one-time public key (X25519) to which the
    reply is sealed; a query without one is answered in the clear.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16,64}$")]
    user: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")] | None
    k: Annotated[int, msgspec.Meta(ge=1, le=LIST_LENGTH)]
    deadline: Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
    similar_to: IntItem | TextItem | msgspec.UnsetType = msgspec.UNSET
    for_: Visit | msgspec.UnsetType = msgspec.field(name="for", default=msgspec.UNSET)
    reply_key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    v: int = VERSION

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options that the query has."""
        return tuple(
            name.rstrip("_")
            for name in ("similar_to", "for_")
            if getattr(self, name) is not msgspec.UNSET
        )


class Status(StrEnum):
    """How a query ended."""

    OK = "ok"
    REFUSED = "refused"
    BUSY = "busy"


_Sentence = Annotated[str, msgspec.Meta(pattern=r"^[ !#-\[\]-~]{1,240}$")]  # one byte a character


class Recommendation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reply: always `LIST_LENGTH` entries, best first, padded with null.

    The model behind the reply contains every record up to cut `as_of`; `method` names the ranking
    method and, after a slash, the index that found its candidates; `privacy` is the weakest mode of
    the reports behind the reply: `none` where one came without protection, else `local`; `+split`
    or `+central` after it where devices may also contribute to the noisy sums of campaigns.
    `catching_up` is true while the worker still reads old records, so newer ratings are missing.
    Items are in the order of the ranking; `scores` are their predicted
    ratings on 1 .. 5, which need not fall. `ndcg`: measured nDCG@10 of the lists of this method,
    `ndcg_popular` that of the most popular items; null while unknown. `because` names for each
    entry the item known to be rated by the user that contributes most to it, null where there is
    none; where presence is protected the server knows of none. `reason`: of a refusal. `for`: the
    visit that a user's list is for; other replies have no such field.
    """

    id: str
    status: Status
    items: tuple[int | str | Unlisted | None, ...]
    scores: tuple[float | None, ...]
    method: str
    as_of: int
    privacy: str
    catching_up: bool = False
    ndcg: float | None = None
    ndcg_popular: float | None = None
    because: Annotated[
        tuple[int | str | Unlisted | None, ...], msgspec.Meta(max_length=LIST_LENGTH)
    ] = ()
    reason: _Sentence | None = None
    for_: Visit | msgspec.UnsetType = msgspec.field(name="for", default=msgspec.UNSET)
    v: int = VERSION


ENVELOPE_BYTES = 1280
"""More than everything of a reply takes that is not an entry of the list."""
SCORE_BYTES = 7  # 1 .. 5 with four decimals, or null, and a comma


def reply_bytes(longest_name: int) -> int:
    """Return the number of bytes of every reply of a worker, by the longest id, in JSON, that its
    catalogue has had."""
    return ENVELOPE_BYTES + LIST_LENGTH * (2 * (longest_name + 1) + SCORE_BYTES)


def longest_name_of(size: int) -> int:
    """Return the longest id of the catalogue of a worker whose replies have `size` bytes."""
    return ((size - ENVELOPE_BYTES) // LIST_LENGTH - SCORE_BYTES) // 2 - 1


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place, reason and size of a rejected record, never its payload."""

    topic: str
    partition: int
    offset: int
    reason: Reason
    size: int
    v: int = VERSION

    @property
    def key(self) -> bytes:
        """The record key, the same after every rebuild."""
        return f"{self.topic}/{self.partition}/{self.offset}".encode()


class CatalogueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public description of an item; a withdrawn item is never recommended. A text that is a
    canonical decimal below 2^63 is that integer."""

    item: IntItem | TextItem
    title: Annotated[str, msgspec.Meta(max_length=MAX_TITLE)] = ""
    genres: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_GENRES)] = ()
    year: Annotated[int, msgspec.Meta(ge=1, le=MAX_YEAR)] | None = None
    withdrawn: bool = False
    v: int = VERSION

    def __post_init__(self) -> None:
        if isinstance(self.item, str):
            force_setattr(self, "item", parse_item(self.item))
        if genres_among(self.genres) != self.genres:
            raise ValueError(f"genres of an item: up to {MAX_GENRES}, each once, {NAME_FORM}")


def decode_catalogue_entry(record_key: bytes | None, value: bytes) -> CatalogueEntry:
    """Return the entry in a record of the catalogue; raises `WireError` and nothing else.

    The record's key is the item's id as text: compaction keeps the newest record of a key, and an
    entry under the key of another item would outlive that item's own.
    """
    entry: CatalogueEntry = decode_message(CatalogueEntry, value)
    try:
        key(entry.item)
    except ValueError:
        raise WireError(Reason.BAD_ITEM) from None
    if record_key != str(entry.item).encode():
        raise WireError(Reason.KEY_MISMATCH)
    return entry


def key_named(record_key: bytes | None) -> int | None:
    """Return the key of the item that the key of a record of the catalogue names, None of none."""
    try:
        return key((record_key or b"").decode())
    except ValueError:
        return None


class ItemTablePage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public mean ratings of some items, as the model estimates them.

    `items` are uint64 keys and `means` one uint8 code for each: mean = 1 + code / 50 on the
    internal scale 1 .. 5. The means are computed from released reports alone, so a device may use
    them to choose a partition of the levels.
    """

    page: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    cut: Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
    items: Annotated[bytes, msgspec.Meta(max_length=8 * PAGE_ITEMS)]
    means: Annotated[bytes, msgspec.Meta(max_length=PAGE_ITEMS)]
    v: int = VERSION


_T = Any


def encode_message(message: msgspec.Struct) -> bytes:
    """Return a message, or an entry of the cut log, as JSON."""
    return _json_encoder.encode(message)


def json_bytes(value: Listed | Sequence[str] | None) -> int:
    """Return how many bytes an id, a title, genres or a year take in a message."""
    return len(_json_encoder.encode(value))


def decode_message(kind: type[_T], value: bytes | None) -> _T:
    """Return the message of `kind` in a record's value; raises `WireError` and nothing else."""
    most = MAX_REPLY_BYTES if kind is Recommendation else MAX_EVENT_BYTES
    return checked(partial(msgspec.json.decode, type=kind, dec_hook=decode_rational), value, most)

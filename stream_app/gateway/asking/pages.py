"""The page of a list: every one of k items has the same number of bytes.

    a page    what a worker answered, with titles, as JSON, spaces up to `page_bytes`

The number of bytes depends on public things alone: the number of items that were asked for, and the
longest id, and title with genres, year and domain, of the public catalogue. A worker's catalogue
may be newer than the gateway's: the size of its reply gives the longest id that it knows. So the
size of a page says neither how many items it has nor which. White space after a JSON value is part
of no value, so a reader needs no change.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stream_app.gateway.reads.catalogue import ServedCatalogue
from stream_app.kafka.answers import entries
from stream_app.wire import Item, Recommendation, key_of
from stream_app.wire.messages import ENVELOPE_BYTES, SCORE_BYTES, longest_name_of

_ROW_BYTES = SCORE_BYTES + len(
    b'{"item":,"title":,"genres":,"year":,"domain":,"score":,"because":,"because_title":},'
)


def page(
    user: str | None, k: int, reply: Recommendation, titles: ServedCatalogue
) -> dict[str, Any]:
    """Return the first k items of an answer with their titles."""
    return {
        "user": user,
        "items": [_row(*entry, titles) for entry in entries(reply)[:k]],
        "method": reply.method,
        "as_of": reply.as_of,
        "privacy": reply.privacy,
        "catching_up": reply.catching_up,
        "ndcg": reply.ndcg,
        "ndcg_popular": reply.ndcg_popular,
        "guarantee": reply.guarantee,
        "for": None if reply.for_ is msgspec.UNSET else reply.for_,
    }


def _row(
    item: Item, score: float | None, cause: Item | None, titles: ServedCatalogue
) -> dict[str, Any]:
    row = titles.row(key_of(item))
    return {
        "item": item,
        "title": row.title,
        "genres": list(row.genres),
        "year": row.year,
        "domain": row.domain,
        "score": score,
        "because": cause,
        "because_title": None if cause is None else titles.row(key_of(cause)).title,
    }


def page_bytes(titles: ServedCatalogue, k: int, reply_bytes: int = 0) -> int:
    """Return the number of bytes of every page of k items that is made of replies of a size."""
    name = max(titles.longest_name, longest_name_of(reply_bytes))
    return ENVELOPE_BYTES + k * (2 * name + titles.longest_text + titles.longest_title + _ROW_BYTES)


def encoded(shown: dict[str, Any], titles: ServedCatalogue, k: int, reply_bytes: int = 0) -> bytes:
    """Return a page of at most k items as `page_bytes` bytes; as more where the reply was not of
    a worker of this release, which makes all of one size."""
    return msgspec.json.encode(shown).ljust(page_bytes(titles, k, reply_bytes))

"""The replies to queries: every one of a worker has the same number of bytes.

    Kafka   a `Recommendation` as JSON, spaces up to `reply_bytes`
    HTTP    a page as JSON, spaces up to `page_bytes`

The number of bytes depends on public things alone: the length of a list, for a page the number of
items that were asked for, and the longest id, and title with genres, year and domain, that the
public catalogue has had while this worker ran. So a reply's size says neither how many items there
are nor which; without padding, ids and titles of different lengths would. White space after a JSON
value is part of no value, so a reader needs no change. Refusals have the size of any other reply.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from stream_app.agents.runtime import Runtime
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems
from stream_app.wire import (
    LIST_LENGTH,
    CatalogueEntry,
    Item,
    Recommendation,
    Status,
    encode_message,
)

ENVELOPE_BYTES = 1280
"""More than everything takes that is not an entry of the list."""
_SCORE_BYTES = 7  # 1 .. 5 with four decimals, or null, and a comma
_ROW_BYTES = _SCORE_BYTES + len(
    b'{"item":,"title":,"genres":,"year":,"domain":,"score":,"because":,"because_title":},'
)


def recommendation(runtime: Runtime, correlation_id: str, answer: RankedItems) -> Recommendation:
    """Return the reply: the recommendations, padded to the fixed length."""
    names = [runtime.catalogue.name(int(item)) for item in answer.items]
    scores = [_score(score) for score in answer.scores]
    missing = [None] * (LIST_LENGTH - len(names))
    because = [_named(runtime.catalogue, item) for item in answer.because]
    return Recommendation(
        correlation_id,
        Status.OK,
        (*names, *missing),
        (*scores, *missing),
        answer.method,
        answer.as_of,
        runtime.privacy,
        runtime.catching_up,
        answer.ndcg,
        answer.ndcg_popular,
        (*because, *(None,) * (LIST_LENGTH - len(because))),
        answer.guarantee,
    )


def refusal(
    runtime: Runtime, correlation_id: str, status: Status, reason: str | None = None
) -> Recommendation:
    """Return a reply without recommendations, of the same length as any other."""
    nothing = (None,) * LIST_LENGTH
    return Recommendation(
        correlation_id,
        status,
        nothing,
        nothing,
        "none",
        runtime.replica.cut,
        runtime.privacy,
        runtime.catching_up,
        because=nothing,
        reason=reason,
    )


def page(runtime: Runtime, user: str | None, k: int, answer: RankedItems) -> dict[str, Any]:
    """Return the first k recommendations with their titles, as the HTTP view shows them."""
    catalogue = runtime.catalogue
    because = answer.because or (None,) * len(answer.items)
    shown = [
        {
            "item": catalogue.name(int(item)),
            **_described(catalogue.entry(int(item))),
            "score": _score(score),
            "because": _named(catalogue, cause),
            "because_title": None if cause is None else catalogue.title(cause),
        }
        for item, score, cause in zip(answer.items[:k], answer.scores[:k], because[:k], strict=True)
    ]
    return {
        "user": user,
        "items": shown,
        "method": answer.method,
        "as_of": answer.as_of,
        "privacy": runtime.privacy,
        "catching_up": runtime.catching_up,
        "ndcg": answer.ndcg,
        "ndcg_popular": answer.ndcg_popular,
        "guarantee": answer.guarantee,
    }


def _score(score: float) -> float | None:
    """Return what a reply shows of a score; a list that is drawn has none."""
    return None if math.isnan(score) else round(float(score), 4)


def _named(catalogue: Catalogue, item: int | None) -> Item | None:
    return None if item is None else catalogue.name(item)


def _described(entry: CatalogueEntry) -> dict[str, Any]:
    features = {"genres": list(entry.genres), "year": entry.year, "domain": entry.domain or None}
    return {"title": entry.title, **features}


def reply_bytes(catalogue: Catalogue) -> int:
    """Return the number of bytes of every reply over Kafka."""
    return ENVELOPE_BYTES + LIST_LENGTH * (2 * (catalogue.longest_name + 1) + _SCORE_BYTES)


def page_bytes(catalogue: Catalogue, k: int) -> int:
    """Return the number of bytes of every page of k items."""
    longest = 2 * catalogue.longest_name + catalogue.longest_text + catalogue.longest_title
    return ENVELOPE_BYTES + k * (longest + _ROW_BYTES)


def encoded_reply(reply: Recommendation, catalogue: Catalogue) -> bytes:
    """Return a reply as `reply_bytes` bytes."""
    return _padded(encode_message(reply), reply_bytes(catalogue))


def encoded_page(shown: dict[str, Any], catalogue: Catalogue, k: int) -> bytes:
    """Return a page of at most k items as `page_bytes` bytes."""
    return _padded(msgspec.json.encode(shown), page_bytes(catalogue, k))


def _padded(value: bytes, size: int) -> bytes:
    if len(value) > size:
        raise ValueError(f"a reply of {len(value)} bytes: every reply has {size}")
    return value.ljust(size)

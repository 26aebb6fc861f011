"""The replies to queries: every one of a worker has the same number of bytes.

    a `Recommendation` as JSON, spaces up to `reply_bytes`; sealed, if the query has a key

The number of bytes depends on public things alone: the length of a list, and the longest id that
the public catalogue has had while this worker ran. So a reply's size says neither how many items
there are nor which; without padding, ids of different lengths would. White space after a JSON value
is part of no value, so a reader needs no change. Refusals have the size of any other reply.
"""

from __future__ import annotations

import math
from functools import lru_cache

from msgspec import UNSET

from stream_app.agents.runtime import Runtime
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems
from stream_app.wire import (
    LIST_LENGTH,
    Listed,
    Recommendation,
    Status,
    encode_message,
)
from stream_app.wire.messages import reply_bytes as reply_bytes_of


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
        for_=UNSET if answer.now is None else "now" if answer.now else "next",
    )


def encoded_refusal(
    runtime: Runtime, correlation_id: str, status: Status, reason: str | None = None
) -> bytes:
    """Return a reply without recommendations, of the same length as any other, as bytes; a flood of
    one reason is encoded once for each state."""
    of_state = runtime.replica.cut, runtime.privacy_at_cut, runtime.catching_up
    before, after = _around_id(status, reason, *of_state)
    value = b'%b"id":"%b"%b' % (before, correlation_id.encode(), after)
    return _padded(value, reply_bytes(runtime.catalogue))


@lru_cache(maxsize=8)
def _around_id(
    status: Status, reason: str | None, cut: int, privacy: str, catching_up: bool
) -> tuple[bytes, bytes]:
    nothing = (None,) * LIST_LENGTH
    reply = Recommendation(
        "", status, nothing, nothing, "none", cut, privacy, catching_up,
        because=nothing, reason=reason,
    )  # fmt: skip
    before, _, after = encode_message(reply).partition(b'"id":""')
    return before, after


def _score(score: float) -> float | None:
    """Return what a reply shows of a score; None of one that is not known."""
    return None if math.isnan(score) else round(float(score), 4)


def _named(catalogue: Catalogue, item: int | None) -> Listed | None:
    return None if item is None else catalogue.name(item)


def reply_bytes(catalogue: Catalogue) -> int:
    """Return the number of bytes of every reply over Kafka."""
    return reply_bytes_of(catalogue.longest_name)


def encoded_reply(reply: Recommendation, catalogue: Catalogue) -> bytes:
    """Return a reply as `reply_bytes` bytes."""
    return _padded(encode_message(reply), reply_bytes(catalogue))


def _padded(value: bytes, size: int) -> bytes:
    if len(value) > size:
        raise ValueError(f"a reply of {len(value)} bytes: every reply has {size}")
    return value.ljust(size)

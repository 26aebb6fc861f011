"""The query agent: reads a query from one topic and writes its answer to another, keyed by the
correlation id.

Any worker can answer. A query carries a deadline, after which no reader waits; a query past its
deadline gets no answer. A malformed query gets a refusal under its record key, if the key is a
correlation id. Every answer has `LIST_LENGTH` entries, so its length does not reveal k.
"""

from __future__ import annotations

import re
import time
from typing import Any

import faust

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.serving.recommender import RankedItems
from stream_app.wire import (
    LIST_LENGTH,
    Query,
    Recommendation,
    Status,
    WireError,
    decode_message,
    encode_message,
)

_MOST_WAITING = 256  # about 50 ms of answers; with more waiting, a query gets status busy
_CORRELATION_ID = re.compile(rb"[0-9a-f]{16,64}")


def attach(app: faust.App, runtime: Runtime) -> None:
    """Add the agent."""
    questions, answers = (
        app.topic(
            name,
            key_type=bytes,
            key_serializer="raw",
            value_type=bytes,
            value_serializer="raw",
        )
        for name in (runtime.topics.queries, runtime.topics.recommendations)
    )

    @app.agent(questions, name="query")
    @crash_guard(runtime.status)
    async def query(stream: Any) -> None:
        async for event in stream.events():
            arrived = time.perf_counter()
            try:
                question = decode_message(Query, event.value)
            except WireError:
                runtime.metrics.query_refused()
                key = event.key or b""
                if _CORRELATION_ID.fullmatch(key):
                    await answers.send(
                        key=key, value=encode_message(refusal(runtime, key.decode()))
                    )
                continue
            if question.deadline < time.time() * 1000:
                runtime.metrics.query_expired()
                continue
            if stream.channel.queue.qsize() > _MOST_WAITING:
                runtime.metrics.query_busy()
                busy = refusal(runtime, question.id, Status.BUSY)
                await answers.send(key=question.id.encode(), value=encode_message(busy))
                continue
            answer = runtime.answer(bytes.fromhex(question.user), "kafka", arrived)
            reply = recommendation(runtime, question.id, answer)
            await answers.send(key=question.id.encode(), value=encode_message(reply))


def recommendation(runtime: Runtime, correlation_id: str, answer: RankedItems) -> Recommendation:
    """Return the reply: the recommendations, padded to the fixed length."""
    names = [runtime.catalogue.name(int(item)) for item in answer.items]
    scores = [round(float(score), 4) for score in answer.scores]
    missing = [None] * (LIST_LENGTH - len(names))
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
    )


def refusal(
    runtime: Runtime, correlation_id: str, status: Status = Status.REFUSED
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
    )

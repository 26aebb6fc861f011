"""The channel between the reader and the learner keeps what it holds over a rebalance; while there
are queries, a piece is applied in parts."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.agents import learn
from stream_app.agents.faust_ext.faust_app import new_app
from stream_app.agents.learn import LogChannel
from stream_app.kafka.clients import Connection
from stream_app.settings import Settings
from stream_app.state.replica import Replica
from stream_app.wire import Batch, decode_many
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import Published, events, log, publish, run_of
from tests.stream_app.agents.lines import a_runtime


@pytest.mark.parametrize(("ours", "left"), [(True, [1, 2]), (False, [])], ids=["ours", "plain"])
def test_a_rebalance_drops_nothing_that_was_handed_over(
    ours: bool, left: list[int], tmp_path: Path
) -> None:
    """The plain channel of the library loses it: that is why there is one of our own."""

    async def body() -> list[Any]:
        app = new_app(Settings(), Connection("127.0.0.1:9"), 1, tmp_path)  # nothing is bound
        channel = LogChannel(app, maxsize=8) if ours else app.channel(maxsize=8)
        reading = aiter(channel)
        app.flow_control.resume()
        for piece in (1, 2):
            await channel.put(piece)
        app.flow_control.suspend()  # a rebalance begins
        waiting = asyncio.ensure_future(channel.put(3))
        await asyncio.sleep(0)
        assert not waiting.done()
        app.flow_control.resume()  # and is over
        await waiting
        found = [await anext(reading) for _ in range(len(left) + 1)]
        assert found.pop() == 3
        return found

    assert asyncio.run(body()) == left


@pytest.mark.parametrize("asked", [inf, -inf], ids=["a query has come", "nobody asks"])
def test_while_there_are_queries_the_loop_serves_them_between_two_parts_of_a_piece(
    asked: float, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(learn, "_PART_RATINGS", 50)
    batch, turns = whole(rng), []

    async def body() -> str:
        runtime, line = a_runtime()
        runtime.status.last_query_time = asked
        applying = asyncio.ensure_future(learn._apply(runtime, batch))
        while not applying.done():
            turns.append(runtime.replica.ledger.chain[0].item())
            await asyncio.sleep(0)
        await applying
        line.checkpoints.close()
        return runtime.replica.model_digest() + runtime.replica.ledger_digest()

    found = asyncio.run(body())
    assert found == digests_after([batch])
    parts = -(-(batch.ratings + batch.records) // 50)
    assert len(set(turns)) >= parts if asked == inf else len(set(turns)) <= 2


@pytest.mark.parametrize("most", [1, 7, 60, 10**6])
def test_a_batch_is_split_between_records_and_its_parts_leave_the_state_of_the_whole(
    most: int, rng: np.random.Generator
) -> None:
    batch, parts = whole(rng), []
    rest: Batch | None = batch
    while rest is not None:
        part, rest = rest.split(most)
        parts.append(part)
    assert sum(part.records for part in parts) == batch.records
    assert all(part.ratings == part.counts.sum() for part in parts)
    assert all(part.records == 1 or part.ratings + part.records <= most for part in parts)
    assert digests_after(parts) == digests_after([batch])


def whole(rng: np.random.Generator) -> Batch:
    """Return a batch of one partition, with a record that is rejected."""
    records = [publish(event) for event in events(rng, 400)]
    records.insert(30, Published(0, b"k", b"junk"))
    part = log(records)[0]
    return decode_many(run_of(part, 0, len(part), 0), SMALL.intake)


def digests_after(parts: list[Batch]) -> str:
    """Return the digests of a replica after these batches."""
    replica = Replica(SMALL)
    for part in parts:
        replica.apply(part)
    return replica.model_digest() + replica.ledger_digest()

"""The channel between the reader and the learner keeps what it holds over a rebalance."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stream_app.agents.faust_ext.faust_app import new_app
from stream_app.agents.learn import LogChannel
from stream_app.kafka.clients import Connection
from stream_app.settings import Settings


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

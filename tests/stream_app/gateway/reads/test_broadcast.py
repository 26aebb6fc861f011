"""One source for all listeners: open while there is one, and without a queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from stream_app.gateway.reads.stream import Broadcast, NextEvent
from tests.fixtures.waiting import PATIENCE_SECONDS


class Source:
    """Gives what the test puts; counts how often it was opened and closed."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.opened = self.closed = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[NextEvent]:
        self.opened += 1
        try:
            yield self.next_event
        finally:
            self.closed += 1

    async def next_event(self) -> bytes:
        event = await self.events.get()
        if isinstance(event, Exception):
            raise event
        return event


def runs(check: Callable[[Source, Broadcast], Awaitable[None]]) -> None:
    async def run() -> None:
        source = Source()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await check(source, Broadcast(source.open))

    asyncio.run(run())


def test_all_listeners_get_the_events_of_one_source_that_ends_with_the_last() -> None:
    async def check(source: Source, broadcast: Broadcast) -> None:
        async with broadcast.listening() as first:
            async with broadcast.listening() as second:
                source.events.put_nowait(b"1")
                assert [await first(), await second()] == [b"1", b"1"]
            assert broadcast.reading
            async with broadcast.listening() as third:
                assert await third() == b"1"  # at once, not after a second
            source.events.put_nowait(b"2")
            assert await first() == b"2"
            assert (source.opened, source.closed) == (1, 0)
        assert not broadcast.reading
        await broadcast.closed()
        assert (source.opened, source.closed) == (1, 1)

    runs(check)


def test_who_comes_after_the_last_has_left_gets_no_event_of_then() -> None:
    async def check(source: Source, broadcast: Broadcast) -> None:
        async with broadcast.listening() as first:
            source.events.put_nowait(b"old")
            assert await first() == b"old"
        async with broadcast.listening() as first, broadcast.listening() as second:
            source.events.put_nowait(b"new")
            assert [await second(), await first()] == [b"new", b"new"]
        await broadcast.closed()
        assert (source.opened, source.closed) == (2, 2)

    runs(check)


def test_a_slow_listener_gets_the_newest_event_and_none_that_it_missed() -> None:
    async def check(source: Source, broadcast: Broadcast) -> None:
        async with broadcast.listening() as fast, broadcast.listening() as slow:
            for event in (b"1", b"2", b"3"):
                source.events.put_nowait(event)
                assert await fast() == event
            assert await slow() == b"3"
            waiting = asyncio.ensure_future(slow())
            source.events.put_nowait(b"4")
            assert await waiting == b"4"

    runs(check)


def test_a_defect_of_the_source_ends_every_listener() -> None:
    async def check(source: Source, broadcast: Broadcast) -> None:
        async def listen() -> bytes:
            async with broadcast.listening() as next_event:
                return await next_event()

        listeners = [asyncio.create_task(listen()) for _ in range(3)]
        source.events.put_nowait(KeyError("a defect"))
        for listener in listeners:
            with pytest.raises(KeyError, match="a defect"):
                await listener
        assert not broadcast.reading

    runs(check)


def test_a_listener_that_is_cancelled_leaves() -> None:
    async def check(source: Source, broadcast: Broadcast) -> None:
        async def listen() -> None:
            async with broadcast.listening() as next_event:
                await next_event()

        listener = asyncio.create_task(listen())
        while not broadcast.reading:
            await asyncio.sleep(0)
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
        assert not broadcast.reading
        await broadcast.closed()
        assert source.opened == source.closed

    runs(check)

"""A thread beside the event loop: what it raises reaches its owner, and it ends when it is told."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stream_app.kafka.background_thread import BackgroundThread
from tests.fixtures.waiting import PATIENCE_SECONDS


def test_what_the_work_raises_reaches_the_owner_in_that_thread() -> None:
    failed: list[tuple[BaseException, str]] = []
    reason = SystemExit("a defect")

    def work() -> None:
        raise reason

    def fail(found: BaseException) -> None:
        failed.append((found, threading.current_thread().name))

    thread = BackgroundThread("work", work, fail)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert failed == [(reason, "murmurec-work")]


def test_without_an_owner_the_failure_goes_on() -> None:
    def work() -> None:
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        BackgroundThread("work", work).run()


def test_it_waits_until_it_is_to_end_and_stop_waits_for_it() -> None:
    ended: list[bool] = []

    def work() -> None:
        assert not thread.ended
        ended.append(thread.wait(PATIENCE_SECONDS))

    thread = BackgroundThread("work", work)
    thread.start()
    asyncio.run(thread.stop(PATIENCE_SECONDS))
    assert ended == [True]
    assert thread.ended

"""The time inside kernels belongs to the thread that calls them."""

from __future__ import annotations

import threading
import time

import pytest

from stream_app.kernels.instrumentation import seconds_in_kernels, timed


def test_a_timed_call_returns_the_result_and_adds_its_time() -> None:
    before = seconds_in_kernels()
    assert timed(divmod, 7, 2) == (3, 1)
    timed(time.sleep, 0.01)
    timed(divmod, 7, 2)
    assert seconds_in_kernels() - before >= 0.01


def test_a_call_that_fails_raises_its_error() -> None:
    with pytest.raises(ZeroDivisionError):
        timed(divmod, 7, 0)


def test_each_thread_has_its_own_time() -> None:
    found = []

    def other() -> None:
        timed(time.sleep, 0.001)
        found.append(seconds_in_kernels())

    before = seconds_in_kernels()
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seconds_in_kernels() == before
    assert found[0] >= 0.001

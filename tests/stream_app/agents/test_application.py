"""The end of a worker: every part is stopped, also where a step before it fails."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stream_app.agents import application
from stream_app.agents.application import WorkerParts


class Part:
    """A part of a worker, which notes what is ended; the step `fails` raises."""

    def __init__(self, ended: list[str], fails: str) -> None:
        self._ended, self._fails = ended, fails

    async def hand_over(self) -> None:
        """Hand over the queries."""
        await asyncio.sleep(0.01)
        self._note("hand_over")

    async def finish(self, _: float) -> bool:
        """Write the last checkpoint."""
        self._note("finish")
        return True

    def close(self) -> None:
        """End the thread of the checkpoints."""
        self._note("close")

    async def stop(self) -> None:
        """Stop the application."""
        self._note("stop")

    def _note(self, step: str) -> None:
        self._ended.append(step)
        if step == self._fails:
            raise ZeroDivisionError


@pytest.mark.parametrize("fails", ["finish", "hand_over", "close", "stop"])
def test_a_step_that_fails_at_the_stop_leaves_no_part_running(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(application, "_limit_stop_time", lambda _: None)  # it ends the process
    ended = list[str]()
    part: Any = Part(ended, fails)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(application._stop(WorkerParts(part, part, part, part, part), None))
    assert sorted(ended) == ["close", "finish", "hand_over", "stop"]

"""Workers without a model (`tests.kafka.member`) as processes that report their events."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stream_app.broker.local import leashed
from tests.fixtures.waiting import PATIENCE_SECONDS

Event = dict[str, Any]


class Running:
    """A process and the events it has reported so far."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.process = process
        self.errors = errors
        self.events: list[Event] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def __getitem__(self, event: str) -> list[Event]:
        return [found for found in list(self.events) if found["event"] == event]

    def wait(self, event: str, count: int = 1, seconds: float = PATIENCE_SECONDS) -> Event:
        """Return the `count`-th event of this name."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if len(found := self[event]) >= count:
                return found[count - 1]
            if self.process.poll() is not None and not self._thread.is_alive():
                break
            time.sleep(0.01)
        code = self.process.poll()
        raise AssertionError(f"no {event} x {count} (exit {code}): {self.events} {self.stderr()}")

    def command(self, line: str) -> None:
        """Let it write."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def exit_code(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Return the code with which it ends."""
        return self.process.wait(seconds)

    def stderr(self) -> str:
        """Return what it wrote to standard error."""
        return self.errors.read_text(errors="replace")


@contextmanager
def running(bootstrap: str, prefix: str, folder: Path, *options: str) -> Iterator[Running]:
    """Run a member for the length of the block; afterwards it is killed."""
    folder.mkdir(exist_ok=True)
    errors = folder / f"errors-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "tests.kafka.member", bootstrap, prefix, str(folder)]
    with errors.open("wb") as output:
        process = subprocess.Popen(
            leashed([*command, *options]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=Path(__file__).parents[2],  # where `tests` is found
        )
    try:
        yield Running(process, errors)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

"""A process that sends queries while the devices rate, and measures the time of every answer.

A process of its own: in the process of the demo, which simulates thousands of devices, an answer
would wait for them and not for the worker. It reads pseudonyms from standard input, sends ten
queries a second for one after the other, and prints a line for each: milliseconds, or `-` without
an answer.

    python -m stream_app.cli.demo.query_load BOOTSTRAP PREFIX < pseudonyms
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from itertools import cycle

from consumers.recommendations import Recommendations
from stream_app.broker.local import leashed
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.settings import load

_PAUSE_SECONDS = 0.1


class QueryLoad:
    """The process and what it has reported so far."""

    def __init__(self, bootstrap: str, prefix: str, devices: Sequence[bytes]) -> None:
        command = [sys.executable, "-m", "stream_app.cli.demo.query_load", bootstrap, prefix]
        self._process = subprocess.Popen(
            leashed(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write("\n".join(device.hex() for device in devices) + "\n")
        self._process.stdin.close()
        self._reader = threading.Thread(target=self._read, name="murmurec-asker", daemon=True)
        self._reader.start()
        self.milliseconds: list[float] = []
        self.unanswered = 0

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "-":
                self.unanswered += 1
            else:
                self.milliseconds.append(float(line))

    def quantile(self, share: float) -> float:
        """Return a quantile of the answer times in milliseconds; NaN before the first answer."""
        ordered = sorted(self.milliseconds)
        if not ordered:
            return float("nan")
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def stop(self) -> None:
        """End the process and wait for it."""
        self._process.terminate()
        self._process.wait(10.0)
        self._reader.join(2.0)


def main(bootstrap: str, prefix: str) -> None:
    """Ask until terminated."""
    devices = [line.strip() for line in sys.stdin if line.strip()]
    with Recommendations(Connection(bootstrap, load().kafka), prefix) as ask:
        for device in cycle(devices):
            started = time.monotonic()
            try:
                line = f"{ask.best(device, 10, 2.0).seconds * 1000:.3f}"
            except UserError:
                line = "-"
            print(line, flush=True)
            time.sleep(max(0.0, _PAUSE_SECONDS - (time.monotonic() - started)))


if __name__ == "__main__":
    main(*sys.argv[1:3])

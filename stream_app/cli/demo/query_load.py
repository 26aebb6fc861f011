"""A process that sends queries while the devices rate, and measures the time of every answer.

A process of its own: in the process of the demo, which simulates thousands of devices, an answer
would wait for them and not for the worker. It reads pseudonyms from standard input, sends ten
queries a second for one after the other, and prints a line for each: milliseconds, or nan without
an answer.

    python -m stream_app.cli.demo.query_load BOOTSTRAP PREFIX < pseudonyms
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import cycle
from math import nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from consumers.recommendations import Recommendations
from stream_app.broker.local import leashed
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.settings import load

_PAUSE_SECONDS = 0.1


class QueryLoad:
    """The running process; it prints to a file in `folder`."""

    def __init__(self, bootstrap: str, prefix: str, devices: Sequence[bytes], folder: Path) -> None:
        command = [sys.executable, "-m", "stream_app.cli.demo.query_load", bootstrap, prefix]
        self._output = folder / "queries"
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                leashed(command),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdin is not None
        with self._process.stdin as pseudonyms:
            pseudonyms.writelines(f"{device.hex()}\n" for device in devices)

    def milliseconds(self) -> NDArray[np.float64]:
        """Return the time of every query so far, NaN without an answer."""
        whole, _, _ = self._output.read_text().rpartition("\n")
        return np.array(whole.split(), np.float64)

    def stop(self) -> None:
        """End the process and wait for it."""
        self._process.terminate()
        self._process.wait(10.0)


def main(bootstrap: str, prefix: str) -> None:
    """Send queries until terminated."""
    devices = [line.strip() for line in sys.stdin if line.strip()]
    with Recommendations(Connection(bootstrap, load().kafka), prefix) as queries:
        for device in cycle(devices):
            started = time.monotonic()
            try:
                milliseconds = queries.best(device, 10, 2.0).seconds * 1000
            except UserError:
                milliseconds = nan
            print(f"{milliseconds:.3f}", flush=True)
            time.sleep(max(0.0, _PAUSE_SECONDS - (time.monotonic() - started)))


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""Somebody who asks for recommendations while the devices rate, and takes the time of every
answer."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from consumers.recommendations import Recommendations
from stream_app.errors import Refusal

_PAUSE_SECONDS = 0.1


class Asker(threading.Thread):
    """Asks for one of the `devices` ten times a second, over Kafka, until `stop`."""

    def __init__(self, connect: Callable[[], Recommendations], devices: Sequence[bytes]) -> None:
        super().__init__(name="murmurec-asker", daemon=True)
        self._connect = connect
        self._devices = devices
        self._ended = threading.Event()
        self.seconds: list[float] = []
        self.unanswered = 0

    def run(self) -> None:
        """Ask and wait, in turn."""
        choose = random.Random(1)
        with self._connect() as ask:
            while not self._ended.is_set():
                started = time.monotonic()
                try:
                    best = ask.best(choose.choice(self._devices).hex(), 10, 2.0)
                except Refusal:
                    self.unanswered += 1
                else:
                    self.seconds.append(best.seconds)
                self._ended.wait(max(0.0, _PAUSE_SECONDS - (time.monotonic() - started)))

    def quantile(self, share: float) -> float:
        """Return a quantile of the answer times in milliseconds; NaN before the first answer."""
        ordered = sorted(self.seconds)
        if not ordered:
            return float("nan")
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000.0

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._ended.set()
        self.join(10.0)

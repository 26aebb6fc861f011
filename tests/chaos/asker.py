"""A client that keeps querying a worker while another one is dead."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from tests.chaos.processes import Life

_PAUSE_SECONDS = 0.02


class Asker:
    """Queries `life` over HTTP for as long as the block lasts."""

    def __init__(self, life: Life | None) -> None:
        self._life = life
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asker", daemon=True)
        self.answers = 0
        self.failures = 0
        self.longest_seconds = 0.0

    def __enter__(self) -> Self:
        if self._life is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._life is not None:
            self._thread.join(10)

    def _run(self) -> None:
        assert self._life is not None
        while not self._ended.is_set():
            began = time.monotonic()
            found = self._life.as_of(2.0)
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)
            if found >= 0:
                self.answers += 1
            else:
                self.failures += 1
            self._ended.wait(_PAUSE_SECONDS)

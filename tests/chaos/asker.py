"""A client that keeps querying a deployment over Kafka while one of its workers is dead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from stream_app.kafka.clients import Connection
from stream_app.wire import Topics
from tests.fixtures.given_worker import given_worker

_PAUSE_SECONDS = 0.02
# What is waited for is an answer at all; how long it took is a figure of its own. A query that no
# worker has read is never answered.
_ANSWER_SECONDS = 60.0


class Asker:
    """Queries for as long as the block lasts, on all partitions at once: the workers that are alive
    read some of them. With `alive` false it does nothing. `unanswered` has a sentence for each
    query without an answer, with what `readers` says of the workers then."""

    def __init__(
        self, connection: Connection, topics: Topics, alive: bool, readers: Callable[[], str]
    ) -> None:
        self._readers = readers
        self._connection, self._topics, self._alive = connection, topics, alive
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asker", daemon=True)
        self.answers = 0
        self.unanswered: list[str] = []
        self.longest_seconds = 0.0

    def __enter__(self) -> Self:
        if self._alive:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._alive:
            self._thread.join(_ANSWER_SECONDS + 10)

    def _run(self) -> None:
        with given_worker(self._connection, self._topics.prefix) as client:
            while not self._ended.is_set():
                began = time.monotonic()
                found = client.anywhere(_ANSWER_SECONDS)
                self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)
                if found is not None:
                    self.answers += 1
                else:
                    asked = time.strftime("%H:%M:%S", time.localtime(time.time() - _ANSWER_SECONDS))
                    self.unanswered.append(
                        f"asked at {asked}, {self.answers} answers before; {self._readers()}"
                    )
                self._ended.wait(_PAUSE_SECONDS)

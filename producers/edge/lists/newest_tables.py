"""The newest public table, read by a thread of its own: what the model "local" ranks by.

    topic or cache  --every 30 s-->  LocalRecommender, or the reason that there is none

A table that cannot be read leaves the last one in place. What is read is the same for every user,
and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable

from producers.ranking.kinds import By, chosen
from producers.ranking.local_recommender import LocalRecommender
from producers.ranking.published import Source
from stream_app.errors import UserError
from stream_app.kafka.background_thread import BackgroundThread

READ_SECONDS = 30.0


class Repeating:
    """Calls `step` again so many seconds after its last end. A UserError of it stands in `problem`
    until the next step; anything else does, too, and ends the thread."""

    problem = ""

    def __init__(self, name: str, seconds: float) -> None:
        self._seconds = seconds
        self._thread = BackgroundThread(name, self._repeat, self._failed)

    def step(self) -> None:
        """Do the work once."""
        raise NotImplementedError

    def start(self) -> None:
        """Repeat the step in a thread from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its step, or wait ten seconds."""
        self._thread.end()
        self._thread.join(10.0)

    def _repeat(self) -> None:
        while not self._thread.ended:
            try:
                self.step()
            except UserError as error:
                self.problem = str(error)
            self._thread.wait(self._seconds)

    def _failed(self, reason: BaseException) -> None:
        self.problem = type(reason).__name__
        raise reason


class PublicTables(Repeating):
    """The newest table: `ranker`, None before the first, and `problem`, empty while all is well.

    source: gives the deployment that is read, at each read. by, privacy_mode: which table
    (`producers.ranking.kinds.chosen`).
    """

    def __init__(
        self,
        source: Callable[[], Source],
        by: By | None = None,
        privacy_mode: str = "local",
        seconds: float = READ_SECONDS,
    ) -> None:
        super().__init__("public-tables", seconds)
        self._source, self._by, self._mode = source, by, privacy_mode
        self.ranker: LocalRecommender | None = None
        self.problem = "no public table was read yet"

    def step(self) -> None:
        """Read the newest table; UserError with the reason, and the last one stays."""
        found = chosen(self._source(), self._by, self._mode)
        self.ranker = LocalRecommender(found.table, found.reason)
        self.problem = found.table.problem

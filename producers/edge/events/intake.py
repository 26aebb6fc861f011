"""Events into the store, many callers in one commit.

    take(events) ---> queue, bounded ---> writer thread: everything that waits, in one transaction
         Future <------------------------ answers, after the commit

A commit costs a synced write, however many events are in it: the more callers there are, the more
share one. Nothing is said before it is durable. After `Unwritable` (a full disk, a locked or absent
database) the events of that commit are not taken, and every caller of it gets the sentence; sent
again, each event still counts once, because its token decides.

A deployment has one of these. It is closed before its database, and takes what waits first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

from producers.edge.events.event import Event
from producers.edge.events.feedback_rows import MOST_ROWS, FeedbackRows
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from stream_app.errors import Unwritable, UserError

MOST_WAITING = 3 * MOST_ROWS
_Waiting = tuple[Sequence[Event], Future[list[bool]]]


class Busy(UserError):
    """More events wait than the store takes: send them again in a second."""


class Intake:
    """The writer; `take` is for any thread."""

    def __init__(
        self, database: Database, terms: SiteTerms, most_waiting: int = MOST_WAITING
    ) -> None:
        self._rows = FeedbackRows(database, terms.feedback, signed=terms.signed)
        self._most = most_waiting
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._waiting = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="edge-intake", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many events wait for their commit, or are in it."""
        return self._waiting

    def take(self, events: Sequence[Event]) -> Future[list[bool]]:
        """Queue at most `MOST_ROWS` events; the result says of each, once they are durable, whether
        it is new (True) or was there before.

        Raises `Busy` where too many wait. The future raises `Unwritable` where none was taken.
        """
        answer: Future[list[bool]] = Future()
        if len(events) > MOST_ROWS:
            raise UserError(f"{len(events):,} events at once; send at most {MOST_ROWS:,}")
        with self._changed:
            if self._closed:
                raise Busy("the edge is ending; send the events to another one, or again")
            if self._waiting and self._waiting + len(events) > self._most:
                raise Busy(
                    f"{self._waiting:,} events wait for the store, at most {self._most:,}; send "
                    "them again in a second"
                )
            self._queue.append((events, answer))
            self._waiting += len(events)
            self._changed.notify()
        return answer

    def close(self) -> None:
        """Write what waits, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        group: list[_Waiting] = []
        try:
            while group := self._next():
                self._write(group)
        except BaseException as error:
            # A defect: nobody may wait for an answer that never comes.
            with self._changed:
                self._closed = True
                group += self._queue
                self._queue.clear()
            for _, answer in group:
                if not answer.done():
                    answer.set_exception(error)
            raise

    def _next(self) -> list[_Waiting]:
        """Return what waits, up to a transaction's rows; nothing where the intake has ended."""
        group: list[_Waiting] = []
        rows = 0
        with self._changed:
            while not group:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    break
                while self._queue and (not group or rows + len(self._queue[0][0]) <= MOST_ROWS):
                    events, answer = self._queue.popleft()
                    if answer.set_running_or_notify_cancel():
                        group.append((events, answer))
                        rows += len(events)
                    else:  # the caller has gone, and was told nothing
                        self._waiting -= len(events)
        return group

    def _write(self, group: list[_Waiting]) -> None:
        try:
            new = iter(self._rows.write([event for events, _ in group for event in events]))
            for events, answer in group:
                answer.set_result([next(new) for _ in events])
        except Unwritable as refusal:
            for _, answer in group:
                answer.set_exception(refusal)
        with self._changed:
            self._waiting -= sum(len(events) for events, _ in group)

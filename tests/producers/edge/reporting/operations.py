"""Every operation of an edge on its store, as a place where it can end.

    statement    before it is executed
    commit       before it, and after it

`Operations` calls `step` at each. A crash within a test is `Crash`: the connections are closed as
the end of the process closes them, and nothing of the edge is used again. PostgreSQL notices the
end of a session a little later; until then it holds the session's locks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import ConnectionPoolEntry

from producers.edge.store.database import Database


class Crash(BaseException):
    """The process ends here; no handler of the product catches it."""


class Operations:
    """The operations of one open store, before its first use; `step` is called at each while `on`.

    `raw`: its connections to the database, each of them.
    """

    def __init__(self, database: Database, step: Callable[[], None]) -> None:
        self._database, self._step, self.on, self.count = database, step, False, 0
        self._records: dict[ConnectionPoolEntry, None] = {}
        engine = database.engine
        engine.dispose()  # also the connection that made the tables is one that is known
        event.listen(engine, "connect", lambda _, entry: self._records.setdefault(entry))
        event.listen(engine, "before_cursor_execute", lambda *_: self.happens())
        event.listen(engine, "commit", lambda _: self.happens())
        dialect = engine.dialect
        committed = dialect.do_commit

        def commit(raw: Any) -> None:
            committed(raw)
            self.happens()

        dialect.do_commit = commit  # type: ignore[method-assign]

    @property
    def raw(self) -> list[Any]:
        found = (record.driver_connection for record in self._records)
        return [raw for raw in found if raw is not None]

    def happens(self) -> None:
        if self.on:
            self.count += 1
            self._step()

    def end(self) -> None:
        """Let the operating system take everything back, as at the end of a process."""
        self.on = False
        for raw in self.raw:
            with suppress(Exception):  # a statement that is not finished keeps its lock
                raw.rollback()
        for record in self._records:
            record.invalidate()  # closes it, and the pool does not look for it again
        if self._database._lock is not None:
            self._database._lock.release()


def crashing_at(number: int) -> Callable[[], None]:
    """Return a step that raises `Crash` at the n-th call."""
    left = [number]

    def step() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Crash

    return step

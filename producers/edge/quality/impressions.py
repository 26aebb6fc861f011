"""Lists that were shown, kept so that clicks on them can be counted: written in batches.

    shown(list) -> queue -> one transaction every WRITE_SECONDS -> impressions, offers
                     |
                     +--> dropped, and counted, where the store is slower than the lists

    model of a row   MODEL, MODEL>BY where another one ranked, asked:MODEL where it was asked for

A list that was shown less than a second before a crash may be lost: its clicks are not counted.
Lists of sessions, and those without a user, are not kept; every row goes after `keep_days`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from sqlalchemy import delete, select

from producers.edge.lists.newest_tables import Repeating
from producers.edge.lists.wishes import EdgeList
from producers.edge.store.database import Database
from producers.edge.store.store_tables import impressions, offers

WRITE_SECONDS, KEEP_DAYS, MOST_WAITING = 0.25, 90.0, 20_000
ASKED, INSTEAD = "asked:", ">"
_BATCH, _PURGED, _PURGE_SECONDS = 2000, 500, 3600.0
_DAY_MS = 86_400_000


class Impressions(Repeating):
    """Keeps what was shown; `written` and `dropped` lists."""

    def __init__(
        self,
        database: Database,
        keep_days: float = KEEP_DAYS,
        most_waiting: int = MOST_WAITING,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("impressions", WRITE_SECONDS)
        self._database, self._keep_days, self._now = database, keep_days, now
        self._waiting: deque[tuple[dict[str, Any], list[str]]] = deque()  # a row, its items
        self._most, self._purged = most_waiting, now()
        self.written, self.dropped = 0, 0

    @property
    def waiting(self) -> int:
        """Lists that are not written yet."""
        return len(self._waiting)

    def shown(self, found: EdgeList) -> None:
        """Take a list that was shown; returns at once, in any thread."""
        if found.account is None or not found.items:
            return
        if len(self._waiting) >= self._most:
            self.dropped += 1
            return
        by, at = found.ranked_by, int(1000 * self._now())
        instead = f"{INSTEAD}{by}" if by and by != found.model else ""
        model = f"{ASKED if found.asked else ''}{found.model}{instead}"
        row = {"list": found.id, "account": found.account, "model": model, "at": at}
        self._waiting.append((row, [each.item for each in found.items]))

    def stop(self) -> None:
        """End the thread, and write what waits."""
        super().stop()
        self.write()

    def write(self) -> None:
        """Write what waits; UserError where the store refuses, and it waits on."""
        while count := min(len(self._waiting), _BATCH):
            batch = [self._waiting[n] for n in range(count)]
            rows = [
                {"list": row["list"], "place": place, "item": item}
                for row, items in batch
                for place, item in enumerate(items)
            ]
            with self._database.writing() as connection:
                self._database.add(connection, impressions, [row for row, _ in batch])
                self._database.add(connection, offers, rows)
            for _ in batch:
                self._waiting.popleft()
            self.written += count

    def purge(self) -> int:
        """Remove the lists that are older than is kept, and return how many."""
        before, removed = int(1000 * self._now() - self._keep_days * _DAY_MS), 0
        old = select(impressions.c.list).where(impressions.c.at < before).limit(_PURGED)
        while True:
            with self._database.writing() as connection:
                names = connection.execute(old).scalars().all()
                for table in (offers, impressions):
                    connection.execute(delete(table).where(table.c.list.in_(names)))
            removed += len(names)
            if len(names) < _PURGED:
                return removed

    def step(self) -> None:
        """Write what waits, and purge once an hour."""
        self.write()
        if self._now() - self._purged >= _PURGE_SECONDS:
            self._purged = self._now()
            self.purge()

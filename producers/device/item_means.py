"""The public item table as a device reads it: the mean rating of every item.

    mean = 1 + code / 50      on the internal scale 1 .. 5; for an item that the table lacks the
                              average mean of the table, and 3.5 without a table

A device may choose the groups of levels of its report by this table, because the table is public
and the same for all devices. A wrong mean costs accuracy but no privacy: every choice has the same
epsilon. A device that runs for long reads the table again from time to time (`RefreshedItemTable`):
the first table of a new deployment is published some seconds after its first ratings.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import exists, records
from stream_app.wire import MEAN_CODES_PER_STAR, ItemTablePage, WireError, decode_message

UNKNOWN_MEAN = 3.5
REFRESH_SECONDS = 10.0
_LOWEST, _HIGHEST = 1.0, 5.0


class ItemMeans(Protocol):
    """Public means of items, from which a device chooses the masks of its reports."""

    def means(self, items: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the public mean of each item (n,)."""


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Item keys in order, (n,) uint64, and their mean ratings beside them, (n,) float64."""

    items: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    known_means: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @classmethod
    def from_pages(cls, pages: Iterable[ItemTablePage]) -> ItemTable:
        """Return the table of these pages; a malformed page is skipped."""
        items, codes = [np.empty(0, np.uint64)], [np.empty(0, np.uint8)]
        for page in pages:
            if len(page.items) == 8 * len(page.means):
                items.append(np.frombuffer(page.items, "<u8").astype(np.uint64))
                codes.append(np.frombuffer(page.means, np.uint8))
        keys, first = np.unique(np.concatenate(items), return_index=True)
        means = _LOWEST + np.concatenate(codes)[first] / MEAN_CODES_PER_STAR
        return cls(keys, np.minimum(means, _HIGHEST))

    def __len__(self) -> int:
        return len(self.items)

    def means(self, items: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the public mean of each item (n,); of an item without one, the average mean."""
        if not len(self.items):
            return np.full(len(items), UNKNOWN_MEAN)
        places = np.minimum(np.searchsorted(self.items, items), len(self.items) - 1)
        average = self.known_means.mean()
        return np.where(self.items[places] == items, self.known_means[places], average)


class RefreshedItemTable:
    """The newest table that `read` returned; read again at most every `REFRESH_SECONDS`.

    While the broker does not answer, the table read before remains in use; `patient`: an empty one
    at the start, where it is a `UserError` else.
    """

    def __init__(
        self,
        read: Callable[[], ItemTable],
        clock: Callable[[], float] = time.monotonic,
        *,
        patient: bool = False,
    ) -> None:
        self._read, self._clock = read, clock
        self._table, self._read_at = ItemTable(), -float("inf")
        if not patient:
            self._table, self._read_at = read(), clock()

    def means(self, items: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the public mean of each item (n,) by the newest table."""
        if self._clock() - self._read_at >= REFRESH_SECONDS:
            with contextlib.suppress(UserError):
                self._table = self._read()
            self._read_at = self._clock()
        return self._table.means(items)


def read(connection: Connection, topic: str) -> ItemTable:
    """Return the table that the topic holds now; empty without the topic."""
    pages: dict[int, ItemTablePage] = {}
    for message in records(connection, topic) if exists(connection, topic) else ():
        try:
            page: ItemTablePage = decode_message(ItemTablePage, message.value())
        except WireError:
            continue
        pages[page.page] = page
    return ItemTable.from_pages(pages.values())

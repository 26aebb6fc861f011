"""Recommendations made on the device: the public table, a clean history, and no query.

table (topic or cache) --item side--> Ranker --slots--> items with titles, and the reasons
clean history ------------------------^    the history enters here and only the list leaves
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from producers.ranking.clean_history import RatedItem, newest_of_each
from producers.ranking.ranker import Ranker
from producers.ranking.table import PublicTable, read
from producers.ranking.table_cache import TableCache
from stream_app import wire
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection

MOST = 100  # items in the longest list


@dataclass(frozen=True)
class LocalItem:
    """A recommended item: its score orders the list and has no unit; `because`: the items of the
    history behind it, the strongest first."""

    item: wire.Item
    title: str | None
    score: float
    because: tuple[wire.Item, ...] = ()


@dataclass(frozen=True)
class LocalList:
    """A list, best first, from the table of cut `as_of`. `known` of `rated` items of the history
    are in the table; without any the method is `popular`, else `blend`."""

    items: tuple[LocalItem, ...]
    method: str
    rated: int
    known: int
    as_of: int


class LocalRecommender:
    """Ranks the items of a public table for one clean history after another.

    >>> local = LocalRecommender.from_kafka("localhost:9092")                  # doctest: +SKIP
    >>> local.recommend([("alien", 5), ("heat", 4), ("big", None)], k=3)       # doctest: +SKIP
    """

    def __init__(self, table: PublicTable) -> None:
        self.table = table
        self._ranker = Ranker(table.side)
        keys = table.side.keys.tolist()
        self._head = frozenset(keys)
        self._withdrawn = np.array([k for k in keys if table.is_withdrawn(k)], np.uint64)

    @classmethod
    def from_kafka(
        cls,
        bootstrap_servers: str | Connection,
        prefix: str = "murmurec",
        *,
        cache_dir: Path | str | None = None,
        offline: bool = False,
    ) -> Self:
        """Return a recommender with the newest item side of a deployment.

        `cache_dir`: a folder that keeps it for times without the broker; with `offline` it is used
        without a look at the broker. Raises UserError where there is no item side.
        """
        connection = clients.connection(bootstrap_servers)
        cache = None
        if cache_dir is not None:
            folder = Path(cache_dir).expanduser()
            cache = TableCache.for_deployment(folder, connection.bootstrap, prefix)
        return cls(read(connection, prefix, cache, offline=offline))

    def recommend(
        self,
        rated: Sequence[RatedItem | tuple[wire.Item, float | None]],
        k: int = 10,
        *,
        because: bool = False,
    ) -> LocalList:
        """Return the best `k` items that are neither rated nor withdrawn.

        `rated`: what the user has rated, oldest first, as (item, stars on 1 .. 5); None for an item
        without stars, which counts as liked. `because`: name the items of the history behind each
        recommendation. Raises ValueError for an invalid item, stars outside 1 .. 5, and k outside
        1 .. 100.
        """
        if not 1 <= k <= MOST:
            raise ValueError(f"k {k}: give 1 to {MOST}")
        items = newest_of_each([_rated(row) for row in rated])
        found = self._ranker.rank(
            [row.key for row in items],
            [row.stars for row in items],
            k,
            because=because,
            excluded=self._withdrawn,
        )
        names = {row.key: row.item for row in items}
        known = sum(row.key in self._head for row in items)
        rows = tuple(
            LocalItem(
                self.table.item(row.item),
                self.table.title(row.item),
                row.score,
                tuple(names[key] for key in row.because),
            )
            for row in found
        )
        method = "blend" if known else "popular"
        return LocalList(rows, method, len(items), known, self.table.side.version)


def _rated(row: RatedItem | tuple[wire.Item, float | None]) -> RatedItem:
    if isinstance(row, RatedItem):
        return row
    item, stars = row
    if stars is not None and not 1 <= stars <= 5:
        raise ValueError(f"item {str(item)[:40]}: its stars are outside 1 .. 5")
    return RatedItem(item, wire.key(item), stars)

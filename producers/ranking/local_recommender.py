"""Recommendations made on the device: a public table, a clean history, and no query.

table (topic or cache) --item side--> ranker --items--> titles, and the reasons
clean history ------------------------^    the history enters here and only the list leaves
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np

from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.clean_history import RatedItem, newest_of_each
from producers.ranking.kinds import By, chosen
from producers.ranking.published import PublicTable, Source
from producers.ranking.ranker import Ranked, Ranker, rated_of
from stream_app import wire
from stream_app.campaigns.public_side import PublishedSide
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.ranking.item_side import ItemSide

MOST = 100  # items in the longest list


@dataclass(frozen=True)
class LocalItem:
    """A recommended item: its score orders the list and has no unit; `because`: the items of the
    history behind it, the strongest first; `stars`: the rating that is expected of the user, 1 ..
    5, where a campaign has released what that needs."""

    item: wire.Item
    title: str | None
    score: float
    because: tuple[wire.Item, ...] = ()
    stars: float | None = None


@dataclass(frozen=True)
class CampaignTerms:
    """A campaign of which `released` of `stages` are released: a person who contributed to every
    stage has spent (`epsilon`, `delta`) for everything ever rated, over `parties` aggregators."""

    number: int
    epsilon: Fraction
    delta: Fraction
    parties: int
    released: int
    stages: int


@dataclass(frozen=True)
class SimilarityTerms:
    """A table of similarities: its number, and what it costs a device, everything that was ever
    reported included; `spent`: what all tables so far together cost, at the same delta."""

    release: int
    epsilon: float
    delta: float
    spent: float


@dataclass(frozen=True)
class LocalList:
    """A list, best first, from the table of cut `as_of`, of a `campaign` or of `similarities`;
    `reason` says why that one. `known` of `rated` items of the history are in the table; without a
    personal part the method is `popular`, else `links`, `learned`, `together`, `metadata` or
    `alter-ego`. `for_`: the visit that it is for."""

    items: tuple[LocalItem, ...]
    method: str
    rated: int
    known: int
    as_of: int | None
    campaign: CampaignTerms | None = None
    reason: str = ""
    similarities: SimilarityTerms | None = None
    for_: wire.Visit = "next"


class LocalRecommender:
    """Ranks the items of a public table for one clean history after another.

    >>> local = LocalRecommender.from_kafka("localhost:9092")                  # doctest: +SKIP
    >>> local.recommend([("alien", 5), ("heat", 4), ("big", None)], k=3)       # doctest: +SKIP
    """

    def __init__(
        self, table: PublicTable[ItemSide] | PublicTable[PublishedSide], reason: str = ""
    ) -> None:
        self.table = table
        self.reason = reason
        keys = table.side.keys.tolist()
        self._head = frozenset(keys)
        self._withdrawn = np.array([k for k in keys if table.is_withdrawn(k)], np.uint64)
        side = table.side
        if isinstance(side, PublishedSide):
            self._ranker: Ranker | CampaignRanker = CampaignRanker(side.side, table.entries)
            self._items: dict[int, wire.Item] = dict(zip(keys, side.side.scope, strict=True))
        else:
            self._ranker, self._items = Ranker(side), {}

    @classmethod
    def from_kafka(
        cls,
        bootstrap_servers: str | Connection,
        prefix: str = "murmurec",
        *,
        cache_dir: Path | str | None = None,
        offline: bool = False,
        by: By | None = None,
        privacy_mode: str = "local",
    ) -> Self:
        """Return a recommender with the newest item side of a deployment.

        `cache_dir`: a folder that keeps it for times without the broker; with `offline` it is used
        without a look at the broker. `by`: "links" (from released reports) or "campaign" (from
        noisy sums over people); None takes that of the deployment's `privacy_mode`, or the only
        one. Raises UserError where there is none.
        """
        if by not in (None, "links", "campaign"):
            raise ValueError(f"by {by!r}: give links or campaign")
        connection = clients.connection(bootstrap_servers)
        source = Source.of_deployment(connection, prefix, cache_dir, offline=offline)
        found = chosen(source, by, privacy_mode)
        return cls(found.table, found.reason)

    def recommend(
        self,
        rated: Sequence[RatedItem | tuple[wire.Item, float | None]],
        k: int = 10,
        *,
        because: bool = False,
        for_: wire.Visit = "next",
    ) -> LocalList:
        """Return the best `k` items that are neither rated nor withdrawn.

        `rated`: what the user has rated, oldest first, as (item, stars on 1 .. 5); None for an item
        without stars, which counts as liked. `because`: name the items of the history behind each
        recommendation. `for_`: what is liked at the "next" visit, or "now", in this one. Raises
        ValueError for an invalid item, stars outside 1 .. 5, k outside 1 .. 100, another visit.
        """
        if not 1 <= k <= MOST:
            raise ValueError(f"k {k}: give 1 to {MOST}")
        items = newest_of_each([checked(row) for row in rated])
        known = sum(row.key in self._head for row in items)
        found, method = self._ranked(items, k, because, now=wire.is_now(for_))
        names = {row.key: row.item for row in items}
        rows = tuple(self._row(row, names) for row in found)
        side = self.table.side
        if isinstance(side, PublishedSide):
            cut, terms = None, _terms(side)
        else:
            cut, terms = side.version, None
        return LocalList(rows, method, len(items), known, cut, terms, self.reason, for_=for_)

    def item(self, item_key: int) -> wire.Item:
        """Return the id of an item of the table."""
        return self._items[item_key] if item_key in self._items else self.table.item(item_key)

    def _ranked(
        self, items: list[RatedItem], k: int, because: bool, *, now: bool
    ) -> tuple[list[Ranked], str]:
        if isinstance(self._ranker, CampaignRanker):
            found = self._ranker.rank(items, k, because=because, excluded=self._withdrawn)
            return found, self._ranker.method(items)
        rated = rated_of(items)
        found = self._ranker.rank(rated, k, now=now, because=because, excluded=self._withdrawn)
        return found, self._ranker.basis(rated, now=now)

    def _row(self, row: Ranked, names: dict[int, wire.Item]) -> LocalItem:
        because = tuple(names[key] for key in row.because)
        title = self.table.title(row.item)
        return LocalItem(self.item(row.item), title, row.score, because, row.stars)


def _terms(side: PublishedSide) -> CampaignTerms:
    return CampaignTerms(
        side.side.number, side.epsilon, side.delta, side.parties, side.released, side.stages
    )


def checked(row: RatedItem | tuple[wire.Item, float | None]) -> RatedItem:
    """Return a row of a history; ValueError for an invalid item, and for stars outside 1 .. 5."""
    if isinstance(row, RatedItem):
        return row
    item, stars = row
    if stars is not None and not 1 <= stars <= 5:
        raise ValueError(f"item {str(item)[:40]}: its stars are outside 1 .. 5")
    return RatedItem(item, wire.key(item), stars)

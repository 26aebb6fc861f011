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

from producers.deployed import deployed
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.clean_history import RatedItem, newest_of_each
from producers.ranking.kinds import By, chosen
from producers.ranking.published import PublicTable, Source
from producers.ranking.ranker import Ranked, Ranker
from stream_app import wire
from stream_app.campaigns.public_side import PublishedSide
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.ranking.item_side import ItemSide

MOST = 100  # items in the longest list


@dataclass(frozen=True)
class LocalItem:
    """A recommended item: its score orders the list and has no unit; `because`: the items of the
    history behind it, the strongest first."""

    item: wire.Listed
    title: str | None
    score: float
    because: tuple[wire.Item, ...] = ()


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
class LocalList:
    """A list, best first, from the table of cut `as_of` or of a `campaign`; `reason` says why that
    one. `known` of `rated` items of the history are in the table; without a personal part the
    method is `popular`, else `links`, `learned`, `together` or `metadata`. `for_`: the visit that
    it is for."""

    items: tuple[LocalItem, ...]
    method: str
    rated: int
    known: int
    as_of: int | None
    campaign: CampaignTerms | None = None
    reason: str = ""
    for_: wire.Visit = "next"


class LocalRecommender:
    """Ranks the items of a public table for one clean history after another; `ranker` scores them,
    `withdrawn` (m,) are the keys of those that are not offered.

    >>> local = LocalRecommender.from_kafka("localhost:9092")                  # doctest: +SKIP
    >>> local.recommend([("alien", 5), ("heat", 4), ("big", None)], k=3)       # doctest: +SKIP
    """

    def __init__(
        self,
        table: PublicTable[ItemSide] | PublicTable[PublishedSide],
        reason: str = "",
    ) -> None:
        self.table = table
        self.reason = reason
        keys = table.side.keys.tolist()
        self.withdrawn = np.array([k for k in keys if table.is_withdrawn(k)], np.uint64)
        self._items: dict[int, wire.Item] = {}
        side = table.side
        if isinstance(side, PublishedSide):
            self.ranker: Ranker | CampaignRanker = CampaignRanker(side.side, table.entries)
            self._items = dict(zip(keys, side.side.scope, strict=True))
        else:
            self.ranker = Ranker(side)

    @classmethod
    def from_kafka(
        cls,
        bootstrap_servers: str | Connection | None = None,
        prefix: str | None = None,
        *,
        cache_dir: Path | str | None = None,
        offline: bool = False,
        by: By | None = None,
        privacy_mode: str = "local",
    ) -> Self:
        """Return a recommender with the newest public table of a deployment; without an address
        or a prefix, of that in the settings.

        `cache_dir`: a folder that keeps it for times without the broker; with `offline` it is used
        without a look at the broker. `by`: "links" (from released reports) or "campaign" (from
        noisy sums over people); None takes that of the deployment's `privacy_mode`, or the only
        one. Raises UserError if there is no such table.
        """
        if by not in (None, "links", "campaign"):
            raise ValueError(f"by {by!r}: give links or campaign")
        settings = deployed()
        connection = clients.connection(bootstrap_servers, settings)
        source = Source.of_deployment(
            connection, prefix or settings.topic_prefix, cache_dir, offline=offline
        )
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
        recommendation. `for_`: what is liked at the "next" visit, or "now", in this one, if the
        table knows visits.

        Raises:
            ValueError: an invalid item, stars outside 1 .. 5, k outside 1 .. 100, another visit.
        """
        if not 1 <= k <= MOST:
            raise ValueError(f"k {k}: give 1 to {MOST}")
        items, now = newest_of_each([checked(row) for row in rated]), wire.is_now(for_)
        scored = self.ranker.scored(items, now=now)
        keys = self.table.side.keys
        rows = scored.best(keys, k, because=because, excluded=self.withdrawn)
        names = {row.key: row.item for row in items}
        side = self.table.side
        return LocalList(
            tuple(self._row(row, names) for row in rows),
            scored.method,
            len(items),
            scored.known,
            None if isinstance(side, PublishedSide) else side.version,
            campaign=_campaign(side) if isinstance(side, PublishedSide) else None,
            reason=self.reason,
            for_=for_,
        )

    def item(self, item_key: int) -> wire.Listed:
        """Return the id of an item of the table."""
        return self._items[item_key] if item_key in self._items else self.table.item(item_key)

    def _row(self, row: Ranked, names: dict[int, wire.Item]) -> LocalItem:
        because = tuple(names[key] for key in row.because)
        title = self.table.title(row.item)
        return LocalItem(self.item(row.item), title, row.score, because)


def _campaign(side: PublishedSide) -> CampaignTerms:
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

"""Recommendations in a domain from ratings in others, made on the device.

    history in other domains --table--> AlterEgo: a profile of the domain, which stays here:
                                             every item of it that a rated one is linked to
    AlterEgo --its weights--> score of every item, and the rated item behind it; the other items by
                              how often the table has them rated, as where nothing is known
    AlterEgo --links within the domain--> stars to expect

The table is public and noised once (`stream_app/ranking/domains/similarity_table.py`); it is the
same for all, so reading it reveals nothing. No query is sent, and neither the history nor the
profile leaves the device, so they need no noise (Guerraoui et al. 2017 send theirs).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from producers.ranking.clean_history import RatedItem, newest_of_each
from producers.ranking.kinds import SIMILARITIES
from producers.ranking.local_recommender import (
    MOST,
    LocalItem,
    LocalList,
    SimilarityTerms,
    checked,
)
from producers.ranking.published import PublicTable, Source
from stream_app import wire
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.ranking.domains.alter_ego import AlterEgo, alter_ego
from stream_app.ranking.domains.noised_similarities import MOST_LINKS
from stream_app.ranking.domains.prediction import predicted
from stream_app.ranking.domains.similarity_table import SimilarityTable

LIKED = 4.0  # stars of an item that is known to be liked, and no more


class DomainRecommender:
    """Ranks the items of the domain `to` for one clean history after another.

    >>> books = DomainRecommender.from_kafka("localhost:9092", to="books")     # doctest: +SKIP
    >>> books.recommend([("alien", 5), ("heat", 4)], k=3)                      # doctest: +SKIP
    """

    def __init__(self, table: PublicTable[SimilarityTable], to: str) -> None:
        self.table, self.to = table, to
        side = table.side
        try:
            self._into = side.links(None, to)
            self._within = side.links(to, to)
        except ValueError as error:
            raise UserError(str(error)) from None
        if not side.is_bridged(None, to):
            raise UserError(
                f"domain {to}: no item of another domain has a link into it in table "
                f"{side.release}, since too few devices rated both or the noise hides it; rate "
                "items of the domain, or wait for a table with more epsilon"
            )
        self._middles = side.middles(None, to)
        self._rates = side.rates[side.of_domain(to)].astype(np.float64)
        self._withdrawn = np.array(
            [table.is_withdrawn(key) for key in self._into.targets.tolist()], np.bool_
        )

    @classmethod
    def from_kafka(
        cls,
        bootstrap_servers: str | Connection,
        prefix: str = "murmurec",
        *,
        to: str,
        cache_dir: Path | str | None = None,
        offline: bool = False,
    ) -> Self:
        """Return a recommender with the newest table of similarities of a deployment.

        `cache_dir`: a folder that keeps it for times without the broker; with `offline` it is used
        without a look at the broker. Raises UserError where there is none, for a domain that it
        does not have, and for one that no item of another domain is linked to.
        """
        connection = clients.connection(bootstrap_servers)
        source = Source.of_deployment(connection, prefix, cache_dir, offline=offline)
        return cls(source.read(SIMILARITIES), to)

    def recommend(
        self,
        rated: Sequence[RatedItem | tuple[wire.Item, float | None]],
        k: int = 10,
        *,
        because: bool = False,
    ) -> LocalList:
        """Return the best `k` items of the domain that are neither rated nor withdrawn.

        `rated`: what the user has rated, of any domain, oldest first, as (item, stars on 1 .. 5);
        None for an item without stars counts as liked. `because`: name the rated item behind each.

        Raises:
            ValueError: an invalid item, stars outside 1 .. 5, k outside 1 .. 100.
            UserError: no rated item of another domain has a link into this one.
        """
        if not 1 <= k <= MOST:
            raise ValueError(f"k {k}: give 1 to {MOST}")
        items = newest_of_each([checked(row) for row in rated])
        keys = np.array([row.key for row in items], np.uint64)
        stars = [LIKED if row.stars is None else row.stars for row in items]
        ego = alter_ego(keys, stars, self._into, self._middles, spread=MOST_LINKS)
        if not len(ego.items):
            raise self._no_history(keys)
        allowed = ~self._withdrawn & ~np.isin(self._into.targets, keys)
        rows = self._listed(ego, allowed, k, items if because else [])
        side = self.table.side
        terms = SimilarityTerms(side.release, side.epsilon, side.delta, side.spent)
        known = int((self._into.rows(keys) >= 0).sum())
        return LocalList(
            rows,
            "alter-ego",
            len(items),
            known,
            side.version,
            reason=f"into {self.to} from {known} rated items of other domains",
            similarities=terms,
        )

    def _listed(
        self, ego: AlterEgo, allowed: NDArray[np.bool_], k: int, named: list[RatedItem]
    ) -> tuple[LocalItem, ...]:
        similar = self._within.dense(self._within.rows(ego.items))
        ranked = self._rates - 1 - self._rates.max()  # below 0: after all items of the profile
        ranked[ego.places] = (ego.ratings * ego.weights).clip(0, None)
        stars = predicted(ego, similar, self._middles.targets)
        places = np.flatnonzero(allowed)
        best = places[np.argsort(-ranked[places], kind="stable")[:k]]
        because = dict(zip(ego.places.tolist(), ego.because.tolist(), strict=True))
        names = {row.key: row.item for row in named}
        found = []
        for place in best.tolist():
            reason = because.get(place)
            item_key = int(self._into.targets[place])
            found.append(
                LocalItem(
                    self.table.item(item_key),
                    self.table.title(item_key),
                    float(ranked[place]),
                    (names[reason],) if reason in names else (),
                    float(stars[place]),
                )
            )
        return tuple(found)

    def _no_history(self, keys: NDArray[np.uint64]) -> UserError:
        side = self.table.side
        known = int((self._into.rows(keys) >= 0).sum())
        others = ", ".join(name or "(none)" for name in side.domains if name != self.to)
        if known:
            return UserError(
                f"none of {known} rated items of other domains has a link to {self.to}: rate more "
                f"items of {others}"
            )
        return UserError(
            f"no rated item of a domain other than {self.to} is known on this device: rate items "
            f"of {others}, or leave out --to for lists from what was rated of {self.to}"
        )

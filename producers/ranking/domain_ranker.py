"""Lists of a domain from ratings in others, made on the device.

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

import numpy as np
from numpy.typing import NDArray

from producers.ranking.clean_history import RatedItem
from producers.ranking.ranker import Ranked, Ranking
from stream_app.errors import UserError
from stream_app.ranking.domains.alter_ego import AlterEgo, alter_ego, predicted
from stream_app.ranking.domains.noised_similarities import MOST_LINKS
from stream_app.ranking.domains.similarity_table import SimilarityTable

LIKED = 4.0  # stars of an item that is known to be liked, and no more


class DomainRanker:
    """Ranks the items of the domain `to` for any clean history.

    Raises UserError for a domain that the table lacks, and for one that no item of another domain
    is linked to.
    """

    def __init__(self, side: SimilarityTable, to: str) -> None:
        self.side, self.to = side, to
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

    def ranking(
        self,
        rated: Sequence[RatedItem],
        k: int,
        *,
        because: bool = False,
        excluded: NDArray[np.uint64] | None = None,
    ) -> Ranking:
        """Return at most k items of the domain that are neither rated nor `excluded` (m,), best
        first; because: name the rated item behind each. Raises UserError if no rated item of
        another domain has a link into this one."""
        keys = np.array([row.key for row in rated], np.uint64)
        stars = [LIKED if row.stars is None else row.stars for row in rated]
        ego = alter_ego(keys, stars, self._into, self._middles, spread=MOST_LINKS)
        known = int((self._into.rows(keys) >= 0).sum())
        if not len(ego.items):
            raise self._no_history(known)
        allowed = ~np.isin(self._into.targets, keys)
        if excluded is not None:
            allowed &= ~np.isin(self._into.targets, excluded)
        reason = f"into {self.to} from {known} rated items of other domains"
        return Ranking(self._listed(ego, allowed, k, because=because), "alter-ego", known, reason)

    def _listed(
        self, ego: AlterEgo, allowed: NDArray[np.bool_], k: int, *, because: bool
    ) -> list[Ranked]:
        similar = self._within.dense(self._within.rows(ego.items))
        ranked = self._rates - 1 - self._rates.max()  # below 0: after all items of the profile
        ranked[ego.places] = (ego.ratings * ego.weights).clip(0, None)
        stars = predicted(ego, similar, self._middles.targets)
        places = np.flatnonzero(allowed)
        best = places[np.argsort(-ranked[places], kind="stable")[:k]]
        reasons = dict(zip(ego.places.tolist(), ego.because.tolist(), strict=True))
        return [
            Ranked(
                int(self._into.targets[place]),
                float(ranked[place]),
                (reasons[place],) if because and place in reasons else (),
                float(stars[place]),
            )
            for place in best.tolist()
        ]

    def _no_history(self, known: int) -> UserError:
        others = ", ".join(name or "(none)" for name in self.side.domains if name != self.to)
        if known:
            return UserError(
                f"none of {known} rated items of other domains has a link to {self.to}: rate more "
                f"items of {others}"
            )
        return UserError(
            f"no rated item of a domain other than {self.to} is known on this device: rate items "
            f"of {others}, or leave out --to for lists from what was rated of {self.to}"
        )

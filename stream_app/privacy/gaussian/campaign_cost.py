"""A campaign of noisy sums as a ledger of a person sees it: an id, and a claim that it gives."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.gaussian import naming

STATED_DELTA = Fraction(1, 10**7)


def is_campaign(id: str) -> bool:
    """Return whether an id names a campaign, to whose stages a person contributes."""
    return id.partition(":")[0] == naming.FAMILY


@dataclass(frozen=True)
class CampaignCost:
    """What all stages of the campaign `id` together cost a person who is in every one.

    The curve of the id is exact; (`epsilon`, `delta`) is a point of it, for sums of claims.
    """

    id: str

    @property
    def adjacency(self) -> str:
        """The whole record of a person."""
        return Adjacency.USER

    @property
    def epsilon(self) -> Fraction:
        """The proved epsilon at `delta`; ValueError for an id of no campaign."""
        return _epsilon(self.id, self.delta)

    @property
    def delta(self) -> Fraction:
        """The delta at which the epsilon is stated."""
        return STATED_DELTA


@lru_cache(maxsize=256)
def _epsilon(id: str, delta: Fraction) -> Fraction:
    """Return the proved epsilon: a third of a second, and asked for with every account."""
    return naming.parse(id).epsilon(delta)

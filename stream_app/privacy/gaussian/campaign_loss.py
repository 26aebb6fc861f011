"""The loss of campaigns of noisy sums, to be composed with that of any other release.

    L = mu^2 / 2 - mu Z,  Z ~ N(0, 1)      of n campaigns: mu^2 = n square
    D(S) <= e^(nNa) P(S),  P'(S) <= e^(nNb) D'(S)     steps 2 and 3 of `certificate.py`

so L + n N (a + b) with masses e^(nNa) bounds every set of outcomes of the integers, whatever is
composed with them. On a grid, Z is cut into blocks of 2^-15: each counts with its largest loss and
its largest density; |Z| > 13, less likely than 2^-120, counts as an infinite loss. Campaigns alone
need no grid: `delta_of` is their curve.

A campaign of noisy sums as a ledger of a person sees it: an id, and a claim that it gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from stream_app.privacy.accounting.loss_grid import UNIT, GridLoss, round_up, split
from stream_app.privacy.exact.gaussian_calibration import exponential
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.certificate import CampaignCertificate, proved_delta, slack
from stream_app.privacy.privacy_map import Adjacency

_REACH = 13
_WIDTH = 2.0**-15


@dataclass(frozen=True)
class CampaignLoss:
    """A person who contributes to every stage of a campaign: mu^2 and coordinates of all stages."""

    square: Fraction
    size: int

    @classmethod
    def of_campaign(cls, campaign: CampaignCertificate) -> CampaignLoss:
        """Return the loss of a campaign."""
        return cls(campaign.square, campaign.size)

    def losses(self, count: int) -> tuple[float, ...]:  # noqa: ARG002 (the protocol's signature)
        """Return none: the loss is continuous."""
        return ()

    def largest(self, count: int) -> float:  # noqa: ARG002
        """Return inf."""
        return math.inf

    def log_moment(self, order: float, count: int) -> float:
        """Return order (1 + order) mu^2 / 2."""
        return order * (1 + order) * float(count * self.square) / 2

    def grid(self, spacing: Fraction, count: int) -> tuple[GridLoss, int]:
        """Return the loss of all `count` campaigns together, split to the grid."""
        grown, both = slack(count * self.size)
        mu = math.sqrt(count * self.square) * (1 + 2**-50)  # a larger mu dominates
        starts = np.arange(-_REACH / _WIDTH, _REACH / _WIDTH) * _WIDTH
        nearest = np.where(starts >= 0, starts, np.minimum(0.0, starts + _WIDTH))
        factor = round_up(exponential(grown)[1]) * _WIDTH * (1 + 1e-12)
        masses = np.exp(-np.square(nearest) / 2) * (factor / math.sqrt(2 * math.pi))
        losses = mu * mu / 2 - mu * starts + round_up(both)
        losses += 8 * UNIT * (mu * mu / 2 + _REACH * mu)
        return split(losses, masses, spacing, 2.0**-110), 1

    def renyi(self, order: Fraction) -> Fraction:
        """Return a mu^2 / 2 and what the integers add: (a Na + (a - 1) Nb) / (a - 1)."""
        grown, both = slack(self.size)
        integers = (order * grown + (order - 1) * (both - grown)) / (order - 1)
        return order * self.square / 2 + integers


def delta_of(counts: Iterable[tuple[CampaignCertificate, int]], epsilon: Fraction) -> Fraction:
    """Return a proved delta of so many campaigns of each kind together, without a grid."""
    found = list(counts)
    square = sum((count * each.square for each, count in found), Fraction(0))
    return proved_delta(square, sum(count * each.size for each, count in found), epsilon)


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

"""Noise once: sums of what devices rated together, noised when released, free afterwards.

Everything that one device ever reported is one contribution of bounded norm (McSherry and Mironov
2009, section 4); its cost is a certificate, and Slope One, cosine and any number of lists made from
the released table cost nothing more.

For a device with the items J, |J| = m, of values r, z = clip(r, 1, 5) - 3:

    counts       1 for every j, and sqrt 2 for every pair j < k     norm    m
    differences  z_j - z_k for every pair j < k                     norm^2  m sum z^2 - (sum z)^2
    values       z_j for every j                                    norm^2  sum z^2

Differences and values are parts together, or neither is.
The vector is divided by its L2 norm, one weight w for all of its entries (McSherry and Mironov
2009, section 4.2: a user of many ratings weighs less on each), so that sums of differences over
sums of counts stay weighted means. Then it is rounded to the integer grid, where its norm is at
most the bound, whatever the list holds. A device whose list is empty adds nothing.

    released = sum of contributions + x,  x discrete Gaussians of variance V, one a coordinate

Adjacency: everything that one device reported, or nothing in its place (user level). The cost is
that of a noisy sum of vectors of integer norm at most `bound`, proved in
`privacy/gaussian/certificate.py`. Which items have a place must not depend on a device: the caller
takes a public catalogue, not what was rated most. Several releases of one state compose: the
budget is that of their certificates together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.similarity.table import CoRatingTable
from stream_app.campaigns.contribution_vectors import (
    MAX_BOUND,
    ROOT_2,
    pair_places,
    symmetric_matrix,
    to_grid,
    triangle_length,
)
from stream_app.privacy.gaussian.certificate import (
    CampaignCertificate,
    NoisySum,
    largest_square,
    least_variance,
)
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import RandomSource

MIDDLE = 3.0  # stars
REACH = 2.0  # stars from the middle to either end of the internal scale
LEAST_ITEMS, MOST_ITEMS = 2, 8_192
MOST_EPSILON = 500
# Grid units of noise: rounding to the grid is far below it. Wider where a contribution of many
# items would round to zeros, up to what the sampler's tables hold.
_DEVIATION, _MOST_DEVIATION = 8_192, 32_768
_LEAST_BOUND = 2_048
_DAMPING = 8.0  # standard deviations of the noise of a count of two items

Listed = tuple[NDArray[np.integer], NDArray[np.floating]]
"""Slots (m,) and values (m,) in stars of one device."""


class Contribution(NamedTuple):
    """Rising places (p,) in the sums and what is added at each, integers (p,) of bounded norm."""

    places: NDArray[np.int64]
    integers: NDArray[np.int32]


def place_count(items: int, *, differences: bool) -> int:
    """Return the number of coordinates of the sums over `items`."""
    counts = triangle_length(items)
    return 2 * counts if differences else counts  # pairs and one value an item: as many again


def contribution(
    slots: NDArray[np.integer],
    values: NDArray[np.floating],
    items: int,
    bound: int,
    *,
    differences: bool,
) -> Contribution:
    """Return what a device adds: slots (m,) of its items, each at most once, values (m,) in stars.

    Raises ValueError for slots outside 0 .. items - 1, an item that is twice there, another number
    of values, or a value that is not finite: the norm is that of a list of different items.
    """
    at, stars = _checked(slots, values, items)
    first, second = np.triu_indices(len(at), 1)
    pairs = pair_places(at, items)
    places = [at, pairs]
    parts = [np.ones(len(at)), np.full(len(pairs), ROOT_2)]
    z = np.clip(stars, MIDDLE - REACH, MIDDLE + REACH) - MIDDLE
    start = triangle_length(items)
    if differences:
        places += [start + at, start + pairs]
        parts += [z, z[first] - z[second]]
    vector = np.concatenate(parts)
    norm = float(np.sqrt(np.square(vector).sum()))
    integers = to_grid(vector / norm if norm else vector, bound)
    return Contribution(np.concatenate(places), integers)


def _checked(
    slots: NDArray[np.integer], values: NDArray[np.floating], items: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return slots, rising, and their values; ValueError as `contribution` says."""
    at, stars = np.asarray(slots, np.intp), np.asarray(values, np.float64)
    if at.ndim != 1 or at.shape != stars.shape:
        raise ValueError(f"{at.size} slots and {stars.size} values: one value for each item")
    if not np.isfinite(stars).all():
        raise ValueError("a value is not a finite number of stars")
    order = np.argsort(at, kind="stable")
    at, stars = at[order], stars[order]
    if len(at) and not 0 <= at[0] <= at[-1] < items:
        raise ValueError(f"slots {at[0]} to {at[-1]}: must be 0 to {items - 1}")
    if (np.diff(at) == 0).any():
        raise ValueError("an item is twice in a list: each may be there once")
    return at, stars


@dataclass(frozen=True)
class NoisePlan:
    """Sums over `items`: the bound of a contribution in grid units, the variance of the noise.

    differences: whether sums of differences and of values are released too, which Slope One needs;
    without them counts have the whole budget.
    """

    items: int
    bound: int
    variance: Fraction
    differences: bool = True

    @property
    def size(self) -> int:
        """The number of noised integers."""
        return place_count(self.items, differences=self.differences)

    @property
    def certificate(self) -> CampaignCertificate:
        """What the release costs a person, everything that was reported included."""
        return CampaignCertificate((NoisySum(self.bound, self.variance, self.size),))

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a coordinate, in units of a device's whole norm."""
        return math.sqrt(self.variance) / self.bound


@dataclass(frozen=True, eq=False)
class NoisedTable:
    """A released table, and the noise in it.

    table: sums of WEIGHTED co-raters: a device of m items weighs about 1 / m on each pair. `counts`
    may be below 0 off the diagonal; `differences` and `sums` are 0 where the plan leaves them out.
    """

    plan: NoisePlan
    table: CoRatingTable

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a count of two items, in the table's units."""
        return self.plan.deviation / ROOT_2

    @property
    def damping(self) -> float:
        """What to add to counts before dividing by them, so that noise is not taken for taste."""
        return _DAMPING * self.deviation


def plan_for(
    epsilon: Fraction | float,
    delta: Fraction | float,
    items: int,
    *,
    differences: bool = True,
) -> NoisePlan:
    """Return the plan of least noise whose certificate is within (epsilon, delta).

    Raises ValueError for epsilon outside (0, 500], delta outside (0, 1), or items outside
    2 .. 8,192.
    """
    if not (math.isfinite(epsilon) and 0 < epsilon <= MOST_EPSILON):
        raise ValueError(f"epsilon {epsilon}: must be above 0 and at most {MOST_EPSILON:,}")
    if not (math.isfinite(delta) and 0 < delta < 1):
        raise ValueError(f"delta {delta}: must be above 0 and below 1")
    if not LEAST_ITEMS <= items <= MOST_ITEMS:
        raise ValueError(f"{items} items: must be {LEAST_ITEMS} to {MOST_ITEMS:,}")
    size = place_count(items, differences=differences)
    square = largest_square(Fraction(epsilon), Fraction(delta), size)
    mu = math.sqrt(square)
    fine = max(_DEVIATION * mu, min(_LEAST_BOUND, _MOST_DEVIATION * mu))
    bound = max(1, min(MAX_BOUND, int(fine)))
    return NoisePlan(items, bound, least_variance(bound, square), differences)


def release(
    plan: NoisePlan,
    lists: Iterable[Listed],
    keys: NDArray[np.uint64],
    source: RandomSource,
    progress: Callable[[int], None] = lambda devices: None,  # noqa: ARG005 (a silent default)
) -> NoisedTable:
    """Return the noised table of the lists of all devices, one list each.

    keys (plan.items,): the items of the slots. `progress` is called with 1 for each list. Each call
    draws new noise and spends the budget again: the caller debits it before, and keeps the result.
    """
    if len(keys) != plan.items:
        raise ValueError(f"{len(keys)} keys of {plan.items} items: must be equally many")
    total = exact_sums(plan, lists, progress)
    total += discrete_gaussian(plan.variance, plan.size, source)
    return NoisedTable(plan, table_of(plan, total, keys))


def exact_sums(
    plan: NoisePlan,
    lists: Iterable[Listed],
    progress: Callable[[int], None] = lambda devices: None,  # noqa: ARG005 (a silent default)
) -> NDArray[np.int64]:
    """Return the sums (plan.size,) without noise: private, for `release` and for evaluation."""
    total = np.zeros(plan.size, np.int64)
    for slots, values in lists:
        added = contribution(slots, values, plan.items, plan.bound, differences=plan.differences)
        total[added.places] += added.integers  # no place is twice there
        progress(1)
    return total


def table_of(plan: NoisePlan, noisy: NDArray[np.int64], keys: NDArray[np.uint64]) -> CoRatingTable:
    """Return the table of noisy sums (plan.size,), which are public by then."""
    units = noisy / float(plan.bound)
    half = triangle_length(plan.items)
    counts = symmetric_matrix(units[:half])
    raters = np.maximum(counts.diagonal(), 0.0)
    np.fill_diagonal(counts, raters)
    differences = np.zeros((plan.items, plan.items))
    sums = np.zeros(plan.items)
    if plan.differences:
        differences[np.triu_indices(plan.items, 1)] = units[half + plan.items :]
        differences -= differences.T
        sums = units[half : half + plan.items] + MIDDLE * raters
    return CoRatingTable(
        keys,
        counts.astype(np.float32),
        differences.astype(np.float32),
        sums.astype(np.float32),
    )

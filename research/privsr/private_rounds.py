"""PrivSR corrected: item vectors from secure sums with shared noise, a budget for each rating.

In a round every device sends one integer vector over a public block of items, to a secure sum:

    bias part      of rating r of item j: (e, 1/2), e = R - b_j, clipped to an L2 norm of c_r
    vector part    of the ratings that are not sensitive: (R - b_j - b_i - u_i.v_j) u_i,
                   all together clipped to C
    and a share of noise, `noise_shares.py`

b_i and u_i come from the ratings that are not sensitive, on the device, by ridge regression on what
is public. So a sensitive rating moves its own bias entry and nothing else; another rating moves its
own and, through u_i, the vector part. Replaced by a null event:

    sensitive      c_s                      other     c_n' = sqrt(c_n^2 + (2 C)^2)

with common noise a rating's mu is its clip over the noise (heterogeneous differential privacy), so
c_s = c_n' mu_s / mu_n gives each class its budget; for n rounds mu grows by sqrt n. Not covered by
it are other ratings of the same user: n of them cost n times as much. Friends' vectors are not
exchanged at all. The public block are the items; that a person takes part is public.

The printed shares: `printed_shares.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from research.noise_shares import GaussianShares
from research.privsr.social_factorization import MIDDLE, Matrix, SocialRatings
from stream_app.privacy.gaussian.certificate import largest_square, least_variance
from stream_app.privacy.randomness import RandomSource, SystemSource

_GRID = 4096  # units of a clip of 1 star
_WEIGHT = 0.5  # of a rating, beside its residual: noisy counts
_RIDGE = 5.0
_ALMOST = 1 - Fraction(1, 10**9)  # for what the sum of shares loses against one discrete Gaussian


@dataclass(frozen=True)
class Budget:
    """(epsilon, delta) of a rating that is not sensitive, and of one that is."""

    epsilon: Fraction
    sensitive: Fraction
    delta: Fraction = Fraction(1, 10**6)

    def __post_init__(self) -> None:
        if not 0 < self.sensitive <= self.epsilon:
            raise ValueError(
                f"epsilon {self.sensitive} of sensitive ratings: above 0, at most {self.epsilon}"
            )


@dataclass(frozen=True)
class Rounds:
    """The public plan. clip: c_n in stars; vectors: C; least: honest contributors that suffice."""

    least: int
    count: int = 2
    factors: int = 1
    clip: float = 1.5
    vectors: float = 0.1


class SecureSum:
    """Only the sum of all vectors leaves, and only of enough of them; a simulation of a protocol.

    Vectors are added modulo 2^64: a mask that two contributors share with opposite signs, as in
    Bonawitz et al. 2017, would cancel exactly.
    """

    def __init__(self, size: int, least: int) -> None:
        self._total, self._least, self._count = np.zeros(size, np.uint64), least, 0

    def add(self, vector: NDArray[np.int64]) -> None:
        """Add a contributor's vector with its share of noise."""
        self._total += vector.view(np.uint64)
        self._count += 1

    def close(self) -> NDArray[np.int64]:
        """Return the sum; ValueError with fewer contributors than the noise needs."""
        if self._count < self._least:
            raise ValueError(f"{self._count} contributors: {self._least} are needed; aborted")
        return self._total.view(np.int64)


class PrivateRounds:
    """The recommender's public side: biases (block,) and vectors (block, factors)."""

    def __init__(
        self,
        block: int,
        budget: Budget,
        plan: Rounds,
        source: RandomSource | None = None,
    ) -> None:
        self.plan, self.budget, self.block = plan, budget, block
        self._source = SystemSource() if source is None else source
        self.size = block * (2 + plan.factors)
        self.reach = math.ceil(_GRID * math.hypot(plan.clip, 2 * plan.vectors))
        squares = [
            largest_square(epsilon * _ALMOST, budget.delta, 2 * plan.count * self.size) / plan.count
            for epsilon in (budget.epsilon, budget.sensitive)
        ]
        variance = least_variance(self.reach, squares[0])
        self.shares = GaussianShares(self.reach, variance, self.size, plan.least, plan.count)
        self.strict = math.floor(self.reach * math.sqrt(squares[1] / squares[0]))
        random = np.random.default_rng(0)
        self.biases = np.zeros(block)
        self.vectors = random.normal(0, 0.3, (block, plan.factors))
        self._sums = np.zeros((2 + plan.factors, block))

    @property
    def epsilons(self) -> tuple[float, float]:
        """Return the certified epsilon of a rating: not sensitive, sensitive."""
        delta = self.budget.delta
        return self.shares.epsilon(delta), self.shares.epsilon(delta, self.strict)

    def contribution(
        self, items: NDArray[np.int64], stars: Matrix, sensitive: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return a device's vector (2 + factors, block), flat, in units and without noise."""
        found = np.zeros((2 + self.plan.factors, self.block), np.int64)
        pairs = np.stack([stars - MIDDLE - self.biases[items], np.full(len(items), _WEIGHT)], 1)
        loose = math.floor(_GRID * self.plan.clip)
        for j, pair, strict in zip(items, pairs, sensitive, strict=True):
            found[:2, j] += to_units(pair * _GRID, min(loose, self.strict) if strict else loose)
        open_ = ~sensitive
        own, rated = self.fold_in(items[open_], stars[open_]), items[open_]
        left = stars[open_] - MIDDLE - self.biases[rated] - own[0] - self.vectors[rated] @ own[1:]
        most = math.floor(_GRID * self.plan.vectors)
        part = to_units((left[:, None] * own[1:]).ravel() * _GRID, most)
        found[2:, rated] = part.reshape(len(rated), self.plan.factors).T
        return found.ravel()

    def fold_in(self, items: NDArray[np.int64], stars: Matrix) -> Matrix:
        """Return (b_i, u_i), by ridge regression on the device; it never leaves it."""
        features = np.column_stack([np.ones(len(items)), self.vectors[items]])
        gram = features.T @ features + _RIDGE * np.eye(features.shape[1])
        return np.asarray(np.linalg.solve(gram, features.T @ (stars - MIDDLE - self.biases[items])))

    def predict(self, device: SocialRatings, tested: SocialRatings) -> Matrix:
        """Return the predictions (n,) of `tested`; each device folds in all its own ratings."""
        found = np.empty(len(tested.stars))
        order = np.argsort(device.users, kind="stable")
        ends = np.searchsorted(device.users[order], np.arange(device.people + 1))
        wanted = np.argsort(tested.users, kind="stable")
        starts = np.searchsorted(tested.users[wanted], np.arange(device.people + 1))
        for user in np.unique(tested.users):
            rows = order[ends[user] : ends[user + 1]]
            own = self.fold_in(device.items[rows], device.stars[rows])
            places = wanted[starts[user] : starts[user + 1]]
            items = tested.items[places]
            found[places] = MIDDLE + self.biases[items] + own[0] + self.vectors[items] @ own[1:]
        return np.clip(found, 1, 5)

    def learn(
        self,
        data: SocialRatings,
        progress: Callable[[int, int], object] = lambda done, total: None,  # noqa: ARG005
    ) -> None:
        """Run all rounds over the devices of the data, whose items are those of the block.

        `progress` is called with the contributions made and their total.
        """
        order = np.argsort(data.users, kind="stable")
        ends = np.searchsorted(data.users[order], np.arange(data.people + 1))
        for step in range(self.plan.count):
            total = SecureSum(self.size, self.plan.least)
            for user in range(data.people):
                progress(step * data.people + user, self.plan.count * data.people)
                own = order[ends[user] : ends[user + 1]]
                columns = data.items[own], data.stars[own], data.sensitive[own]
                total.add(self.contribution(*columns) + self.shares.draw(self._source))
            self._update(total.close() / _GRID, data.people, step)

    def _update(self, sums: Matrix, people: int, step: int) -> None:
        """Move the public side by one noisy sum: post-processing."""
        added = sums.reshape(2 + self.plan.factors, self.block)
        noise = math.sqrt(float(self.shares.each) * people) / _GRID
        self._sums += added
        counts = np.maximum(self._sums[1] / _WEIGHT / (step + 1), noise)
        mean = added[0].sum() / max(added[1].sum() / _WEIGHT, 1.0)
        self.biases += mean + (added[0] - mean * added[1] / _WEIGHT) / (counts + 2 * noise)
        self.vectors += (added[2:] / (counts + 8 * noise)).T


def to_units(vector: Matrix, bound: int) -> NDArray[np.int64]:
    """Return whole units, rounded towards zero, of an L2 norm of at most `bound`, exactly."""
    length = math.sqrt(math.fsum(float(x) ** 2 for x in vector))
    factor = min(1.0, bound / length) if length else 1.0
    while True:
        units = np.trunc(vector * factor).astype(np.int64)
        if int((units**2).sum()) <= bound**2:
            return units
        factor *= 1 - 2**-20

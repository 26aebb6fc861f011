"""Matrix factorization over many epochs: ordinary, in a count sketch, by feature hashing.

    eta_t = eta / (1 + t / T),    t = 0 .. T - 1                                  (Balu 2016, 4.1.5)
    cells w k = ceil(n d / gamma) of n users and items

With k = 1, feature hashing, every component has a cell of its own, as in the thesis; with more rows
a whole vector lies at one address a row, which is as accurate and faster.

Mean and biases are learned in the model, exactly, by all three methods: the thesis subtracts means
beforehand. Orders of ratings and first values come from the seed: equal seeds, equal models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.kernels.epochs import epoch_of, mean_of, predictions_of
from research.kernels.hashed_epochs import (
    hashed_epoch_of,
    hashed_predictions_of,
    place_cells,
)
from stream_app.kernels.factorization.count_sketch_blocked import place
from stream_app.kernels.factorization.initialization import UNIT, fill
from stream_app.kernels.machine.scalars import hash64
from stream_app.models.seeds import CELLS, ITEMS, USERS, derive_seed

_FIRST_SD = 0.1


@dataclass(frozen=True)
class Method:
    """How vectors are kept: in `depth` rows of 1 / `gamma` of the cells of the ordinary model, or,
    with depth 0, in a row of their own."""

    name: str
    depth: int = 0
    gamma: float = 1.0


@dataclass(frozen=True, eq=False)
class Part:
    """Ratings: users and items by number (m,) int64, stars (m,) float64."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    stars: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.stars)

    def at(self, chosen: NDArray[np.integer] | NDArray[np.bool_]) -> Part:
        """Return some of the ratings."""
        return Part(self.users[chosen], self.items[chosen], self.stars[chosen])


@dataclass(frozen=True)
class Steps:
    """eta: the first step; lam: the pull to zero; clip: squared error above which a rating is
    skipped in an epoch."""

    eta: float
    lam: float
    epochs: int = 20
    clip: float = math.inf

    def __post_init__(self) -> None:
        if not (0 < self.eta < 1 and 0 <= self.lam < 10):
            raise ValueError(f"eta {self.eta}, lam {self.lam}: must be in 0 .. 1 and 0 .. 10")
        if self.epochs < 1 or not self.clip > 0:
            raise ValueError(f"epochs {self.epochs}, clip {self.clip}: must be above 0")


class EpochModel:
    """A model of `users` and `items` (how many), with vectors of `factors` components."""

    def __init__(
        self, method: Method, users: int, items: int, factors: int = 32, seed: int = 0
    ) -> None:
        if not 1 <= factors <= 32:
            raise ValueError(f"factors {factors}: must be 1 .. 32")
        self.method, self.factors = method, factors
        depth = max(method.depth, 1)
        self._depth = depth
        hashed = method.depth == 1
        self._epoch = hashed_epoch_of(factors) if hashed else epoch_of(factors, depth)
        self._predictions = (
            hashed_predictions_of(factors) if hashed else predictions_of(factors, depth)
        )
        entities = users + items
        blocks = entities if not method.depth else math.ceil(entities / (method.gamma * depth))
        self._cells = np.zeros(blocks * depth * factors, np.float32)
        spread = _FIRST_SD / math.sqrt(factors) * math.sqrt(depth)
        fill(self._cells, derive_seed(seed, CELLS), spread / UNIT)
        self._places = (
            *self._placed(users, 0, derive_seed(seed, USERS), blocks),
            *self._placed(items, users, derive_seed(seed, ITEMS), blocks),
        )
        self._biases = np.zeros(users), np.zeros(items)
        self._mean = 3.0
        self._seed = seed
        self.skipped = 0
        """Ratings that the last epoch skipped."""

    def _placed(
        self, many: int, first: int, salt: np.uint64, blocks: int
    ) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
        if self.method.depth == 1:
            hashes = _hashes(many, salt)
            cells = np.empty((many, self.factors), np.int64)
            signs = np.empty((many, self.factors), np.float32)
            place_cells(hashes, np.uint64(self._cells.size), cells, signs)
            return cells, signs
        at = np.empty((self._depth, many), np.int64)
        words = np.zeros((self._depth, many), np.uint64)
        if not self.method.depth:
            at[0] = (first + np.arange(many)) * self.factors
            return at, words
        place(_hashes(many, salt), self.factors, self._depth, np.uint64(blocks), at, words)
        return at, words

    @property
    def memory_bytes(self) -> int:
        """Bytes of cells and biases."""
        return self._cells.nbytes + sum(biases.nbytes for biases in self._biases)

    def learn(self, part: Part, steps: Steps, epoch: int, shuffled: bool = True) -> None:
        """Learn every rating of a part once, in a new random order or in the order given; `epoch`
        counts from 0."""
        if not epoch:
            self._mean = mean_of(part.stars)
        if shuffled:
            order = np.random.default_rng((self._seed, epoch)).permutation(len(part))
        else:
            order = np.arange(len(part))
        self.skipped = self._epoch(
            self._cells, *self._places, *self._biases, self._mean,
            part.users, part.items, part.stars, order,
            steps.eta / (1 + epoch / steps.epochs), steps.lam, steps.clip,
        )  # fmt: skip

    def predict(self, part: Part) -> NDArray[np.float64]:
        """Return the predicted stars, within 1 .. 5."""
        out = np.empty(len(part))
        self._predictions(
            self._cells, *self._places, *self._biases, self._mean, part.users, part.items, out
        )
        return out

    def rmse(self, part: Part) -> float:
        """Return the root mean squared error."""
        missed = self.predict(part) - part.stars
        return math.sqrt(math.fsum(missed * missed) / len(part))


def _hashes(many: int, salt: np.uint64) -> NDArray[np.uint64]:
    return np.array([hash64(np.uint64(n) + salt) for n in range(many)], np.uint64)

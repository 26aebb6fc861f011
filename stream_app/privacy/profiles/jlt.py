"""JLT: a user's items as a sum of random sign vectors plus discrete Gaussian noise.

    Y = (sum over j in P of X_j + N) / sqrt(L)        (Balu 2016, s. 3.2.1; Kenthapadi 2012)

X_j is the vector of L signs of item j (`codebook.py`), so every codeword X_j / sqrt(L) has length
exactly 1, for every codebook and not only for most. N has L independent discrete Gaussians
of variance V, sigma^2 = V / L. The release is the integer vector sqrt(L) Y: nothing is
rounded, and adding or removing one item changes every coordinate by exactly 1. (epsilon, delta)-DP
per item (cell); `gaussian_calibration.py` has the proof, `discrete_gaussian.py` the noise.

    jlt       V is the least multiple of 1/64 that the proof accepts (analytic Gaussian)
    jltpaper  V = L (4 / epsilon)^2 ln(1 / delta), Lemma 2 of Kenthapadi et al. as in Balu 2016,
              eq. 3.10: a reproduction; its deviation is about three times what its claim needs

A cap of N items (`mechanism.py`) lets an item more replace another, which is two changes of one
item each. So each item in a release has (epsilon / 2, d) with d (1 + e^(epsilon / 2)) <= delta:
group privacy (`privacy_map.group`) then gives (epsilon, delta) for an item of the profile.

A released profile is L integers, little-endian, of 2 bytes (4 where the noise needs them). epsilon
None (`inf` in the id, with delta 0) adds no noise and protects nothing; there is no epsilon 0.

Estimators, unbiased over codebooks and noise (without the factor L/(L-1) of Balu 2016, eq. 3.11,
unnecessary because the mean is known to be 0):

    |P| = sum Y^2 - L s^2                 |A and B| = <Y_a, Y_b>               s^2 = E[N^2] / L
    |Y_a - Y_b|^2 - 2 L s^2  estimates the squared distance of the two projections
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.exact.discrete_gaussian import (
    LARGEST_VARIANCE,
    DeltaCertificate,
    NoiseTable,
    table_delta,
    uneven,
)
from stream_app.privacy.exact.gaussian_calibration import (
    LEAST_VARIANCE,
    STEPS,
    lattice_guess,
    least_steps,
    lemma_variance,
)
from stream_app.privacy.exact.integer_tables import exp_bounds
from stream_app.privacy.privacy_map import Loss, group
from stream_app.privacy.profiles.codebook import first_items, signs
from stream_app.privacy.profiles.profile_mechanism import (
    MOST_ITEMS,
    ProfileMechanism,
    changed_items,
    check_epsilon,
    check_items,
    check_most,
    check_released,
)
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import admitted

LEAST_EPSILON = Fraction(1, 1000)
LEAST_DELTA = Fraction(1, 10**12)
LONGEST = 2**14
_BLOCK = 256  # items whose sign vectors are held at a time


@dataclass(frozen=True)
class Jlt(ProfileMechanism):
    """A projection of `length` signs with discrete Gaussian noise for (epsilon, delta) per item, of
    at most `most` items.

    Certified on construction. Raises ValueError outside 8 <= length <= 16384, 1/1000 <= epsilon <=
    64, 10^-12 <= delta < 1, 1 <= most <= 2^14, and if the noise needs a variance above 2^23.

    >>> Jlt(1000, Fraction(2), Fraction(1, 10**6)).id
    'jlt:1000:2:1/1000000'
    >>> Jlt(1000, Fraction(2), Fraction(1, 10**6), 16).id
    'jlt:1000:2:1/1000000:16'
    """

    length: int
    epsilon: Fraction | None
    delta: Fraction
    most: int = MOST_ITEMS
    _table: NoiseTable | None = field(init=False, repr=False, compare=False)

    family: ClassVar[str] = "jlt"

    def __post_init__(self) -> None:
        if type(self.length) is not int or not 8 <= self.length <= LONGEST:
            raise ValueError(f"length {self.length!r}: a projection has 8 to {LONGEST} coordinates")
        _check_claim(self.epsilon, self.delta)
        check_most(self.most, self.epsilon)
        if self.epsilon is None:
            object.__setattr__(self, "_table", None)
            return
        steps = self._steps(*self.of_released_item(self.epsilon))
        table = NoiseTable(Fraction(steps, STEPS))
        object.__setattr__(self, "_table", table)
        self._prove(table, self.epsilon)

    def of_released_item(self, epsilon: Fraction) -> tuple[Fraction, Fraction]:
        """Return the (epsilon, delta) of one item in the release; under a cap two may change."""
        if changed_items(self.most) == 1:
            return epsilon, self.delta
        return epsilon / 2, self.delta / (1 + exp_bounds(epsilon / 2)[1])

    def _steps(self, epsilon: Fraction, delta: Fraction) -> int:
        """Return 64 V for (epsilon, delta) of one item in the release."""
        least = int(LEAST_VARIANCE) * STEPS

        def enough(steps: int) -> bool:
            if steps < least:
                return False
            if steps > LARGEST_VARIANCE * STEPS:
                return True  # ends the search; `NoiseTable` refuses such a variance
            bound = table_delta(epsilon, Fraction(steps, STEPS), self.length)
            return bound is not None and bound <= delta

        guess = lattice_guess(float(epsilon), float(delta), self.length)
        # The table's rounding uses a little of epsilon, which depends on its variance: guess twice.
        left = float(epsilon) - 2 * self.length * float(uneven(Fraction(guess, STEPS)))
        if left > 0:
            guess = lattice_guess(left, float(delta), self.length)
        return least_steps(enough, max(least, guess))

    @property
    def _claim(self) -> str:
        return f"{'inf' if self.epsilon is None else self.epsilon}:{self.delta}"

    def privacy_map(self, distance: int) -> Loss:
        """Return the claim for one item, and by group privacy for more; under a cap two releases
        differ by twice as many items, and by 2 `most` at most."""
        if self.epsilon is None or changed_items(self.most) == 1:
            return group(self.epsilon, self.delta, distance)
        return group(*self.of_released_item(self.epsilon), 2 * min(distance, self.most))

    @property
    def variance(self) -> Fraction:
        """V, the variance parameter of the integer noise; sigma^2 = V / L."""
        return Fraction(0) if self._table is None else self._table.variance

    @property
    def noise(self) -> NoiseTable | None:
        """The table that a coordinate's noise is drawn from; None without noise."""
        return self._table

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise relative to codewords of length 1."""
        return math.sqrt(self.variance / self.length)

    @property
    def profile_bytes(self) -> int:
        """Size of a released profile."""
        return self.length * self._width

    @property
    def _width(self) -> int:
        reach = 0 if self._table is None else self._table.reach
        return 2 if reach + self.most < 2**15 else 4

    def certify(self) -> tuple[Certificate, ...]:
        """Prove (epsilon, delta) per item on the table that `release` samples from."""
        if self._table is None or self.epsilon is None:
            return ()
        self._table.check()
        return (self._prove(self._table, self.epsilon),)

    def _prove(self, table: NoiseTable, epsilon: Fraction) -> DeltaCertificate:
        each, _ = self.of_released_item(epsilon)
        bound = table_delta(each, table.variance, self.length)
        if bound is not None:
            bound = group(each, bound, changed_items(self.most)).delta
        if bound is None or bound > self.delta:
            raise ValueError(
                f"{self.id}: the noise proves a delta of {1.0 if bound is None else float(bound)}, "
                f"above the claimed {self.delta}"
            )
        return DeltaCertificate(
            *(self.id, epsilon, self.adjacency, exp_bounds(epsilon)[0], float(epsilon), 0.0),
            *(table.rows, table.digest, self.delta, bound, table.variance),
        )

    def project(self, items: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the sum of the sign vectors of item keys (c,), those over the cap left out,
        WITHOUT noise, shape (L,)."""
        items = first_items(items, self.most)
        total = np.zeros(self.length, np.int64)
        for start in range(0, len(items), _BLOCK):
            total += signs(items[start : start + _BLOCK], self.length).sum(axis=0, dtype=np.int64)
        return total

    def release(self, items: NDArray[np.uint64], source: RandomSource) -> NDArray[np.uint8]:
        """Turn distinct item keys (c,) into one released profile, (profile_bytes,) uint8.

        Takes 2 L words from the ticket or test source for any items. Raises ValueError before a
        word is drawn unless `items` are at most 16384 distinct uint64 keys.
        """
        check_items(items)
        total = self.project(items)
        entropy = admitted(source, self, 1)
        if self._table is not None:
            total += self._table.sample(entropy.words(2 * self.length))
        return np.ascontiguousarray(total.astype(f"<i{self._width}")).view(np.uint8)

    def log_likelihood(self, released: NDArray[np.uint8], items: NDArray[np.uint64]) -> float:
        """Return ln P(released | items) of the integer table; -inf if it is impossible."""
        noise = self.integers(released[None])[0] - self.project(items)
        if self._table is None:
            return -math.inf if noise.any() else 0.0
        return float(self._table.log_probabilities(noise).sum())

    def integers(self, released: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return sqrt(L) Y of released profiles (m, bytes), shape (m, L)."""
        check_released(released, self.profile_bytes)
        return np.ascontiguousarray(released).view(f"<i{self._width}").astype(np.int64)

    def coordinates(self, released: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return Y of released profiles (m, bytes), shape (m, L)."""
        return (self.integers(released) / math.sqrt(self.length)).astype(np.float32)

    def sizes(
        self, coordinates: NDArray[np.float32], catalogue: int = MOST_ITEMS
    ) -> NDArray[np.float64]:
        """Return |P| of each profile's coordinates (m, L), within 0 .. catalogue; under a cap that
        of what was released."""
        squares = np.einsum("ml,ml->m", coordinates, coordinates, dtype=np.float64)
        return np.asarray(
            np.clip(squares - self._noise, 0.0, min(catalogue, self.most)), np.float64
        )

    def size_variance(self, size: float) -> float:
        """Return the variance of `sizes` at a true size: 2 L (sigma^2 + c/L)^2."""
        return 2 * self.length * ((self._noise + size) / self.length) ** 2

    def overlaps(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Return |A and B| of every pair of coordinates (m, L) and (n, L), shape (m, n)."""
        products: NDArray[np.float32] = first @ second.T
        return products.astype(np.float64)

    def weights(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ones."""
        return np.ones(len(sizes))

    def evidence(
        self,
        coordinates: NDArray[np.float32],
        sizes: NDArray[np.float64],  # noqa: ARG002 (the protocol's signature)
    ) -> NDArray[np.float32]:
        """Return the coordinates: <Y, X_j> / sqrt(L) has expectation 1[j in P]."""
        return coordinates

    def probes(self, items: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the codewords X_j / sqrt(L) of item keys (c,), shape (L, c)."""
        return (signs(items, self.length).T / math.sqrt(self.length)).astype(np.float32)

    def evidence_variance(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sigma^2 + c / L: the noise, and the codewords of other items."""
        return (self._noise + sizes) / self.length

    @property
    def _noise(self) -> float:
        """L s^2: what the noise adds to sum Y^2."""
        return 0.0 if self._table is None else self._table.second_moment


@dataclass(frozen=True)
class JltPaper(Jlt):
    """`Jlt` with the noise of Lemma 2, as in the thesis: a reproduction.

    The lemma also requires epsilon < ln(1/delta); the delta that its noise really
    satisfies is proved as for `Jlt`, and is far below the claimed delta.

    >>> JltPaper(1000, Fraction(2), Fraction(1, 10)).id
    'jltpaper:1000:2:1/10'
    """

    family: ClassVar[str] = "jltpaper"

    def __post_init__(self) -> None:
        if self.most != MOST_ITEMS:
            raise ValueError(
                f"at most {self.most} items in a profile: jltpaper reproduces the thesis, which "
                "has no cap; give jlt, or leave the cap out"
            )
        super().__post_init__()

    def _steps(self, epsilon: Fraction, delta: Fraction) -> int:
        return max(
            math.ceil(lemma_variance(epsilon, delta) * self.length * STEPS),
            int(LEAST_VARIANCE) * STEPS,
        )


def _check_claim(epsilon: Fraction | None, delta: Fraction) -> None:
    if epsilon is None:
        if delta != 0 or not isinstance(delta, Fraction):
            raise ValueError(f"delta {delta}: without noise nothing is claimed; write inf:0")
        return
    check_epsilon(epsilon, LEAST_EPSILON)
    if not isinstance(delta, Fraction):
        raise ValueError(  # noqa: TRY004 (one error for bad input)
            f"delta {str(delta)[:40]}: give an exact number, Fraction(1, 10**6)"
        )
    if not LEAST_DELTA <= delta < 1 or delta.denominator > 10**12:
        raise ValueError(
            f"delta {float(delta):g}: at least 10^-12 and below 1, with at most twelve decimals"
        )

"""BLIP: a user's items as a Bloom filter, each bit flipped with the same probability.

    B_P = OR of the codewords of the items in P               (Balu 2016, eqs 3.1, 3.2; codebook.py)
    released = B_P XOR N,   N(l) = 1 with probability p = 1 / (1 + e^(epsilon / K))    (3.3, 3.4)

Adjacency: cell. Adding or removing one item changes at most K bits, and each changed bit alters the
likelihood by a factor of at most e^(epsilon/K), so a release is pure epsilon-DP per item for any
hashes.

A released profile is ceil(L / 8) bytes: bit l is bit l mod 8 of byte l div 8, unused bits are 0.
Flips are drawn from an integer table (`integer_tables.py`), one word each. epsilon 0 publishes
uniform bits, epsilon None the filter itself, which protects nothing.

Estimators, from x(l) = (bit - p) / (1 - 2p), whose mean is the unflipped bit:

    pi = mean x,  |P| = ln(1 - pi) / (K ln(1 - 1/L))                          (3.6, 3.7, 3.9)
    z  = 1 - pi,  z_or = 1 - (pi_a + pi_b - mean x_a x_b)
    |A and B| = ln(z_a z_b / z_or) / (K ln(1 - 1/L))                 each logarithm of >= 1/L

With n_a, n_b, n_ab the ones of a, of b, and of both:

    mean x_a       = (n_a - p L) / (L (1 - 2p))
    mean x_a x_b   = (n_ab - p (n_a + n_b) + p^2 L) / (L (1 - 2p)^2)

so an overlap needs one AND and one count a pair. At p = 1/2 sizes are NaN, and `no_estimate` gives
the reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from research.profiles.codebook import addresses
from research.profiles.profile_mechanism import (
    ProfileMechanism,
    check_epsilon,
    check_items,
    check_released,
)
from stream_app.privacy.exact.integer_tables import TOTAL, Table, compile_table, compiled_ratio
from stream_app.privacy.randomness import RandomSource

LARGEST_PER_BIT = Fraction(16)  # above it a flip is too rare for 64-bit counts
LONGEST = 2**19
MOST_HASHES = 64
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


@dataclass(frozen=True)
class Blip(ProfileMechanism):
    """A Bloom filter of `length` bits and `hashes` functions, flipped for `epsilon` per item.

    ValueError outside 8 <= length <= 2^19, 1 <= hashes <= 64, 0 <= epsilon <= 64, and above 16 of
    epsilon a bit.
    """

    length: int
    hashes: int
    epsilon: Fraction | None
    _table: Table | None = field(init=False, repr=False, compare=False)

    family: ClassVar[str] = "blip"
    delta = Fraction(0)  # the claim holds for every output

    def __post_init__(self) -> None:
        if type(self.length) is not int or not 8 <= self.length <= LONGEST:
            raise ValueError(f"length {self.length!r}: a BLIP has 8 to {LONGEST} bits")
        if type(self.hashes) is not int or not 1 <= self.hashes <= MOST_HASHES:
            raise ValueError(f"hashes {self.hashes!r}: a BLIP has 1 to {MOST_HASHES} per item")
        table = None
        if self.epsilon is not None:
            check_epsilon(self.epsilon, Fraction(0))
            if self.epsilon > LARGEST_PER_BIT * self.hashes:
                raise ValueError(
                    f"epsilon {self.epsilon} over {self.hashes} hashes: at most {LARGEST_PER_BIT} "
                    "a bit; use more hashes"
                )
            ratio = compiled_ratio(self.epsilon / self.hashes)
            table = compile_table([[ratio, 1], [1, ratio]])
        object.__setattr__(self, "_table", table)

    @property
    def id(self) -> str:
        """The name, as blip:5000:20:8."""
        epsilon = "inf" if self.epsilon is None else self.epsilon
        return f"{self.family}:{self.length}:{self.hashes}:{epsilon}"

    @property
    def profile_bytes(self) -> int:
        """Size of a released profile."""
        return -(-self.length // 8)

    @property
    def flip(self) -> Fraction:
        """The exact probability p that a bit is flipped."""
        return Fraction(0) if self._table is None else Fraction(self._table.counts[0][1], TOTAL)

    @property
    def no_estimate(self) -> str:
        """The reason why the estimators return NaN; empty if they do not."""
        return "the bits are uniform at epsilon 0" if 2 * self.flip == 1 else ""

    def filter(self, items: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return the Bloom filter of item keys (c,) WITHOUT noise, shape (L,) of 0 and 1."""
        bits = np.zeros(self.length, np.uint8)
        bits[addresses(items, self.hashes, self.length)] = 1
        return bits

    def release(self, items: NDArray[np.uint64], source: RandomSource) -> NDArray[np.uint8]:
        """Turn distinct item keys (c,) into one released profile, with L words of the source."""
        check_items(items)
        bits = self.filter(items)
        if self._table is not None:
            bits = self._table.sample(bits, source.words(self.length))
        return np.packbits(bits, bitorder="little")

    def log_likelihood(self, released: NDArray[np.uint8], items: NDArray[np.uint64]) -> float:
        """Return ln P(released | items) of the integer table; -inf if it is impossible."""
        bits = self.bits(released[None])[0]
        flips = int((bits != self.filter(items)).sum())
        if (np.packbits(bits, bitorder="little") != released).any():
            return -math.inf  # an unused bit is set
        if self._table is None:
            return -math.inf if flips else 0.0
        kept, flipped = self._table.log_probabilities()[:, 0].tolist()
        return float(flips * flipped + (self.length - flips) * kept)

    def bits(self, released: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the bits of released profiles (m, bytes), shape (m, L)."""
        check_released(released, self.profile_bytes)
        return np.unpackbits(released, axis=1, bitorder="little", count=self.length)

    def coordinates(self, released: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return x, unbiased for every unflipped bit, shape (m, L); NaN at epsilon 0."""
        if self.no_estimate:
            return np.full((len(released), self.length), np.nan, np.float32)
        p = float(self.flip)
        values = np.array([-p / (1 - 2 * p), (1 - p) / (1 - 2 * p)], np.float32)
        return values[self.bits(released)]

    def sizes(self, coordinates: NDArray[np.float32], catalogue: int) -> NDArray[np.float64]:
        """Return |P| of each profile's coordinates (m, L), within 0 .. catalogue (3.9)."""
        share = np.asarray(coordinates.mean(axis=1, dtype=np.float64))
        found = np.log1p(-np.clip(share, 0.0, 1 - 1 / self.length)) / self._log_kept()
        return np.asarray(np.minimum(found, catalogue), np.float64)

    def size_variance(self, size: float) -> float:
        """Return the variance of `sizes` that the flips cause at a true size, to first order."""
        if self.no_estimate:
            return math.inf
        p = float(self.flip)
        share = -math.expm1(size * self._log_kept())
        return p * (1 - p) / (self.length * ((1 - 2 * p) * (1 - share) * self._log_kept()) ** 2)

    def overlaps(self, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return |A and B| of every pair of released profiles (m, bytes) and (n, bytes), (m, n)."""
        length, p = self.length, float(self.flip)
        of_first, of_second = _ones(first), _ones(second)
        both = np.stack([_ones(second & row) for row in first]).astype(np.float64)
        means = [(count - p * length) / (length * (1 - 2 * p)) for count in (of_first, of_second)]
        sums = of_first[:, None] + of_second
        shared = (both - p * sums + p * p * length) / (length * (1 - 2 * p) ** 2)
        least = 1 / length
        za, zb = 1 - means[0], 1 - means[1]
        union = np.maximum(za[:, None] + zb - 1 + shared, least)
        apart = np.maximum(za, least)[:, None] * np.maximum(zb, least)
        return np.asarray(np.log(apart / union) / self._log_kept(), np.float64)

    def _log_kept(self) -> float:
        """ln P(a bit stays 0 when one item is added) = K ln(1 - 1/L)."""
        return self.hashes * math.log1p(-1 / self.length)


def _ones(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the number of ones in each row of (m, bytes), shape (m,)."""
    return np.asarray(_ONES[packed].sum(axis=1, dtype=np.int64), np.int64)

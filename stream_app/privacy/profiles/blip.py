"""BLIP: a user's items as a Bloom filter, each bit flipped with the same probability.

    B_P = OR of the codewords of the items in P               (Balu 2016, eqs 3.1, 3.2; codebook.py)
    released = B_P XOR N,   N(l) = 1 with probability p = 1 / (1 + e^(epsilon / K))    (3.3, 3.4)

Adjacency: cell. Adding or removing one item changes at most K bits, and each changed bit alters the
likelihood by a factor of at most e^(epsilon/K), so a release is pure epsilon-DP per item for any
hashes; between a profile of c items and an empty one the loss is at most min(c * epsilon,
L * epsilon / K). Under a cap of c items (`mechanism.py`) an item more may replace another, which
changes 2K bits at most: each has epsilon / 2K, and a whole profile costs min(c K, L) of these.

A second release costs epsilon again. Reusing N for a changed profile would publish the change
itself, so every release draws all L bits again, one word each.

A released profile is ceil(L / 8) bytes: bit l is bit l mod 8 of byte l div 8, unused bits are 0.
Flips are drawn from an integer table (`integer_tables.py`); the worst ratio of a bit is taken from
its counts and raised to the power K in rational arithmetic. epsilon 0 publishes uniform bits,
epsilon None (`inf` in the id) the filter itself, which protects nothing.

Estimators, from x(l) = (bit - p) / (1 - 2p), whose mean is the unflipped bit:

    pi = mean x,  |P| = ln(1 - pi) / (K ln(1 - 1/L))                          (3.6, 3.7, 3.9)
    z  = 1 - pi,  z_or = 1 - (pi_a + pi_b - mean x_a x_b)
    |A and B| = ln(z_a z_b / z_or) / (K ln(1 - 1/L))                 each logarithm of >= 1/L

At p = 1/2 they return NaN, and `no_estimate` gives the reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import Certificate, certify
from stream_app.privacy.exact.integer_tables import (
    TOTAL,
    Table,
    compile_table,
    compiled_ratio,
)
from stream_app.privacy.privacy_map import Loss, group
from stream_app.privacy.profiles.codebook import addresses, first_items, positions
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

LARGEST_PER_BIT = Fraction(16)  # above it a flip is too rare for 64-bit counts to claim it tightly
LONGEST = 2**19
MOST_HASHES = 64


@dataclass(frozen=True)
class Blip(ProfileMechanism):
    """A Bloom filter of `length` bits and `hashes` functions, flipped for `epsilon` per item, of at
    most `most` items.

    Pure epsilon-DP per item (cell), certified on construction. Raises ValueError outside 8 <=
    length <= 2^19, 1 <= hashes <= 64, 0 <= epsilon <= 64, 1 <= most <= 2^14 and at most 16 of
    epsilon a bit.

    >>> Blip(5000, 20, Fraction(8)).id, Blip(5000, 2, Fraction(2), 27).id
    ('blip:5000:20:8', 'blip:5000:2:2:27')
    """

    length: int
    hashes: int
    epsilon: Fraction | None
    most: int = MOST_ITEMS
    _table: Table | None = field(init=False, repr=False, compare=False)

    family: ClassVar[str] = "blip"
    delta = Fraction(0)  # the claim holds for every output

    def __post_init__(self) -> None:
        if type(self.length) is not int or not 8 <= self.length <= LONGEST:
            raise ValueError(f"length {self.length!r}: a BLIP has 8 to {LONGEST} bits")
        if type(self.hashes) is not int or not 1 <= self.hashes <= MOST_HASHES:
            raise ValueError(f"hashes {self.hashes!r}: a BLIP has 1 to {MOST_HASHES} per item")
        check_most(self.most, self.epsilon)
        if self.epsilon is None:
            object.__setattr__(self, "_table", None)
            return
        check_epsilon(self.epsilon, Fraction(0))
        if self.epsilon > LARGEST_PER_BIT * self.bits_of_item:
            raise ValueError(
                f"epsilon {self.epsilon} over {self.hashes} hashes: at most {LARGEST_PER_BIT} a "
                "bit; use more hashes"
            )
        ratio = compiled_ratio(self.epsilon / self.bits_of_item)
        object.__setattr__(self, "_table", compile_table([[ratio, 1], [1, ratio]]))
        self.certify()

    @property
    def _claim(self) -> str:
        return f"{self.hashes}:{'inf' if self.epsilon is None else self.epsilon}"

    @property
    def bits_of_item(self) -> int:
        """How many bits one item more can change: K, or 2K where it may replace another."""
        return self.hashes * changed_items(self.most)

    def privacy_map(self, distance: int) -> Loss:
        """Return epsilon for each item, `most` at most, and never more than all bits can carry.

        Two releases of at most N items each differ by 2N items, each of epsilon / 2.
        """
        items = group(self.epsilon, Fraction(0), min(distance, self.most))
        if items.epsilon is None or self.epsilon is None:
            return items
        return Loss(min(items.epsilon, self.length * self.epsilon / self.bits_of_item))

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

    def certify(self) -> tuple[Certificate, ...]:
        """Prove e^epsilon per item from the sampled table: its worst ratio to the power of the bits
        that one item more can change."""
        if self._table is None or self.epsilon is None:
            return ()
        claim = self.id, self.epsilon, self.adjacency, self.bits_of_item
        return (certify(self._table, *claim),)

    def profile_epsilon(self, items: int) -> Fraction | None:
        """Return the loss between a profile of `items` and an empty one: the bits that can be set,
        min(c K, N K, L), at epsilon / K each, or epsilon / 2K under a cap."""
        if self.epsilon is None:
            return None
        bits = min(min(items, self.most) * self.hashes, self.length)
        return bits * self.epsilon / self.bits_of_item

    def filter(self, items: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return the Bloom filter of item keys (c,), those over the cap left out, WITHOUT noise,
        shape (L,) of 0 and 1."""
        bits = np.zeros(self.length, np.uint8)
        bits[addresses(first_items(items, self.most), self.hashes, self.length)] = 1
        return bits

    def release(self, items: NDArray[np.uint64], source: RandomSource) -> NDArray[np.uint8]:
        """Turn distinct item keys (c,) into one released profile, (profile_bytes,) uint8.

        Takes L words from the ticket or test source for any items. Raises ValueError before a word
        is drawn unless `items` are at most 16384 distinct uint64 keys.
        """
        check_items(items)
        bits = self.filter(items)
        entropy = admitted(source, self, 1)
        if self._table is not None:
            bits = self._table.sample(bits, entropy.words(self.length))
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

    def sizes(
        self, coordinates: NDArray[np.float32], catalogue: int = MOST_ITEMS
    ) -> NDArray[np.float64]:
        """Return |P| of each profile's coordinates (m, L), within 0 .. catalogue (3.9); under a cap
        that of what was released."""
        share = np.clip(_mean(coordinates), 0.0, 1 - 1 / self.length)
        return np.minimum(np.log1p(-share) / self._log_kept(), min(catalogue, self.most))

    def size_variance(self, size: float) -> float:
        """Return the variance of `sizes` that the flips cause at a true size, to first order."""
        if self.no_estimate:
            return math.inf
        p = float(self.flip)
        share = -math.expm1(size * self._log_kept())
        return p * (1 - p) / (self.length * ((1 - 2 * p) * (1 - share) * self._log_kept()) ** 2)

    def overlaps(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Return |A and B| of every pair of coordinates (m, L) and (n, L), shape (m, n)."""
        least = 1 / self.length
        za, zb = 1 - _mean(first), 1 - _mean(second)
        both = (first @ second.T).astype(np.float64) / self.length
        union = np.maximum(za[:, None] + zb - 1 + both, least)
        apart = np.maximum(za, least)[:, None] * np.maximum(zb, least)
        return np.asarray(np.log(apart / union) / self._log_kept(), np.float64)

    def weights(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1 - pi: the fuller a filter, the less evidence for a single item."""
        return np.exp(sizes * self._log_kept())

    def evidence(
        self, coordinates: NDArray[np.float32], sizes: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Return x - pi, whose mean over the bits of item j has expectation (1 - pi) 1[j in P]."""
        return coordinates - (1 - self.weights(sizes))[:, None].astype(np.float32)

    def probes(self, items: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the mean over the distinct bits of each item key (c,), shape (L, c)."""
        found, starts = positions(items, self.hashes, self.length)
        counts = np.diff(starts)
        columns = np.repeat(np.arange(len(items)), counts)
        read = np.zeros((self.length, len(items)), np.float32)
        read[found, columns] = np.repeat(1 / counts, counts)
        return read

    def evidence_variance(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (p(1-p)/(1-2p)^2 + pi(1-pi)) / K: flips, and the bits of other items."""
        if self.no_estimate:
            return np.full(len(sizes), np.inf)
        p, kept = float(self.flip), self.weights(sizes)
        return (p * (1 - p) / (1 - 2 * p) ** 2 + kept * (1 - kept)) / self.hashes

    def _log_kept(self) -> float:
        """ln P(a bit stays 0 when one item is added) = K ln(1 - 1/L)."""
        return self.hashes * math.log1p(-1 / self.length)


def _mean(coordinates: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(coordinates.mean(axis=1, dtype=np.float64))

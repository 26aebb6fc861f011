"""How the noise of running sums depends from round to round, and what a person costs under it.

    x_s       what is summed in round s = 0 .. T-1
    H         (T, T) integers >= 0, lower triangular, diagonal >= 1
    released  w = H x + z, row by row;  z independent, variance V in every row
    read      sum_{s <= t} x_s = (A H^-1 w)_t,  A ones up to the diagonal

The noise of a running sum has the variance V |(A H^-1)_t|^2. A person who contributes in the rounds
S moves row t by at most `bound` (H 1_S)_t, as H >= 0, and by just as much with the same vector each
time: mu^2 = bound^2 |H 1_S|^2 / V. So `growth`, |(A H^-1)_t| max_S |H 1_S|, is how much wider the
noise is than that of one sum at the end, by the same budget.

`square_root` rounds H = g f_{t-s},  f_k = binom(2k, k) / 4^k,  for which H H = g^2 A
(Fichtenberger, Henzinger and Upadhyay 2023; Henzinger, Upadhyay and Upadhyay 2023): its growth is
about 1 + ln(T) / pi. The last columns are shorter than the first. With `even` each is stretched to
the norm of the longest, so that late contributions have less noise and nobody costs more.
`independent` is H = 1: growth sqrt(t + 1).

A reader needs H alone, so rounding it to integers costs no privacy and hardly any growth; w is an
integer sum of integer vectors, and parties with additive shares compute it share by share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

SCALE = 16  # g: growth is within .3 % of that of the real factor up to 16 rounds, 1 % at 128
MOST_ROUNDS = 1024
LARGEST_ENTRY = 2**20
_MOST_PATTERNS = 200_000


@dataclass(frozen=True)
class Factor:
    """H by its rows, each up to its diagonal. Raises ValueError for any other matrix."""

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.rows) <= MOST_ROUNDS:
            raise ValueError(f"{len(self.rows)} rounds: give 1 to {MOST_ROUNDS}")
        for number, row in enumerate(self.rows):
            if len(row) != number + 1 or row[-1] < 1:
                raise ValueError(f"row {number} of a factor: must end at a diagonal of 1 or more")
            if not all(0 <= entry <= LARGEST_ENTRY for entry in row):
                raise ValueError(f"row {number} of a factor: entries are 0 to {LARGEST_ENTRY}")

    @classmethod
    def square_root(cls, rounds: int, *, even: bool = True, scale: int = SCALE) -> Self:
        """Return the rounded square root of the running sums; `scale` is the least g."""
        if not 1 <= rounds <= MOST_ROUNDS:
            raise ValueError(f"{rounds} rounds: give 1 to {MOST_ROUNDS}")
        terms = [Fraction(math.comb(2 * k, k), 4**k) ** 2 for k in range(rounds)]
        norms = list(accumulate(terms))[::-1]  # |column s|^2 of the real factor
        lines = [
            [_root(scale**2 * term * norms[0] / norm) for term in terms]
            for norm in (norms if even else norms[:1])
        ]
        return cls(
            tuple(
                tuple(lines[s if even else 0][t - s] for s in range(t + 1)) for t in range(rounds)
            )
        )

    @classmethod
    def independent(cls, rounds: int) -> Self:
        """Return the factor of rounds with noise of their own."""
        return cls(tuple((0,) * t + (1,) for t in range(rounds)))

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.rows)

    def moved(self, pattern: tuple[int, ...]) -> tuple[int, ...]:
        """Return H 1_S (T,): how far a person who contributes in these rounds moves each row."""
        return tuple(sum(row[s] for s in pattern if s < len(row)) for row in self.rows)

    def square(self, pattern: tuple[int, ...]) -> int:
        """Return |H 1_S|^2."""
        return sum(each * each for each in self.moved(pattern))

    def worst(self, times: int = 1, apart: int = 1) -> tuple[int, ...]:
        """Return the rounds that cost most, of a person who contributes up to so many times, with
        `apart` rounds or more from each to the next.

        |H 1_S|^2 is the sum of <column i, column j> over i, j of S. Where entries depend on t - s
        alone and never rise with it, that product falls with |i - j| and with the later of both, so
        0, apart, 2 apart, ... has the largest of every pair. Any other H is searched; ValueError
        where that would take too long.
        """
        if times < 1 or apart < 1:
            raise ValueError(f"{times} contributions {apart} rounds apart: each must be 1 or more")
        most = min(times, 1 + (self.rounds - 1) // apart)
        if self._depends_on_distance:
            return tuple(range(0, most * apart, apart))
        free = self.rounds - (most - 1) * (apart - 1)  # rounds once the gaps are cut out
        if math.comb(free, most) > _MOST_PATTERNS:
            raise ValueError(
                f"{most} of {self.rounds} rounds: more than {_MOST_PATTERNS:,} patterns to search; "
                "contribute less often, or take columns that are not stretched"
            )
        patterns = (
            tuple(s + number * (apart - 1) for number, s in enumerate(chosen))
            for chosen in combinations(range(free), most)
        )
        return max(patterns, key=self.square)

    @property
    def _depends_on_distance(self) -> bool:
        last = self.rows[-1][::-1]
        falls = all(late <= early for early, late in pairwise(last))
        return falls and all(row[::-1] == last[: len(row)] for row in self.rows)

    def gain(self, after: int) -> float:
        """Return |(A H^-1)_t|^2 after round t: the variance of a running sum in units of V."""
        return float(np.square(self.weights(after)).sum())

    def weights(self, after: int) -> NDArray[np.float64]:
        """Return (A H^-1)_t (t + 1,), by which the released rows add up to the running sum."""
        found = np.zeros(after + 1)
        left = np.ones(after + 1)
        for t in range(after, -1, -1):
            found[t] = left[t] / self.rows[t][t]
            left[: t + 1] -= found[t] * np.array(self.rows[t], np.float64)
        return found

    def growth(self, after: int) -> float:
        """Return the factor of the noise after round t, for one contribution of a person."""
        return math.sqrt(self.gain(after) * self.square(self.worst()))


def _root(square: Fraction) -> int:
    """Return the integer nearest to the square root."""
    return (math.isqrt(int(4 * square)) + 1) // 2

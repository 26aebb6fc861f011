"""What a proof is about: a vector, bits that bound it, masks, and their places in one sum.

    x       (size,)        the vector, |x| at most `bound`
    y       (ROWS,)        R x, entries of R: -1, 1 with probability 1/4 each, else 0
    digits  (ROWS, DIGITS) bits of y + REACH; if all are bits, |y| is at most REACH
    spare   (SPARE,)       bits of bound^2 - sum x^2; if all are bits, it is not negative
    masks   (4,)           uniform

Of any x with an entry of 2 REACH or more modulo p, a row of R finds |y| above REACH with
probability 1/2 at least: given the other terms, y takes three values c - x, c, c + x, and neither
c and c + x nor c and c - x are both that near to 0. So R passes with probability 2^-ROWS at most;
otherwise every |x| is below 2 REACH, and the sum of squares is below p: it is that of the integers.
An honest y is above REACH with probability 2 exp(-(REACH / bound)^2) at most (its moment generating
function is below that of a normal variable of variance |x|^2 / 2), 2^-84 over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.verified.field import P

ROWS = 128
DIGITS = 15
REACH = 1 << (DIGITS - 1)
MAX_BOUND = REACH // 8
SPARE = (MAX_BOUND**2).bit_length()
MASKS = 4
BITS = ROWS * DIGITS + SPARE
AUX = BITS + MASKS  # elements beside the vector
MAX_SIZE = 48_000

assert MAX_SIZE * (2 * REACH) ** 2 < P


@dataclass(frozen=True)
class Layout:
    """Places of a vector of `size` integers and its bits among 2^rounds of one sum.

    half h: places j and j + h are folded first. Those of masks are 0 and h, 1 and h + 1; the vector
    and then the bits take the others in order.
    """

    size: int

    @cached_property
    def rounds(self) -> int:
        """The number of foldings."""
        return int(self.size + AUX - 1).bit_length()

    @property
    def length(self) -> int:
        """Places in all."""
        return 1 << self.rounds

    @property
    def half(self) -> int:
        """Places of the first fold."""
        return self.length // 2

    @cached_property
    def masks(self) -> NDArray[np.intp]:
        """The places of the masks, (4,)."""
        return np.array([0, self.half, 1, self.half + 1])

    @cached_property
    def bits(self) -> NDArray[np.intp]:
        """The places of the bits, (BITS,)."""
        rank = np.arange(self.size, self.size + BITS)
        return np.where(rank < self.half - 2, rank + 2, rank + 4)

    @cached_property
    def own(self) -> NDArray[np.intp]:
        """The places of bits and masks after the first fold, rising, each once."""
        return np.unique(np.concatenate((self.bits, self.masks)) % self.half)

    def placed(self, vector: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return all places (length,) with the vector (size,), and zeros elsewhere."""
        found = np.zeros(self.length, np.uint64)
        first = min(self.size, self.half - 2)
        found[2 : 2 + first] = vector[:first]
        found[self.half + 2 : self.half + 2 + self.size - first] = vector[first:]
        return found


@lru_cache(maxsize=16)
def layout_of(size: int) -> Layout:
    """Return the places of a vector of this size, which are the same for every device."""
    return Layout(size)

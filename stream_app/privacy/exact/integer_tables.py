"""Channels as integer tables: a device samples from exactly the counts that are certified.

A channel over finitely many outputs becomes, for each input v, integer counts

    c[v][z] >= 1,   sum_z c[v][z] = 2^64,   P(z | v) = c[v][z] / 2^64

so one uniform 64-bit word draws one report without any floating-point arithmetic (Mironov 2012
shows the leak of floating-point noise), and the privacy loss is a quotient of two integers.
Rounding favours privacy: a mechanism compiles at epsilon * (1 - 2^-40); a count near the largest of
its output is rounded down and one near the smallest up, so that rounding brings inputs closer; the
largest count of an input takes the remainder. `certificates.certify` then proves, with
`fractions.Fraction` and no logarithm,

    c[v][z] / c[v'][z]  <=  a rational lower bound of e^epsilon      for all v, v', z

or raises ValueError. Sampling is a branchless bisection over the ends of the input's intervals,

    report = the first z with   u < c[v][0] + .. + c[v][z]

in the same ceil(log2 Z) steps for every input and every word, so the running time depends on
neither. Shapes: counts (inputs, outputs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.randomness import RandomSource

TOTAL = 2**64
MARGIN = 1 - Fraction(1, 2**40)
_BITS = 256
_BLOCK = 8192  # reports drawn at a time, so that the buffers stay in the cache


def exp_bounds(x: Fraction, bits: int = _BITS) -> tuple[Fraction, Fraction]:
    """Return rationals `low <= e^x <= high`, x >= 0, by Taylor series in directed fixed point of
    `bits` binary digits."""
    if x < 0:
        raise ValueError(f"exponent {x}: must be >= 0")
    halvings = math.ceil(x).bit_length()
    y, one = x / 2**halvings, 1 << bits
    low = high = 0
    term_low, term_high, n = one, one, 0
    while term_high > 1:
        low, high, n = low + term_low, high + term_high, n + 1
        term_low = term_low * y.numerator // (y.denominator * n)
        term_high = -(-term_high * y.numerator // (y.denominator * n))
    high += 2 * term_high  # y <= 1, so the omitted terms are below a geometric series of ratio 1/2
    for _ in range(halvings):
        low, high = low * low >> bits, -(-(high * high) >> bits)
    return Fraction(low, one), Fraction(high, one)


def compiled_ratio(epsilon: Fraction) -> Fraction:
    """Return the ratio that channels use for e^epsilon: a lower bound at epsilon * (1 - 2^-40)."""
    return exp_bounds(epsilon * MARGIN)[0]


@dataclass(frozen=True, eq=False)
class Table:
    """A compiled channel: counts[v][z] of 2^64 words lead from input v to output z."""

    counts: tuple[tuple[int, ...], ...]
    _ends: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        outputs = len(self.counts[0])
        if not 2 <= outputs <= 256 or any(len(row) != outputs for row in self.counts):
            raise ValueError(f"table of {outputs} outputs: every input needs the same 2 to 256")
        if any(min(row) < 1 or sum(row) != TOTAL for row in self.counts):
            raise ValueError("table: the counts of an input are at least 1 and sum to 2^64")
        # Interval z of input v ends with word ends[v, z]; the padding of a row is never reached.
        padded = 1 << (outputs - 1).bit_length()
        ends = np.full((len(self.counts), padded), TOTAL - 1, np.uint64)
        for v, row in enumerate(self.counts):
            ends[v, :outputs] = [end - 1 for end in accumulate(row)]
        ends.flags.writeable = False
        object.__setattr__(self, "_ends", ends)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.counts)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.counts[0])

    def sample(self, inputs: NDArray[np.uint8], words: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return one output per input (n,) and word (n,), by bisection (module docstring)."""
        reports = np.empty(len(inputs), np.uint8)
        for start in range(0, len(inputs), _BLOCK):
            block = slice(start, start + _BLOCK)
            reports[block] = self._search(inputs[block], words[block])
        return reports

    def draw(self, inputs: NDArray[np.uint8], source: RandomSource) -> NDArray[np.uint8]:
        """Return one output per input (n,); the i-th input takes the i-th next word of `source`."""
        reports = np.empty(len(inputs), np.uint8)
        for start in range(0, len(inputs), _BLOCK):
            block = inputs[start : start + _BLOCK]
            reports[start : start + _BLOCK] = self._search(block, source.words(len(block)))
        return reports

    def _search(self, inputs: NDArray[np.uint8], u: NDArray[np.uint64]) -> NDArray[np.int64]:
        padded, ends = self._ends.shape[1], self._ends.reshape(-1)
        place, step = inputs.astype(np.int64) * padded, padded // 2
        while step:
            place += (u > ends.take(place + (step - 1))) * np.int64(step)
            step //= 2
        return np.asarray(place & (padded - 1), np.int64)

    def probabilities(self) -> NDArray[np.float64]:
        """Return P(z | v) as (outputs, inputs), each entry the nearest float64 of count / 2^64."""
        return np.array([[c / TOTAL for c in row] for row in self.counts]).T

    def log_probabilities(self) -> NDArray[np.float64]:
        """Return ln P(z | v) as (outputs, inputs), from the integers; also accurate near 0."""
        return np.array([[_log_share(c) for c in row] for row in self.counts]).T


def _log_share(count: int) -> float:
    if count > TOTAL // 2:
        return math.log1p(-((TOTAL - count) / TOTAL))
    return math.log(count / TOTAL)


def compile_table(weights: Sequence[Sequence[Fraction | int]]) -> Table:
    """Return the table of P(z | v) = weights[v][z] / sum_z weights[v][z], all weights > 0."""
    rows = [_integers(row) for row in weights]
    floors = [_floors(row) for row in rows]
    middles = [min(at) + max(at) for at in zip(*floors, strict=True)]  # of each output, twice
    return Table(tuple(_apportion(*row, middles) for row in zip(rows, floors, strict=True)))


def _apportion(row: list[int], floors: list[int], middles: list[int]) -> tuple[int, ...]:
    """Return counts that sum to 2^64: shares above their output's middle round down, others up."""
    whole = sum(row)
    counts = [
        floor + (2 * floor <= middle and floor * whole < part * TOTAL)
        for part, floor, middle in zip(row, floors, middles, strict=True)
    ]
    counts[row.index(max(row))] += TOTAL - sum(counts)
    return tuple(counts)


def _floors(row: list[int]) -> list[int]:
    whole = sum(row)
    return [part * TOTAL // whole for part in row]


def _integers(row: Sequence[Fraction | int]) -> list[int]:
    """Return positive weights as integers in the same proportion."""
    if not row or min(row) <= 0:
        raise ValueError("channel: every output needs a weight above 0 for every input")
    common = math.lcm(*(w.denominator for w in row))
    return [w.numerator * (common // w.denominator) for w in row]

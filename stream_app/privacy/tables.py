"""Channels as integers: what a device samples from is exactly what is certified.

A channel over finitely many outputs becomes, for each input v, integer counts

    c[v][z] >= 1,   sum_z c[v][z] = 2^64,   P(z | v) = c[v][z] / 2^64

so one uniform 64-bit word draws one report without any floating-point arithmetic (Mironov 2012
shows what floating-point noise gives away), and the privacy loss is a quotient of two integers.
Rounding favours privacy: a mechanism compiles at epsilon * (1 - 2^-40), every count but the largest
of an input is rounded up, and the largest takes what is left. `certificates.certify` then proves,
with `fractions.Fraction` and no logarithm,

    c[v][z] / c[v'][z]  <=  a rational lower bound of e^epsilon      for all v, v', z

or refuses. Shapes: counts (inputs, outputs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

TOTAL = 2**64
MARGIN = 1 - Fraction(1, 2**40)
_BITS = 256
_BLOCK = 8192  # reports drawn at a time, so that the work space stays in the cache


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return rationals `low <= e^x <= high`, x >= 0, by Taylor series in directed fixed point."""
    if x < 0:
        raise ValueError(f"exponent {x}: must be >= 0")
    halvings = math.ceil(x).bit_length()
    y, one = x / 2**halvings, 1 << _BITS
    low = high = 0
    term_low, term_high, n = one, one, 0
    while term_high > 1:
        low, high, n = low + term_low, high + term_high, n + 1
        term_low = term_low * y.numerator // (y.denominator * n)
        term_high = -(-term_high * y.numerator // (y.denominator * n))
    high += 2 * term_high  # y <= 1, so the terms left out are below a geometric series of ratio 1/2
    for _ in range(halvings):
        low, high = low * low >> _BITS, -(-(high * high) >> _BITS)
    return Fraction(low, one), Fraction(high, one)


def compiled_ratio(epsilon: Fraction) -> Fraction:
    """Return what stands for e^epsilon in a channel: a lower bound at epsilon * (1 - 2^-40)."""
    return exp_bounds(epsilon * MARGIN)[0]


@dataclass(frozen=True, eq=False)
class Table:
    """A compiled channel: counts[v][z] of 2^64 words lead from input v to output z."""

    counts: tuple[tuple[int, ...], ...]
    _ends: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        outputs = len(self.counts[0])
        if not 2 <= outputs <= 256 or any(len(row) != outputs for row in self.counts):
            raise ValueError(f"table of {outputs} outputs: every input has the same 2 to 256")
        if any(min(row) < 1 or sum(row) != TOTAL for row in self.counts):
            raise ValueError("table: the counts of an input are at least 1 and sum to 2^64")
        padded = 1 << (outputs - 1).bit_length()
        ends = np.full((len(self.counts), padded), TOTAL - 1, np.uint64)
        for v, row in enumerate(self.counts):
            end = -1
            for z, count in enumerate(row):
                end += count
                ends[v, z] = end
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
        """Return one output per input (n,) and word (n,), by a bisection without branches.

        Every report costs the same ceil(log2 outputs) probes whatever the input and the word are,
        so its running time says nothing about either.
        """
        reports = np.empty(len(inputs), np.uint8)
        padded, ends = self._ends.shape[1], self._ends.reshape(-1)
        for start in range(0, len(inputs), _BLOCK):
            u = words[start : start + _BLOCK]
            place = inputs[start : start + _BLOCK].astype(np.int64) * padded
            step = padded // 2
            while step:
                place += (u > ends.take(place + (step - 1))) * np.int64(step)
                step //= 2
            reports[start : start + _BLOCK] = place & (padded - 1)
        return reports

    def probabilities(self) -> NDArray[np.float64]:
        """Return P(z | v) as (outputs, inputs), each entry the nearest float64 of count / 2^64."""
        return np.array([[c / TOTAL for c in row] for row in self.counts]).T

    def log_probabilities(self) -> NDArray[np.float64]:
        """Return ln P(z | v) as (outputs, inputs), from the integers, accurate also next to 0."""
        return np.array([[_log_share(c) for c in row] for row in self.counts]).T


def _log_share(count: int) -> float:
    if count > TOTAL // 2:
        return math.log1p(-((TOTAL - count) / TOTAL))
    return math.log(count / TOTAL)


def compile_table(weights: Sequence[Sequence[Fraction | int]]) -> Table:
    """Return the table of P(z | v) = weights[v][z] / sum_z weights[v][z], all weights > 0."""
    return Table(tuple(_apportion(row) for row in weights))


def _apportion(row: Sequence[Fraction | int]) -> tuple[int, ...]:
    if not row or min(row) <= 0:
        raise ValueError("channel: every output needs a weight above 0 for every input")
    common = math.lcm(*(w.denominator for w in row))
    parts = [w.numerator * (common // w.denominator) for w in row]
    whole = sum(parts)
    counts = [-(-part * TOTAL // whole) for part in parts]
    largest = parts.index(max(parts))
    counts[largest] += TOTAL - sum(counts)
    return tuple(counts)

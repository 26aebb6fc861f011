"""Unbiased functions of a report, solved exactly from the integer counts of its channel.

    sum_z c[v][z] * g(z) = 2^64 * t[v]      for every input v                              (1)

A square invertible channel has one solution. With more outputs than inputs there are many; the
chosen one minimises sum_z w[z] g(z)^2 for w[z] = sum_v c[v][z], that is, the variance averaged over
the inputs (with 1/w rounded to an integer). In terms of multipliers x, one for each input,

    g(z) = sum_v c[v][z] x[v] / w[z],    sum_v' M[v][v'] x[v'] = 2^64 t[v],
    M[v][v'] = sum_z c[v][z] c[v'][z] / w[z]

Systems are solved by Bareiss elimination (1968): integers only, no rounding, so every machine
computes the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.integer_tables import TOTAL

Counts = Sequence[Sequence[int]]


def unbiased(counts: Counts, targets: Sequence[Fraction]) -> list[Fraction] | None:
    """Return the exact g(z) of (1); None if (1) is singular or has fewer outputs than inputs."""
    inputs, outputs = len(counts), len(counts[0])
    if outputs < inputs:
        return None
    goal = [TOTAL * t for t in targets]
    if outputs == inputs:
        return solve(counts, goal)
    inverse = [2**80 // sum(at) for at in zip(*counts, strict=True)]
    weighed = [[c * w for c, w in zip(row, inverse, strict=True)] for row in counts]
    square = [[sum(a * b for a, b in zip(v, w, strict=True)) for w in counts] for v in weighed]
    x = solve(square, goal)
    if x is None:
        return None
    return [sum((weighed[v][z] * x[v] for v in range(inputs)), Fraction(0)) for z in range(outputs)]


def solve(matrix: Counts, goal: Sequence[Fraction]) -> list[Fraction] | None:
    """Return x with matrix x = goal, exactly (Bareiss 1968); None if the matrix is singular."""
    common = math.lcm(*(g.denominator for g in goal))
    rows = [[*row, int(g * common)] for row, g in zip(matrix, goal, strict=True)]
    size, before = len(rows), 1
    for k in range(size):
        pivot = next((i for i in range(k, size) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        head = rows[k]
        for i in range(k + 1, size):
            row, first = rows[i], rows[i][k]
            for j in range(k + 1, size + 1):
                row[j] = (row[j] * head[k] - first * head[j]) // before
            row[k] = 0
        before = head[k]
    found = [Fraction(0)] * size
    for k in reversed(range(size)):
        rest = sum((rows[k][j] * found[j] for j in range(k + 1, size)), Fraction(0))
        found[k] = (rows[k][size] - rest) / rows[k][k]
    return [x / common for x in found]


def spread(counts: Counts, estimate: Sequence[Fraction] | None) -> NDArray[np.float64]:
    """Return Var[estimate(z) | v], shape (inputs,), from exact sums; NaN without an estimate."""
    if estimate is None:
        return np.full(len(counts), np.nan)
    common = math.lcm(*(g.denominator for g in estimate))
    values = [int(g * common) for g in estimate]
    found = []
    for row in counts:
        mean = sum(c * g for c, g in zip(row, values, strict=True))
        second = sum(c * g * g for c, g in zip(row, values, strict=True))
        found.append(float(Fraction(second * TOTAL - mean * mean, (TOTAL * common) ** 2)))
    return np.array(found)

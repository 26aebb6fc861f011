"""*Stars*: the item side from noisy sums, stage by stage.

    s   noise of one coordinate in units of the norm; S, C, G, M the noisy sums
    bias     c = C / a, both passes by inverse variance
             first  b = f + (S - c f) / (c + 6 s);  f = 0, or a regression on the features
             second b += (S - 10 s (b - f)) / (c + 20 s);  f = -.2, or the regression
    head     leading d eigenvectors v of M, its diagonal imputed from them, four times;
             q_i = 12 v sqrt(lambda) / (c_i + 15)
    moment   W = (M 4 d / people)^-1/2
    refine   b += 1.2 G_0 / (c omega + 7 s),  q V += .6 sqrt d G_k / (c omega + 7 s)

Constants, like those of `stars/contributions.py` and `stars/fold_in.py`, are public and fixed by
version 1 of a plan: with others a replay would compute another state, and devices would send what
workers do not expect. They were chosen on validation splits of ML-1M at epsilon 2. Bias and factors
are Newton steps whose curvature is known up to the noise: what is rarely rated moves little.

Symmetric matrices go through the kernels, in one order of operations.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.contribution_vectors import symmetric_matrix
from stream_app.campaigns.stars.contributions import MOMENT_REACH, PRESENCE
from stream_app.campaigns.stars.side import StarsSide
from stream_app.kernels import linear_algebra
from stream_app.kernels.linear_algebra import symmetric_eigen, weighted_gram

Floats = NDArray[np.float64]

FIRST_SHRINK, SECOND_SHRINK, REFINE_SHRINK = 6.0, 20.0, 7.0
UNKNOWN_BIAS = -0.2
IMPUTED = 4
HEAD_SCALE, HEAD_SHRINK = 12.0, 15.0
BIAS_STEP, FACTOR_STEP = 1.2, 0.6
LEAST_MOMENT = 0.02
BIAS_VARIANCE, FEATURE_RIDGE = 0.3, 10.0


class NoisyStage(NamedTuple):
    """A noisy sum in grid units, the bound, the variance of all its noise, and how many
    contributed."""

    integers: NDArray[np.int64]
    bound: int
    variance: int
    people: int

    @property
    def values(self) -> Floats:
        """The sum in units of the norm."""
        return self.integers / float(self.bound)

    @property
    def noise(self) -> float:
        """Standard deviation of a coordinate in units of the norm."""
        return math.sqrt(self.variance) / self.bound


def learn(kind: str, side: StarsSide, found: NoisyStage, head_items: int) -> StarsSide:
    """Return the side after one stage of a kind of `stars.contributions.KINDS`, of numbers as its
    bytes hold them. Raises ArithmeticError where the sum gives none."""
    if kind == "bias":
        after = bias(side, found, head_items)
    else:
        after = {"head": head, "moment": moment, "refine": refine}[kind](side, found)
    after = replace(after, stages=side.stages + 1).rounded()
    try:
        after.check()
    except ValueError as error:
        raise ArithmeticError(str(error)) from None
    return after


def bias(side: StarsSide, found: NoisyStage, head_items: int) -> StarsSide:
    """Return the side after a bias stage; `head_items` items of largest count become the head."""
    n, s = len(side.biases), found.noise
    first = side.precision == 0.0
    sums, precision = found.values[:n], (PRESENCE / s) * (PRESENCE / s)
    counts = found.values[n:] / PRESENCE
    total = side.precision + precision
    counts = (side.counts * side.precision + counts * precision) / total
    side = replace(side, counts=counts, precision=total)
    c = side.weights
    prior = _prior(side, sums, s, 0.0 if first else UNKNOWN_BIAS)
    if first:
        biases = prior + (sums - c * prior) / (c + FIRST_SHRINK * s)
    else:
        pull = 0.5 * SECOND_SHRINK * s * (side.biases - prior)
        biases = side.biases + (sums - pull) / (c + SECOND_SHRINK * s)
    chosen = np.sort(np.argsort(-c, kind="stable")[:head_items])
    return replace(side, biases=biases, head=chosen)


def _prior(side: StarsSide, sums: Floats, s: float, otherwise: float) -> Floats:
    """Return what an item's bias is expected to be before its own ratings (n,)."""
    n, m = side.features.shape
    if not m:
        return np.full(n, otherwise)
    c = side.weights
    weights = c * c / (c * BIAS_VARIANCE + s * s)
    rows = np.hstack([np.ones((n, 1)), side.features])
    target = (side.biases + sums / c)[:, None]
    gram, right = np.zeros((m + 1, m + 1)), np.zeros((m + 1, 1))
    weighted_gram(rows, weights, rows, gram)
    weighted_gram(rows, weights, target, right)
    gram[np.diag_indices(m + 1)] += FEATURE_RIDGE * gram[0, 0] / n
    return product(rows, inverse_applied(gram, right))[:, 0]


def head(side: StarsSide, found: NoisyStage) -> StarsSide:
    """Return the side with first factors of the head items."""
    h, factors = len(side.head), side.vectors.shape[1]
    matrix = np.zeros((h, h))
    matrix[np.triu_indices(h, 1)] = found.values
    matrix += matrix.T
    for _ in range(IMPUTED):
        values, rows = decomposition(matrix)
        diagonal = np.zeros(h)
        for k in range(min(factors, h)):
            diagonal += values[k] * rows[k] * rows[k]
        matrix[np.diag_indices(h)] = diagonal
    values, rows = decomposition(matrix)
    c = side.weights[side.head]
    vectors = np.zeros_like(side.vectors)
    for k in range(min(factors, h)):
        scale = HEAD_SCALE * math.sqrt(max(float(values[k]), 0.0))
        vectors[side.head, k] = scale * rows[k] / (c + HEAD_SHRINK)
    return replace(side, vectors=vectors)


def moment(side: StarsSide, found: NoisyStage) -> StarsSide:
    """Return the side with the whitening of tastes."""
    factors = side.vectors.shape[1]
    matrix = symmetric_matrix(found.values) * (MOMENT_REACH * factors / max(found.people, 1))
    values, rows = decomposition(matrix)
    roots = np.sqrt(np.maximum(values, LEAST_MOMENT))
    whitening = product(np.ascontiguousarray(rows.T) / roots, rows)
    spread = product(np.ascontiguousarray(rows.T) * roots, rows)
    return replace(side, whitening=whitening, spread=spread)


def refine(side: StarsSide, found: NoisyStage) -> StarsSide:
    """Return the side with biases and factors moved towards the residuals."""
    n, factors = side.vectors.shape
    steps = found.values.reshape(1 + factors, n) / (
        side.weights * side.omegas + REFINE_SHRINK * found.noise
    )
    moved = (FACTOR_STEP * math.sqrt(factors)) * np.ascontiguousarray(steps[1:].T)
    unit = np.eye(factors)
    return replace(
        side,
        biases=side.biases + BIAS_STEP * steps[0],
        vectors=product(side.vectors, side.spread) + moved,
        whitening=unit,
        spread=unit,
    )


def decomposition(matrix: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues (n,), the largest first, and their vectors as rows (n, n)."""
    values, rows = np.zeros(len(matrix)), np.zeros_like(matrix)
    if not symmetric_eigen(matrix.copy(), values, rows):
        raise ArithmeticError(f"eigenvalues of a {len(matrix)} x {len(matrix)} matrix diverge")
    return values, rows


def product(left: Floats, right: Floats) -> Floats:
    """Return left @ right, rows added in their order."""
    out = np.zeros((len(left), right.shape[1]))
    linear_algebra.product(left, right, out)
    return out


def inverse_applied(matrix: Floats, right: Floats) -> Floats:
    """Return matrix^-1 right of a positive definite matrix."""
    values, rows = decomposition(matrix)
    turned = product(rows, right) / values[:, None]
    return product(np.ascontiguousarray(rows.T), turned)

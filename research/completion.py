"""Recovery of a low-rank matrix from some of its cells, by singular-value thresholding.

    minimise |M|_*   subject to   |P(M - Z)|_F <= rho                     (Zheng 2016, eq. 4)

P keeps the observed cells, |.|_* is the sum of the singular values. The Lagrangian form

    minimise |P(M - Z)|_F^2 / 2 + t |M|_*

has the same solutions: the residual grows with t, so t is halved from the largest singular value
of P(Z), at which M = 0, until the residual is within rho, and then bisected. For each t the
solution is the fixed point of M = shrink_t(P(Z) + M - P(M)), where `shrink_t` lowers every singular
value by t and drops those below 0 (Cai, Candes, Shen 2010; Mazumder, Hastie, Tibshirani 2010); a
warm start from the next larger t makes a few steps enough. Dense: for some hundred rows.

The utility theorem (Zheng 2016, theorem 3): how far sanitized ratings are from the true ones.

With probability at least 1 - gamma the Frobenius norm rho of Theta - Z on the published cells is at
most

    Laplace    rho0 sqrt(s) + (4/eps) sqrt(s/gamma)
               + sqrt(2 m n (1 + 8/eps^2) / ((e^(eps/2) + 1) gamma))                  (6)
    response   rho0 sqrt(s) + 2 (d - 1) sqrt(2 m n d / ((e^eps + d) gamma))           (7)

for m x n cells of which s hold a rating, d stars, and ratings within rho0 of the low-rank matrix in
the root mean square. The recovery is then within C0 p^(-1/2) rho for a share p of published cells
(eq. 5), if the restricted isometry property holds, which ratings of popular items do not have. C0
is an unknown constant. The theorem is sound, and vacuous: its proof is Markov's inequality.

(6) is in units of the paper's scale from -1 to 1, (7) in stars.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_MOST_CELLS = 4_000_000
_HALVINGS, _BISECTIONS = 40, 12


@dataclass(frozen=True, eq=False)
class Recovered:
    """The matrix (m, n) of the smallest nuclear norm, its rank, t, |P(M - Z)|_F, and whether the
    residual is within rho."""

    matrix: Matrix
    rank: int
    threshold: float
    residual: float
    within: bool


class _Steps(NamedTuple):
    most: int
    tolerance: float


def recover(
    observed: Matrix,
    mask: NDArray[np.bool_],
    rho: float,
    *,
    steps: int = 200,
    tolerance: float = 1e-5,
    progress: Callable[[int, int], None] | None = None,
) -> Recovered:
    """Return the solution of eq. 4 for Z = `observed` (m, n) on the cells of `mask` (m, n).

    What `observed` holds outside the mask is never read. `steps`, `tolerance`: when the fixed point
    of one t counts as reached, by the relative change of M. Raises ValueError for shapes that
    differ, no observed cell, values that are not finite, a negative rho, or more than 4e6 cells.
    """
    _check(observed, mask, rho)
    limits = _Steps(steps, tolerance)
    cells = np.where(mask, observed, 0.0)
    norm = float(np.linalg.norm(cells))
    high = float(np.linalg.svd(cells, compute_uv=False)[0])
    best = Recovered(np.zeros_like(cells), 0, high, norm, norm <= rho)
    if best.within:
        return best
    low, found = high, best
    for done in range(_HALVINGS):
        low /= 2
        found = _solve(cells, mask, low, found.matrix, rho, limits)
        if progress is not None:
            progress(done + 1, _HALVINGS + _BISECTIONS)
        if found.within or low < 1e-9 * best.threshold:
            break
    if not found.within:
        return found
    high = 2 * low
    for done in range(_BISECTIONS):
        middle = (low + high) / 2
        tried = _solve(cells, mask, middle, found.matrix, rho, limits)
        if tried.within:
            found, low = tried, middle
        else:
            high = middle
        if progress is not None:
            progress(_HALVINGS + done + 1, _HALVINGS + _BISECTIONS)
    return found


def shrink(matrix: Matrix, threshold: float) -> tuple[Matrix, int]:
    """Return the matrix with every singular value lowered by `threshold`, at least to 0, and the
    rank that is left."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    rank = int((values > threshold).sum())
    kept = values[:rank] - threshold
    return (left[:, :rank] * kept) @ right[:rank], rank


def _solve(
    cells: Matrix,
    mask: NDArray[np.bool_],
    threshold: float,
    start: Matrix,
    rho: float,
    limits: _Steps,
) -> Recovered:
    matrix, rank = start, 0
    for _ in range(limits.most):
        before = matrix
        matrix, rank = shrink(np.where(mask, cells, before), threshold)
        change = np.linalg.norm(matrix - before)
        if change <= limits.tolerance * max(1.0, float(np.linalg.norm(before))):
            break
    residual = float(np.linalg.norm(np.where(mask, matrix - cells, 0.0)))
    return Recovered(matrix, rank, threshold, residual, residual <= rho)


def _check(observed: Matrix, mask: NDArray[np.bool_], rho: float) -> None:
    if observed.ndim != 2 or observed.shape != mask.shape:
        raise ValueError(f"observed {observed.shape}, mask {mask.shape}: two matrices of one shape")
    if observed.size > _MOST_CELLS:
        raise ValueError(f"{observed.size} cells: the solver is dense, for at most {_MOST_CELLS}")
    if not mask.any():
        raise ValueError("no cell is observed: give at least one")
    if not np.isfinite(observed[mask]).all():
        raise ValueError("an observed cell is not a finite number")
    if not 0 <= rho < np.inf:
        raise ValueError(f"rho {rho}: a distance of 0 or more, and finite")


def laplace_bound(
    epsilon: float, cells: int, rated: int, *, gamma: float = 0.1, rho0: float = 0.0
) -> float:
    """Return the bound (6) for `rated` of `cells` cells; raises ValueError for impossible
    values."""
    _check_bound(epsilon, cells, rated, gamma, rho0)
    fakes = 2 * cells / ((math.exp(epsilon / 2) + 1) * gamma) * (1 + 8 / epsilon**2)
    return rho0 * math.sqrt(rated) + 4 / epsilon * math.sqrt(rated / gamma) + math.sqrt(fakes)


def response_bound(
    epsilon: float,
    cells: int,
    rated: int,
    *,
    stars: int = 5,
    gamma: float = 0.1,
    rho0: float = 0.0,
) -> float:
    """Return the bound (7) for `rated` of `cells` cells; raises ValueError for impossible
    values."""
    _check_bound(epsilon, cells, rated, gamma, rho0)
    if stars < 2:
        raise ValueError(f"stars {stars}: a scale has 2 or more")
    wrong = 2 * cells * stars / ((math.exp(epsilon) + stars) * gamma)
    return rho0 * math.sqrt(rated) + 2 * (stars - 1) * math.sqrt(wrong)


def rmse_bound(rho: float, cells: int, published: float) -> float:
    """Return the bound on the RMSE over all cells, divided by C0 (eq. 5).

    published: the share p of cells of Z that are not missing, above 0 and at most 1.
    """
    if not 0 < published <= 1:
        raise ValueError(f"published {published}: a share of cells above 0 and at most 1")
    return rho / math.sqrt(published * cells)


def _check_bound(epsilon: float, cells: int, rated: int, gamma: float, rho0: float) -> None:
    if not 0 < epsilon < 700:
        raise ValueError(f"epsilon {epsilon}: the bound is for epsilons above 0 and below 700")
    if not 0 <= rated <= cells or cells < 1:
        raise ValueError(f"{rated} of {cells} cells: 0 to all cells of at least one are rated")
    if not 0 < gamma < 1:
        raise ValueError(f"gamma {gamma}: a probability above 0 and below 1")
    if not 0 <= rho0 < math.inf:
        raise ValueError(f"rho0 {rho0}: 0 or more, and finite")

"""The utility theorem (Zheng 2016, theorem 3): how far sanitized ratings are from the true ones.

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


def laplace_bound(
    epsilon: float, cells: int, rated: int, *, gamma: float = 0.1, rho0: float = 0.0
) -> float:
    """Return the bound (6) for `rated` of `cells` cells; raises ValueError for impossible
    values."""
    _check(epsilon, cells, rated, gamma, rho0)
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
    _check(epsilon, cells, rated, gamma, rho0)
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


def _check(epsilon: float, cells: int, rated: int, gamma: float, rho0: float) -> None:
    if not 0 < epsilon < 700:
        raise ValueError(f"epsilon {epsilon}: the bound is for epsilons above 0 and below 700")
    if not 0 <= rated <= cells or cells < 1:
        raise ValueError(f"{rated} of {cells} cells: 0 to all cells of at least one are rated")
    if not 0 < gamma < 1:
        raise ValueError(f"gamma {gamma}: a probability above 0 and below 1")
    if not 0 <= rho0 < math.inf:
        raise ValueError(f"rho0 {rho0}: 0 or more, and finite")

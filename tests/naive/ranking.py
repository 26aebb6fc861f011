"""Item-side arithmetic, the obvious way: loops over devices and items, one scalar at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

Table = list[list[float]]


def debiased_moments(reports: Any, positive: float, false: float) -> Table:
    """Sum over devices of the product of the debiased reports on two different items; on the
    diagonal the sum of the debiased reports."""
    users, items = len(reports), len(reports[0])
    found = [[0.0] * items for _ in range(items)]
    for user in range(users):
        y = [(z - false) / (positive - false) for z in reports[user]]
        for i in range(items):
            for j in range(items):
                found[i][j] += y[i] * y[j] if i != j else y[i]
    for i in range(items):
        found[i][i] = max(found[i][i], 0.0)
    return found


def ease(G: Any, ridge: float) -> Any:
    """Ridge regression of each item on all others, one item at a time (Steck 2019, section 3)."""
    n = len(G)
    B = np.zeros((n, n))
    for target in range(n):
        others = [i for i in range(n) if i != target]
        A = np.array([[G[i][j] + ridge * (i == j) for j in others] for i in others], float)
        b = np.array([G[i][target] for i in others], float)
        B[others, target] = np.linalg.solve(A, b)
    return B


def posterior_mean(W: Any, D: Any, m: Any, x: Any) -> Any:
    """Minimise |z|^2 + sum_i (x_i - m_i - W_i z)^2 / D_i as one least-squares problem."""
    W, D, m, x = (np.asarray(array, float) for array in (W, D, m, x))
    rows = np.vstack([W / np.sqrt(D)[:, None], np.eye(W.shape[1])])
    right = np.concatenate([(x - m) / np.sqrt(D), np.zeros(W.shape[1])])
    return np.linalg.lstsq(rows, right, rcond=None)[0]


def history_sums(table: Any, slots: list[int], x: list[float]) -> list[float]:
    found = [0.0] * len(table)
    for slot, weight in zip(slots, x, strict=True):
        for target in range(len(table)):
            found[target] += weight * table[slot][target]
    return found


def following(counted: Any, reports: Any, users: float) -> Table:
    n = len(counted)
    found = [[0.0] * n for _ in range(n)]
    for earlier in range(n):
        for later in range(n):
            if later != earlier:
                mass = (reports[earlier] + 20) * ((reports[later] + 20) / users) ** 0.3
                found[earlier][later] = counted[later][earlier] / mass
    return found

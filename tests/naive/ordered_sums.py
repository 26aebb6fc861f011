"""Products of matrices by the definition, in Python's own floats."""

from __future__ import annotations

import numpy as np


def weighted_gram(left: np.ndarray, weights: np.ndarray, right: np.ndarray) -> np.ndarray:
    out = np.zeros((left.shape[1], right.shape[1]))
    for a in range(left.shape[1]):
        for b in range(right.shape[1]):
            total = 0.0
            for i in range(len(left)):
                total += float(weights[i]) * float(left[i, a]) * float(right[i, b])
            out[a, b] = total
    return out


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    out = np.zeros((len(left), right.shape[1]))
    for i in range(len(left)):
        for b in range(right.shape[1]):
            total = 0.0
            for a in range(left.shape[1]):
                total += float(left[i, a]) * float(right[a, b])
            out[i, b] = total
    return out

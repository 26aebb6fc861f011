"""*Prior*: how a person's likes fall on the items, from public facts and the own likes alone.

    p_j   ~ 1 / (r_j + 50), the public share of item j, r_j its place by popularity, from 0
          (Zipf and Mandelbrot's law)
    f_j   public features of item j, of unit covariance (`features.py`);  f = sum_j p_j f_j
    b     = sum_i x_i (f_i - f) / (sum_i x_i + 20), the taste of a person with likes x
    P_j   ~ p_j exp(f_j . b), the share of the person;  each of p and P adds up to 1

b is the first Newton step, from 0, of the regression of the likes on the features by a softmax with
offset log p and a ridge of 20 likes (Hastie, Tibshirani and Friedman 2009, section 4.4.1). Without
likes, or without features, P = p. The likes stay on the device and features are facts about the
items: beyond what made the order of popularity public, a prior costs no budget.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPREAD = 50.0  # places
RIDGE = 20.0  # likes

Floats = NDArray[np.float64]


def public_shares(popular: Floats) -> Floats:
    """Return p (n,) of items of this popularity (n,); of two as popular the first is before."""
    found = np.empty(len(popular))
    found[np.argsort(-popular, kind="stable")] = 1 / (np.arange(len(popular)) + SPREAD)
    return np.asarray(found / found.sum())


def shares(public: Floats, features: Floats, x: Floats) -> Floats:
    """Return P (n,) of a person with likes x (n,), over features (n, m)."""
    centred = features - public @ features
    log_odds = centred @ (x @ centred / (x.sum() + RIDGE))
    found = public * np.exp(log_odds - log_odds.max())
    return np.asarray(found / found.sum())

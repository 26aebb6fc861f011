"""*Stars*: what a device sends so that ratings can be predicted. Every vector has norm at most 1.

    bias     on rated items  w (x_i, a),  x = residual without own mean, clipped,
             w = 1 / sqrt(sum a^2 + x^2)
    head     strict upper triangle of z z' over the head items, z the residuals, divided by its norm
    moment   p p' / max(|p|^2, 4 d), sent isometrically
    refine   on rated items  w omega_i e_i (1, p W / sqrt d),  e the clipped residuals after own
             fold-in, w = 1 / norm

`recipe.py` has their order and shares of the budget, `learning/stars_learning.py` the other side.
Without ratings a person sends zeros of the same length.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.contribution_vectors import ROOT_2, to_grid
from stream_app.campaigns.plan import Stage
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars.fold_in import MEAN, fold_in
from stream_app.campaigns.stars.shape import Shape
from stream_app.campaigns.stars.side import StarsSide

Floats = NDArray[np.float64]

PRESENCE = 0.7  # a
OWN_MEAN = 2.0
CLIP = 1.2  # stars
TASTE_CLIP = 3.0
MOMENT_REACH = 4.0  # squared, a factor


def contribution(stage: Stage, side: StarsSide, rated: RatedItems) -> NDArray[np.int32]:
    """Return what a device sends in a stage, of integer norm at most its bound, whatever the side.

    Zeros where arithmetic with the side's numbers leaves the floats: to refuse then would show
    something of the ratings. ValueError for another kind of stage, or a size that is not that of
    the side.
    """
    if stage.kind not in KINDS:
        raise ValueError(f"stage {stage.kind}: choose {', '.join(KINDS)}")
    size = Shape(len(side.biases), len(side.head), side.vectors.shape[1]).size(stage.kind)
    if size != stage.size:
        raise ValueError(f"stage {stage.kind}: {size} integers instead of {stage.size}")
    try:
        with np.errstate(all="ignore"):
            vector = KINDS[stage.kind](side, rated)
    except np.linalg.LinAlgError:
        return np.zeros(stage.size, np.int32)
    if not np.isfinite(vector).all():
        return np.zeros(stage.size, np.int32)
    return to_grid(vector, stage.bound)


def bias(side: StarsSide, rated: RatedItems) -> Floats:
    """Return the vector (2 n,): residuals, then presence."""
    n = len(side.biases)
    left = rated.stars - MEAN - side.biases[rated.places]
    residuals = np.clip(left - left.sum() / (len(left) + OWN_MEAN), -CLIP, CLIP)
    vector = np.zeros(2 * n)
    if len(left):
        norm = math.sqrt(float(np.square(residuals).sum()) + len(left) * PRESENCE**2)
        vector[rated.places] = residuals / norm
        vector[n + rated.places] = PRESENCE / norm
    return vector


def head(side: StarsSide, rated: RatedItems) -> Floats:
    """Return the vector (h (h - 1) / 2,); zeros for fewer than two items of the head."""
    residuals = np.clip(fold_in(side, rated).residuals, -CLIP, CLIP)
    z = np.zeros(len(side.biases))
    z[rated.places] = residuals
    z = z[side.head]
    upper = np.outer(z, z)[np.triu_indices(len(z), 1)]
    norm = math.sqrt(float(np.square(upper).sum()))
    return upper / norm if norm > 0 else upper


def moment(side: StarsSide, rated: RatedItems) -> Floats:
    """Return the vector (d (d + 1) / 2,)."""
    taste = fold_in(side, rated).taste
    square = np.outer(taste, taste)
    square /= max(float(np.square(taste).sum()), MOMENT_REACH * len(taste))
    upper = square[np.triu_indices(len(taste), 1)]
    return np.concatenate([np.diag(square), ROOT_2 * upper])


def refine(side: StarsSide, rated: RatedItems) -> Floats:
    """Return the vector (n (1 + d),): residuals, then their product with each factor."""
    n, factors = side.vectors.shape
    person = fold_in(side, rated)
    taste = np.clip(person.taste @ side.whitening, -TASTE_CLIP, TASTE_CLIP)
    along = np.concatenate([[1.0], taste / math.sqrt(factors)])
    errors = np.clip(person.residuals, -CLIP, CLIP) * side.omegas[rated.places]
    vector = np.zeros((1 + factors, n))
    vector[:, rated.places] = along[:, None] * errors
    norm = math.sqrt(float(np.square(errors).sum()) * float(np.square(along).sum()))
    return (vector / norm if norm > 0 else vector).ravel()


KINDS = {"bias": bias, "head": head, "moment": moment, "refine": refine}

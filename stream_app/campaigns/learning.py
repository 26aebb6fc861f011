"""From the noisy sum of a stage to the public item side: directions of taste.

    M = sum of x x' / |x|^2 + noise;  s = noise of an entry off the diagonal
    edge = 2 s sqrt n                                                (Wigner 1958)
    keep eigenvalues l > edge;  strength = sqrt(l^2 - edge^2)
    weight = strength / (strength + ridge),  ridge = .02 trace M

For M = signal + noise the strength is what is left of an eigenvalue l = t + edge^2 / 4t and of the
cosine 1 - edge^2 / 4t^2 of its vector: t (1 - edge^2 / 4t^2) (Benaych-Georges and Nadakuditi 2011,
section 3.1). The trace is the number of people who like anything in the scope, noise apart.

All of it is post-processing of what was released, in one order of operations: it
enters the replicated state, so it has the same bytes on every machine. No BLAS, no LAPACK, no
function whose last bit depends on the processor; kernels and element-wise arithmetic. Which plans
can be learned is what `planning.check_stages` takes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.contribution_vectors import symmetric_matrix, triangle_items
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import check_stages
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.together import TogetherSide
from stream_app.kernels.linear_algebra import symmetric_eigen

RIDGE = 0.02


def can_learn(campaign: Campaign) -> bool:
    """Return whether every stage is of a known kind and has a size of this kind."""
    try:
        check_stages(campaign)
    except ValueError:
        return False
    return True


def learn(campaign: Campaign, index: int, noisy: NDArray[np.int64]) -> PublicSide:
    """Return the public side after stage `index`, from its noisy sum (size,).

    Raises ArithmeticError where nothing can be learned from the sum.
    """
    stage = campaign.stages[index]
    learned = learn_directions(noisy, stage.bound, campaign.parties * stage.variance)
    return PublicSide(campaign.number, campaign.scope, learned)


def learn_directions(noisy: NDArray[np.int64], bound: int, variance: int) -> TogetherSide:
    """Return the item side of a noisy sum (n (n + 1) / 2,) in units of 1 / bound.

    `variance`: of all noise in an entry, in squared grid units; with two parties twice that of one.
    """
    items = triangle_items(len(noisy))
    matrix = symmetric_matrix(noisy / float(bound))
    values, rows = np.zeros(items), np.zeros((items, items))
    if not symmetric_eigen(matrix, values, rows):
        raise ArithmeticError(f"eigenvalues of {items} items did not converge")
    edge = 2 * math.sqrt(variance * items / 2) / bound
    kept = values > edge
    strengths = np.sqrt(values[kept] * values[kept] - edge * edge)
    # In integers: a sum of floats depends on its order.
    people = max(int(noisy[:items].sum()) / bound, 1.0)
    weights = strengths / (strengths + RIDGE * people)
    return TogetherSide(rows[kept].T.astype(np.float32), weights.astype(np.float32))

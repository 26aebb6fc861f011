"""Figures of Zheng 2016: what its two mechanisms publish, what is learned from it, what is bounded.

    F1   cells that a user publishes, real and fake ones, against epsilon (definitions 2 and 3)
    F2   error of what is learned from the published cells of a public scope
    C1   recovery by the nuclear norm (eq. 4) against the bound of theorem 3

The paper prints theorems and no measurement; its claims about utility are in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from research.completion import laplace_bound, recover, response_bound, rmse_bound
from research.papers.figure import (
    NO_CLAIM,
    Figure,
    Progress,
    Published,
    Series,
    StarRatings,
    silent,
)
from stream_app.evaluation.results import EvaluationData, TrueRatings, rms, split
from stream_app.evaluation.scope_errors import (
    ScopeCells,
    ScopeDevices,
    evaluate_scope,
    most_rated_items,
)
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.identity import Identity

PAPER = "Zheng 2016"
STARS = 5
_FAMILIES = {"response": "cell", "Laplace": "laplace", "ternary": "ternary"}
_VOLUME_EPSILONS = (Fraction(1, 2), *map(Fraction, (1, 2, 3, 4, 5, 6, 8, 10)))
ERROR_EPSILONS = tuple(map(Fraction, (1, 2, 3, 4, 6, 8)))
BOUND_EPSILONS = tuple(map(Fraction, (1, 2, 4, 6, 8, 10, 12)))
_GAMMA = 0.1
_SOLVED = 300  # rows and columns of the matrix that the solver recovers, at most


def f1(ratings: StarRatings, *, progress: Progress = silent) -> Figure:
    """Return how many cells a user of mean activity publishes, from the exact channels."""
    levels = _levels(ratings.stars)
    people, catalogue = len(np.unique(ratings.users)), len(np.unique(ratings.items))
    rated, shares = len(levels) / people, np.bincount(levels, minlength=STARS) / len(levels)
    x, real, fake, decay = tuple(map(float, _VOLUME_EPSILONS)), {}, {}, {}
    for step, (name, family) in enumerate(_FAMILIES.items()):
        published = np.array([_published(family, epsilon) for epsilon in _VOLUME_EPSILONS])
        real[name] = rated * published[:, :STARS] @ shares
        fake[name] = (catalogue - rated) * published[:, STARS]
        decay[name] = math.log(published[x.index(4), STARS] / published[x.index(8), STARS])
        progress(step + 1, len(_FAMILIES))
    curves = {f"{name}, real": values for name, values in real.items()}
    curves |= {f"{name}, fake": values for name, values in fake.items()}
    return Figure(
        "F1", PAPER, f"Cells published per user: {rated:.0f} rated of {catalogue:,}",
        "epsilon per cell", "cells per user", log_x=False, log_y=True,
        series=tuple(Series(name, x, tuple(values.tolist())) for name, values in curves.items()),
        published=(
            Published(
                "fake ratings", "fall like e^-eps (response), e^-(eps/2) (Laplace)",
                "by " + ", ".join(f"e^{d:.2f} ({name})" for name, d in decay.items())
                + " from 4 to 8",
                agrees=abs(decay["response"] - 4) < 0.3 and abs(decay["Laplace"] - 2) < 0.3,
            ),
            Published(
                "response against Laplace", NO_CLAIM,
                f"fewer fakes from epsilon {_first(x, fake['response'] < fake['Laplace']):g} on",
                agrees=True,
            ),
            Published(
                "most published cells are real", NO_CLAIM,
                f"from epsilon {_first(x, fake['response'] < real['response']):g} on (response)",
                agrees=True,
            ),
        ),
        notes=(
            "Expected numbers from the exact integer channels; the mechanisms are pure epsilon-DP "
            "per cell (presence and value).",
            "The paper's Laplace adds real-valued noise; here the same densities are sampled as "
            "integers.",
        ),
    )  # fmt: skip


def _published(family: str, epsilon: Fraction) -> NDArray[np.float64]:
    """Return the probability that a cell with each level, or without a rating, is published."""
    mechanism = registry.mechanism(family, STARS, epsilon)
    return np.asarray(1 - mechanism.likelihood()[mechanism.alphabet - 1])


def _first(x: Sequence[float], holds: NDArray[np.bool_]) -> float:
    return x[int(np.argmax(holds))] if holds.any() else math.inf


def f2(
    ratings: StarRatings,
    *,
    scope: int = 300,
    epsilons: Sequence[Fraction] = ERROR_EPSILONS,
    progress: Progress = silent,
    seed: int = 0,
) -> Figure:
    """Return the test RMSE over a public scope of the most rated items, learned from reports."""
    scope = min(scope, len(np.unique(ratings.items)))
    levels = _levels(ratings.stars)
    data = EvaluationData(ratings.users, ratings.items, TrueRatings(ratings.stars, 1.0, 5.0))
    sizes = len(np.unique(ratings.users)) + len(np.unique(ratings.items))
    x, total = tuple(map(float, epsilons)), len(epsilons) * (len(_FAMILIES) + 1)
    done, means, curves = 0, float("nan"), dict[str, list[float]]()
    for name, family in _FAMILIES.items():
        for epsilon in epsilons:
            mechanism = registry.mechanism(family, STARS, epsilon)
            devices = ScopeDevices(levels, mechanism, SeededSource(seed), scope)
            channels = Channels.from_mechanisms([mechanism])
            found = evaluate_scope(
                data, devices, _learner(channels, sizes, seed),
                PresenceRates(channels, 4 << 20, seed), seed=seed,
            )  # fmt: skip
            means = found.rmse_baseline
            curves.setdefault(f"{name}, exact channel", []).append(found.rmse)
            done += 1
            progress(done, total)
    for epsilon in epsilons:
        mechanism = registry.mechanism("cell", STARS, epsilon)
        curves.setdefault("response, read as ratings", []).append(
            _naive_error(data, levels, mechanism, scope, sizes, seed)
        )
        done += 1
        progress(done, total)
    series = [Series(name, x, tuple(values)) for name, values in curves.items()]
    series.append(Series("item means of true ratings", x, (means,) * len(x)))
    response, naive = curves["response, exact channel"], curves["response, read as ratings"]
    better = all(exact <= other + 0.005 for exact, other in zip(response, naive, strict=True))
    return Figure(
        "F2", PAPER, f"Error on held-out ratings, {scope} items, one pass",
        "epsilon per cell", "test RMSE, stars", log_x=False, log_y=False, series=tuple(series),
        published=(
            Published(
                "utility", "sanitized ratings stay useful",
                f"RMSE {response[0]:.3f} at epsilon {x[0]:g}, {response[-1]:.3f} at {x[-1]:g}; "
                f"item means {means:.3f}",
                agrees=response[-1] < means,
            ),
            Published(
                "reports read as ratings", NO_CLAIM,
                "never better than the exact channel" if better else "better at some epsilon",
                agrees=better,
            ),
        ),
        notes=(
            "The paper measures nothing; the protocol is ours: 80 % learned, 10 % tested, a public "
            "scope of the most rated items, every cell of it reported once.",
        ),
    )  # fmt: skip


def c1(
    ratings: StarRatings,
    *,
    epsilons: Sequence[Fraction] = BOUND_EPSILONS,
    progress: Progress = silent,
    seed: int = 0,
) -> Figure:
    """Return the recovery error by eq. 4 on true held-out ratings, and the bound on it."""
    matrix, held_out = _densest(ratings, seed)
    cells, rated = matrix.size, int((np.isfinite(matrix) & ~held_out).sum())
    x, errors = tuple(map(float, epsilons)), []
    for done, epsilon in enumerate(epsilons):
        errors.append(_recovery_errors(matrix, held_out, epsilon, seed))
        progress(done + 1, len(epsilons))
    solved, mean = (tuple(column) for column in zip(*errors, strict=True))
    response = tuple(_scaled(response_bound, epsilon, cells, rated) for epsilon in x)
    laplace = tuple(_scaled(laplace_bound, epsilon, cells, rated) for epsilon in x)
    vacuous = max((e for e, bound in zip(x, response, strict=True) if bound > STARS - 1), default=0)
    better = _first(x, np.array(solved) < np.array(mean))
    return Figure(
        "C1", PAPER, f"Recovery of a {matrix.shape[0]} x {matrix.shape[1]} matrix, eq. 4",
        "epsilon per cell", "RMSE, stars", log_x=False, log_y=True,
        series=(
            Series("nuclear norm, held-out ratings", x, solved),
            Series("mean of all reports", x, mean),
            Series("bound (7) / C0, response", x, response),
            Series("bound (6) / C0, Laplace", x, laplace),
        ),
        published=(
            Published(
                "theorem 3", "the utility of transformed ratings is assured",
                f"the bound exceeds the width of the scale up to epsilon {vacuous:g}",
                agrees=not vacuous,
            ),
            Published(
                "recovery by eq. 4", "approximately recovers the ratings",
                f"below the error of the mean report from epsilon {better:g} on",
                agrees=better == x[0],
            ),
        ),
        notes=(
            "C0 of eq. 5 is unknown, and the restricted isometry property does not hold for "
            "ratings of popular items: the bound is an illustration. (6) is on a scale of -1 to 1.",
            f"The solver is dense: the {matrix.shape[0]} users and {matrix.shape[1]} items with "
            "most ratings. rho is taken from the true ratings, which no server has.",
        ),
    )  # fmt: skip


def _recovery_errors(
    matrix: NDArray[np.float64], held_out: NDArray[np.bool_], epsilon: Fraction, seed: int
) -> tuple[float, float]:
    """Return the RMSE on held-out ratings of the solution of eq. 4, and of the mean report."""
    seen = np.isfinite(matrix) & ~held_out
    inputs = np.where(seen, np.nan_to_num(matrix, nan=1.0) - 1, STARS).astype(np.uint8)
    mechanism = registry.mechanism("cell", STARS, epsilon)
    reports = mechanism.release(inputs.reshape(-1), SeededSource(seed)).reshape(inputs.shape)
    published = reports < STARS
    middle = float(reports[published].mean()) + 1
    # rho of eq. 3 is known here alone: the distance that the noise of the mechanism makes.
    distance = (reports.astype(np.float64) + 1 - matrix)[published & seen]
    rho = float(np.linalg.norm(distance)) or 1.0
    centred = reports.astype(np.float64) + 1 - middle
    found = recover(centred, published, rho, steps=60, tolerance=1e-3)
    true = matrix[held_out]
    return rms(np.clip(found.matrix + middle, 1, 5)[held_out] - true), rms(middle - true)


def _scaled(bound: Callable[..., float], epsilon: float, cells: int, rated: int) -> float:
    """Return a bound on the RMSE, for the share of cells that the response publishes."""
    change = 1 / (math.exp(epsilon) + STARS)
    share = rated / cells
    published = share * (1 - change) + (1 - share) * STARS * change
    return rmse_bound(bound(epsilon, cells, rated, gamma=_GAMMA), cells, published)


def _densest(ratings: StarRatings, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the matrix of the users and items with most ratings, NaN where there is none, and the
    fifth of its ratings that is held out."""
    items = most_rated_items(ratings.items, min(_SOLVED, len(np.unique(ratings.items))))
    inside = np.isin(ratings.items, items)
    users = most_rated_items(
        ratings.users[inside], min(_SOLVED, len(np.unique(ratings.users[inside])))
    )
    inside &= np.isin(ratings.users, users)
    matrix = np.full((len(users), len(items)), np.nan)
    rows = np.searchsorted(users, ratings.users[inside])
    matrix[rows, np.searchsorted(items, ratings.items[inside])] = ratings.stars[inside]
    draws = np.random.default_rng(seed)
    return matrix, np.isfinite(matrix) & (draws.random(matrix.shape) < 0.2)


def _naive_error(
    data: EvaluationData,
    levels: NDArray[np.uint8],
    mechanism: Mechanism,
    scope: int,
    sizes: int,
    seed: int,
) -> float:
    """Return the RMSE of a learner that takes every published cell for a rating."""
    users, items, truth = data
    chosen = most_rated_items(items, scope)
    rows = np.flatnonzero(np.isin(items, chosen))
    learned, _, tested = (part[np.isin(part, rows)] for part in split(len(users), seed))
    rated = users[learned], items[learned], levels[learned]
    cells = ScopeCells.holding(np.unique(users), chosen, rated, STARS)
    channels = Channels.from_mechanisms([Identity(STARS)])
    learner = _learner(channels, sizes, seed)
    for _, people, things, reports in cells.sent(mechanism, SeededSource(seed), seed):
        shown = reports < STARS
        many = int(shown.sum())
        learner.learn_many(
            people[shown], things[shown], reports[shown], np.zeros(many, np.uint16),
            np.ones(many, np.bool_),
        )  # fmt: skip
    return rms(truth.errors(learner.predict_many(users[tested], items[tested]), tested))


def _learner(channels: Channels, entities: int, seed: int) -> Learner:
    factors = 8
    return build("dense", channels, LearnerSpec(factors=factors, seed=seed,
                 sketch_bytes=4 * factors * entities, scalars_bytes=64 * entities))  # fmt: skip


def _levels(stars: NDArray[np.float64]) -> NDArray[np.uint8]:
    levels = stars - 1
    if not np.isin(levels, np.arange(STARS)).all():
        raise ValueError("ratings: the mechanisms of this paper take the stars 1, 2, 3, 4 and 5")
    return levels.astype(np.uint8)

"""Chapter 4 of Balu 2016: matrix factorization in a count sketch, by the protocol of the thesis.

    T4.2   error of the ordinary model, the count sketch (k = 4) and feature hashing
    F4.1   error by components d and compression gamma, k = 1 and 4
    F4.3   error by epoch
    F4.4   error by components after a single pass
    F4.5   error by the pull lambda
    F4.7   error where ratings of a large error are skipped, and how many are

Ratings are split at random into 80, 10 and 10 %; users and items with fewer than 10 ratings are
left out of the last two. Step and pull are searched on the second part alone, in two stages on a
log scale; the third part is tested once. 20 epochs (F4.7: 100), eta / (1 + t / T).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from research.papers.figure import (
    NO_CLAIM,
    Figure,
    Progress,
    Published,
    Series,
    StarRatings,
    silent,
)
from research.trainers.epoch_model import EpochModel, Method, Part, Steps

PAPER = "Balu 2016"
REGULAR, SKETCH, HASHING = Method("regular"), Method("sketch, k = 4", 4), Method("hashing", 1)
METHODS = (REGULAR, SKETCH, HASHING)
_PRINTED = {"regular": 0.873, "sketch, k = 4": 0.876, "hashing": 0.906}
_LEAST_RATINGS = 10
_WITHIN = 0.02  # of a printed error counts as reproduced
FACTORS = (1, 2, 4, 8, 16, 32)
GAMMAS = (1.0, 2.0, 4.0, 8.0)
PULLS = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
CLIPS = (2.0, 4.0, 8.0, 16.0, math.inf)
_NOTES = (
    "The data are not always those of the thesis: figures 4.2, 4.4 and 4.5 are of EachMovie there, "
    "figure 4.3 of MovieLens 10M.",
    "Means and biases are learned in the model; the thesis subtracts means beforehand.",
    "Step and pull are searched on the validation part of the first fold and kept.",
)


@dataclass(frozen=True, eq=False)
class Fold:
    """The three parts of a split, and how many users and items there are."""

    training: Part
    validation: Part
    test: Part
    users: int
    items: int


def fold_of(ratings: StarRatings, seed: int) -> Fold:
    """Return the split of a seed; ValueError where a part has no rating."""
    users, items = (
        np.unique(keys, return_inverse=True)[1].astype(np.int64)
        for keys in (ratings.users, ratings.items)
    )
    whole = Part(users, items, np.asarray(ratings.stars, np.float64))
    order = np.random.default_rng((seed, 4)).permutation(len(whole))
    first, second = len(whole) * 8 // 10, len(whole) * 9 // 10
    often = (np.bincount(users)[users] >= _LEAST_RATINGS) & (
        np.bincount(items)[items] >= _LEAST_RATINGS
    )
    training = whole.at(order[:first])
    validation, test = (
        whole.at(chosen[often[chosen]]) for chosen in (order[first:second], order[second:])
    )
    if not (len(training) and len(validation) and len(test)):
        raise ValueError(f"{len(whole)} ratings: too few to train, validate and test")
    return Fold(training, validation, test, int(users.max()) + 1, int(items.max()) + 1)


def errors_by_epoch(
    fold: Fold, method: Method, steps: Steps, part: Part, factors: int = 32, seed: int = 0
) -> list[float]:
    """Return the error on a part after each epoch."""
    model = EpochModel(method, fold.users, fold.items, factors, seed)
    found = []
    for epoch in range(steps.epochs):
        model.learn(fold.training, steps, epoch)
        found.append(model.rmse(part))
    return found


def last_error(
    fold: Fold, method: Method, steps: Steps, part: Part, factors: int = 32, seed: int = 0
) -> tuple[float, float]:
    """Return the error on a part after the last epoch, and the share that this epoch skipped."""
    model = EpochModel(method, fold.users, fold.items, factors, seed)
    for epoch in range(steps.epochs):
        model.learn(fold.training, steps, epoch)
    return model.rmse(part), model.skipped / len(fold.training)


def searched(
    fold: Fold, method: Method, epochs: int, factors: int = 32, fine: bool = True
) -> Steps:
    """Return the step and the pull of the least error on the validation part: one line of a log
    scale after the other, then finer around the best."""
    best, least = Steps(0.02, 0.04, epochs), math.inf
    stages = ((2.0, (-2, -1, 0, 1)), (1.3, (-1, 1)), (1.12, (-1, 1))) if fine else ((2.0, (-1, 0)),)
    for ratio, places in stages:
        for line in ("eta", "lam"):
            start = best
            for place in places:
                eta, lam = start.eta, start.lam
                if line == "eta":
                    eta *= ratio**place
                else:
                    lam *= ratio**place
                if (eta, lam) == (start.eta, start.lam) and least < math.inf:
                    continue
                tried = Steps(eta, lam, epochs)
                error, _ = last_error(fold, method, tried, fold.validation, factors)
                if error < least:
                    best, least = tried, error
    return best


def t4_2(
    ratings: StarRatings, folds: int = 3, epochs: int = 20, fine: bool = True, seed: int = 0,
    progress: Progress = silent,
) -> Figure:  # fmt: skip
    """Table 4.2: the error of each method on the test part of each fold."""
    parts = [fold_of(ratings, seed + number) for number in range(folds)]
    total, done = len(METHODS) * (1 + folds), 0
    series, published = [], []
    for method in METHODS:
        steps = searched(parts[0], method, epochs, fine=fine)
        progress(done := done + 1, total)
        found = []
        for number, fold in enumerate(parts):
            found.append(last_error(fold, method, steps, fold.test, seed=seed + number)[0])
            progress(done := done + 1, total)
        series.append(Series(method.name, tuple(map(float, range(1, folds + 1))), tuple(found)))
        mean, printed = statistics.fmean(found), _PRINTED[method.name]
        spread = statistics.stdev(found) if folds > 1 else 0.0
        published.append(
            Published(
                f"error of {method.name}, ML-1M",
                f"{printed:.3f}",
                f"{mean:.4f} +- {spread:.4f} (eta {steps.eta:.4g}, lambda {steps.lam:.4g})",
                mean <= printed + 0.005,
            )
        )
    means = [statistics.fmean(each.y) for each in series]
    published.append(
        Published(
            "order of the methods",
            "regular <= sketch < hashing",
            " / ".join(f"{mean:.4f}" for mean in means),
            means[0] <= means[1] < means[2],
        )
    )
    return Figure(
        "T4.2", PAPER, "Error of matrix factorization in less memory", "fold", "RMSE (stars)",
        False, False, tuple(series), tuple(published), _NOTES,
    )  # fmt: skip


def f4_1(
    ratings: StarRatings, factors: Sequence[int] = FACTORS, gammas: Sequence[float] = GAMMAS,
    epochs: int = 20, seed: int = 0, progress: Progress = silent,
) -> Figure:  # fmt: skip
    """Figures 4.1 and 4.2: the heat map of components and compression, a line for each gamma."""
    fold = fold_of(ratings, seed)
    total, done, series = 2 * len(gammas) * len(factors), 0, []
    for depth in (1, 4):
        for gamma in gammas:
            found = []
            for d in factors:
                method = Method("", depth, gamma)
                steps = Steps(0.02, 0.05, epochs)
                found.append(last_error(fold, method, steps, fold.test, d, seed)[0])
                progress(done := done + 1, total)
            name = f"k = {depth}, gamma = {gamma:g}"
            series.append(Series(name, tuple(map(float, factors)), tuple(found)))
    least, most = (statistics.fmean(each.y) for each in (series[0], series[len(gammas) - 1]))
    small, large = series[0].y[0], series[0].y[-1]
    return Figure(
        "F4.1", PAPER, "Error by components and compression", "components d", "RMSE (stars)",
        True, False, tuple(series),
        (
            Published("compression (k = 1)", "worse with gamma", f"{least:.3f} to {most:.3f}",
                      least < most),
            Published("components (k = 1, gamma = 1)", "better with d",
                      f"{small:.3f} to {large:.3f}", large < small),
        ),
        (*_NOTES[:2], "Step .02 and pull .05 at every point: nothing is searched."),
    )  # fmt: skip


def f4_3(
    ratings: StarRatings, epochs: int = 20, fine: bool = True, seed: int = 0,
    progress: Progress = silent,
) -> Figure:  # fmt: skip
    """Figure 4.3: the test error after each epoch."""
    fold, series = fold_of(ratings, seed), []
    for done, method in enumerate(METHODS):
        steps = searched(fold, method, epochs, fine=fine)
        found = errors_by_epoch(fold, method, steps, fold.test, seed=seed)
        series.append(Series(method.name, tuple(map(float, range(1, epochs + 1))), tuple(found)))
        progress(done + 1, len(METHODS))
    early = {each.name: each.y[min(4, epochs - 1)] for each in series}
    ahead = min(early, key=early.__getitem__)
    return Figure(
        "F4.3", PAPER, "Error by epoch", "epoch", "RMSE (stars)", False, False, tuple(series),
        (
            Published("least error after 5 epochs", "the sketch", ahead, ahead == SKETCH.name),
        ),
        _NOTES,
    )  # fmt: skip


def f4_4(
    ratings: StarRatings, factors: Sequence[int] = FACTORS, seed: int = 0,
    progress: Progress = silent,
) -> Figure:  # fmt: skip
    """Figure 4.4: the test error by components after a single pass."""
    fold, series, total = fold_of(ratings, seed), [], len(METHODS) * len(factors)
    for place, method in enumerate(METHODS):
        found = []
        for number, d in enumerate(factors):
            steps = Steps(0.02, 0.02, 1)
            found.append(last_error(fold, method, steps, fold.test, d, seed)[0])
            progress(place * len(factors) + number + 1, total)
        series.append(Series(method.name, tuple(map(float, factors)), tuple(found)))
    last = {each.name: each.y[-1] for each in series}
    ahead = min(last, key=last.__getitem__)
    return Figure(
        "F4.4", PAPER, "Error after one pass", "components d", "RMSE (stars)", True, False,
        tuple(series),
        (
            Published("best for many components", "the sketch", ahead, ahead == SKETCH.name),
        ),
        _NOTES[:2],
    )  # fmt: skip


def f4_5(
    ratings: StarRatings, pulls: Sequence[float] = PULLS, epochs: int = 20, seed: int = 0,
    progress: Progress = silent,
) -> Figure:  # fmt: skip
    """Figures 4.5 and 4.6: the test error by the pull."""
    fold, series, total = fold_of(ratings, seed), [], len(METHODS) * len(pulls)
    for place, method in enumerate(METHODS):
        found = []
        for number, pull in enumerate(pulls):
            steps = Steps(0.02, pull, epochs)
            found.append(last_error(fold, method, steps, fold.test, seed=seed)[0])
            progress(place * len(pulls) + number + 1, total)
        series.append(Series(method.name, tuple(pulls), tuple(found)))
    rise = {each.name: each.y[0] - min(each.y) for each in series}
    return Figure(
        "F4.5", PAPER, "Error by the pull lambda", "lambda", "RMSE (stars)", False, False,
        tuple(series),
        (
            Published(
                "what lambda = 0 costs", "less in the sketch than in the ordinary model",
                ", ".join(f"{name} {value:.3f}" for name, value in rise.items()),
                rise[SKETCH.name] < rise[REGULAR.name],
            ),
        ),
        (*_NOTES[:2], "The step is .02 at every pull."),
    )  # fmt: skip


def f4_7(
    ratings: StarRatings, clips: Sequence[float] = CLIPS, factors: Sequence[int] = (8, 16, 32),
    epochs: int = 100, seed: int = 0, progress: Progress = silent,
) -> Figure:  # fmt: skip
    """Figure 4.7: the test error where ratings of a large error are skipped; x = 32 stands for no
    limit. Skipping is not differential privacy, whatever the thesis calls the limit."""
    fold, series, total = fold_of(ratings, seed), [], len(factors) * len(clips)
    dropped: dict[float, float] = {}
    for place, d in enumerate(factors):
        found = []
        for number, clip in enumerate(clips):
            steps = Steps(0.02, 0.05, epochs, clip)
            error, share = last_error(fold, SKETCH, steps, fold.test, d, seed)
            found.append(error)
            dropped[clip] = max(share, dropped.get(clip, 0.0))
            progress(place * len(clips) + number + 1, total)
        xs = tuple(min(clip, 32.0) for clip in clips)
        series.append(Series(f"d = {d}", xs, tuple(found)))
    shares = ", ".join(f"{clip:g}: {share:.2%}" for clip, share in dropped.items())
    spread = max(abs(each.y[-1] - each.y[-2]) for each in series)
    return Figure(
        "F4.7", PAPER, "Error where large errors are skipped", "largest squared error",
        "RMSE (stars)", True, False, tuple(series),
        (
            Published("from 8 on", "the error saturates", f"no limit differs by {spread:.4f}",
                      spread < _WITHIN),
            Published("ratings that the last epoch skipped", NO_CLAIM, shares, True),
        ),
        (
            *_NOTES[:2],
            "The limit is no epsilon: skipping gives no differential privacy (`murmurec audit`). "
            "Trainers with a guarantee are measured by `murmurec experiment`.",
        ),
    )  # fmt: skip

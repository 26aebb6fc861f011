"""The models of PrivSR on a data set: what a person trusts others for, and what that costs.

    plain          matrix factorization
    social         with a term that draws friends together
    privsr-paper   with the printed noise: no guarantee, whatever it claims
    privsr         corrected: noisy sums, (epsilon, 1e-6) of a rating and half of it of a sensitive
                   one; no friend's vector is exchanged

The public block are the most rated items, and a cell counts once, as first rated. A random 80 / 10
/ 10 split; some ratings, drawn by the seed, are sensitive. lam is the best without noise on the
middle part, which is not accounted. Noise suffices if half of the devices are honest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.privsr.printed_shares import LABEL, PrintedShares
from research.privsr.private_rounds import Budget, PrivateRounds, Rounds
from research.privsr.social_factorization import (
    Matrix,
    SocialParameters,
    SocialRatings,
    social_factorization,
)
from stream_app.evaluation.results import EvaluationData, item_means, rms, split
from stream_app.models.factorization.learner import Keys
from stream_app.privacy.randomness import SeededSource

PAPER, CORRECTED = "privsr-paper", "privsr"
MODELS = ("plain", "social", PAPER, CORRECTED)
UNPROTECTED = "no guarantee: learned without noise"
BLOCK = 500
SENSITIVE = 1 / 3
_ALPHA = 0.5
_LAMS = (2.0, 5.0, 10.0)

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class SocialOptions:
    """The model; epsilon: of a rating, or as the paper claims it; block: public items; factors: of
    the models without secure sums."""

    model: str
    epsilon: Fraction = Fraction(2)
    block: int = BLOCK
    factors: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model {self.model!r}: choose one of {', '.join(MODELS)}")
        if not self.epsilon > 0:
            raise ValueError(f"epsilon {self.epsilon}: must be above 0")
        if self.block < 1:
            raise ValueError(f"scope {self.block}: at least 1 item")


@dataclass(frozen=True)
class SocialResult:
    """Errors in the data's units. epsilon, epsilon_sensitive: certified, of a rating event, None
    where nothing is; guarantee: the same in words. links: of trust among the people."""

    model: str
    guarantee: str
    epsilon: float | None
    epsilon_sensitive: float | None
    people: int
    items: int
    links: int
    learned: int
    events: int
    rmse: float
    mae: float
    rmse_baseline: float


class _Task(NamedTuple):
    ratings: SocialRatings
    rows: NDArray[np.int64]  # of the data
    learned: NDArray[np.int64]
    tuned: NDArray[np.int64]
    tested: NDArray[np.int64]


def evaluate_social(
    data: EvaluationData,
    links: tuple[Keys, Keys],
    options: SocialOptions,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
) -> SocialResult:
    """Train on the first part of the block and return the errors on the last.

    links: keys of users who trust, and of those whom they trust (e,) each. `progress` is called
    with the steps done and their total. Raises ValueError for too few ratings, or no trust among
    the people.
    """
    task = _task(data, links, options)
    train, test = task.ratings.part(task.learned), task.ratings.part(task.tested)
    if options.model == CORRECTED:
        budget = Budget(options.epsilon, options.epsilon / 2)
        rounds = _rounds(train, budget, options.seed)
        rounds.learn(train, progress)
        predicted, certified = rounds.predict(train, test), rounds.epsilons
        guarantee = (
            f"({certified[0]:.3g}, {float(budget.delta):g}) for one rating, {certified[1]:.3g} for "
            "a sensitive one"
        )
    else:
        predicted, certified = _factorized(task, options, progress), None
        claimed = f", where it claims {float(options.epsilon):g}"
        guarantee = LABEL + claimed if options.model == PAPER else UNPROTECTED
    rows, known = task.rows[task.tested], task.rows[task.learned]
    errors, ratings = data.truth.errors(predicted, rows), data.truth.ratings
    means = item_means(data.items[known], ratings[known], data.items[rows])
    return SocialResult(
        model=options.model,
        guarantee=guarantee,
        epsilon=certified[0] if certified else None,
        epsilon_sensitive=certified[1] if certified else None,
        people=train.people,
        items=train.catalogue,
        links=len(train.trusting),
        learned=len(task.learned),
        events=len(task.tested),
        rmse=rms(errors),
        mae=float(np.abs(errors).mean()),
        rmse_baseline=rms(means - ratings[rows]),
    )


def _task(data: EvaluationData, links: tuple[Keys, Keys], options: SocialOptions) -> _Task:
    """Return the first rating of every cell of the block, and the trust among its people."""
    _, users = np.unique(data.users, return_inverse=True)
    keys, items, counts = np.unique(data.items, return_inverse=True, return_counts=True)
    _, first = np.unique(users * len(keys) + items, return_index=True)
    first = np.sort(first)
    counts = np.bincount(items[first], minlength=len(keys))
    block = np.argsort(-counts, kind="stable")[: options.block]
    rows = first[np.isin(items[first], block)]
    if len(rows) < 10:
        raise ValueError(f"{len(rows)} ratings: at least 10 are needed to evaluate")
    people, users = np.unique(data.users[rows], return_inverse=True)
    trust = np.unique(np.column_stack(links), axis=0)
    inside = trust[np.isin(trust, people).all(axis=1)]
    if not len(inside):
        raise ValueError(
            f"trust: none of {len(trust)} links is between two people of the ratings; their ids "
            "are those of the users"
        )
    trusting, trusted = np.searchsorted(people, inside).T
    truth = data.truth
    stars = 1 + 4 * (truth.ratings[rows] - truth.lowest) / (truth.highest - truth.lowest)
    sensitive = np.random.default_rng((options.seed, 1)).random(len(rows)) < SENSITIVE
    known, places = np.unique(data.items[rows], return_inverse=True)
    columns = users, places, stars, sensitive, trusting, trusted
    ratings = SocialRatings(*columns, len(people), len(known))
    return _Task(ratings, rows, *split(len(rows), options.seed))


def _rounds(train: SocialRatings, budget: Budget, seed: int) -> PrivateRounds:
    plan = Rounds(max(1, train.people // 2))
    try:
        return PrivateRounds(train.catalogue, budget, plan, SeededSource(seed))
    except ValueError:
        raise ValueError(
            f"epsilon {float(budget.epsilon):g}: needs wider noise than can be drawn; give 1 or "
            "more"
        ) from None


def _factorized(task: _Task, options: SocialOptions, progress: Progress) -> Matrix:
    """Return the predictions (t,) of the models without secure sums."""
    train, tuned = task.ratings.part(task.learned), task.ratings.part(task.tuned)
    alpha, total = (0.0 if options.model == "plain" else _ALPHA), len(_LAMS) + 1
    errors = {}
    for done, lam in enumerate(_LAMS):
        progress(done, total)
        factors = social_factorization(train, _parameters(train, alpha, lam, options))
        errors[lam] = rms(factors.predict(tuned.users, tuned.items) - tuned.stars)
    progress(len(_LAMS), total)
    parameters = _parameters(train, alpha, min(errors, key=errors.__getitem__), options)
    if options.model == PAPER:
        paper = PrintedShares(float(options.epsilon), factors=options.factors, seed=options.seed)
        factors = social_factorization(
            train,
            parameters,
            lambda step: paper.item_noise(train, step),
            lambda step: paper.friend_noise(train.people, step),
        )
    else:
        factors = social_factorization(train, parameters)
    progress(total, total)
    test = task.ratings.part(task.tested)
    return factors.predict(test.users, test.items)


def _parameters(
    train: SocialRatings, alpha: float, lam: float, options: SocialOptions
) -> SocialParameters:
    return SocialParameters(
        factors=options.factors,
        alpha=alpha,
        lam=lam,
        middle=float(train.stars.mean()),
        seed=options.seed,
    )

"""Likes are predicted, then learned: the figures by hand, and against the items' shares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from producers.datasets.synthetic import generate
from stream_app.evaluation import EvaluationData, EvaluationResult, TrueRatings
from stream_app.evaluation.scope_errors import (
    ScopeCells,
    ScopeDevices,
    evaluate_likes,
    evaluate_scope,
    log_losses,
)
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.like import LIKED, Like

SCOPE = 60


def measured(mechanism: Like) -> EvaluationResult:
    data = generate(3, users=800, items=300, ratings=60_000, factors=3).dataset
    channels = Channels.from_mechanisms([mechanism])
    return evaluate_scope(
        EvaluationData(
            data.users.astype(np.uint64),
            data.items.astype(np.uint64),
            TrueRatings(data.ratings, 1, 5),
        ),
        ScopeDevices(data.levels, mechanism, SeededSource(4), SCOPE),
        build("dense", channels, LearnerSpec(factors=4, seed=1)),
        PresenceRates(channels, 1 << 12, 1),
        seed=2,
    )


def test_the_figures_are_those_of_a_loop_over_cells() -> None:
    """Twelve devices and three items; the batches hold all devices, so nothing is learned first."""
    random, mechanism = np.random.default_rng(7), Like(5, Fraction(1))
    levels = random.integers(0, 6, (12, 3)).astype(np.uint8)
    people, scope = np.arange(12, dtype=np.uint64), np.array([2, 5, 9], np.uint64)
    channels = Channels.from_mechanisms([mechanism])
    learner, twin = (build("dense", channels, LearnerSpec(factors=2, seed=1)) for _ in range(2))
    cells = ScopeCells(people, scope, levels)
    result = evaluate_likes(cells, mechanism, SeededSource(3), learner, seed=5)
    losses, squares, likes = [], [], 0
    for _, users, items, reports in cells.sent(mechanism, SeededSource(3), 5):
        for user, item, report in zip(users, items, reports, strict=True):
            t = float(twin.predict_many(np.array([user]), np.array([item]))[0])
            p = min(max((t - 1) / 4, 0.0375), 0.9625)
            level = levels[int(user), scope.tolist().index(item)]
            bit = level in (3, 4)
            losses.append(-np.log(p if bit else 1 - p))
            squares.append((p - bit) ** 2)
            likes += int(report == LIKED)
            twin.learn_many(
                np.array([user]), np.array([item]), np.array([report]),
                np.zeros(1, np.uint16), np.ones(1, np.bool_),
            )  # fmt: skip
    assert result.log_loss == pytest.approx(np.mean(losses))
    assert result.rmse == pytest.approx(np.mean(squares) ** 0.5)
    assert (result.events, result.cells, result.scope) == (36, 36, 3)
    assert result.likes_reported == likes
    share = np.full(36, 0.1)  # before any device: the first share
    bits = np.isin(levels, (3, 4)).ravel()
    assert result.log_loss_baseline == pytest.approx(log_losses(share, bits).mean())


@pytest.mark.parametrize("epsilon", ["2", "4"])
def test_the_model_predicts_likes_better_than_the_shares_of_the_items(epsilon: str) -> None:
    result = measured(Like(5, Fraction(epsilon)))
    assert (result.protocol, result.scope, result.cells) == ("scope", SCOPE, SCOPE * 800)
    assert result.log_loss is not None
    assert result.log_loss_baseline is not None
    assert result.log_loss < result.log_loss_baseline - 0.002
    assert result.rmse < result.rmse_baseline


def test_another_threshold_is_another_question() -> None:
    """Nearly every rating is at least 1 star, so presence is more frequent than a like."""
    liked, rated = measured(Like(5, Fraction(60))), measured(Like(5, Fraction(60), 0))
    assert liked.likes_reported is not None
    assert rated.likes_reported is not None
    assert rated.likes_reported > 1.2 * liked.likes_reported
    assert rated.mechanism == "like:5:60:0"


def test_a_probability_is_never_certain() -> None:
    found = Channels.like_probability(np.array([1.0, 3.0, 5.0]))
    assert found == pytest.approx([0.0375, 0.5, 0.9625])
    assert log_losses(found, np.array([True, True, True])).max() == pytest.approx(3.2834, abs=1e-3)

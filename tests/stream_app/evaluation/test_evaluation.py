"""Evaluation: protocols by hand on small data, and a guard on a generated world."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from producers.datasets.synthetic import generate
from stream_app.evaluation import (
    AdaptiveDevices,
    Devices,
    EvaluationData,
    EvaluationResult,
    FixedReports,
    TrueRatings,
    evaluate,
    item_means,
    most_rated_items,
    split,
)
from stream_app.evaluation.rating_errors import PROTOCOLS
from stream_app.evaluation.results import running_item_means
from stream_app.evaluation.scope_errors import ScopeDevices, evaluate_scope
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse

WORLD = generate(3, users=800, items=300, ratings=60_000, factors=3)
CLEAN, FOUR, TWO, GROUPS = (
    Identity(5),
    RandomizedResponse(5, Fraction(4)),
    RandomizedResponse(5, Fraction(2)),
    PartitionResponse(5, Fraction(2)),
)


def run(
    model: str,
    mechanism: Mechanism,
    protocol: str = "one-pass",
    *,
    naive: bool = False,
    user_bias: bool = False,
) -> EvaluationResult:
    data = WORLD.dataset
    users, items = data.users.astype(np.uint64), data.items.astype(np.uint64)
    channels = Channels.from_mechanisms([Identity(5) if naive else mechanism])
    learner = build(
        model,
        channels,
        LearnerSpec(
            factors=16,
            sketch_bytes=1100 * 16 * 4,
            scalars_bytes=1 << 16,
            seed=1,
        ),
    )
    source = SeededSource(4)
    devices: Devices
    if mechanism.masks:
        devices = AdaptiveDevices(
            mechanism, channels, users, items, data.levels, source, user_bias=user_bias
        )
    else:
        devices = FixedReports(mechanism.release(data.levels, source))
    return evaluate(
        EvaluationData(users, items, TrueRatings(data.ratings, 1, 5)),
        devices,
        learner,
        protocol=protocol,
        mechanism=mechanism.id,
        epsilon=str(mechanism.epsilon),
        seed=2,
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "mechanism", "distance"),
    [
        ("dense", CLEAN, 0.104),
        ("dense", FOUR, 0.141),
        ("dense", TWO, 0.214),
        ("sketch", CLEAN, 0.141),
        ("sketch", FOUR, 0.171),
        ("sketch", TWO, 0.215),
        ("literal", CLEAN, 0.143),
        ("hashing", CLEAN, 0.145),
        ("dense", GROUPS, 0.207),
        ("sketch", GROUPS, 0.209),
    ],
)
def test_a_learner_comes_near_the_best_possible_error(model, mechanism, distance):
    """48,000 ratings of 800 people, one pass, against the planted conditional means of the tested
    rows.

    The seeds are fixed; the distances are those measured plus .01.
    """
    result = run(model, mechanism)
    tested = split(len(WORLD.dataset), seed=2)[2]
    best = np.sqrt(np.mean((WORLD.expected - WORLD.dataset.ratings)[tested] ** 2))
    assert best < result.rmse < best + distance
    assert result.rmse < result.rmse_baseline - 0.015


def test_decoding_through_the_channel_beats_taking_reports_for_ratings():
    assert run("dense", TWO).rmse < run("dense", TWO, naive=True).rmse - 0.03


def test_reports_of_chosen_groups_beat_reports_of_levels_and_user_biases_help():
    assert run("dense", GROUPS).rmse < run("dense", TWO).rmse - 0.004
    items, leaning = (run("dense", GROUPS, "prequential", user_bias=bias) for bias in (False, True))
    assert leaning.rmse < items.rmse


def asked(levels: np.ndarray, learner: Learner, *, user_bias: bool = False) -> np.ndarray:
    """Return the channels that devices chose for 6,000 ratings, half of them before a table."""
    u = np.arange(6000, dtype=np.uint64) % 60
    i = np.arange(6000, dtype=np.uint64) % 50
    channels = Channels.from_mechanisms([GROUPS])
    devices = AdaptiveDevices(GROUPS, channels, u, i, levels, SeededSource(1), user_bias=user_bias)
    chosen = []
    for first in (0, 3000):
        reports, numbers = devices.report(np.arange(first, first + 3000), learner)
        assert (reports < channels.alphabets[numbers]).all()
        chosen.append(numbers)
    return np.concatenate(chosen)


def test_a_partition_is_chosen_from_the_item_table_alone():
    """The chosen partitions do not depend on the ratings; without a table 3.5 is expected."""
    learner = build("dense", Channels.from_mechanisms([CLEAN]), LearnerSpec(factors=2))
    u, z = np.arange(50, dtype=np.uint64), (np.arange(50) % 5).astype(np.uint8)
    for _ in range(20):
        learner.learn_many(u, u, z, np.zeros(50, np.uint16), np.ones(50, np.bool_))
    low, high = (np.full(6000, level, np.uint8) for level in (0, 4))
    left, right = asked(low, learner), asked(high, learner)
    assert (left == right).all()
    assert len(set(left[:3000].tolist())) == 1
    assert len(set(left[3000:].tolist())) > 2


@pytest.mark.parametrize("step", [100, 256])
def test_the_item_table_is_published_early_and_then_as_ratings_double(step):
    learner = build("dense", Channels.from_mechanisms([CLEAN]), LearnerSpec(factors=2))
    u, z = np.arange(50, dtype=np.uint64), (np.arange(50) % 5).astype(np.uint8)
    for _ in range(5):
        learner.learn_many(u, u, z, np.zeros(50, np.uint16), np.ones(50, np.bool_))
    published = 0

    class Watched:
        """A learner that counts the tables that were made of it."""

        mean = learner.mean

        def items(self, keys: np.ndarray) -> Any:
            nonlocal published
            published += 1
            return learner.items(keys)

    i, levels = np.arange(400_000, dtype=np.uint64) % 50, np.zeros(400_000, np.uint8)
    channels = Channels.from_mechanisms([GROUPS])
    devices = AdaptiveDevices(GROUPS, channels, i, i, levels, SeededSource(1))
    when, chosen = [], []
    for first in range(0, 400_000, step):
        before = published
        _, numbers = devices.report(np.arange(first, min(first + step, 400_000)), Watched())  # type: ignore[arg-type]
        chosen.append(len(set(numbers.tolist())))
        when += [first] * (published - before)
    assert 500 <= when[0] < 500 + step
    early = [at for at in when if at < 100_000]
    assert len(early) == 8
    assert all(a * 2 == b for a, b in pairwise(early))
    assert all(100_000 <= b - a < 100_000 + step for a, b in pairwise(when[len(early) :]))
    assert len(when) - len(early) >= 3
    assert chosen[0] == 1 < chosen[-1]


def test_a_learner_is_measured_in_small_batches_at_first():
    sizes = []

    class Recorded(FixedReports):
        def report(self, rows, learner):
            sizes.append(len(rows))
            return super().report(rows, learner)

    data = WORLD.dataset
    users, items = data.users.astype(np.uint64), data.items.astype(np.uint64)
    channels = Channels.from_mechanisms([CLEAN])
    learner = build("dense", channels, LearnerSpec(factors=2, scalars_bytes=1 << 16))
    truth = TrueRatings(data.ratings, 1, 5)
    evaluate(EvaluationData(users, items, truth), Recorded(data.levels), learner)
    assert sizes[:3] == [256, 256, 512]
    assert max(sizes) == 8192
    assert sum(sizes) == len(data)


def test_a_user_bias_depends_on_released_reports():
    learner = build("dense", Channels.from_mechanisms([CLEAN]), LearnerSpec(factors=2))
    low, high = (np.full(6000, level, np.uint8) for level in (0, 4))
    left, right = (asked(levels, learner, user_bias=True) for levels in (low, high))
    assert (left[:3000] == right[:3000]).all()
    assert left[3000:].mean() < right[3000:].mean()


def in_scope(name: str, scope: int = 60, **given: Any) -> EvaluationResult:
    """Evaluate the cells of the generated world; `given` replaces columns."""
    data, mechanism = WORLD.dataset, registry.parse(name)
    channels = Channels.from_mechanisms([mechanism])
    columns = {
        "users": data.users.astype(np.uint64),
        "items": data.items.astype(np.uint64),
        "levels": data.levels,
        "truth": TrueRatings(data.ratings, 1, 5),
        "learner": build("dense", channels, LearnerSpec(factors=2, seed=1)),
        "presence": PresenceRates(channels, 1 << 16, 1),
        "source": SeededSource(4),
    } | given
    events = EvaluationData(columns["users"], columns["items"], columns["truth"])
    devices = ScopeDevices(columns["levels"], mechanism, columns["source"], scope)
    return evaluate_scope(events, devices, columns["learner"], columns["presence"], seed=2)


@pytest.mark.parametrize("name", ["cell:5:3", "cell:5:4:1/2", "ternary:5:4", "laplace:5:5"])
def test_cells_of_a_scope_teach_more_than_no_rating_at_all(name: str) -> None:
    """Better than the middle of all ratings, which is the best prediction from fakes alone."""
    result = in_scope(name)
    data = WORLD.dataset
    assert (result.protocol, result.mechanism, result.scope) == ("scope", name, 60)
    assert result.cells == 60 * len(np.unique(data.users))
    assert 0 < result.learned < result.cells
    tested = split(len(data), 2)[2]
    tested = tested[np.isin(data.items[tested], most_rated_items(data.items.astype(np.uint64), 60))]
    assert result.events == len(tested)
    assert result.rmse < data.ratings[tested].std()
    assert result.rmse == in_scope(name).rmse


def test_without_noise_the_cells_of_a_scope_are_the_ratings_in_it() -> None:
    """At epsilon 64 every published cell is a rating of the learned part, and all are published."""
    data = WORLD.dataset
    result = in_scope("cell:5:64")
    learned = split(len(data), 2)[0]
    chosen = most_rated_items(data.items.astype(np.uint64), 60)
    assert result.learned == np.isin(data.items[learned], chosen).sum()
    assert result.rmse < result.rmse_baseline


def test_the_head_are_the_most_rated_items() -> None:
    items = np.array([5, 5, 9, 9, 2, 7, 7, 7], np.uint64)
    assert most_rated_items(items, 1).tolist() == [7]
    assert most_rated_items(items, 3).tolist() == [5, 7, 9]
    assert most_rated_items(items, 2).tolist() == [5, 7]  # 5 and 9 tie
    for count in (0, 5):
        with pytest.raises(ValueError, match=f"scope {count}"):
            most_rated_items(items, count)


def test_an_invalid_scope_is_refused() -> None:
    with pytest.raises(ValueError, match="presence is public"):
        in_scope("rr:5:2")
    data = WORLD.dataset
    lone = np.arange(len(data), dtype=np.uint64)
    with pytest.raises(ValueError, match="too few"):
        in_scope("cell:5:2", scope=1, items=lone)


def test_predicting_before_learning_is_harder_than_after():
    prequential, one_pass = run("dense", CLEAN, "prequential"), run("dense", CLEAN)
    assert one_pass.rmse < prequential.rmse < prequential.rmse_baseline
    assert prequential.events == len(WORLD.dataset)
    assert one_pass.events == round(len(WORLD.dataset) / 10)


def test_a_result_names_what_was_measured():
    result = run("sketch", TWO)
    assert (result.protocol, result.model, result.mechanism, result.epsilon) == (
        "one-pass",
        "sketch",
        "rr:5:2",
        "2",
    )
    assert result.mae < result.rmse
    assert result.events_per_second > 0
    assert run("sketch", TWO).rmse == result.rmse


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_errors_are_in_the_units_of_the_data(protocol):
    """The same ratings on 0 .. 20: five times wider, five times the error."""
    columns = np.arange(400, dtype=np.uint64) % 20, np.arange(400, dtype=np.uint64) % 31
    levels = np.random.default_rng(1).integers(0, 5, 400).astype(np.uint8)
    errors = []
    for width in (1, 5):
        learner = build("dense", Channels.from_mechanisms([CLEAN]), LearnerSpec(factors=4))
        truth = TrueRatings(levels * width * 1.0, 0, 4 * width)
        result = evaluate(
            EvaluationData(*columns, truth), FixedReports(levels), learner, protocol=protocol
        )
        errors.append((result.rmse, result.mae, result.rmse_baseline))
    assert np.array(errors[1]) == pytest.approx(5 * np.array(errors[0]))


def test_prequential_error_is_that_of_predictions_made_before_learning():
    data = np.random.default_rng(2)
    u, i = data.integers(0, 9, (2, 300)).astype(np.uint64)
    z = data.integers(0, 5, 300).astype(np.uint8)
    left, right = (
        build("dense", Channels.from_mechanisms([CLEAN]), LearnerSpec(factors=4)) for _ in range(2)
    )
    result = evaluate(EvaluationData(u, i, TrueRatings(z + 1.0, 1, 5)), FixedReports(z), left)
    errors = []
    for n in range(300):
        at = slice(n, n + 1)
        errors.append(right.predict_many(u[at], i[at])[0] - (z[n] + 1.0))
        right.learn_many(u[at], i[at], z[at], np.zeros(1, np.uint16), np.ones(1, np.bool_))
    assert result.rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-12)


def test_the_parts_of_a_split_are_80_10_10_and_share_no_row():
    parts = split(105, seed=3)
    assert [len(part) for part in parts] == [84, 10, 11]
    assert sorted(np.concatenate(parts)) == list(range(105))
    assert (split(105, seed=3)[0] == parts[0]).all()
    assert (split(105, seed=4)[0] != parts[0]).any()


def test_running_item_means_look_back_only():
    items = np.array([7, 7, 8, 7], np.uint64)
    means = running_item_means(items, np.array([5.0, 3.0, 1.0, 4.0]), 3.0)
    overall = [3.0, (15 + 5) / 6, (15 + 8) / 7, (15 + 9) / 8]
    wanted = [overall[0], (5 + 5 * overall[1]) / 6, overall[2], (8 + 5 * overall[3]) / 7]
    assert means == pytest.approx(wanted)


def test_item_means_are_shrunken_and_an_unknown_item_has_the_overall_mean():
    items, ratings = np.array([7, 7, 9], np.uint64), np.array([5.0, 4.0, 3.0])
    means = item_means(items, ratings, np.array([7, 9, 8, 1, 2**64 - 1], np.uint64))
    assert means == pytest.approx([(9 + 20) / 7, (3 + 20) / 6, 4, 4, 4])


def test_progress_is_reported_for_every_event():
    done: list[int] = []
    u = np.arange(20_000, dtype=np.uint64) % 50
    z = np.zeros(20_000, np.uint8)
    learner = build("dense", Channels.from_mechanisms([CLEAN]), LearnerSpec(factors=2))
    data = EvaluationData(u, u, TrueRatings(z + 1.0, 1, 5))
    evaluate(data, FixedReports(z), learner, progress=done.append)
    assert sum(done) == 20_000
    assert len(done) > 1


def test_an_input_that_cannot_be_evaluated_is_refused():
    learner = build("dense", Channels.from_mechanisms([CLEAN]), LearnerSpec(factors=2))
    u, z = np.zeros(20, np.uint64), np.zeros(20, np.uint8)
    truth = TrueRatings(z + 1.0, 1, 5)
    with pytest.raises(ValueError, match="prequential"):
        evaluate(EvaluationData(u, u, truth), FixedReports(z), learner, protocol="forwards")
    with pytest.raises(ValueError, match="one length"):
        evaluate(EvaluationData(u[:15], u, truth), FixedReports(z), learner)
    few = EvaluationData(u[:9], u[:9], TrueRatings(truth.ratings[:9], 1, 5))
    with pytest.raises(ValueError, match="9 ratings"):
        evaluate(few, FixedReports(z[:9]), learner)
    with pytest.raises(ValueError, match="scale"):
        TrueRatings(truth.ratings, 5, 5)

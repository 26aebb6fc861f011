"""Trainers with a guarantee: the bound of a vector in integers, the noise, the account, the use."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.datasets.synthetic import generate
from research.trainers import (
    TRAINERS,
    Events,
    TrainerSpec,
    build_trainer,
    evaluate_trainer,
    learned_events,
)
from research.trainers.cell_model import CellModel
from research.trainers.langevin import CELL_VARIANCE, Langevin
from research.trainers.single_pass import SinglePass
from research.trainers.subsampled import Subsampled, sample
from research.trainers.trainer import BOUND
from stream_app.evaluation import EvaluationData, TrueRatings
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy.exact.gaussian_calibration import gaussian_epsilon
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import SeededSource
from tests.naive.trainers import vector
from tests.research.trainers.generate_sampled import TABLE

pytestmark = pytest.mark.nightly

DELTA = Fraction(1, 10**6)
SIZES = LearnerSpec(factors=3, depth=2, sketch_bytes=4 * 2 * 150, scalars_bytes=16 * 40, seed=4)
TINY = LearnerSpec(factors=3, depth=2, sketch_bytes=4 * 2 * 4, scalars_bytes=16, seed=4)
NOTHING = Events(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0))


def spec(events: int, epsilon: Fraction | None = Fraction(2), **more) -> TrainerSpec:
    return TrainerSpec(more.pop("sizes", SIZES), events, epsilon, **more)


def some_events(count: int, seed: int = 0) -> Events:
    random = np.random.default_rng(seed)
    users, items = random.integers(0, 20, (2, count)).astype(np.uint64)
    return Events(users, items, random.integers(1, 6, count).astype(float))


def summed(model: CellModel, events: Events, norm: float, bound: int) -> np.ndarray:
    sums = np.zeros(model.size, np.int64)
    model.add_clipped(events, np.arange(len(events.stars)), norm, bound, sums)
    return sums


@pytest.mark.parametrize("sizes", [SIZES, TINY], ids=["sparse", "cells that collide"])
@settings(deadline=None, max_examples=60)
@given(
    keys=st.tuples(*[st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])] * 2),
    stars=st.floats(1, 5),
    spread=st.sampled_from([0.0, 1.0, 300.0]),
    norm=st.sampled_from([0.01, 1.4, 50.0]),
    bound=st.sampled_from([1, 7, 1024]),
)
def test_the_vector_of_a_rating_is_within_its_bound_and_as_computed_slowly(
    sizes, keys, stars, spread, norm, bound
):
    model = CellModel(sizes)
    model.theta += spread * np.random.default_rng(5).normal(size=model.size)
    user, item = keys
    events = Events(np.array([user], np.uint64), np.array([item], np.uint64), np.array([stars]))
    sums = summed(model, events, norm, bound)
    assert sum(int(x) ** 2 for x in sums) <= bound**2
    slow = vector(model, sizes.seed, (user, item, stars), norm, bound)
    for cell in np.flatnonzero(sums):
        assert int(cell) in slow
    for cell, units in slow.items():
        assert abs(units - int(sums[cell])) <= 1  # read in another order of additions


def test_a_vector_within_the_norm_keeps_its_length_and_a_longer_one_reaches_the_bound():
    model = CellModel(SIZES)
    near, far = (
        Events(np.array([1], np.uint64), np.array([2], np.uint64), np.array([stars]))
        for stars in (3.1, 5.0)
    )
    assert np.linalg.norm(summed(model, near, 1.4, BOUND)) < 0.6 * BOUND
    assert np.linalg.norm(summed(model, far, 1.4, BOUND)) > 0.99 * BOUND


def test_the_parts_of_a_batch_add_and_the_scratch_is_left_clean():
    model, events = CellModel(TINY), some_events(50)
    parts = [summed(model, Events(*(x[n : n + 1] for x in events)), 1.4, 64) for n in range(50)]
    assert (summed(model, events, 1.4, 64) == sum(parts)).all()


@pytest.mark.parametrize(
    ("sigma", "epsilon"), [(1, 4.89), (2, 2.25), (3, 1.45), (4, 1.06), (8, 0.50), (4.225, 1.0)]
)
def test_one_pass_costs_one_gaussian_whatever_its_steps(sigma, epsilon):
    made = [
        SinglePass("noisy-cells", spec(events, Fraction(str(epsilon)))) for events in (10, 10**5)
    ]
    assert made[1].steps > 100 * made[0].steps
    for trainer in made:
        assert trainer.certificate is not None
        (each,) = trainer.certificate.sums
        assert float(each.variance) ** 0.5 / BOUND == pytest.approx(sigma, rel=0.012)
        assert trainer.guarantee.epsilon == pytest.approx(epsilon, abs=1e-3)
        assert trainer.guarantee.epsilon <= epsilon
        assert trainer.guarantee.adjacency is Adjacency.EVENT


def test_a_tree_costs_one_gaussian_a_level_and_less_than_its_renyi_account():
    for steps, sigma, renyi in json.loads(TABLE.read_text(encoding="utf-8"))["trees"]:
        levels = steps.bit_length()
        exact = float(gaussian_epsilon(DELTA, Fraction(levels, sigma**2)))
        assert 0.9 * renyi < exact < renyi
    trainer = SinglePass("tree", spec(40 * 100))
    assert (trainer.steps, trainer.levels) == (100, 7)
    assert trainer.certificate is not None
    assert len(trainer.certificate.sums) == 7
    assert 1.999 < trainer.guarantee.epsilon <= 2


def test_a_prefix_has_the_noise_of_its_nodes_and_each_is_drawn_once():
    trainer = SinglePass("tree", spec(40 * 21), SeededSource(3))
    variance = trainer.certificate.sums[0].variance
    release, size = trainer._prefixes(), trainer.model.size
    source = SeededSource(3)
    drawn = {t: discrete_gaussian(variance, size, source) for t in range(1, 22)}
    prefix = np.zeros(size, np.int64)
    for step in range(1, 22):
        prefix += release(step, np.zeros(size, np.int64))
        ends, rest = [], step
        while rest:
            ends.append(rest)
            rest &= rest - 1
        assert (prefix == sum(drawn[end] for end in ends)).all()
        assert len(ends) <= trainer.levels


@pytest.mark.parametrize("name", ["noisy-cells", "tree", "subsampled", "sgld"])
def test_cells_that_no_rating_touches_get_noise_as_well(name):
    """Two ratings in a large model: which cells they touched is not seen in which ones changed."""
    sizes = LearnerSpec(factors=3, depth=2, sketch_bytes=40_000, scalars_bytes=16_000, seed=4)
    trainer = build_trainer(name, spec(2, Fraction(1), sizes=sizes), SeededSource(1))
    before = CellModel(sizes).theta
    trainer.train(some_events(2), lambda _: None)
    changed = trainer.model.theta != before
    biases = changed[trainer.model.scalars + 1 :: 2]
    assert changed[: trainer.model.scalars].mean() > 0.99
    assert biases.mean() > 0.99


def test_the_printed_walk_touches_what_a_rating_touches_alone():
    sizes = LearnerSpec(factors=3, depth=2, sketch_bytes=40_000, scalars_bytes=16_000, seed=4)
    trainer = build_trainer("sgld-paper", spec(1, sizes=sizes), SeededSource(1))
    trainer.train(some_events(1), lambda _: None)
    changed = trainer.model.theta != CellModel(sizes).theta
    assert 0 < changed.sum() <= 2 * 2 * 3 + 2
    assert trainer.guarantee.epsilon is None
    assert trainer.guarantee.adjacency is Adjacency.NOTHING
    assert str(trainer.guarantee).startswith("no guarantee: as printed")


def test_a_walk_at_the_right_temperature_has_the_variance_of_its_prior():
    """Without ratings the posterior is the prior. Of a discrete walk: V / (1 - eta / 2V).

    20,000 cells: the standard error of a variance is 1 %; the test allows 5 %, beyond 5 sigma
    although cells start alike. With sqrt(eta) as printed it would be half.
    """
    sizes = LearnerSpec(factors=4, depth=2, sketch_bytes=80_000, scalars_bytes=1600, seed=4)
    trainer = Langevin(spec(1, None, sizes=sizes), SeededSource(2), Fraction(1, 2), 60)
    trainer.train(NOTHING, lambda _: None)
    expected = CELL_VARIANCE / (1 - trainer.eta / (2 * CELL_VARIANCE))
    assert trainer.model.cells.var() == pytest.approx(expected, rel=0.05)


def test_a_walk_is_never_less_private_than_asked_for():
    events = 2000
    free, bound = (Langevin(spec(events, epsilon)) for epsilon in (None, Fraction(1, 4)))
    assert bound.guarantee.epsilon <= 0.25 < free.guarantee.epsilon
    assert bound.eta < free.eta


def test_samples_have_their_rate_and_are_drawn_for_each_step():
    source = SeededSource(8)
    counts = [len(sample(10_000, Fraction(1, 16), source)) for _ in range(4)]
    assert len(set(counts)) > 1
    assert all(abs(count - 625) < 6 * 24.2 for count in counts)  # 6 sigma each
    assert len(sample(7, Fraction(1), source)) == 7
    trainer = Subsampled(spec(100), source, Fraction(1, 4), 5)
    assert trainer.guarantee.epsilon <= 2


@pytest.mark.parametrize("name", TRAINERS)
def test_without_a_source_noise_is_the_operating_systems(name):
    found = []
    for _ in range(2):
        trainer = build_trainer(name, spec(30, Fraction(8)))
        trainer.train(some_events(30), lambda _: None)
        found.append(trainer.model.theta.copy())
    assert (found[0] != found[1]).any()
    seeded = [build_trainer(name, spec(30, Fraction(8)), SeededSource(5)) for _ in range(2)]
    for trainer in seeded:
        trainer.train(some_events(30), lambda _: None)
    assert (seeded[0].model.theta == seeded[1].model.theta).all()


WORLD = generate(3, users=400, items=100, ratings=15_000, factors=2).dataset


def rmse(name: str, epsilon: Fraction | None) -> tuple[float, float]:
    users, items = WORLD.users.astype(np.uint64), WORLD.items.astype(np.uint64)
    truth = TrueRatings(WORLD.ratings, 1, 5)
    sizes = LearnerSpec(factors=4, sketch_bytes=4 * 500 * 4, scalars_bytes=128 * 500, seed=1)
    slots = learned_events(len(users))
    trainer = build_trainer(name, TrainerSpec(sizes, slots, epsilon), SeededSource(1))
    result = evaluate_trainer(EvaluationData(users, items, truth), trainer)
    assert result.learned == slots
    return result.rmse, result.rmse_baseline


@pytest.mark.parametrize("name", ["noisy-cells", "tree", "subsampled", "sgld"])
def test_a_trainer_learns_and_more_from_a_larger_epsilon(name):
    clean, baseline = rmse(name, None)
    assert clean < baseline
    loose, strict = rmse(name, Fraction(4))[0], rmse(name, Fraction(1, 4))[0]
    assert loose < baseline
    assert loose < strict + 1e-9


def test_the_printed_walk_learns_nothing():
    found, baseline = rmse("sgld-paper", None)
    assert found > 1.2 * baseline


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spec(0), "events 0: 1 or more"),
        (lambda: spec(5, Fraction(0)), "epsilon 0: must be above 0"),
        (lambda: spec(5, delta=Fraction(1)), "delta 1: must be above 0"),
        (lambda: spec(5, norm=0.0), "norm 0.0: must be above 0"),
        (lambda: build_trainer("adam", spec(5)), "'adam': must be one of noisy-cells, tree"),
        (lambda: build_trainer("tree", spec(5, Fraction(1, 10**6))), "needs noise of"),
        (
            lambda: build_trainer("tree", spec(5)).train(some_events(6), lambda _: None),
            "6 events for 5 slots",
        ),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()

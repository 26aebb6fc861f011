"""Learners that share the ratings: as good as one, for any batches; refused where they cannot."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.evaluation.sharded_learner import ShardedLearner
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.joining import Meetings
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy import registry

CHANNELS = Channels.from_mechanisms([registry.parse("none:5:inf")])
NUMBER = CHANNELS.numbers(np.zeros(1, np.uint8))[0]
OFTEN = Meetings(first=300, part=0.1, most=2_000)
SMALL = LearnerSpec(factors=8, sketch_bytes=1 << 15, scalars_bytes=1 << 15)


def stream(events, users=400, items=120, seed=5):
    """Return users, items and levels of people with two tastes."""
    draw = np.random.default_rng(seed)
    u = draw.integers(users, size=events).astype(np.uint64)
    i = (items * draw.random(events) ** 2).astype(np.uint64)
    alike = (u % 2 == i % 2) * 2.0 - 1
    level = np.clip(np.rint(2 + alike + (i % 5) / 4 + draw.normal(0, 0.5, events)), 0, 4)
    return u, i, level.astype(np.uint8)


def run(learner, data, step=512):
    u, i, level = data
    errors = []
    for first in range(0, len(u), step):
        part = slice(first, first + step)
        n = len(u[part])
        columns = u[part], i[part], level[part], np.full(n, NUMBER, np.uint16)
        found = learner.learn_many(*columns, np.ones(n, np.bool_))
        errors.append(found.predicted - (level[part] + 1.0))
    return np.concatenate(errors)


@pytest.mark.parametrize("model", ["dense", "hybrid"])
def test_shards_learn_as_well_as_one_and_apart_they_do_not(model):
    data = stream(30_000)

    def error(shards, meetings):
        made = ShardedLearner(lambda: build(model, CHANNELS, SMALL), shards, meetings)
        return float(np.sqrt(np.mean(run(made, data)[20_000:] ** 2)))

    alone = float(np.sqrt(np.mean(run(build(model, CHANNELS, SMALL), data)[20_000:] ** 2)))
    assert error(1, OFTEN) == pytest.approx(alone, abs=0.005)
    assert error(8, OFTEN) < alone + 0.01
    assert error(8, Meetings(first=10**6)) > alone + 0.02


def test_batches_change_nothing():
    data = stream(4_000)
    made = [ShardedLearner(lambda: build("hybrid", CHANNELS, SMALL), 3, OFTEN) for _ in range(2)]
    first, second = run(made[0], data, 4_000), run(made[1], data, 37)
    assert (first == second).all()
    u, i, _ = data
    assert (made[0].predict_many(u, i) == made[1].predict_many(u, i)).all()


def test_more_items_than_rows_stay_finite():
    tiny = LearnerSpec(factors=8, sketch_bytes=8 * 4 * 64, scalars_bytes=20 * 64)
    made = ShardedLearner(lambda: build("hybrid", CHANNELS, tiny), 4, OFTEN)
    errors = run(made, stream(20_000, users=500, items=500))
    assert np.abs(errors).max() <= 4


def test_a_sketch_cannot_be_divided():
    with pytest.raises(ValueError, match=r"model sketch: .* choose hybrid or dense"):
        ShardedLearner(lambda: build("sketch", CHANNELS, SMALL), 2)

"""The contract of every learner, over every row of the factory's table and the example's.

`example_learner.py` is the smallest learner there is: one file, and one row in `LEARNERS`.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.models.baselines.learners import LEARNERS
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import LearnerSpec
from tests.stream_app.models import example_learner
from tests.stream_app.models.learners import (
    CHANNELS,
    CLEAN,
    EVERY_LEARNER,
    HIDDEN,
    KNOWN,
    MECHANISMS,
    SIZES,
    UNUSED_CHANNEL,
    Batch,
    batch_of,
    batches,
    digest,
    every_learner,
    every_served_learner,
    small,
    stream,
)  # fmt: skip


@every_learner
@settings(deadline=None, max_examples=40)
@given(batch=batches(), cut=st.integers(0, 30))
def test_a_batch_may_be_cut_anywhere(model: str, batch: Batch, cut: int) -> None:
    whole, parts = small(model), small(model)
    once = whole.learn_many(*batch)
    first = parts.learn_many(*(column[:cut] for column in batch))
    second = parts.learn_many(*(column[cut:] for column in batch))
    assert digest(whole) == digest(parts)
    for a, b, c in zip(once, first, second, strict=True):
        assert a.tobytes() == np.concatenate([b, c]).tobytes()


@every_learner
def test_a_long_stream_is_the_same_in_batches_of_any_size(model: str) -> None:
    """Across the 64 events hashed ahead, and the slices and doublings of dense rows."""
    batch = stream(9000, 1, users=3000, items=2500)
    digests = []
    for size in (9000, 1000, 63):
        learner = small(model)
        for first in range(0, 9000, size):
            learner.learn_many(*(column[first : first + size] for column in batch))
        digests.append(digest(learner))
    assert digests[0] == digests[1] == digests[2]


@every_learner
def test_events_that_are_not_learned_leave_the_state_untouched(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(500, 2))
    before = digest(learner)
    u, i, z, c, _, g = stream(500, 3, users=400, items=400)
    update = learner.learn_many(u, i, z, c, np.zeros(500, np.bool_), g)
    assert np.abs(update.error).max() > 0.1
    learner.predict_many(u, i)
    learner.residuals(u, i, z, c, g)
    learner.users(u)
    learner.items(i)
    assert digest(learner) == before


@every_learner
def test_a_clipped_rating_leaves_the_state_untouched(model: str) -> None:
    learner = small(model, Parameters(clip=0.3))
    learner.learn_many(*stream(200, 4))
    far = batch_of([(1, 1, 0, CLEAN, True), (10**9, 10**9, 0, CLEAN, True)])
    before = digest(learner)
    update = learner.learn_many(*far)
    assert update.clipped.all()
    assert (update.error**2 > 0.3).all()
    assert digest(learner) == before


@every_learner
def test_a_report_or_mechanism_outside_the_tables_is_refused(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(200, 4))
    before = digest(learner)
    bad = [(1, 1, n, c, True) for c, n in enumerate(CHANNELS.alphabets.tolist())] + [
        (1, 1, 0, UNUSED_CHANNEL, True),
        (1, 1, 0, len(CHANNELS), True),
        (1, 1, 255, 65_535, True),
    ]
    update = learner.learn_many(*batch_of(bad))
    assert update.clipped.all()
    assert (update.error == 0).all()
    assert np.isnan(update.probability).all()
    assert digest(learner) == before


@every_learner
def test_predictions_and_residuals_are_those_of_learning(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(500, 5))
    u, i, z, c, _, g = stream(100, 6)
    first = slice(0, 1)
    predicted, residuals = learner.predict_many(u, i), learner.residuals(u, i, z, c, g)
    first_event = (column[first] for column in (u, i, z, c))
    update = learner.learn_many(*first_event, np.ones(1, np.bool_), g[first])
    assert update.predicted[0] == predicted[0]
    assert update.error[0] == residuals[0]
    assert ((predicted >= 1) & (predicted <= 5)).all()


@every_learner
def test_a_prediction_is_mean_and_biases_and_inner_product(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(2000, 7))
    u, i = stream(100, 8)[:2]
    (p, bu), (q, bi) = learner.users(u), learner.items(i)
    rhat = learner.mean + bu + bi + (p.astype(float) * q).sum(1)
    assert learner.predict_many(u, i) == pytest.approx(np.clip(rhat, 1, 5), abs=1e-5)


@every_learner
def test_a_clean_report_and_a_certain_channel_teach_the_same(model: str) -> None:
    """At epsilon = infinity the decode becomes the clean learner, up to the last Newton step."""
    certain = EVERY_LEARNER[model](_uncertain_by(1e-15), LearnerSpec(seed=5, **SIZES))
    clean = small(model)
    u, i, z, c, learn, _ = stream(400, 9)
    z, c = z % 5, np.zeros_like(c)
    a, b = clean.learn_many(u, i, z, c, learn), certain.learn_many(u, i, z, c, learn)
    assert a.predicted == pytest.approx(b.predicted, abs=0.05)
    assert np.abs(a.error - b.error).mean() < 0.01


def _uncertain_by(little: float):
    """Return a channel that is the identity but for `little`, so that it is decoded."""

    class Nearly:
        id, levels, inputs, alphabet, masks = "nearly", 5, 5, 5, range(0)

        def likelihood(self, mask: int = 0) -> np.ndarray:
            return np.eye(5) * (1 - 5 * little) + little

        def value(self, reports: np.ndarray) -> np.ndarray:
            return np.ones(len(reports))

        presence = square = value

    channels = Channels.from_mechanisms([Nearly()])  # type: ignore[list-item]
    assert not channels.exact[0]
    return channels


@every_learner
def test_seeds_make_different_learners_and_equal_seeds_equal_ones(model: str) -> None:
    batch = stream(300, 10)
    made = [EVERY_LEARNER[model](CHANNELS, LearnerSpec(seed=seed, **SIZES)) for seed in (1, 1, 2)]
    for learner in made:
        learner.learn_many(*batch)
    first, same, other = (digest(learner) for learner in made)
    assert first == same
    assert first != other


@every_learner
def test_columns_of_any_layout_are_accepted(model: str) -> None:
    """Read-only views of a message and strided columns, too."""
    batch = stream(100, 11)
    left, right = small(model), small(model)
    left.learn_many(*batch)
    views = []
    for column in batch:
        wide = np.repeat(column, 2)[::2]
        wide.flags.writeable = False
        views.append(wide)
    right.learn_many(*views)
    assert digest(left) == digest(right)
    with pytest.raises(ValueError, match="one length"):
        left.learn_many(batch[0][:3], *batch[1:5])
    with pytest.raises(ValueError, match="3 priors for 100 events"):
        left.learn_many(*batch[:5], batch[5][:3])


@every_learner
def test_without_priors_every_event_is_a_rating(model: str) -> None:
    """And where no channel protects presence, no column of ones is read or made."""
    batch = stream(200, 16)
    left, right = small(model), small(model)
    left.learn_many(*batch[:5])
    right.learn_many(*batch[:5], np.ones(200))
    assert digest(left) == digest(right)
    open_channels = Channels.from_mechanisms(MECHANISMS[:4])
    known = batch[3] < HIDDEN
    public = [column[known] for column in batch]
    learners = [EVERY_LEARNER[model](open_channels, LearnerSpec(seed=5, **SIZES)) for _ in range(2)]
    learners[0].learn_many(*public[:5])
    learners[1].learn_many(*public[:5], np.zeros(known.sum()))
    assert digest(learners[0]) == digest(learners[1])


@every_learner
def test_a_cell_that_is_surely_empty_teaches_nothing_and_a_likelier_one_more(model: str) -> None:
    found = []
    for g in (0.0, 0.1, 0.5, 1.0):
        learner = small(model)
        update = learner.learn_many(*batch_of([(1, 2, 4, HIDDEN, True)], [g]))
        found.append((float(update.error[0]), float(learner.items(np.array([2], np.uint64))[1][0])))
    assert found[0] == (0.0, 0.0)
    assert sorted(found) == found
    assert len(set(found)) == 4


@every_learner
def test_the_probability_of_reports_is_a_distribution(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(300, 17))
    for c in KNOWN[1:]:
        reports = np.arange(CHANNELS.alphabets[c])
        rows = [(1, 2, int(z), c, False) for z in reports]
        probability = learner.learn_many(*batch_of(rows, [0.3] * len(rows))).probability
        assert probability.sum() == pytest.approx(1)
        assert (probability > 0).all()


@every_learner
def test_an_empty_batch_is_a_batch(model: str) -> None:
    learner = small(model)
    before = digest(learner)
    update = learner.learn_many(*batch_of([]))
    assert [len(column) for column in update] == [0, 0, 0, 0]
    assert digest(learner) == before


@every_learner
def test_an_unknown_entity_has_a_short_vector_and_no_bias(model: str) -> None:
    for vectors, biases in (small(model).users(KEYS), small(model).items(KEYS)):
        assert np.abs(vectors).max() < 0.2
        assert (biases == 0).all()
        assert vectors.shape == (2, SIZES["factors"])


@every_served_learner
def test_a_forgotten_user_reads_as_an_unknown_one(model: str) -> None:
    sizes = {"sketch_bytes": 1 << 20, "scalars_bytes": 1 << 18}
    learner, fresh = small(model, **sizes), small(model, **sizes)
    u, i, z, c, learn, g = stream(2000, 18)
    learner.learn_many(u, i, z, c, learn, g)
    user = u[:1]
    assert learner.users(user)[1] != 0
    learner.forget(user[0])
    vector, bias = learner.users(user)
    assert vector == pytest.approx(fresh.users(user)[0], abs=1e-6)
    assert bias == 0


KEYS = np.array([7, 2**64 - 1], np.uint64)


def test_every_row_of_the_table_is_under_the_contract() -> None:
    assert set(LEARNERS) < set(EVERY_LEARNER)


def test_the_example_is_one_file_of_at_most_forty_lines() -> None:
    assert len(inspect.getsource(example_learner).splitlines()) <= 40


def test_the_example_predicts_better_than_the_mean() -> None:
    """Items of three levels, in the clear: the error of the last half against that of one mean."""
    random = np.random.default_rng(19)
    users, items = random.integers(0, 50, (2, 4000)).astype(np.uint64)
    levels = (items % 3 + random.integers(0, 2, 4000)).astype(np.uint8)
    learner = small("item-means", scalars_bytes=1 << 16)
    columns = users, items, levels, np.zeros(4000, np.uint16), np.ones(4000, np.bool_)
    found = learner.learn_many(*columns).predicted
    ratings = levels + 1.0
    error = np.sqrt(np.mean((found - ratings)[2000:] ** 2))
    assert error < 0.7 * ratings[2000:].std()

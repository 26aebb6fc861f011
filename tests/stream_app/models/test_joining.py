"""What shards learn of items, merged: natural parameters that add, in any order."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.kernels.exchange.natural_rows import ONE, sum_changes
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.joining import Meetings, SharedRows
from stream_app.models.factorization.learner import ITEM, LearnerSpec
from stream_app.privacy import registry

KEYS = np.arange(3, dtype=np.uint64)
FACTORS = 4
NO_MEAN = np.empty((0, 2))


def learner() -> HybridLearner:
    made = build(
        "hybrid",
        Channels.from_mechanisms([registry.parse("none:5:inf")]),
        LearnerSpec(factors=FACTORS, sketch_bytes=1 << 14, scalars_bytes=1 << 14),
    )
    assert isinstance(made, HybridLearner)
    return made


def knowing(bias: float, bias_share: float, share: float, vector: list[float]) -> HybridLearner:
    """Return a learner that knows this of the three items."""
    made = learner()
    vectors = np.tile(np.array(vector, np.float32), (3, 1))
    made.enter(KEYS, ITEM, vectors, np.tile(np.float32([bias, bias_share, share]), (3, 1)))
    return made


def change_of(given: HybridLearner) -> np.ndarray:
    """Return what a learner knows beyond an empty base, in units."""
    places, beliefs = SharedRows(learner()).difference(given, KEYS)
    assert (places == np.arange(3)).all()
    sums = np.zeros((3, 3 + FACTORS), np.int64)
    sum_changes(places, beliefs.view(np.uint16), sums)
    assert (sums == np.rint(beliefs.astype(np.float64) * ONE)).all()
    return sums


def merged(*changes: np.ndarray) -> tuple[HybridLearner, SharedRows]:
    """Return a fresh learner that has merged foreign changes one after the other."""
    made = learner()
    shared = SharedRows(made)
    for change in changes:
        shared.merge(made, KEYS, change, NO_MEAN, foreign=True)
    return made, shared


ONE_KNOWS = (0.5, 0.25, 0.5, [0.3, 0.0, 0.1, -0.1])
OTHER_KNOWS = (-0.3, 0.5, 0.8, [0.1, 0.4, 0.0, 0.2])


def test_what_one_shard_knows_is_taken_as_it_is() -> None:
    made, _ = merged(change_of(knowing(*ONE_KNOWS)))
    assert np.allclose(made.items(KEYS)[0], ONE_KNOWS[3], atol=1e-3)
    assert np.allclose(made.scalars_of(KEYS, ITEM), ONE_KNOWS[:3], atol=1e-3)


def test_precisions_and_moments_add_in_any_order() -> None:
    changes = [change_of(knowing(*known)) for known in (ONE_KNOWS, OTHER_KNOWS)]
    made, base = merged(*changes)
    bias, bias_share, share = made.scalars_of(KEYS, ITEM)[0]
    assert bias == pytest.approx((4 * 0.5 - 2 * 0.3) / 5, abs=1e-3)
    assert (bias_share, share) == pytest.approx((1 / 5, 1 / 2.25), abs=1e-3)
    _, back = merged(*changes[::-1])
    for name, array in base.arrays().items():
        assert (array == back.arrays()[name]).all()


def test_an_own_change_moves_the_base_alone_and_leaves_what_rounding_left() -> None:
    made = knowing(*ONE_KNOWS)
    before = {name: array.copy() for name, array in made.arrays().items()}
    shared = SharedRows(learner())
    shared.merge(made, KEYS, change_of(made), NO_MEAN, foreign=False)
    for name, array in made.arrays().items():
        assert (array == before[name]).all()
    _, left = shared.difference(made, KEYS)
    assert np.abs(left).max(initial=0) < 2e-3


def test_no_row_is_surer_or_less_sure_than_a_row_can_be() -> None:
    wide = np.zeros((3, 3 + FACTORS), np.int64)
    wide[:, :2] = -5 * ONE
    made, _ = merged(wide)
    assert (made.scalars_of(KEYS, ITEM)[:, 1:] == 1).all()
    sure = np.zeros((3, 3 + FACTORS), np.int64)
    sure[:, :2], sure[:, 2:] = 10**8 * ONE, 2**56
    made, _ = merged(sure)
    assert np.allclose(made.scalars_of(KEYS, ITEM)[:, 1:], 1e-6)
    assert np.isfinite(made.items(KEYS)[0]).all()
    assert np.abs(made.scalars_of(KEYS, ITEM)[:, 0]).max() <= 8


def test_means_are_weighed_by_what_each_shard_has_seen() -> None:
    made, first = learner(), learner().overall.copy()
    shared, natural = SharedRows(made), 1 / first[1]
    changes = []
    for mean, variance in ((4.0, 0.5), (3.5, 0.25)):
        one = learner()
        one.set_mean(np.array([mean, variance]))
        changes.append(shared.mean_difference(one))
    shared.merge(
        made, KEYS[:0], np.empty((0, 3 + FACTORS), np.int64), np.concatenate(changes), foreign=True
    )
    precision = 2 + 4 - natural
    assert made.overall[1] == pytest.approx(1 / precision)
    assert made.overall[0] == pytest.approx((8 + 14 - natural * first[0]) / precision)
    assert np.abs(shared.mean_difference(made)).max() < 1e-6


def test_items_without_a_row_of_their_own_are_passed_over() -> None:
    tiny = build(
        "hybrid",
        Channels.from_mechanisms([registry.parse("none:5:inf")]),
        LearnerSpec(factors=FACTORS, sketch_bytes=16 * 4, scalars_bytes=1 << 14),
    )
    assert isinstance(tiny, HybridLearner)
    shared, keys = SharedRows(tiny), np.arange(9, dtype=np.uint64)
    sums = np.full((9, 3 + FACTORS), ONE, np.int64)
    shared.merge(tiny, keys, sums, NO_MEAN, foreign=True)
    assert tiny.rows_given == tiny.rows < 9
    own, _ = tiny.beyond(keys, ITEM, shared.arrays()["base"])
    assert own.tolist() == [True] * tiny.rows + [False] * (9 - tiny.rows)


def test_shards_publish_often_at_first_and_rarely_late() -> None:
    meetings, at, seen = Meetings(first=10, part=0.5, late=60, late_part=1.0, most=100), 0, []
    while at < 500:
        at += meetings.after(at)
        seen.append(at)
    assert seen == [10, 20, 30, 45, 67, 134, 234, 334, 434, 534]
    assert not meetings.due(4, 0, 2)
    assert meetings.due(5, 0, 2)
    assert not meetings.due(0, 0, 2)

"""What shards know of items, joined: sums in natural parameters, in any order."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.models.factorization.joining import Meetings, joined, joined_mean
from stream_app.models.factorization.transfer import Known

KEYS = np.arange(3, dtype=np.uint64)


def known(bias, bias_share, share, vector):
    vectors = np.tile(np.array(vector, np.float32), (3, 1))
    return Known(KEYS, vectors, np.tile(np.array([bias, bias_share, share], np.float32), (3, 1)))


START = known(0, 1, 1, [0.1, -0.2])
ONE, OTHER = known(0.5, 0.25, 0.5, [0.3, 0.0]), known(-0.3, 0.5, 0.8, [0.1, 0.4])


def equal(first: Known, second: Known) -> bool:
    return np.allclose(first.vectors, second.vectors) and np.allclose(first.scalars, second.scalars)


def test_what_one_shard_knows_is_taken_as_it_is():
    assert equal(joined(START, [ONE]), ONE)
    assert equal(joined(START, [ONE, START, START]), ONE)


def test_precisions_and_moments_add():
    found = joined(START, [ONE, OTHER])
    assert found.scalars[0] == pytest.approx([(4 * 0.5 - 2 * 0.3) / 5, 1 / 5, 1 / 2.25])
    vector = (2 * np.array([0.3, 0]) + 1.25 * np.array([0.1, 0.4]) - [0.1, -0.2]) / 2.25
    assert found.vectors[0] == pytest.approx(vector)
    assert equal(found, joined(START, [OTHER, ONE]))


def test_shards_that_are_joined_one_after_the_other_know_the_same():
    first = joined(START, [ONE])
    late = joined(START, [OTHER])  # what the other has learned, of which the first knows nothing
    assert equal(joined(START, [first, late]), joined(START, [ONE, OTHER]))


def test_no_row_is_surer_or_less_sure_than_a_row_can_be():
    widened = joined(known(0.5, 0.5, 0.5, [1, 1]), [known(0.5, 0.9, 0.9, [1, 1])] * 4)
    assert (widened.scalars[:, 1:] == 1).all()
    sure = joined(START, [known(0.5, 1e-6, 1e-6, [1, 1])] * 4)
    assert np.allclose(sure.scalars[:, 1:], 1e-6)
    assert np.isfinite(sure.vectors).all()
    assert np.abs(sure.vectors - 1).max() < 4


def test_means_are_weighed_by_what_each_shard_has_seen():
    before, one, other = np.array([3.0, 1.0]), np.array([4.0, 0.5]), np.array([3.5, 0.25])
    assert joined_mean(before, [one]) == pytest.approx(one)
    assert joined_mean(before, [one, other]) == pytest.approx([(8 + 14 - 3) / 5, 1 / 5])
    assert np.isfinite(joined_mean(before, [np.array([4.0, 0.0]), one])).all()


def test_shards_meet_often_at_first():
    meetings, at, seen = Meetings(first=10, part=0.5, most=100), 0, []
    while at < 500:
        at += meetings.after(at)
        seen.append(at)
    assert seen == [10, 20, 30, 45, 67, 100, 150, 225, 325, 425, 525]

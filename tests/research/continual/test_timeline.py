"""Ratings in time order: what a device has at a row, and what it predicts there."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest

from research.continual.timeline import Timeline
from stream_app.campaigns.learning.stars_learning import UNKNOWN_BIAS
from stream_app.campaigns.stars.fold_in import MEAN, fold_in, predict
from stream_app.campaigns.stars.side import StarsSide
from stream_app.evaluation import EvaluationData, TrueRatings


def world(n: int = 400, users: int = 9, items: int = 14, lowest: float = 1) -> EvaluationData:
    """Items are rated again often, and some are rarely rated at all."""
    random = np.random.default_rng(5)
    by_item = np.minimum(random.integers(0, items, n), random.integers(0, items, n))
    ratings = lowest + random.integers(0, 9, n) / 2
    return EvaluationData(
        random.integers(0, users, n).astype(np.uint64) * 7,
        by_item.astype(np.uint64) * 11,
        TrueRatings(ratings, lowest, lowest + 4),
    )


def side(items: int, features: int) -> StarsSide:
    random = np.random.default_rng(6)
    return replace(
        StarsSide.start(random.normal(size=(items, features)), 2),
        biases=random.normal(scale=0.3, size=items),
        vectors=random.normal(scale=0.5, size=(items, 2)),
    )


@pytest.mark.parametrize("features", [0, 3])
@pytest.mark.parametrize("bounds", [(0, 400), (150, 400), (150, 260)])
def test_a_rating_is_predicted_by_the_fold_in_of_those_before_it(features, bounds):
    data = world()
    line, public = Timeline(data, 10), side(10, features)
    found = line.predicted(public, *bounds)
    assert (line.places == -1).any()
    for row in range(*bounds):
        person = fold_in(public, line.own(int(line.users[row]), row))
        place = line.places[row]
        expected = MEAN + UNKNOWN_BIAS + person.bias
        if place >= 0:
            expected = predict(public, person, np.array([place]))[0]
        assert found[row - bounds[0]] == pytest.approx(np.clip(expected, 1, 5), abs=1e-9)


@pytest.mark.parametrize("lowest", [1, 0.5])
def test_a_device_has_the_newest_rating_of_each_item_of_the_scope(lowest):
    data = world(lowest=lowest)
    line = Timeline(data, 10)
    for user, until in ((0, 400), (3, 200), (8, 30), (5, 0)):
        rows = np.flatnonzero(line.users[:until] == user)
        newest = {int(line.places[row]): row for row in rows if line.places[row] >= 0}
        own = line.own(user, until)
        assert {
            place: pytest.approx(1 + data.truth.ratings[row] - lowest)
            for place, row in newest.items()
        } == dict(zip(own.places.tolist(), own.stars.tolist(), strict=True))
        assert list(own.places) == sorted(newest, key=lambda place: newest[place])
        assert own.liked.tolist() == (own.stars >= 4).tolist()


def test_the_scope_are_the_most_rated_items():
    data = world()
    line = Timeline(data, 10)
    counts = [int((data.items == key).sum()) for key in line.scope]
    assert counts == sorted(counts, reverse=True)
    assert min(counts) >= max(
        int((data.items == key).sum()) for key in set(data.items) - set(line.scope)
    )
    inside = line.places >= 0
    assert np.array_equal(line.scope[line.places[inside]], data.items[inside])


def test_everybody_joins_once():
    line = Timeline(world(), 10)
    ends = (0, 3, 5, 90, 400)
    joined = [line.joined(a, b) for a, b in pairwise(ends)]
    assert sorted(chain(*joined)) == list(range(line.people))
    assert joined[0] == sorted(set(line.users[:3].tolist()))
    for users, first in zip(joined, ends[:-1], strict=True):
        assert not set(users) & set(line.users[:first].tolist())

"""The growth benchmark at tiny sizes: the work and the memory that it counts, never its speeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.benchmarks import growth
from tests.benchmarks.growth import DEPTH, FIXED, MODELS, ROW_BYTES, Cost, Sizes

TINY = Sizes(
    users=(300, 2000), items=(40,), rounds=2, ratings=500, queries=2, probed=(1 << 16, 1 << 21)
)


@pytest.fixture(scope="module")
def found() -> growth.Growth:
    return growth.grow(TINY)


@pytest.mark.nightly
def test_every_learner_learns_all_ratings_at_every_size(found: growth.Growth) -> None:
    sizes = [(c.learner, c.users, c.items) for c in found.costs]
    assert sizes == [(name, users, 40) for users in TINY.users for name in MODELS]
    # Everyone once, an unmeasured round and two measured ones.
    assert {c.users: c.ratings for c in found.costs} == {300: 300 + 1500, 2000: 2000 + 1500}
    assert all(c.nanoseconds > 0 for c in found.costs)


@pytest.mark.nightly
def test_memory_is_that_of_the_arrays(found: growth.Growth) -> None:
    tracked = {(c.learner, c.users): c.tracked for c in found.costs}
    for users in TINY.users:
        assert tracked["sketch, fixed", users] >= FIXED.sketch_bytes + FIXED.scalars_bytes
        entities = users + 40
        whole = entities // DEPTH * DEPTH * ROW_BYTES, entities // 4 * 4 * 16
        grown = tracked["sketch, gamma 1", users] - sum(whole)
        assert 0 <= grown <= 64  # the mean and its variance
        assert tracked["dense", users] > (ROW_BYTES + 8) * entities
    assert tracked["sketch, fixed", 300] == tracked["sketch, fixed", 2000]
    assert tracked["hybrid", 300] == tracked["hybrid", 2000]
    assert all(c.resident < 1 << 30 for c in found.costs)


@pytest.mark.nightly
def test_a_round_touches_rows_of_distinct_users_and_items(found: growth.Growth) -> None:
    users, items = growth.drawn(0, TINY.ratings, 2000, 40)
    rows = len(set(users.tolist())) + len(set(items.tolist()))
    touched = {c.learner: c.touched for c in found.costs if c.users == 2000}
    assert touched["dense"] == touched["hybrid"] == rows * ROW_BYTES
    assert touched["sketch, fixed"] == DEPTH * rows * ROW_BYTES


@pytest.mark.nightly
def test_figures_and_tables_hold_all_sizes(found: growth.Growth) -> None:
    figures = {figure.name: figure for figure in growth.figures(found)}
    for users in ("300", "2,000"):
        for name in MODELS:
            assert figures[f"growth {name}, {users} users x 40 items"].unit == "ns/rating"
        assert figures[f"growth top 100, {users} users x 40 items"].value > 0
    assert figures["index of 40 items"].value * 1e6 == found.indexes[40]
    assert sum("bends" in name for name in figures) == len(MODELS)
    assert sum(name.startswith("read among") for name in figures) == 4
    assert [table.row_count for table in growth.tables(found)] == [8, 2, 2]


def test_ratings_are_the_same_each_time_and_few_get_many() -> None:
    first, again = (growth.drawn(3, 20_000, 1000, 1000) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert (growth.drawn(4, 20_000, 1000, 1000)[0] != first[0]).any()
    users, items = (np.sort(np.unique(c, return_counts=True)[1])[::-1] for c in first)
    assert users[:250].sum() / 20_000 == pytest.approx(0.5, abs=0.03)
    # Zipf: the first ten of a thousand take log(11) / log(1001).
    assert items[:10].sum() / 20_000 == pytest.approx(math.log(11) / math.log(1001), abs=0.03)


def test_everyone_has_been_rated_before() -> None:
    for users, items in ((300, 40), (40, 300)):
        parts = list(growth._everyone(users, items))
        people, things = (set(np.concatenate(c).tolist()) for c in zip(*parts, strict=True))
        assert (len(people), len(things)) == (users, items)
        assert not people & things
        drawn = growth.drawn(1, 200, users, items)
        assert set(drawn[0].tolist()) <= people
        assert set(drawn[1].tolist()) <= things


def cost(touched: int, nanoseconds: float) -> Cost:
    return Cost("dense", 1, 1, nanoseconds, 1, touched, touched, 0)


def test_a_learner_bends_where_it_stays_slower() -> None:
    slow = [cost(4, 15.0), cost(8, 40.0)]
    assert growth.bend([cost(1, 10.0), cost(2, 14.0), *slow]) == slow[0]
    # One slow point in between is no bend.
    assert growth.bend([cost(1, 10.0), cost(2, 20.0), cost(4, 11.0), slow[1]]) == slow[1]
    assert growth.bend([cost(1, 10.0), cost(2, 12.0)]) is None


def test_levels_are_the_smallest_caches_that_hold_it() -> None:
    known = {"L2": 100, "L3": 1000}
    assert [growth.level_of(n, known) for n in (100, 101, 1001)] == ["L2", "L3", "DRAM"]
    assert growth.level_of(1, {}) == "?"


def test_the_command_prints_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert growth.main(["--users", "0"]) == 2
    assert capsys.readouterr().err == "0 users or items: use 1 or more\n"
    assert growth.main(["--rounds", "0"]) == 2
    assert capsys.readouterr().err == "rounds 0: use 1 or more\n"
    assert growth.steps(TINY) == 4

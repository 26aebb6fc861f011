"""The choice of what serves: popularity until another method is measurably better."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.online_choice import METHODS, OnlineChoice, rank, start_of
from stream_app.ranking.scores import Components, Weights

ITEMS = 40


def components(random: np.random.Generator, target: int, **strengths: float) -> Components:
    """Return drawn scores, in which the components named lift the target."""
    scores = {name: random.standard_normal(ITEMS) for name in Components._fields}
    for name, strength in strengths.items():
        scores[name][target] += strength
    scores["popular"] = np.exp(scores["popular"])
    return Components(**{name: values.astype(np.float32) for name, values in scores.items()})


def watched(events: int, seed: int = 1, **strengths: float) -> OnlineChoice:
    random, choice = np.random.default_rng(seed), OnlineChoice()
    for _ in range(events):
        target = int(random.integers(ITEMS))
        choice.observe(target, components(random, target, **strengths))
    return choice


@pytest.mark.parametrize("name", ["ease", "low_rank", "stars"])
def test_the_component_that_knows_what_comes_next_serves(name):
    choice = watched(400, **{name: 3.0})
    method = {"stars": "factors"}.get(name, name)
    assert choice.best in (method, "blend")
    assert choice.ndcg(method) > 2 * choice.ndcg("popular")
    assert choice.hit_rate(method) > choice.hit_rate("popular")


@pytest.mark.parametrize("seed", range(10))
def test_without_a_difference_popularity_serves(seed):
    """At the end of 300 events each of four methods is ahead by 3 standard errors with probability
    about .0013: 10 seeds fail by chance in fewer than 1 of 19 runs, and the seeds are fixed."""
    assert watched(300, seed).best == "popular"


def test_few_events_leave_popularity():
    choice = watched(40, ease=9.0)
    assert choice.ndcg("ease") > choice.ndcg("popular")
    assert choice.best == "popular"


def test_where_popularity_is_best_it_serves():
    assert watched(400, popular=3.0).best in ("popular", "blend")
    assert watched(400, popular=9.0).best == "popular"


def test_the_blend_learns_which_component_to_follow():
    choice = watched(1500, low_rank=3.0)
    assert choice.weights.low_rank > 1
    others = choice.weights._replace(low_rank=0.0)
    assert max(map(abs, others)) < choice.weights.low_rank / 2
    assert choice.ndcg("blend") > 0.9 * choice.ndcg("low_rank")


def test_two_components_together_beat_each_of_them():
    choice = watched(2000, ease=1.5, low_rank=1.5)
    assert choice.ndcg("blend") > max(choice.ndcg("ease"), choice.ndcg("low_rank"))
    assert choice.best == "blend"


def test_what_was_good_long_ago_is_forgotten():
    random, choice = np.random.default_rng(3), OnlineChoice(memory=200)
    for name, events in (("ease", 600), ("low_rank", 1000)):
        for _ in range(events):
            target = int(random.integers(ITEMS))
            choice.observe(target, components(random, target, **{name: 4.0}))
    assert choice.ndcg("low_rank") > 2 * choice.ndcg("ease")
    assert choice.events == pytest.approx(200, rel=0.01)


def test_equal_events_give_equal_choices():
    first, second = (watched(120, ease=2.0) for _ in range(2))
    assert first.weights == second.weights
    assert [first.ndcg(method) for method in METHODS] == [second.ndcg(m) for m in METHODS]


def test_items_that_cannot_be_shown_take_no_place():
    flat = np.arange(ITEMS, 0, -1).astype(np.float32)
    same = Components(flat, flat, flat, flat, flat)
    allowed = np.ones(ITEMS, bool)
    allowed[:7] = False
    choice = OnlineChoice(k=10)
    choice.observe(8, same, allowed)
    assert choice.ndcg("ease") == pytest.approx(1 / math.log2(3))
    choice.observe(3, same, allowed)
    assert choice.events == 1


def test_before_the_first_event_nothing_is_measured():
    choice = OnlineChoice()
    assert choice.best == "popular"
    assert math.isnan(choice.ndcg("ease"))
    assert math.isnan(choice.hit_rate("blend"))


def test_constant_scores_are_finite_and_equal_scores_rank_by_place():
    flat = np.full(ITEMS, 0.5, np.float32)
    choice = OnlineChoice(k=3)
    for _ in range(80):
        choice.observe(2, Components(flat, flat, flat, flat, flat))
    assert choice.ndcg("blend") == pytest.approx(1 / 2)
    assert choice.best == "popular"
    assert np.isfinite(choice.weights).all()
    assert [rank(np.array([5.0, 7, 5, 5]), place) for place in range(4)] == [2, 1, 3, 4]


@pytest.mark.parametrize(("k", "memory"), [(0, 100.0), (10, 1.0), (10, math.nan)])
def test_a_list_without_places_or_a_memory_without_events_is_refused(k, memory):
    with pytest.raises(ValueError, match="must be at least 1"):
        OnlineChoice(k=k, memory=memory)


def from_blend(events: int, **strengths: float) -> OnlineChoice:
    random, choice = np.random.default_rng(2), OnlineChoice()
    choice.start = "blend"
    for _ in range(events):
        target = int(random.integers(ITEMS))
        choice.observe(target, components(random, target, **strengths))
    return choice


def test_a_start_serves_by_default_weights_until_another_is_measurably_better():
    assert from_blend(0).best == "blend"
    assert from_blend(40, popular=9.0).best == "blend"
    assert from_blend(40, popular=9.0).weights == Weights()
    assert from_blend(400).best == "blend"


def test_popularity_takes_over_from_a_start_that_is_worse():
    random, choice = np.random.default_rng(2), OnlineChoice()
    choice.start = "ease"
    for _ in range(400):
        target = int(random.integers(ITEMS))
        choice.observe(target, components(random, target, popular=9.0))
    assert choice.best in ("popular", "blend")
    assert choice.ndcg(choice.best) > 2 * choice.ndcg("ease")


def test_fitted_weights_rank_only_where_they_are_measured_as_better():
    assert from_blend(400, stars=4.0).weights.stars > Weights().stars
    worse = OnlineChoice()
    random = np.random.default_rng(4)
    for number in range(300):  # the fit follows the stars, and then they mislead
        target = int(random.integers(ITEMS))
        lifted = {"stars": 6.0} if number < 60 else {"stars": -6.0, "ease": 4.0}
        worse.observe(target, components(random, target, **lifted))
    assert worse.ndcg("blend") >= 0.5 * worse.ndcg("ease")


def test_an_item_side_without_links_starts_with_popularity():
    side = ItemSide(
        1, np.arange(3, dtype=np.uint64), *np.ones((2, 3), np.float32),
        np.zeros((3, 0), np.uint16), np.zeros((3, 0), np.float32),
        np.zeros((3, 0), np.uint16), np.zeros((3, 0), np.float32),
        np.ones(3, np.float32), np.zeros((3, 0), np.float32), np.ones(3, np.float32),
    )  # fmt: skip
    assert start_of(None) == start_of(side) == "popular"
    links = np.zeros((3, 2), np.uint16), np.ones((3, 2), np.float32)
    assert start_of(replace(side, link_targets=links[0], link_weights=links[1])) == "blend"

"""The components of a score, their sum and the best k, each against the obvious version."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.ranking import ease, scores, visit_events
from stream_app.ranking.derivation import derive
from stream_app.ranking.histories import OLDER, History
from stream_app.ranking.low_rank import posterior_likes
from stream_app.ranking.scores import COUNT, DEFAULT, component_scores, fallback, score, top_slots
from tests.naive import ranking as naive
from tests.stream_app.ranking.tables import devices, public

ITEMS = 30
HAD, X = [4, 9, 17], [1.0, 0.5, 0.8]
AGO, AGES = [1, 0, 0], [0.0, 2.0, 0.0]


@pytest.fixture(scope="module")
def counts():
    random = np.random.default_rng(9)
    x = devices(random, users=500, items=ITEMS)
    between, within = random.random((2, ITEMS, ITEMS)).astype(np.float32) * 30
    return public(x, between, within)


@pytest.fixture(scope="module")
def derived(counts):
    assert (
        min(ease.LINKS_A_ROW, visit_events.FOLLOWS_A_ROW, visit_events.VISIT_FOLLOWS_A_ROW) >= ITEMS
    )
    return derive(counts, np.linspace(1, 5, ITEMS, dtype=np.float32))


@pytest.fixture(scope="module")
def side(derived):
    return derived.side


def history(slots: list[int] = HAD) -> History:
    n = len(slots)
    return History(
        np.array(slots, np.intp),
        np.array(X[:n], np.float32),
        np.array(AGO[:n]),
        np.array(AGES[:n], np.float32),
    )


def test_each_component_equals_the_obvious_version(counts, side):
    found = component_scores(side, history())
    B = naive.ease(ease.moments(counts), ease.ridge(counts))
    last = [0.0, 1.0, 1.0]
    recent = [0.0, np.exp(-2 / 5), 1.0]
    for name, of_visit in (("links", [1.0] * 3), ("visit", last), ("place", recent)):
        x = [a * b for a, b in zip(X, of_visit, strict=True)]
        assert getattr(found, name) == pytest.approx(naive.history_sums(B, HAD, x), abs=1e-4), name
    for name, a in (("within", recent), ("between", last)):
        table = naive.following(getattr(counts, name), counts.reports, 500)
        sums = np.array(naive.history_sums(table, HAD, a))
        assert getattr(found, name) == pytest.approx(np.sqrt(sums), rel=1e-4), name
    share = counts.reports / 500 + 0.5 / 500
    assert found.share == pytest.approx(share)
    assert found.popularity == pytest.approx(np.log(share))
    assert found.lately == pytest.approx(np.log(share))  # nothing is recent
    assert found.liking == pytest.approx(0, abs=1e-6)  # the tables of these tests hold likes alone


def test_the_default_is_links_and_three_tenths_of_the_share(side):
    parts = component_scores(side, history())
    assert score(side, history()) == pytest.approx(parts.links + 0.3 * parts.share, rel=1e-5)
    assert scores.basis_of(side, history(), now=False) == "links"


def test_an_empty_history_leaves_the_popular_items(side):
    found = score(side, history([]))
    assert top_slots(found, ITEMS).tolist() == top_slots(side.popularity, ITEMS).tolist()
    assert scores.basis_of(side, history([]), now=False) == "popular"


@pytest.mark.parametrize("now", [False, True])
def test_learned_weights_grow_with_the_length_of_the_history(side, now):
    weights = np.random.default_rng(3).normal(size=2 * COUNT).astype(np.float32)
    learned = replace(side, **{"now_weights" if now else "next_weights": weights})
    parts = np.stack(component_scores(side, history()))
    expected = (weights[:COUNT] + weights[COUNT:] * np.log(4) / 4) @ parts
    assert score(learned, history(), now=now) == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert scores.basis_of(learned, history(), now=now) == "learned"
    assert (score(learned, history(), now=not now) == score(side, history())).all()


def test_a_history_without_times_has_no_last_visit(side):
    untimed = History.untimed(np.array(HAD), np.array(X, np.float32))
    assert set(untimed.visits_ago.tolist()) == {OLDER}
    found = component_scores(side, untimed)
    assert not any(getattr(found, name).any() for name in ("visit", "place", "within", "between"))
    assert (found.links == component_scores(side, history()).links).all()


def test_pruned_links_are_those_of_the_whole_table_or_nothing(monkeypatch, counts, side):
    ratings = np.full(ITEMS, 3, np.float32)
    monkeypatch.setattr(ease, "LINKS_A_ROW", 6)
    pruned = derive(counts, ratings).side
    for slot in range(ITEMS):
        row = dict(zip(side.link_targets[slot], side.link_weights[slot], strict=True))
        kept = zip(pruned.link_targets[slot], pruned.link_weights[slot], strict=True)
        assert all(row[target] == weight for target, weight in kept)


@pytest.mark.parametrize("k", [0, 1, 3, 8, 9])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_k_are_those_of_a_full_sort_with_equal_scores_by_slot(k, seed):
    random = np.random.default_rng(seed)
    drawn = random.integers(0, 4, 12).astype(np.float32)
    allowed = random.random(12) < 0.7
    expected = sorted(np.flatnonzero(allowed), key=lambda slot: (-drawn[slot], slot))[:k]
    assert top_slots(drawn, k, allowed).tolist() == expected


def test_the_fallback_prefers_popular_and_well_rated_items():
    found = fallback(np.array([0.1, 0.2, 0.2], np.float32), np.array([4, 4, 5], np.float32))
    assert top_slots(found, 3).tolist() == [2, 1, 0]


def test_an_empty_table_of_what_follows_is_none(counts):
    assert visit_events.following(None, visit_events.follow_scales(counts)) is None
    alone = derive(counts._replace(within=None), np.full(ITEMS, 3, np.float32)).side
    assert alone.within_targets.shape == (ITEMS, 0)
    assert not component_scores(alone, history()).within.any()


def test_a_like_is_as_probable_as_prior_and_bit_make_it(derived):
    model = derived.model
    taste = np.random.default_rng(1).normal(size=model.factors.shape[1]).astype(np.float32)
    prior = np.clip(model.rates + model.factors @ taste, 0.001, 0.999)
    p, q = 0.7, 0.2
    positive = np.arange(ITEMS) % 3 == 0
    found = posterior_likes(model, taste, positive, (p, q))
    for slot in range(ITEMS):
        given = (p, q) if positive[slot] else (1 - p, 1 - q)
        joint = prior[slot] * given[0], (1 - prior[slot]) * given[1]
        assert found[slot] == pytest.approx(joint[0] / sum(joint), rel=1e-4)
    without = posterior_likes(model, taste, positive, (0.5, 0.5))
    assert without == pytest.approx(prior, rel=1e-4)


def test_the_default_weights_are_those_of_the_formula():
    assert DEFAULT.tolist() == pytest.approx([1, 0, 0, 0, 0, 0, 0, 0, 0.3, *[0] * COUNT])

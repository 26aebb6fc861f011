"""The item side from pair counts, on generated taste and on data that are too few."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from stream_app.ranking import low_rank
from stream_app.ranking.derivation import Derived, derive, least_signal
from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import PairCounts
from stream_app.ranking.scores import component_scores, score, top_slots
from tests.stream_app.ranking.tables import devices, protected, public

CLUSTERS = 4


def derived(counts: PairCounts) -> Derived:
    return derive(counts, np.full(len(counts.keys), 3.5, np.float32))


def item_side(counts: PairCounts) -> ItemSide:
    return derived(counts).side


def history(slots: list[int]) -> History:
    return History.untimed(np.array(slots, np.intp), np.ones(len(slots), np.float32))


@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_a_user_of_a_cluster_gets_items_of_that_cluster(epsilon):
    random = np.random.default_rng(5)
    x = devices(random, users=2000, clusters=CLUSTERS)
    side = item_side(public(x) if epsilon is None else protected(random, x, epsilon))
    for cluster in range(CLUSTERS):
        had = [cluster, cluster + CLUSTERS, cluster + 2 * CLUSTERS]
        allowed = np.ones(len(side), bool)
        allowed[had] = False
        found = score(side, history(had))
        assert set(top_slots(found, 8, allowed) % CLUSTERS) == {cluster}


def table(users: int, items: int, share: float) -> np.ndarray:
    random = np.random.default_rng(3)
    return (random.random((users, items)) < share).astype(np.float32)


FEW = {
    "no item": table(9, 0, 0.5),
    "an item": table(9, 1, 0.5),
    "a device": table(1, 9, 0.5),
    "no device": table(0, 9, 0.5),
    "no like": table(9, 9, 0.0),
    "all liked": table(9, 9, 1.0),
    "more items than devices": table(5, 90, 0.3),
}


@pytest.mark.parametrize("x", FEW.values(), ids=FEW.keys())
@pytest.mark.parametrize("channel", [None, (0.7, 0.3)])
def test_too_few_data_give_finite_scores(x, channel):
    side = item_side(public(x)._replace(channel=channel))
    for field in fields(side):
        assert np.isfinite(getattr(side, field.name)).all()
    had = list(range(min(2, len(side))))
    components = component_scores(side, history(had))
    found = (*components, score(side, history(had)))
    assert all(np.isfinite(scores).all() for scores in found)


def test_without_a_like_there_are_neither_links_nor_factors():
    side = item_side(public(FEW["no like"]))
    assert side.link_weights.size == 0
    assert side.factors.size == 0


def test_reports_that_are_all_noise_give_the_popular_items():
    random = np.random.default_rng(2)
    x = (random.random((300, 40)) < np.linspace(0.1, 0.6, 40)).astype(np.float32)
    side = item_side(protected(random, x, 0.2))
    assert side.link_weights.size == side.factors.size == 0
    popular = top_slots(side.popularity, 10)
    assert top_slots(score(side, history([3, 7])), 10).tolist() == popular.tolist()
    assert item_side(public(x)).link_weights.any()


@pytest.mark.parametrize(("users", "epsilon", "has_links"), [(4000, 4, True), (300, 0.5, False)])
def test_reports_that_are_nearly_all_noise_give_popularity_alone(users, epsilon, has_links):
    random = np.random.default_rng(3)
    groups = random.integers(0, 4, users)[:, None] == np.arange(40)[None, :] % 4
    x = (random.random((users, 40)) < np.where(groups, 0.4, 0.05)).astype(np.float32)
    counts = protected(random, x, epsilon)
    share = low_rank.signal(counts, low_rank.rates(counts))
    assert (share > least_signal(40)) == has_links
    side = item_side(counts)
    assert bool(side.link_targets.shape[1]) == bool(side.factors.shape[1]) == has_links


def test_the_signal_of_independent_items_is_nothing():
    """The mean square of 3,160 correlations has a relative standard error of .025. Three of these
    are exceeded in 1 of 700 draws, and the seed is fixed.
    """
    random = np.random.default_rng(5)
    x = (random.random((2000, 80)) < 0.2).astype(np.float32)
    counts = protected(random, x, 1.0)
    assert low_rank.signal(counts, low_rank.rates(counts)) < least_signal(80)

"""The figures of lists against the obvious version, and on lists whose figures are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stream_app.evaluation.ranking import list_quality
from tests.naive import list_quality as naive

K, ITEMS = 5, 14


def drawn(seed: int, users: int = 30) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return lists (u, K), some shorter, and relevant items, for some users none."""
    random = np.random.default_rng(seed)
    lists = np.stack([random.permutation(ITEMS)[:K] for _ in range(users)])
    for row in lists:
        row[K - random.integers(0, K + 1) :] = -1
    relevant = [random.permutation(ITEMS)[: random.integers(0, 9)] for _ in range(users)]
    return lists, relevant


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["ndcg", "recall", "hit_rate"])
def test_figures_on_relevant_items_equal_the_obvious_version(name, seed):
    lists, relevant = drawn(seed)
    expected = getattr(naive, name)(lists.tolist(), [wanted.tolist() for wanted in relevant])
    assert getattr(list_quality, name)(lists, relevant) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_figures_of_lists_alone_equal_the_obvious_version(seed):
    lists, relevant = drawn(seed)
    popular = relevant[0]
    assert list_quality.coverage(lists, ITEMS) == naive.coverage(lists.tolist(), ITEMS)
    assert list_quality.overlap(lists) == pytest.approx(naive.overlap(lists.tolist()))
    share = naive.popularity_share(lists.tolist(), popular.tolist())
    assert list_quality.popularity_share(lists, popular) == pytest.approx(share)


def test_a_perfect_list_has_ndcg_recall_and_hit_rate_of_one():
    lists = np.array([[3, 1, 2], [5, -1, -1]])
    relevant = [np.array([1, 2, 3, 4]), np.array([5])]
    for figure in (list_quality.ndcg, list_quality.recall, list_quality.hit_rate):
        assert figure(lists, relevant) == 1


def test_a_hit_counts_less_the_later_it_comes():
    relevant = [np.array([7])]
    gains = [list_quality.ndcg(np.roll([[7, 1, 2, 3]], place), relevant) for place in range(4)]
    assert gains == pytest.approx([1, 1 / math.log2(3), 1 / 2, 1 / math.log2(5)])


def test_drawn_pairs_estimate_the_overlap_of_all_pairs():
    """4,000 drawn of 44,850 pairs: the standard error is below .004; 6 of them are allowed."""
    lists, _ = drawn(1, users=300)
    assert list_quality.overlap(lists, pairs=4000) == pytest.approx(
        naive.overlap(lists.tolist()), abs=0.024
    )


def test_equal_lists_overlap_wholly_and_a_user_is_not_paired_with_itself():
    assert list_quality.overlap(np.tile([1, 2, 3], (90, 1)), pairs=50) == 1
    apart = np.arange(300).reshape(100, 3)
    assert list_quality.overlap(apart, pairs=500) == 0


def test_figures_without_users_items_or_places_have_no_value():
    empty = np.zeros((0, 3), np.intp)
    assert math.isnan(list_quality.ndcg(empty, []))
    assert math.isnan(list_quality.hit_rate(np.array([[1]]), [np.array([], np.intp)]))
    assert math.isnan(list_quality.overlap(np.array([[1, 2]])))
    assert math.isnan(list_quality.coverage(empty, 0))
    assert math.isnan(list_quality.popularity_share(np.array([[-1]]), np.array([1])))


def test_an_empty_place_is_no_hit_even_where_minus_one_is_asked_for():
    assert list_quality.hit_rate(np.array([[-1, -1]]), [np.array([-1])]) == 0


def test_other_numbers_of_lists_and_users_are_refused():
    with pytest.raises(ValueError, match="2 lists for 1 users"):
        list_quality.ndcg(np.array([[1], [2]]), [np.array([1])])

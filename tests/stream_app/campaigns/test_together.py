"""*Together*: contributions of norm 1, sums in any order, and directions that are found again."""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.campaigns import learning
from stream_app.campaigns.contribution_vectors import is_within, symmetric_matrix, triangle_items
from stream_app.campaigns.plan import Stage
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.together import TogetherSide, contribution, links, recency_weights, size

ITEMS, BOUND = 24, 2048


def stage(bound: int) -> Stage:
    return Stage("together", size(ITEMS), bound, 2**22, Fraction(1), 2, 50)


STAGE = stage(BOUND)


def likes(places) -> RatedItems:
    n = len(places)
    return RatedItems(np.array(places, np.intp), np.full(n, 5.0), np.ones(n, np.bool_))


def world(people: int, seed: int = 0) -> list[np.ndarray]:
    """Return what people send that like items of one third of the scope, and a few others."""
    random = np.random.default_rng(seed)
    sent = []
    for person in range(people):
        chance = np.where(np.arange(ITEMS) % 3 == person % 3, 0.7, 0.05)
        sent.append(contribution(STAGE, likes(np.flatnonzero(random.random(ITEMS) < chance))))
    return sent


def taste(found: np.ndarray) -> int:
    """Return the third of the scope with the largest links."""
    return int(np.argmax([found[third::3].mean() for third in range(3)]))


def summed(sent) -> np.ndarray:
    return np.sum(sent, axis=0, dtype=np.int64)


@given(st.sets(st.integers(0, 40)), st.integers(1, 4096))
def test_whatever_is_liked_the_norm_is_within_the_bound(places, bound):
    sent = contribution(stage(bound), likes(sorted(places)))
    assert sent.shape == (size(ITEMS),)
    assert is_within(sent, bound)


@given(st.sets(st.integers(0, ITEMS - 1), min_size=1))
def test_what_is_sent_is_the_product_of_the_history_with_itself(places):
    x = np.zeros(ITEMS)
    x[list(places)] = 1
    sent = contribution(STAGE, likes(sorted(places)))
    expected = np.outer(x, x) / len(places)
    assert np.abs(symmetric_matrix(sent / BOUND) - expected).max() <= 1 / BOUND


@pytest.mark.parametrize("rated", [RatedItems.none(), likes([ITEMS, ITEMS + 5])])
def test_a_history_outside_the_scope_sends_zeros_of_the_same_size(rated):
    sent = contribution(STAGE, rated)
    assert sent.shape == (size(ITEMS),)
    assert not sent.any()


def test_what_is_not_liked_is_not_sent():
    rated = RatedItems(np.array([3, 4]), np.array([5.0, 1.0]), np.array([True, False]))
    assert np.array_equal(contribution(STAGE, rated), contribution(STAGE, likes([3])))


def test_the_order_of_the_history_is_not_sent():
    assert np.array_equal(
        contribution(STAGE, likes([5, 2, 9])), contribution(STAGE, likes([9, 5, 2]))
    )


def test_a_vector_has_the_norm_of_its_matrix():
    vector = np.random.default_rng(1).normal(size=size(5))
    found = symmetric_matrix(vector)
    assert np.array_equal(found, found.T)
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(vector))


def test_a_length_of_no_triangle_is_refused():
    assert triangle_items(size(300)) == 300
    with pytest.raises(ValueError, match="7 integers"):
        triangle_items(7)


def history(places) -> np.ndarray:
    """Return the likes of these places by recency, the oldest first."""
    x = np.zeros(ITEMS)
    x[places] = recency_weights(len(places))
    return x


def test_tastes_are_found_in_the_sum():
    side = learning.learn_directions(summed(world(3000)), BOUND, (4 * BOUND) ** 2)
    assert (side.weights > 0.8).sum() == 3
    assert taste(links(side, history([0, 3]))) == 0


def test_the_newest_like_counts_most():
    side = learning.learn_directions(summed(world(3000)), BOUND, (4 * BOUND) ** 2)
    assert taste(links(side, history([1, 4, 7, 2, 5, 8]))) == 2
    assert taste(links(side, history([2, 5, 8, 1, 4, 7]))) == 1


def test_few_people_leave_too_few_directions():
    noise = np.rint(np.random.default_rng(3).normal(0, 4 * BOUND, size(ITEMS))).astype(np.int64)
    assert learning.learn_directions(summed(world(8)) + noise, BOUND, (4 * BOUND) ** 2).is_popular


def test_noise_alone_has_hardly_a_direction():
    noise = np.random.default_rng(5).normal(0, 1000, size(100))
    side = learning.learn_directions(np.rint(noise).astype(np.int64), 10, 1000**2)
    assert len(side.weights) <= 1


def test_the_same_sum_gives_the_same_bytes():
    """Digest of one machine: another one has to give the same."""
    sums = summed(world(200)) + np.arange(size(ITEMS)) % 7
    side = learning.learn_directions(sums, BOUND, BOUND**2)
    content = side.vectors.tobytes() + side.weights.tobytes()
    assert blake2b(content, digest_size=8).hexdigest() == "a0140b44c91967c3"


def test_an_item_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        likes([3, 3])


@pytest.mark.parametrize(
    ("places", "stars", "sentence"),
    [
        ([0], [0.5], "1 .. 5"),
        ([0], [np.nan], "1 .. 5"),
        ([-1], [3.0], "0 or more"),
        ([0, 1], [3.0], "one length"),
    ],
)
def test_ratings_that_cannot_be_are_refused(places, stars, sentence):
    with pytest.raises(ValueError, match=sentence):
        RatedItems(np.array(places), np.array(stars), np.ones(len(places), np.bool_))


def test_a_side_of_three_directions_ranks():
    assert TogetherSide(np.zeros((4, 2), np.float32), np.zeros(2, np.float32)).is_popular
    assert not TogetherSide(np.zeros((4, 3), np.float32), np.zeros(3, np.float32)).is_popular

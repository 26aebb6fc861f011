"""*Stars*: every contribution is within its bound, and the item side is learned from their sum."""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.campaigns.contribution_vectors import is_within
from stream_app.campaigns.learning import stars_learning as learning
from stream_app.campaigns.plan import Stage
from stream_app.campaigns.planning import stages
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars import contributions as stars
from stream_app.campaigns.stars.fold_in import fold_in, predict
from stream_app.campaigns.stars.recipe import Recipe, recipe
from stream_app.campaigns.stars.side import StarsSide

ITEMS, BOUND = 20, 2048
DELTA = Fraction(1, 10**6)
RECIPE = Recipe(12, 2, (Fraction(1, 10),) * 3, (Fraction(3, 10), Fraction(4, 10)))
PLANNED = stages(Fraction(4), DELTA, RECIPE.wanted(ITEMS))


def rated(places, values) -> RatedItems:
    found = np.array(values, np.float64)
    return RatedItems(np.array(places, np.intp), found, found >= 4)


def crowd(people: int, seed: int = 0) -> list[RatedItems]:
    """Return people of two tastes: one likes the even items, the other the odd ones."""
    random = np.random.default_rng(seed)
    found = []
    for person in range(people):
        places = np.sort(random.choice(ITEMS, 10, replace=False))
        good = (places % 2 == person % 2) * 2.0 + places / ITEMS
        values = np.clip(np.rint(1.5 + good + random.normal(0, 0.5, 10)), 1, 5)
        found.append(rated(places, values))
    return found


def learned(people: list[RatedItems], features: np.ndarray | None = None) -> StarsSide:
    """Return the side after every stage, its sums without noise."""
    side = StarsSide.start(np.zeros((ITEMS, 0)) if features is None else features, RECIPE.factors)
    for stage in PLANNED:
        side = after(stage, side, people)
    return side


def after(stage: Stage, side: StarsSide, people: list[RatedItems]) -> StarsSide:
    total = np.sum([stars.contribution(stage, side, each) for each in people], 0, np.int64)
    found = learning.NoisyStage(total, stage.bound, stage.variance // 1000, len(people))
    return learning.learn(stage.kind, side, found, RECIPE.head)


@pytest.fixture(scope="module")
def sides() -> list[StarsSide]:
    """Return the public side before every stage."""
    side = StarsSide.start(np.random.default_rng(1).normal(size=(ITEMS, 3)), RECIPE.factors)
    found = []
    for stage in PLANNED:
        found.append(side)
        side = after(stage, side, crowd(100))
    return found


histories = st.dictionaries(st.integers(0, ITEMS - 1), st.floats(1, 5), max_size=ITEMS)


@given(histories)
@settings(max_examples=60)
def test_whatever_is_rated_every_contribution_is_within_its_bound(sides, history):
    mine = rated(list(history), list(history.values()))
    for stage, side in zip(PLANNED, sides, strict=True):
        sent = stars.contribution(stage, side, mine)
        assert sent.shape == (stage.size,)
        assert is_within(sent, stage.bound)


def test_an_empty_history_sends_zeros_of_the_same_size(sides):
    for stage, side in zip(PLANNED, sides, strict=True):
        sent = stars.contribution(stage, side, RatedItems.none())
        assert sent.shape == (stage.size,)
        assert not sent.any()


def test_a_history_sends_something_in_every_stage(sides):
    mine = crowd(1)[0]
    for stage, side in zip(PLANNED, sides, strict=True):
        sent = stars.contribution(stage, side, mine).astype(np.float64)
        # A moment is small where the taste is; the others use the whole norm.
        assert stage.kind == "moment" or np.linalg.norm(sent) > 0.97 * stage.bound


def test_the_order_of_the_history_is_not_sent(sides):
    mine = crowd(1)[0]
    other = RatedItems(mine.places[::-1], mine.stars[::-1], mine.liked[::-1])
    for stage, side in zip(PLANNED, sides, strict=True):
        difference = stars.contribution(stage, side, mine) - stars.contribution(stage, side, other)
        assert np.abs(difference).max() <= 1  # the last bits of sums


def test_whitened_tastes_have_a_second_moment_of_one():
    people = crowd(400)
    side = StarsSide.start(np.zeros((ITEMS, 0)), RECIPE.factors)
    for stage in PLANNED[:4]:
        side = after(stage, side, people)
    tastes = np.array([fold_in(side, each).taste for each in people]) @ side.whitening
    assert np.allclose(tastes.T @ tastes / len(people), np.eye(2), atol=0.1)
    assert np.allclose(side.whitening @ side.spread, np.eye(2))


def test_two_tastes_are_learned_and_folded_in():
    side = learned(crowd(2000))
    errors, own = [], crowd(200, seed=9)
    for each in own:
        known = RatedItems(each.places[:7], each.stars[:7], each.liked[:7])
        person = fold_in(side, known)
        errors.append(predict(side, person, each.places[7:]) - each.stars[7:])
    assert np.sqrt(np.mean(np.square(errors))) < 0.8  # .5 of it is drawn; without tastes 1.2


def test_features_alone_tell_tastes_apart():
    features = np.where(np.arange(ITEMS) % 2, 1.0, -1.0)[:, None]
    side = StarsSide.start(features, RECIPE.factors)
    values = [5, 1, 5, 1] * 5
    person = fold_in(side, rated(range(ITEMS), values))
    assert person.leanings[0] * side.features[0, 0] > 0
    assert not person.taste.any()


def test_the_same_sums_give_the_same_bytes():
    """Digest of one machine: another one has to give the same."""
    side = StarsSide.start(np.zeros((ITEMS, 0)), RECIPE.factors)
    random = np.random.default_rng(4)
    for stage in PLANNED:
        sums = random.integers(-(2**20), 2**20, stage.size)
        side = learning.learn(
            stage.kind, side, learning.NoisyStage(sums, BOUND, stage.variance, 500), RECIPE.head
        )
    content = b"".join(each.tobytes() for each in (side.biases, side.counts, side.vectors))
    assert blake2b(content, digest_size=8).hexdigest() == "3d43448c7b55b6b8"


def test_a_person_without_ratings_is_average():
    side = learned(crowd(50))
    person = fold_in(side, RatedItems.none())
    assert (person.bias, person.taste.any()) == (0.0, False)
    places = np.arange(ITEMS)
    assert np.allclose(predict(side, person, places), np.clip(3.6 + side.biases, 1, 5))


def test_the_shares_of_a_recipe_are_the_whole_budget():
    for epsilon in (Fraction(1, 2), Fraction(2), Fraction(4), Fraction(8)):
        wanted = recipe(epsilon).wanted(3706)
        assert sum(each.share for each in wanted) == 1
        assert max(each.size for each in wanted) < 48_000
        kinds = [each.kind for each in wanted]
        assert kinds == ["bias", "bias", "head", "moment", "refine", "moment", "refine"]


def test_another_kind_or_size_is_refused(sides):
    stage = PLANNED[0]
    wrong = Stage("together", 2 * ITEMS, 1, 4, Fraction(1), 2, 1)
    with pytest.raises(ValueError, match="stage together: choose bias, head, moment, refine"):
        stars.contribution(wrong, sides[0], RatedItems.none())
    short = Stage("bias", 7, stage.bound, stage.variance, stage.share, 2, 1)
    with pytest.raises(ValueError, match="40 integers instead of 7"):
        stars.contribution(short, sides[0], RatedItems.none())

"""A public side is the server's, and nobody has to trust it: whatever it holds, a contribution has
the size and the norm of its stage, and that there is one depends on no rating."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stream_app.campaigns.contribution_vectors import is_within
from stream_app.campaigns.features import features_of
from stream_app.campaigns.learning.stage_learning import learn
from stream_app.campaigns.planning import Outline, plan
from stream_app.campaigns.public_side import PublicSide, decode_side, encode_side
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stage_vectors import OtherSide, contribution
from stream_app.campaigns.stars.side import LARGEST, LARGEST_COUNT, StarsSide

ITEMS, FACTORS, FEATURES = 9, 2, 1
OUTLINE = Outline(Fraction(2), Fraction(1, 10**6), 1, ("together", "stars"), together_items=4)
PLAN = plan(OUTLINE, range(ITEMS))
STARS = range(1, len(PLAN.stages))
HEAD = np.arange(ITEMS)
FEATURES_OF_ALL = features_of([((), 1990)] * ITEMS)

histories = st.dictionaries(st.integers(0, ITEMS - 1), st.floats(1, 5), max_size=ITEMS)


def numbers(limit: float | None, *shape: int) -> st.SearchStrategy[np.ndarray]:
    """Return arrays of any numbers, or of those that the bytes of a side may hold."""
    if limit is None:
        elements = st.floats(width=64) | st.sampled_from([0.0, np.inf, -np.inf, np.nan, 1e308])
    else:
        elements = st.floats(-limit, limit, width=32) | st.sampled_from([-limit, limit, 0.0])
    return arrays.arrays(np.float64, shape, elements=elements)


def sides(limit: float | None) -> st.SearchStrategy[StarsSide]:
    precision = st.floats() if limit is None else st.floats(2.0**-40, 2.0**40)
    return st.builds(
        StarsSide,
        biases=numbers(limit, ITEMS),
        counts=numbers(limit and LARGEST_COUNT, ITEMS),
        vectors=numbers(limit, ITEMS, FACTORS),
        features=numbers(limit, ITEMS, FEATURES),
        head=st.just(HEAD),
        whitening=numbers(limit, FACTORS, FACTORS),
        spread=numbers(limit, FACTORS, FACTORS),
        precision=precision,
        stages=st.just(3),
    )


def rated(history: dict[int, float]) -> RatedItems:
    values = np.array(list(history.values()), np.float64)
    return RatedItems(np.array(list(history), np.intp), values, values >= 4)


def at(side: StarsSide, index: int) -> PublicSide:
    """Return a side that claims to be that which a stage begins with."""
    fields = {**vars(side), "stages": index - 1}
    if index == 1:
        fields |= {"head": HEAD[:0], "precision": 0.0}
    return PublicSide(PLAN.number, PLAN.scope, stars=StarsSide(**fields))


def check(side: StarsSide, history: dict[int, float]) -> None:
    for index in STARS:
        sent = contribution(PLAN, index, at(side, index), rated(history))
        assert (sent.shape, sent.dtype) == ((PLAN.stages[index].size,), np.int32)
        assert is_within(sent, PLAN.stages[index].bound)


def filled(value: float, precision: float = 1.0) -> StarsSide:
    shapes = {"biases": (ITEMS,), "counts": (ITEMS,), "vectors": (ITEMS, FACTORS)}
    shapes |= {"features": (ITEMS, FEATURES)}
    shapes |= {"whitening": (FACTORS, FACTORS), "spread": (FACTORS, FACTORS)}
    columns = {name: np.full(shape, value) for name, shape in shapes.items()}
    return StarsSide(**columns, head=HEAD, precision=precision, stages=3)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(sides(None), histories)
@example(filled(np.nan), {0: 5.0, 3: 1.0})
@example(filled(np.inf), {0: 5.0, 3: 1.0})
@example(filled(1e308), {0: 5.0, 3: 1.0})
@example(filled(1.0, 0.0), {0: 5.0, 3: 1.0})
@example(filled(1.0, -1.0), {0: 5.0, 3: 1.0})
@example(filled(1e18), {0: 5.0, 3: 1.0})  # the ridge is lost: no solution
def test_whatever_a_side_holds_a_contribution_is_within_its_bound(
    side: StarsSide, history: dict[int, float]
) -> None:
    check(side, history)


@settings(max_examples=150, deadline=None)
@given(sides(LARGEST), histories.filter(bool))
@example(filled(LARGEST), dict.fromkeys(range(ITEMS), 5.0))
def test_with_any_side_that_is_read_arithmetic_stays_finite(
    side: StarsSide, history: dict[int, float]
) -> None:
    """A person with ratings is then never mistaken for a person without."""
    check(side, history)
    found = decode_side(encode_side(at(side, 2)))
    assert contribution(PLAN, 2, found, rated(history)).any()


def test_a_side_of_the_limits_keeps_the_ridge_of_the_largest_history() -> None:
    """The largest rows that a side can give, as often as a scope has items."""
    rows = np.full((2**16, 4), LARGEST)
    found = np.linalg.solve(rows.T @ rows + np.diag([7.0, 0.5, 0.5, 100.0]), rows.T @ rows[:, 0])
    assert np.isfinite(found).all()
    assert abs(found).max() < 10


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abcdef"), unique=True), st.integers(0, 9999)),
        min_size=ITEMS,
        max_size=ITEMS,
    ),
    histories.filter(bool),
)
def test_whatever_the_features_of_a_plan_a_contribution_is_within_its_bound(
    described: list[tuple[list[str], int]], history: dict[int, float]
) -> None:
    campaign = plan(OUTLINE, range(ITEMS), features=features_of(described))
    side = PublicSide.begin(campaign)
    for index, stage in enumerate(campaign.stages):
        sent = contribution(campaign, index, side, rated(history))
        assert is_within(sent, stage.bound)
        side = learn(campaign, index, side, sent.astype(np.int64), 700)


WRONG = {
    "none": (4, None),
    "of another campaign": (4, PublicSide(2, PLAN.scope, stars=at(filled(1.0), 4).stars)),
    "of another scope": (4, PublicSide(1, PLAN.scope[::-1], stars=at(filled(1.0), 4).stars)),
    "of other features": (
        4,
        PublicSide(1, PLAN.scope, stars=at(filled(1.0), 4).stars, features=FEATURES_OF_ALL),
    ),
    "without stars": (4, PublicSide(1, PLAN.scope)),
    "after fewer stages": (4, at(filled(1.0), 3)),
    "after more stages": (4, at(filled(1.0), 5)),
    "learned before the first": (1, at(filled(1.0), 2)),
    "of another head": (
        4,
        PublicSide(
            1,
            PLAN.scope,
            stars=StarsSide(**{**vars(filled(1.0)), "head": HEAD[:3]}),
        ),
    ),
    "of more factors": (
        4,
        PublicSide(
            1,
            PLAN.scope,
            stars=StarsSide(**{**vars(filled(1.0)), "vectors": np.ones((ITEMS, 3))}),
        ),
    ),
}


@pytest.mark.parametrize("history", [{}, {0: 5.0}], ids=["none", "a rating"])
@pytest.mark.parametrize(("index", "side"), WRONG.values(), ids=WRONG)
def test_a_side_of_another_plan_or_progress_is_refused_whatever_was_rated(
    index: int, side: PublicSide | None, history: dict[int, float]
) -> None:
    with pytest.raises(OtherSide, match=f"stage {index} .* of campaign 1 is computed from"):
        contribution(PLAN, index, side, rated(history))


def test_the_first_stages_need_no_side() -> None:
    mine = rated({0: 5.0, 3: 1.0})
    for side in (None, PublicSide(7, (1, 2)), PublicSide(1, PLAN.scope)):
        for index in (0, 1):
            sent = contribution(PLAN, index, side, mine)
            assert np.array_equal(sent, contribution(PLAN, index, None, mine))
            assert sent.any()

"""Scales: a rating is exactly on it or refused, never rounded, and never repeated in a message."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.scale import Scale

STARS, HALVES, TENTHS = Scale(1, 5, 1), Scale(0.5, 5, 0.5), Scale(0, 1, 0.1)


@pytest.mark.parametrize(
    "scale", [STARS, HALVES, TENTHS, Scale(-3, 3, 2), Scale(1, 256, 1)], ids=str
)
def test_every_value_of_a_scale_has_its_own_level(scale: Scale) -> None:
    assert [scale.level(value) for value in scale.values.tolist()] == list(range(scale.levels))


def test_a_tenth_is_a_tenth() -> None:
    assert TENTHS.level(0.3) == 3
    assert TENTHS.values.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


@pytest.mark.parametrize("number", [4, 4.0, np.float64(4), np.float32(4), np.int8(4), Fraction(4)])
def test_numbers_of_every_kind_are_numbers(number: object) -> None:
    assert STARS.level(number) == 3


@pytest.mark.parametrize(
    "raw_rating",
    [math.nan, math.inf, -math.inf, 0, 6, 4.5, 4.0000001, -3, 2**63, 10**400, True, False, np.True_,
     "4", b"4", None, [4], Decimal(4), 4 + 0j, Fraction(2**60 + 1, 2**58)],
    ids=lambda r: f"{type(r).__name__}-{str(r)[:10]}",
)  # fmt: skip
def test_what_is_not_exactly_on_the_scale_is_refused(raw_rating: object) -> None:
    with pytest.raises(
        ValueError, match=r"row 7: must be a number on the scale 1\.\.5 by 1"
    ) as caught:
        STARS.level(raw_rating, "row 7")
    assert str(raw_rating) not in str(caught.value).replace("1..5 by 1", "").replace("row 7", "")


@given(st.lists(st.floats(), max_size=30))
def test_columns_are_classified_like_single_ratings(ratings: list[float]) -> None:
    for scale in (STARS, HALVES, TENTHS):
        mixed = [*ratings, *scale.values.tolist()]
        levels, on_scale = scale.classify(np.array(mixed))
        for rating, level, on in zip(mixed, levels.tolist(), on_scale.tolist(), strict=True):
            if on:
                assert scale.level(rating) == level
            else:
                with pytest.raises(ValueError, match="scale"):
                    scale.level(rating)


@given(st.floats(-10, 10))
def test_a_binned_rating_is_nearest_to_the_centre_of_its_bin(rating: float) -> None:
    scale = Scale(-10, 10, 2, binned=True)
    assert scale.levels == 10
    level = scale.level(rating)
    distances = np.abs(scale.values - rating)
    assert distances[level] == pytest.approx(distances.min())


def test_both_ends_of_a_binned_scale_are_on_it() -> None:
    scale = Scale(-10, 10, 2, binned=True)
    assert (scale.level(-10), scale.level(10), scale.level(-8)) == (0, 9, 1)
    with pytest.raises(ValueError, match="in bins"):
        scale.level(10.000001)


@pytest.mark.parametrize(
    "limits",
    [(1, 5, 0), (1, 5, -1), (5, 1, 1), (1, 1, 1), (1, 5, 3), (0, 256, 1), (math.nan, 5, 1),
     (1, math.inf, 1), (1, 5, "1"), (True, 5, 1), (1, 5, None), (0, 1, 1e-300)],
    ids=str,
)  # fmt: skip
def test_a_scale_that_is_none_is_refused(limits: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="scale"):
        Scale(*limits)

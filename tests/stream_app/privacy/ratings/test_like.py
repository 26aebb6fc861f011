"""One bit a cell: its law for any scale and threshold, its estimate, and what it saves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.privacy import registry
from stream_app.privacy.exact.debiasing import spread
from stream_app.privacy.exact.integer_tables import TOTAL
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.like import (
    LIKED,
    NOT_LIKED,
    Like,
    check_one_question,
    default_threshold,
)
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing

SCALES = st.integers(2, 255).flatmap(
    lambda levels: st.tuples(st.just(levels), st.integers(0, levels - 1))
)
EPSILONS = st.sampled_from([Fraction(text) for text in ("1/1000000", "1/2", "1", "7/3", "64")])


def bits(mechanism: Like) -> list[Fraction]:
    """Return 1[the input is a like] of each input."""
    return [*(Fraction(v >= mechanism.threshold) for v in range(mechanism.levels)), Fraction(0)]


@given(SCALES, EPSILONS)
def test_every_threshold_has_the_law_of_one_bit_and_its_own_name(
    scale: tuple[int, int], epsilon: Fraction
) -> None:
    mechanism = Like(scale[0], epsilon, scale[1])
    p = 1 / (1 + math.exp(-epsilon))
    q = 1 / (1 + math.exp(epsilon))
    liked = np.array(bits(mechanism)) == 1
    expected = np.where(liked, p, q), np.where(liked, q, p)
    np.testing.assert_allclose(mechanism.likelihood(), expected, rtol=1e-10, atol=2**-64)
    assert mechanism.certificate.slack <= 0
    assert registry.parse(mechanism.id) == mechanism
    assert mechanism.alphabet == 2


@given(SCALES, EPSILONS)
def test_the_estimate_of_a_like_is_exactly_unbiased_for_every_input(
    scale: tuple[int, int], epsilon: Fraction
) -> None:
    mechanism = Like(scale[0], epsilon, scale[1])
    estimate = mechanism.unbiased(bits(mechanism))
    assert estimate is not None
    for row, bit in zip(mechanism.table().counts, bits(mechanism), strict=True):
        assert sum(c * g for c, g in zip(row, estimate, strict=True)) == TOTAL * bit
    np.testing.assert_array_equal(
        mechanism.liked(np.array([LIKED, NOT_LIKED])), np.array(estimate, np.float64)
    )


@given(SCALES, EPSILONS)
def test_only_functions_of_the_bit_have_an_estimate(
    scale: tuple[int, int], epsilon: Fraction
) -> None:
    mechanism, reports = Like(scale[0], epsilon, scale[1]), np.arange(2)
    assert np.isnan(mechanism.value(reports)).all()
    assert np.isnan(mechanism.variance()).all()
    assert np.isnan(mechanism.presence(reports)).all() == (scale[1] > 0)
    if scale[1] == 0:  # every rating is a like
        np.testing.assert_array_equal(mechanism.presence(reports), mechanism.liked(reports))


@pytest.mark.parametrize(
    ("levels", "threshold"), [(2, 1), (3, 2), (5, 3), (6, 4), (9, 6), (10, 7), (11, 7), (255, 178)]
)
def test_the_default_is_seven_tenths_of_the_scale(levels: int, threshold: int) -> None:
    assert Like(levels, Fraction(1)).threshold == default_threshold(levels) == threshold
    assert Fraction(threshold, levels - 1) >= Fraction(7, 10) > Fraction(threshold - 1, levels - 1)


@pytest.mark.parametrize(
    ("epsilon", "like", "cell"), [("1", 0.92, 3.87), ("2", 0.18, 0.51), ("4", 0.019, 0.040)]
)
def test_a_bit_varies_less_at_an_empty_cell_than_a_like_read_from_stars(
    epsilon: str, like: float, cell: float
) -> None:
    """The variances are exact rationals of the tables; the figures are rounded."""
    bit, stars = Like(5, Fraction(epsilon)), RandomizedResponseWithMissing(5, Fraction(epsilon))
    found = [spread(m.table().counts, m.unbiased(bits(bit))) for m in (bit, stars)]
    assert found[0][-1] == pytest.approx(like, abs=0.006)
    assert found[1][-1] == pytest.approx(cell, abs=0.006)
    # The bit's variance does not depend on the input, so a like costs no more than an empty cell.
    np.testing.assert_allclose(found[0], found[0][0], rtol=1e-9)
    assert (found[0] < found[1]).all()


def test_reports_of_a_like_and_of_an_empty_cell_are_as_often_wrong_as_claimed(seed: int) -> None:
    """False alarm below 1e-6: five deviations of a binomial count."""
    mechanism, count = Like(5, Fraction(2)), 100_000
    p = math.exp(2) / (1 + math.exp(2))
    for given_input, report in ((4, LIKED), (3, LIKED), (2, NOT_LIKED), (5, NOT_LIKED)):
        inputs = np.full(count, given_input, np.uint8)
        right = int((mechanism.release(inputs, SeededSource(seed)) == report).sum())
        assert abs(right - count * p) < 5 * math.sqrt(count * p * (1 - p))


@pytest.mark.parametrize("threshold", [-2, 5, 255, True, 3.0, None, 10**400])
def test_a_threshold_outside_the_scale_is_refused(threshold: object) -> None:
    with pytest.raises(ValueError, match="an index from 0 to 4") as caught:
        Like(5, Fraction(1), threshold)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("levels", [1, 0, 256, True, 5.0])
def test_a_scale_that_is_too_short_or_too_long_is_refused(levels: object) -> None:
    with pytest.raises(ValueError, match="2 to 255 levels"):
        Like(levels, Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ids",
    [["like:5:2"], ["like:5:2", "like:5:1/2"], ["like:5:2", "like:10:2"],
     ["like:5:2:4", "like:5:1:4"], ["rr:5:2", "cell:5:1", "none:5:inf"]],
)  # fmt: skip
def test_an_allow_list_of_one_question_is_accepted(ids: list[str]) -> None:
    check_one_question([registry.parse(id) for id in ids])


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [(["rr:5:2", "like:5:2"], r"like:5:2 reports likes and rr:5:2 stars.*; allow one kind"),
     (["like:5:2", "cell:5:2"], r"like:5:2 reports likes and cell:5:2 stars"),
     (["like:5:2", "like:5:2:4"], r"like:5:2 and like:5:2:4 call different.*; allow one threshold"),
     (["like:5:2:4", "like:10:2:4"], r"like:5:2:4 and like:10:2:4 call"),
     (["like:5:2:2", "like:5:2:4"], r"call different ratings a like")],
)  # fmt: skip
def test_an_allow_list_of_two_questions_is_refused(ids: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_one_question([registry.parse(id) for id in ids])

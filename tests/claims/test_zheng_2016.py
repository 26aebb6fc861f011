"""Zheng 2016 (arXiv:1604.08402): the numbers of its two mechanisms, worked out by hand.

Definition 2   modified Laplace: a cell is published with p = e^(eps/2) / (1 + e^(eps/2))
Definition 3   randomized response over the star values and "missing"
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from tests.stream_app.privacy.mechanisms import EPSILONS

pytestmark = pytest.mark.claims
every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS, ids=str)


def test_the_numbers_of_the_response_with_missing_are_those_of_the_paper() -> None:
    channel = RandomizedResponseWithMissing(5, Fraction(1)).likelihood()
    assert channel[0, 0] == pytest.approx(0.352187, abs=5e-7)
    assert channel[1, 0] == channel[5, 0] == pytest.approx(0.129562, abs=1e-6)


def test_the_probability_that_laplace_publishes_is_the_papers() -> None:
    channel = ModifiedLaplace(5, Fraction(2)).likelihood()
    np.testing.assert_allclose(1 - channel[-1], [0.731059] * 5 + [0.268941], atol=1e-6)


@every_epsilon
def test_from_present_to_missing_the_loss_of_laplace_is_half_of_epsilon(epsilon: Fraction) -> None:
    mechanism = ModifiedLaplace(5, epsilon)
    loss = mechanism.log_likelihood(np.array(5), np.arange(6))
    assert loss.max() - loss.min() == pytest.approx(float(epsilon) / 2, rel=1e-10)
    end = mechanism.log_likelihood(np.array(4), np.arange(6))
    assert end[4] - end[5] == pytest.approx(float(epsilon), rel=1e-10)


def test_the_numbers_of_the_response_are_those_of_the_paper() -> None:
    # Definition 3 at eps = 1 with five star values and "missing" is a channel of six symbols.
    six = RandomizedResponse(6, Fraction(1))
    assert float(six.keep) == pytest.approx(0.352187, abs=5e-7)
    assert float(six.change) == pytest.approx(0.129562, abs=1e-6)
    five = RandomizedResponse(5, Fraction(1))
    assert float(five.keep) == pytest.approx(math.e / (math.e + 4), rel=1e-11)

"""What is drawn is what is certified: frequencies of reports against the exact channel.

A cell (level, report) has a count k ~ Bin(n, p). By Bernstein's inequality

    P(|k - n p| >= t) <= 2 exp(-t^2 / (2 (n p (1-p) + t/3)))

so with t solved for alpha / cells the whole test raises a false alarm with probability below
alpha, for every n and p, without a normal approximation.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.randomized_response import RandomizedResponse
from stream_app.privacy.randomness import SystemSource

ALPHA = 1e-6
DRAWS = 100_000
EPSILONS = (Fraction(1), Fraction(2), Fraction(4))


def departs(claimed: RandomizedResponse, used: RandomizedResponse, alpha: float) -> bool:
    """Whether the reports of `used` are incompatible with the channel of `claimed`."""
    channel, levels = claimed.likelihood(), claimed.levels
    depth = math.log(2 * channel.size / alpha)
    for v in range(levels):
        reports = used.release(np.full(DRAWS, v, np.uint8), SystemSource())
        found = np.bincount(reports, minlength=levels)
        spread = DRAWS * channel[:, v] * (1 - channel[:, v])
        allowed = depth / 3 + np.sqrt((depth / 3) ** 2 + 2 * spread * depth)
        if (np.abs(found - DRAWS * channel[:, v]) > allowed).any():
            return True
    return False


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_reports_follow_the_certified_channel(epsilon: Fraction) -> None:
    """False alarm below 1e-6 for the three together; the next test has the power."""
    honest = RandomizedResponse(5, epsilon)
    assert not departs(honest, honest, ALPHA / len(EPSILONS))


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_a_mechanism_of_a_quarter_more_epsilon_than_claimed_is_caught(epsilon: Fraction) -> None:
    """Power: p moves by 4 times what is allowed or more; a miss is below 1e-6."""
    claimed, used = RandomizedResponse(5, epsilon), RandomizedResponse(5, epsilon * 5 / 4)
    assert departs(claimed, used, ALPHA / len(EPSILONS))


@pytest.mark.statistical
def test_two_reports_of_one_level_are_independent() -> None:
    """Pairs of neighbours against the product of their channels; false alarm below 1e-6."""
    mechanism = RandomizedResponse(5, Fraction(1))
    reports = mechanism.release(np.full(2 * DRAWS, 3, np.uint8), SystemSource()).reshape(-1, 2)
    found = np.bincount(reports[:, 0].astype(np.int64) * 5 + reports[:, 1], minlength=25)
    one = mechanism.likelihood()[:, 3]
    p = np.outer(one, one).ravel()
    depth = math.log(2 * 25 / ALPHA)
    allowed = depth / 3 + np.sqrt((depth / 3) ** 2 + 2 * DRAWS * p * (1 - p) * depth)
    assert (np.abs(found - DRAWS * p) <= allowed).all()

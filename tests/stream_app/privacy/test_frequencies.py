"""What is drawn is what is certified: frequencies of reports against the exact channel.

The false-alarm rate is Bernstein's (`tests.stream_app.privacy.checks`), and so is the power: the
number of draws is computed such that a mechanism of a quarter more epsilon than it claims is missed
with probability below 1e-6.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from tests.stream_app.privacy.checks import ALPHA, departs, dependent, draws_needed, repeats
from tests.stream_app.privacy.mechanisms import EPSILONS, PRESENCE, QUARTER, name

LEVELS = 5
FAMILIES = (RandomizedResponse, PartitionResponse, *PRESENCE, Like)
SAMPLED = (
    *(family(LEVELS, epsilon) for family in FAMILIES for epsilon in EPSILONS),
    *(family(LEVELS, epsilon, QUARTER) for family in PRESENCE for epsilon in EPSILONS),
    *(RandomizedResponse(10, Fraction(2)), PRESENCE[-1](10, Fraction(2))),
)
MASKS = (0b0100, 0b1010, 0b1111)
every = pytest.mark.parametrize("mechanism", SAMPLED, ids=name)


@pytest.mark.statistical
@every
def test_reports_follow_the_certified_channel(mechanism: Mechanism) -> None:
    """False alarm below 1e-6 for all of them together; the next test has the power."""
    masks = MASKS if mechanism.masks else (0,)
    alpha = ALPHA / len(SAMPLED) / len(masks)
    assert not any(departs(mechanism, mechanism, alpha, 200_000, mask) for mask in masks)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_a_mechanism_of_a_quarter_more_epsilon_than_claimed_is_caught(
    family: type[Mechanism], epsilon: Fraction
) -> None:
    """Power: with this number of draws a miss is below 1e-6; alpha as in the test above."""
    claimed, used = family(LEVELS, epsilon), family(LEVELS, epsilon * 5 / 4)
    mask = MASKS[0] if claimed.masks else 0
    alpha = ALPHA / len(SAMPLED)
    draws, v = draws_needed(claimed, used, alpha, ALPHA, mask)
    assert departs(claimed, used, alpha, draws, mask, inputs=(v,))


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(4)], ids=str)
@pytest.mark.parametrize("family", [RandomizedResponse, *PRESENCE, Like], ids=lambda f: f.family)
def test_two_reports_of_one_input_are_independent(
    family: type[Mechanism], epsilon: Fraction
) -> None:
    """Pairs of neighbours against the product of their channels; false alarm below 1e-6 together.

    Power: noise that is used twice is a pair of equal reports each time, see `test_mutants`.
    """
    assert not dependent(family(LEVELS, epsilon), 3, ALPHA / 8)
    assert not repeats(family(LEVELS, epsilon), 3)

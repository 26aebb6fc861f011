"""The delta of a group, and an accountant that is not used."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from stream_app.privacy.accounting.whole_person import delta_of_group

F = Fraction


def test_delta_grows_as_it_does_for_a_group() -> None:
    found = delta_of_group(F(1), F(1, 10**9), 3)
    exact = 1e-9 * (1 + math.e + math.e**2)
    assert float(found) == pytest.approx(exact, rel=1e-12)
    assert found > F(exact) * (1 - F(1, 10**15))
    assert delta_of_group(F(8), F(1, 10**9), 50) == 1
    assert delta_of_group(F(8), F(0), 50) == 0


def test_an_accountant_that_forgets_the_count_of_responses_is_not_used_here() -> None:
    """dp-accounting 0.6.0: its PLD accountant reports 4.0 for ten responses of epsilon 4, not 40.

    It fails when that is fixed; at delta 0 plain sums are exact.
    """
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    neighbours = accounting.NeighboringRelation.REPLACE_ONE
    event = accounting.RandomizedResponseDpEvent(noise_parameter=_noise(4.0, 6), num_buckets=6)

    def composed(*counts: int) -> float:
        accountant = PLDAccountant(neighbours)
        for count in counts:
            accountant.compose(event, count)
        return float(accountant.get_epsilon(1e-6))

    assert composed(10) == pytest.approx(4.0, abs=0.1)
    assert composed(*[1] * 10) == pytest.approx(40.0, abs=0.5)


def _noise(epsilon: float, buckets: int) -> float:
    """Return the probability of a uniform draw in a response of this epsilon."""
    return buckets / (math.exp(epsilon) + buckets - 1)

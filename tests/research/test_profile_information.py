"""How much a profile reveals: the edges, and the bound on false alarms."""

from __future__ import annotations

import math

import pytest

from research.profile_information import (
    blip_single,
    coin,
    false_positives_least,
    flip_share,
)


def test_no_false_alarm_bound_exceeds_what_a_real_test_reaches() -> None:
    # Bernoulli(.9) against Bernoulli(.1): missing .1 goes with .1 of false alarms.
    divergence = 0.9 * math.log(9) - 0.1 * math.log(9)
    assert math.exp(-divergence / 0.9) > 0.1  # 3.12 read as a bound for one sample
    assert false_positives_least(divergence, 0.1) <= 0.1


def test_the_ends_of_epsilon_are_no_trouble() -> None:
    assert flip_share(0, 20) == 0.5
    assert flip_share(math.inf, 20) == 0
    assert flip_share(10_000, 1) == 0
    assert blip_single(5000, 20, 0, 106) == pytest.approx(0, abs=1e-9)
    assert coin(0) == coin(1) == 0

"""How much a profile tells, in nats: known numbers, the theorem, and where the thesis is off."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stream_app.privacy.profiles.information import (
    LN2,
    blip_joint,
    blip_single,
    bloom_hashes,
    bloom_limit,
    coin,
    false_positives_least,
    flip_share,
    independent_bound,
    jlt_joint,
    jlt_single,
    jlt_single_bound,
    joint_gain,
)

EPSILONS = (59, 28, 17, 8, 6, 5, 3, 2)


@pytest.mark.claims
@pytest.mark.parametrize(
    ("epsilon", "size", "single", "joint"),
    [
        (8, 106, 0.6717, 0.8372),
        (28, 106, 6.566, 8.409),
        (59, 106, 15.89, None),
        (59, 317, 4.10, 6.56),
    ],
)
def test_a_blip_tells_as_much_as_is_known(
    epsilon: float, size: int, single: float, joint: float | None
) -> None:
    assert blip_single(5000, 20, epsilon, size) == pytest.approx(single, rel=1e-3)
    if joint is not None:
        assert blip_joint(5000, 20, epsilon, size) == pytest.approx(joint, rel=1e-3)


@pytest.mark.claims
def test_a_well_made_filter_tells_most_when_it_is_decoded_as_a_whole() -> None:
    joint, single = blip_joint(1000, 7, 20, 100), blip_single(1000, 7, 20, 100)
    assert joint == pytest.approx(4.821, abs=5e-4)
    assert joint - single == pytest.approx(1.477, abs=5e-4)
    single, joint = bloom_limit(0.01, 20)
    assert (joint, single) == (pytest.approx(4.828, abs=5e-4), pytest.approx(3.346, abs=5e-4))
    length = math.ceil(-100 * math.log(0.01) / LN2**2)
    setting = length, bloom_hashes(length, 100), 20, 100
    assert blip_joint(*setting) == pytest.approx(4.619, abs=1e-3)  # K is a whole number
    assert blip_single(*setting) == pytest.approx(3.185, abs=1e-3)


@pytest.mark.claims
def test_the_largest_gain_of_joint_decoding_is_larger_than_the_thesis_says() -> None:
    bits = np.arange(2, 40, 0.125)
    gain = joint_gain(20, bits, 1000)
    assert gain.max() == pytest.approx(1.50, abs=0.005)  # 1.25 in figure 3.1
    assert 11 <= bits[gain.argmax()] <= 11.6
    assert joint_gain(20, np.array([20.0]), 1000)[0] == pytest.approx(1.25, abs=0.005)


@pytest.mark.claims
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [1, 10, 106, 317])
def test_whole_profiles_tell_more_than_single_items_and_less_than_epsilon_allows(
    epsilon: float, size: int
) -> None:
    single, joint = (f(5000, 20, epsilon, size) for f in (blip_single, blip_joint))
    assert 0 <= single <= joint * (1 + 1e-9)
    assert joint <= independent_bound(epsilon)
    sigma = 6.07 / epsilon
    assert jlt_single(1000, sigma, size) <= jlt_joint(1000, sigma, size) * (1 + 1e-9)


@pytest.mark.claims
def test_the_approximation_of_the_thesis_contradicts_its_theorem() -> None:
    flip, p = flip_share(59, 20), -math.expm1(20 * math.log1p(-1 / 5000))
    share = 1 - (1 - p) ** 317
    approximation = 5000 * p * (coin((1 - flip) * share + flip * (1 - share)) - coin(flip))
    assert approximation == pytest.approx(8.30, abs=0.005)
    assert approximation > blip_joint(5000, 20, 59, 317)


@pytest.mark.claims
def test_a_jlt_tells_as_much_as_is_known_and_the_printed_bound_does_not_hold() -> None:
    sigma = 4 * math.sqrt(math.log(10))
    single = jlt_single(1000, sigma, 106)
    assert single == pytest.approx(0.013533, abs=5e-7)
    assert jlt_joint(1000, sigma, 106) == pytest.approx(0.013552, abs=5e-7)
    assert single <= jlt_single_bound(1000, 1, 106)
    assert single > 1 / (32 + 2 * 105 * 1000)  # as 3.25 is printed


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

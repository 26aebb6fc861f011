"""What BLIP draws is what is certified, and its estimators hit what they estimate, on average."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.randomness import SystemSource
from stream_app.privacy.ticket import TicketIssuer

ALPHA = 1e-6
CLAIMED = Blip(4096, 4, Fraction(4))
ITEMS = np.arange(300, dtype=np.uint64)
RELEASES = 40


def released(mechanism: Blip, items: np.ndarray, times: int) -> np.ndarray:
    """Release a profile so many times, each with a ticket of its own."""
    issuer = TicketIssuer(SystemSource())
    issuer.admit(mechanism)
    return np.stack([mechanism.release(items, issuer.ticket(mechanism, 1)) for _ in range(times)])


def flips_depart(used: Blip) -> bool:
    """Whether the flips of set and of clear bits are incompatible with what is claimed."""
    clear = CLAIMED.filter(ITEMS).astype(bool)
    flipped = used.bits(released(used, ITEMS, RELEASES)) != clear
    p, depth = float(CLAIMED.flip), math.log(2 * 2 / ALPHA)
    for which in (clear, ~clear):
        n = RELEASES * int(which.sum())
        # Bernstein: P(|k - n p| >= t) <= 2 exp(-t^2 / (2 (n p (1-p) + t/3)))
        allowed = depth / 3 + math.sqrt((depth / 3) ** 2 + 2 * n * p * (1 - p) * depth)
        if abs(int(flipped[:, which].sum()) - n * p) > allowed:
            return True
    return False


@pytest.mark.statistical
def test_set_and_clear_bits_are_flipped_as_often_as_claimed() -> None:
    """False alarm below 1e-6 by Bernstein's inequality; the next test has the power."""
    assert not flips_depart(CLAIMED)


@pytest.mark.statistical
def test_a_flip_for_a_tenth_more_epsilon_than_claimed_is_caught() -> None:
    """Power: 160,000 flips, p moves from .269 to .250, 16 deviations; a miss is below 1e-6."""
    assert flips_depart(Blip(4096, 4, Fraction(44, 10)))


@pytest.mark.statistical
def test_bits_are_flipped_independently_of_each_other_and_of_earlier_releases() -> None:
    """Bits that differ in two releases are Binomial(n, 2p(1-p)); false alarm below 1e-6."""
    bits = CLAIMED.bits(released(CLAIMED, ITEMS, 2 * RELEASES))
    p, n = float(CLAIMED.flip), RELEASES * CLAIMED.length
    q, depth = 2 * p * (1 - p), math.log(2 * 2 / ALPHA)
    allowed = depth / 3 + math.sqrt((depth / 3) ** 2 + 2 * n * q * (1 - q) * depth)
    assert abs(int((bits[::2] != bits[1::2]).sum()) - n * q) <= allowed
    noise = bits != CLAIMED.filter(ITEMS)
    pairs = noise[:, ::2] != noise[:, 1::2]
    assert abs(int(pairs.sum()) - n * q) <= allowed


@pytest.mark.statistical
def test_coordinates_are_unbiased_for_the_bits_without_noise() -> None:
    """Mean over all set and all clear bits against 1 and 0; Hoeffding, false alarm below 1e-6.

    Power: the report taken as it is would be off by p = .27, thirty times what is allowed.
    """
    clear = CLAIMED.filter(ITEMS).astype(bool)
    read = CLAIMED.coordinates(released(CLAIMED, ITEMS, RELEASES))
    for which, true in ((clear, 1.0), (~clear, 0.0)):
        n = RELEASES * int(which.sum())
        allowed = math.sqrt(math.log(4 / ALPHA) / (2 * n)) / (1 - 2 * float(CLAIMED.flip))
        assert abs(float(read[:, which].mean(dtype=np.float64)) - true) <= allowed + 1e-6


@pytest.mark.statistical
def test_sizes_and_overlaps_scatter_around_the_truth_as_predicted() -> None:
    """Means of 80 releases within 5.5 deviations of theirs, about normal: false alarm about 1e-7.

    What the fixed hashes add (collisions) is not noise of the release: it is taken from the
    estimate without noise. Power: without the factor K a size would be off by 4 times itself.
    """
    a, b = ITEMS[:200], ITEMS[100:]
    noiseless = Blip(4096, 4, None)
    exact = noiseless.coordinates(released(noiseless, a, 1))
    other = noiseless.coordinates(released(noiseless, b, 1))
    first = CLAIMED.coordinates(released(CLAIMED, a, 2 * RELEASES))
    second = CLAIMED.coordinates(released(CLAIMED, b, 2 * RELEASES))
    sizes = CLAIMED.sizes(first)
    deviation = math.sqrt(CLAIMED.size_variance(200))
    assert sizes.std() == pytest.approx(deviation, rel=0.5)
    # The logarithm bends: its mean is off by about half a variance over the size of a logarithm.
    bend = 2.0
    error = sizes.mean() - noiseless.sizes(exact)[0]
    assert abs(error) <= 5.5 * deviation / math.sqrt(len(sizes)) + bend
    overlaps = np.diagonal(CLAIMED.overlaps(first, second))
    error = overlaps.mean() - noiseless.overlaps(exact, other)[0, 0]
    assert abs(error) <= 5.5 * overlaps.std() / math.sqrt(len(overlaps)) + bend


@pytest.mark.statistical
def test_the_overlap_of_two_profiles_scatters_as_is_known() -> None:
    """At the thesis' setting and epsilon 8, 106 items each and 50 in common: mean 48, deviation 43.

    Of 300 pairs mean and deviation have deviations of 2.7 and 2.2 and may be off by 16 and 13, five
    of them: false alarm below 1e-5. Power: without 1/(1 - 2p) the overlap would be near 0.
    """
    mechanism = Blip(5000, 20, Fraction(8))
    items = np.arange(1_000_000, 1_000_162, dtype=np.uint64)
    first = mechanism.coordinates(released(mechanism, items[:106], 300))
    second = mechanism.coordinates(released(mechanism, items[56:], 300))
    found = np.diagonal(mechanism.overlaps(first, second))
    assert found.mean() == pytest.approx(48, abs=16)
    assert found.std() == pytest.approx(43, rel=0.3)

"""The curve of a campaign: each step of its proof, and the whole against enumerated integers."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.privacy.exact.gaussian_calibration import gaussian_delta, gaussian_epsilon
from stream_app.privacy.gaussian.certificate import (
    SMOOTHING,
    CampaignCertificate,
    NoisySum,
    largest_square,
    least_variance,
    unevenness,
)
from tests.naive import gaussian as naive

F = Fraction
DELTA = F(1, 10**6)


@pytest.mark.parametrize("smoothing", [F(1, 4), F(1, 2), F(1), F(3, 2)], ids=str)
def test_a_sum_over_the_integers_is_uneven_by_the_bound_and_hardly_less(smoothing):
    """Step 1, where it is large enough for float64."""
    n, variance = np.arange(-60, 61), float(smoothing)
    shifts = np.linspace(0, 1, 101)[:, None]
    density = np.exp(-((n - shifts) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    sums, bound = density.sum(axis=1), float(unevenness(smoothing))
    assert np.abs(sums - 1).max() <= bound + 1e-14
    assert np.abs(sums - 1).max() >= bound * (1 - 1e-3) - 1e-14
    assert sums[0] > 1 > sums[50]


@pytest.mark.parametrize("variance", [F(2), F(4), F(9)], ids=str)
def test_a_rounded_gaussian_is_within_the_bound_of_the_integer_noise(variance):
    """Steps 2 and 3, by quadrature: r^2 = 1/4, where the bound is large enough to be seen."""
    h, ratio = float(unevenness(F(1, 4))), _integers_over_rounded(variance, variance - F(1, 4))
    assert ratio.max() <= 1 + h
    assert 1 / ratio.min() <= (1 + h) / (1 - h)
    assert 1 / ratio.min() > 1 + h / 100
    # Without the r^2 that rounding adds to the variance the two laws are not the same.
    assert _integers_over_rounded(variance, variance).min() < (1 - h) / (1 + h)


def _integers_over_rounded(variance: Fraction, before: Fraction) -> NDArray[np.float64]:
    """Return D(z) / P(z), P a Gaussian of variance `before` rounded with r^2 = 1/4."""
    y, n = np.arange(-40, 40, 1 / 200), np.arange(-50, 51)[:, None]
    rounding = np.exp(-2.0 * (n - y) ** 2)
    density = np.exp(-(y**2) / (2 * float(before)))  # the trapezoidal rule: 1e-12 and better
    rounded = (rounding / rounding.sum(axis=0)) @ density
    integers = np.exp(-(n[:, 0] ** 2) / (2 * float(variance)))
    ratio = integers / integers.sum() / (rounded / rounded.sum())
    return np.asarray(ratio[integers > 1e-9 * integers.sum()])


def test_the_unevenness_of_the_noise_is_below_what_anyone_can_see():
    h = unevenness()
    assert F(9, 4) == SMOOTHING
    assert 2 * math.exp(-4.5 * math.pi**2) <= h < F(2, 10**19)
    assert unevenness(F(1)) > unevenness(F(9, 4)) > unevenness(F(4)) > 0


ENUMERATED = [
    ((F(4),), ((1,),), 40),
    ((F(4),), ((3,),), 40),
    ((F(25),), ((4,),), 70),
    ((F(9),), ((1, 1),), 24),
    ((F(9),), ((3, 4),), 24),
    ((F(9),), ((5, 0),), 24),
    ((F(4), F(9)), ((1,), (2,)), 26),
]


@pytest.mark.parametrize(("variances", "shifts", "reach"), ENUMERATED, ids=str)
@pytest.mark.parametrize("epsilon", [F(0), F(1, 4), F(1), F(5, 2)], ids=str)
def test_the_curve_is_above_the_enumerated_integers(variances, shifts, reach, epsilon):
    """One and two coordinates, moves along an axis and across, and two stages."""
    sums = [
        NoisySum(math.isqrt(sum(n * n for n in shift) - 1) + 1, variance, len(shift))
        for variance, shift in zip(variances, shifts, strict=True)
    ]
    found = CampaignCertificate(tuple(sums)).delta(epsilon)
    exact = naive.delta(variances, shifts, Decimal(float(epsilon)).exp(), reach)
    assert exact <= Decimal(found.numerator) / found.denominator
    # Where a bound is the length of the move, the curve of V - r^2 is as much above as r^2 of V.
    if all(each.bound**2 == sum(n * n for n in s) for each, s in zip(sums, shifts, strict=True)):
        square = sum(sum(n * n for n in s) / v for s, v in zip(shifts, variances, strict=True))
        assert float(exact) > 0.5 * float(gaussian_delta(epsilon, F(square))[0])


def test_a_second_stage_may_depend_on_the_first():
    """Any rule that chooses the second move by the first release costs no more than the curve."""
    first, second, epsilon = F(4), F(9), F(1)
    ratio = Decimal(1).exp()
    law, later = naive._law(first, 30), naive._law(second, 40)
    total = Decimal(0)
    for z in range(-30, 31):
        move = 3 if z % 2 else -1
        for y in range(-40, 41):
            stays = law.get(z, Decimal(0)) * later.get(y, Decimal(0))
            moves = law.get(z - 2, Decimal(0)) * later.get(y - move, Decimal(0))
            total += max(Decimal(0), stays - ratio * moves)
    found = CampaignCertificate((NoisySum(2, first, 1), NoisySum(3, second, 1))).delta(epsilon)
    assert 0 < total <= Decimal(found.numerator) / found.denominator
    less = CampaignCertificate((NoisySum(1, first, 1), NoisySum(1, second, 1))).delta(epsilon)
    assert total > Decimal(less.numerator) / less.denominator  # a bound that is broken is seen


@pytest.mark.parametrize("epsilon", [F(1, 2), F(1), F(2), F(4), F(16)], ids=str)
def test_the_stages_of_a_budget_use_it_up_and_no_more(epsilon):
    shares, sizes = [F(1, 10), F(3, 10), F(6, 10)], [3000, 12_000, 12_000]
    square = largest_square(epsilon, DELTA, sum(sizes))
    sums = [
        NoisySum(800, least_variance(800, share * square), size)
        for share, size in zip(shares, sizes, strict=True)
    ]
    campaign = CampaignCertificate(tuple(sums))
    assert campaign.square <= square
    assert campaign.delta(epsilon) <= DELTA
    assert campaign.epsilon(DELTA) <= epsilon + F(1, 2**29)
    assert float(campaign.epsilon(DELTA)) == pytest.approx(float(epsilon), rel=1e-4)
    # A unit of variance less in a stage, or of the bound more, is too much.
    less = [NoisySum(each.bound, each.variance - 1, each.size) for each in sums]
    assert all(cheap.square > share * square for cheap, share in zip(less, shares, strict=True))
    wider = NoisySum(801, sums[0].variance, sums[0].size)
    assert CampaignCertificate((wider, *sums[1:])).delta(epsilon) > DELTA


def test_the_square_of_a_budget_has_its_known_values():
    """1/mu is 4.2247 at (1, 1e-6) and 3.7306 at (1, 1e-5) (Balle and Wang 2018)."""
    assert 1 / math.sqrt(largest_square(F(1), DELTA, 50_000)) == pytest.approx(4.2247, abs=1e-4)
    assert 1 / math.sqrt(largest_square(F(1), F(1, 10**5), 1)) == pytest.approx(3.7306, abs=1e-4)


def test_integers_cost_nearly_nothing_beyond_the_variance_that_rounding_takes():
    one = NoisySum(100, F(10**6), 45_000)
    campaign = CampaignCertificate((one,) * 6)
    exact = gaussian_epsilon(DELTA, campaign.square)
    assert 0 < campaign.epsilon(DELTA) - exact < F(1, 10**12)
    plain = gaussian_epsilon(DELTA, 6 * F(100**2, 10**6))
    assert plain < exact < plain * (1 + F(1, 10**5))


def test_a_campaign_of_many_coordinates_pays_for_each():
    """2^31 coordinates, and a large h: the slack is in both directions of the curve."""
    small, large = (CampaignCertificate((NoisySum(1, F(100), size),)) for size in (1, 2**31))
    assert large.epsilon(DELTA) - small.epsilon(DELTA) >= 3 * 2**31 * unevenness() * F(9, 10)
    assert large.delta(F(1, 10**10)) > small.delta(F(1, 10**10))


def test_delta_falls_and_epsilon_inverts_it():
    campaign = CampaignCertificate((NoisySum(30, F(400), 10), NoisySum(7, F(100), 3)))
    deltas = [campaign.delta(F(n, 4)) for n in range(20)]
    assert deltas == sorted(deltas, reverse=True)
    assert len(set(deltas)) == 20
    for delta in (F(1, 100), DELTA, F(1, 10**12)):
        epsilon = campaign.epsilon(delta)
        assert campaign.delta(epsilon) <= delta
        assert campaign.delta(epsilon - F(1, 2**28)) > delta


def test_people_together_are_one_longer_vector():
    """Two people whose vectors point the same way, enumerated."""
    one = CampaignCertificate((NoisySum(2, F(9), 2),))
    exact = naive.delta((F(9),), ((4, 0),), Decimal(1).exp(), 26)
    found = [campaign.delta(F(1)) for campaign in (one, one.of_people(2))]
    below, above = (Decimal(each.numerator) / each.denominator for each in found)
    assert below < exact <= above
    assert one.of_people(1) == one
    assert one.of_people(3).square == 9 * one.square
    with pytest.raises(ValueError, match="0 people"):
        one.of_people(0)


def test_a_campaign_without_stages_costs_nothing():
    nothing = CampaignCertificate(())
    assert (nothing.delta(F(0)), nothing.epsilon(DELTA), nothing.square) == (0, 0, 0)


def test_a_digest_is_of_the_stages_and_their_tables():
    stages = [
        NoisySum(1, F(4), 1),
        NoisySum(2, F(4), 1),
        NoisySum(1, F(5), 1),
        NoisySum(1, F(4), 2),
    ]
    digests = {CampaignCertificate((each,)).digest for each in stages}
    digests.add(CampaignCertificate((stages[0], stages[1])).digest)
    digests.add(CampaignCertificate((stages[1], stages[0])).digest)
    assert len(digests) == 6
    assert CampaignCertificate((stages[0],)).digest in digests


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NoisySum(0, F(9), 1), "bound 0"),
        (lambda: NoisySum(2**31, F(9), 1), "bound 2147483648"),
        (lambda: NoisySum(1, F(3), 1), "4 to 4294967296"),
        (lambda: NoisySum(1, F(2**32 + 1), 1), "4 to 4294967296"),
        (lambda: NoisySum(1, F(9), 0), "0 coordinates"),
        (lambda: CampaignCertificate(()).epsilon(F(0)), "delta 0"),
        (lambda: CampaignCertificate(()).epsilon(F(1)), "delta 1"),
        (lambda: CampaignCertificate(()).delta(F(-1)), "epsilon -1"),
        (lambda: largest_square(F(0), DELTA, 1), "must be above"),
        (lambda: largest_square(F(1), F(2), 1), "delta 2"),
        (lambda: least_variance(10, F(0)), "above 0"),
        (lambda: least_variance(2**20, F(1, 100)), "coarser grid"),
    ],
)
def test_values_without_a_meaning_are_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()

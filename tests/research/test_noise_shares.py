"""Shared noise: the sum of the shares has the law that is claimed, and the account states it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from research.noise_shares import GaussianShares, PolyaShares
from stream_app.privacy.gaussian.certificate import CampaignCertificate, NoisySum
from stream_app.privacy.randomness import SeededSource

F = Fraction


@pytest.mark.parametrize(("scale", "least"), [(F(1, 2), 3), (F(2), 10), (F(1), 1)])
def test_polya_shares_add_to_exactly_discrete_laplace(scale, least):
    one = np.array([float(p) for p in PolyaShares(scale, least).probabilities])
    part = np.convolve(one, one[::-1])  # of a difference, from -reach to reach
    law = part
    for _ in range(least - 1):
        law = np.convolve(law, part)
    middle = len(law) // 2
    a = math.exp(-scale)
    expected = (1 - a) / (1 + a) * a ** np.abs(np.arange(-20, 21))
    assert law[middle - 20 : middle + 21] == pytest.approx(expected, rel=1e-9)


def test_drawn_shares_have_the_variance_of_their_part():
    """100,000 draws of a tenth of the noise; the test allows 6 standard errors (kurtosis 40)."""
    shares = PolyaShares(F(1, 4), 10)
    drawn = shares.draw(100_000, SeededSource(1))
    a = math.exp(-0.25)
    assert drawn.var() == pytest.approx(2 * a / (1 - a) ** 2 / 10, rel=6 * math.sqrt(40 / 1e5))
    assert abs(drawn.mean()) < 6 * drawn.std() / math.sqrt(1e5)
    assert 0 < shares.slack(10**9, 1.0) < 1e-5


def test_gaussian_shares_cost_what_one_party_would_and_hardly_more():
    shares = GaussianShares(100, F(40_000), 1000, 500, rounds=3)
    exact = CampaignCertificate((NoisySum(100, F(40_000), 1000),) * 3).epsilon(F(1, 10**6))
    found = shares.epsilon(F(1, 10**6))
    assert float(exact) < found < float(exact) * (1 + 1e-6)
    assert shares.epsilon(F(1, 10**6), 50) < 0.55 * found


def test_the_sum_of_gaussian_shares_is_a_discrete_gaussian_to_the_stated_factor():
    """Five shares of variance 4, the least: every integer within r = ((1 + h) / (1 - h))^4."""
    x = np.arange(-60, 61)
    one = np.exp(-(x**2) / 8)
    law = one / one.sum()
    total = law
    for _ in range(4):
        total = np.convolve(total, law)
    middle = len(total) // 2
    wide = np.exp(-(x**2) / 40)
    assert total[middle - 40 : middle + 41] == pytest.approx((wide / wide.sum())[20:-20], rel=1e-11)


def test_a_share_of_too_little_noise_and_what_else_cannot_be_are_refused():
    with pytest.raises(ValueError, match="each share needs 4 squared units"):
        GaussianShares(1, F(39), 10, 10)
    with pytest.raises(ValueError, match="least 0"):
        GaussianShares(1, F(39), 10, 0)
    with pytest.raises(ValueError, match="scale 11"):
        PolyaShares(F(11), 3)
    with pytest.raises(ValueError, match="least 0 honest"):
        PolyaShares(F(1), 0)

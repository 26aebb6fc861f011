"""Meng et al. 2018 (PrivSR, AAAI): what its shares of noise are worth, against what it claims.

Eight findings; each is shown on the shares as printed (`research/privsr/printed_shares.py`). The
corrected rounds are under test in `tests/research/privsr`.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from research.privsr import (
    PrintedShares,
    SocialParameters,
    SocialRatings,
    social_factorization,
)
from research.privsr.printed_shares import LABEL, WIDTH

pytestmark = pytest.mark.claims
PHI = NormalDist().cdf


def raters(sensitive: int, others: int, items: int = 1) -> SocialRatings:
    count = (sensitive + others) * items
    users = np.arange(count) % (sensitive + others)
    nothing = np.zeros(0, np.int64)
    return SocialRatings(
        users,
        np.arange(count) // (sensitive + others),
        np.full(count, 3.0),
        users < sensitive,
        nothing,
        nothing,
        sensitive + others,
        items,
    )


def claimed_variance(epsilon: float, factors: int) -> float:
    return 2 * (2 * WIDTH * math.sqrt(factors) / epsilon) ** 2


@pytest.mark.parametrize(
    ("beta", "factor"), [(0.1, 1.09), (0.25, 1.21), (0.5, 1.34), (1, 1.41), (2, 1.34)]
)
def test_1_the_two_classes_add_to_less_noise_than_the_proof_says(beta, factor):
    shares = PrintedShares(1.0, beta, factors=2)
    assert shares.real_budget == pytest.approx(factor, abs=0.006)
    strict, loose = shares.budgets
    assert 1 / strict + 1 / loose == pytest.approx(1)  # what the proof adds; squares add instead
    assert 1 / math.sqrt(strict**-2 + loose**-2) == pytest.approx(shares.real_budget)


def test_1_the_drawn_noise_has_the_variance_of_the_real_budget_and_a_lone_class_less():
    """40,000 items of 5 raters, K = 2: the standard error of a Laplace variance is .8 %."""
    for sensitive, others, wanted in ((2, 3, None), (5, 0, 0), (0, 5, 1)):
        shares = PrintedShares(1.0, 0.1, factors=2, seed=3)
        noise = shares.item_noise(raters(sensitive, others, 40_000), 0)
        epsilon = shares.real_budget if wanted is None else shares.budgets[wanted]
        assert noise.var() == pytest.approx(claimed_variance(epsilon, 2), rel=0.06)
    assert shares.budgets[1] == pytest.approx(11)  # an item that no one rates as sensitive


def test_2_an_insider_with_h_faces_a_gaussian_whose_loss_exceeds_epsilon():
    """K = 1, epsilon 1: given h the noise is N(0, 2 b^2 h), so mu = 1 / sqrt(2h)."""
    h = -np.log1p(-(np.arange(100_000) + 0.5) / 100_000)
    mu = 1 / np.sqrt(2 * h)
    exceeds = np.mean([PHI(m / 2 - 1 / m) for m in mu[::20]])
    delta = np.mean([PHI(m / 2 - 1 / m) - math.e * PHI(-m / 2 - 1 / m) for m in mu[::20]])
    assert exceeds == pytest.approx(0.31, abs=0.01)
    assert delta == pytest.approx(0.19, abs=0.01)
    assert np.quantile(mu**2 / 2, 0.99) == pytest.approx(24.9, abs=0.3)


def test_2_the_shares_of_one_item_are_that_gaussian():
    shares, data = PrintedShares(1.0, 1.0, factors=1, seed=5), raters(500, 500)
    noise = np.array([shares.item_noise(data, step)[0, 0] for step in range(2000)])
    h = shares.common(1)[0, 0]
    known = (2 * WIDTH) ** 2 * 2 * h * (2 / 2.0**2)
    assert noise.var() == pytest.approx(known, rel=6 * math.sqrt(2 / 2000))


def test_3_raters_that_collude_take_their_shares_away():
    shares, data = PrintedShares(1.0, factors=1, seed=6), raters(0, 100, 20_000)
    drawn = shares.shares(data, 0)[:, 0].reshape(20_000, 100)
    left = drawn[:, 99:].sum(axis=1).std() / drawn.sum(axis=1).std()
    assert 1 / left == pytest.approx(10, rel=0.06)  # epsilon, where 99 of 100 collude
    # One message alone, at h = 1: noise of .14 of the sensitivity 2 D, for a claim of 1.
    common = math.sqrt(2 * 1.0) * 2 * WIDTH / math.sqrt(100)
    assert common / (2 * WIDTH) == pytest.approx(0.14, abs=0.002)


def test_4_a_sensitive_rating_is_protected_by_the_same_noise_as_any_other():
    """The sum alone is used; exchanging which ratings are sensitive does not change its scale."""
    shares = PrintedShares(1.0, 1.0, factors=2, seed=7)
    one, other = (shares.item_noise(raters(s, 10 - s, 20_000), 0).std() for s in (3, 7))
    assert one == pytest.approx(other, rel=0.04)


def test_5_a_rating_moves_other_items_as_well():
    random = np.random.default_rng(8)
    data = raters(5, 5, 6)._replace(stars=random.integers(1, 6, 60).astype(float))
    changed = data.stars.copy()
    changed[0] = 6 - changed[0] if changed[0] != 3 else 5
    found = [
        social_factorization(data._replace(stars=stars), SocialParameters(factors=2)).items
        for stars in (data.stars, changed)
    ]
    others = np.abs(found[0] - found[1])[1:]
    assert others.max() > 1e-3
    # Added or removed, a rating also changes the density of v_j: by ln(1 + 1/lam) at |u| = 1.
    assert math.log1p(1 / 0.01) == pytest.approx(4.6, abs=0.02)


def test_6_friends_vectors_need_twice_the_noise():
    """|2 S (u - u')| reaches 4 at opposite unit vectors, and the noise is made for 2."""
    shares = PrintedShares(1.0, factors=4, seed=9)
    scale = np.abs(shares.friend_noise(50_000, 0)).mean()
    assert scale == pytest.approx(2 * math.sqrt(4), rel=0.02)
    opposite = np.full(4, 0.5)
    moved = np.linalg.norm(2 * (opposite - -opposite))
    assert moved == 4
    assert moved * math.sqrt(4) / scale == pytest.approx(2, rel=0.02)  # epsilon of a claimed 1


def test_7_a_share_reveals_how_many_rate_the_item_as_sensitive():
    shares = PrintedShares(1.0, 1.0, factors=8, seed=10)
    for count in (4, 400):
        data = raters(count, 0, 50)
        common = 2 * WIDTH / 2 * np.sqrt(2 * 8 * shares.common(50))
        normal = shares.shares(data, 0) / common[data.items]  # one rater knows h and its own share
        estimate = 1 / normal.reshape(50, count, 8)[:, 0].var()
        assert estimate == pytest.approx(count, rel=0.4)


def test_8_the_claim_is_of_one_item_vector():
    """Noise of different items is independent: c ratings of a person cost c times epsilon."""
    noise = PrintedShares(1.0, factors=1, seed=11).item_noise(raters(5, 5, 20_000), 0)[:, 0]
    assert abs(np.corrcoef(noise[::2], noise[1::2])[0, 1]) < 6 / math.sqrt(10_000)
    assert LABEL == "paper: no guarantee"

"""The attacker's statistic, the bounds from its counts, and the tests of noise, each on its own."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from research.audits import bounds, likelihood
from research.audits.noise_law import P_VALUE, NoiseLaw, two_sided
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import SeededSource

REACH = np.arange(-60, 61)


def law(variance: float, shift: int = 0) -> np.ndarray:
    weights = np.exp(-((REACH - shift) ** 2) / (2 * variance))
    return weights / weights.sum()


@pytest.mark.parametrize("variance", [4, 7.5, 30])
@pytest.mark.parametrize("vector", [(0, 0), (3, 0), (2, -5)])
def test_the_statistic_is_the_ratio_of_the_enumerated_probabilities(variance, vector):
    without, shifted = law(variance), [law(variance, each) for each in vector]
    for seen in ((0, 0), (4, -7), (-20, 11)):
        places = [each + 60 for each in seen]
        exact = math.log(shifted[0][places[0]] * shifted[1][places[1]])
        exact -= math.log(without[places[0]] * without[places[1]])
        found = likelihood.log_ratio(np.array(seen), np.array(vector, np.int32), variance)
        assert found == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("ratio", [-800.0, -3.0, 0.0, 2.0, 40.0, 900.0])
@pytest.mark.parametrize("rate", [1 / 16, 0.5, 1.0])
def test_a_sampled_step_is_a_mixture(ratio, rate):
    if ratio < 700:
        exact = math.log(1 - rate + rate * math.exp(ratio)) if ratio > -700 or rate < 1 else ratio
    else:
        exact = ratio + math.log(rate)
    assert likelihood.sampled_ratio(ratio, rate) == pytest.approx(exact, rel=1e-12, abs=1e-12)


def test_the_area_is_counted_pair_by_pair_and_theory_is_its_limit():
    rng = np.random.default_rng(4)
    present, absent = rng.integers(0, 9, 40).astype(float), rng.integers(0, 8, 30).astype(float)
    wins = sum((p > a) + (p == a) / 2 for p in present for a in absent)
    assert likelihood.auc(present, absent) == pytest.approx(wins / 1200)
    mu = 0.8
    found = likelihood.auc(rng.normal(mu**2 / 2, mu, 20_000), rng.normal(-(mu**2) / 2, mu, 20_000))
    assert found == pytest.approx(likelihood.theory_auc(mu**2), abs=0.012)


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (7, 200), (199, 200), (5, 5)])
@pytest.mark.parametrize("alpha", [0.05, 1e-4])
def test_the_bounds_of_a_probability_are_those_of_the_exact_binomial(successes, trials, alpha):
    """Clopper and Pearson 1934, in rational arithmetic."""

    def at_most(p: Fraction) -> Fraction:
        return sum(
            (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes + 1)),
            Fraction(0),
        )

    found = Fraction(bounds.at_most(successes, trials, alpha))
    if successes == trials:
        assert found == 1
    else:
        near = Fraction(1, 10**9)
        assert at_most(found + near) < alpha < at_most(found - near)
    mirrored = bounds.at_least(trials - successes, trials, alpha)
    assert mirrored == pytest.approx(1 - float(found))


def shown(mu: float, claimed: float, count: int = 2000, seed: int = 1) -> bounds.Bounds:
    rng = np.random.default_rng(seed)
    present = rng.normal(mu**2 / 2, mu, count)
    absent = rng.normal(-(mu**2) / 2, mu, count)
    return bounds.measured(present, absent, bounds.thresholds(claimed**2), 1e-6)


def test_a_claim_that_holds_is_not_refuted_and_half_of_its_noise_is():
    claimed = 0.4483  # (2, 1e-6)
    for seed in range(40):
        honest = shown(claimed, claimed, seed=seed)
        assert honest.epsilon < 2
        assert honest.mu < claimed
    halved = shown(2 * claimed, claimed)
    assert halved.mu > 1.6 * claimed
    assert bounds.epsilon_of_mu(halved.mu, 1e-6) > 2
    assert halved.mu_estimate == pytest.approx(2 * claimed, rel=0.1)
    assert bounds.epsilon_of_mu(claimed, 1e-6) == pytest.approx(2, abs=1e-3)


@pytest.mark.parametrize("count", [1, 5])
def test_the_bounds_at_all_thresholds_share_one_error(count):
    """Both bounds at a threshold, and all thresholds: alpha / 2k each (the union bound)."""
    present, absent = np.repeat([1.0, -1.0], [70, 30]), np.repeat([1.0, -1.0], [40, 60])
    each = bounds.ALPHA / (2 * count)
    p, q = bounds.at_least(70, 100, each), bounds.at_most(40, 100, each)
    found = bounds.measured(present, absent, (0.0,) * count, 0.0)
    assert found.epsilon == pytest.approx(max(math.log(p / q), math.log((1 - q) / (1 - p))))


def test_what_separates_the_worlds_wholly_refutes_every_small_claim():
    count = 200
    found = bounds.measured(np.full(count, 9.0), np.full(count, -9.0), bounds.thresholds(0.2), 1e-6)
    assert found.epsilon > 3
    assert found.mu > 4
    assert found.mu_estimate == math.inf
    assert bounds.epsilon_of_mu(math.inf, 1e-6) == math.inf


DRAWS = 60_000


def p_values_of(noise: np.ndarray, variance: int) -> dict[str, float]:
    found = NoiseLaw(variance)
    for lot in np.array_split(noise, 20):
        found.add(lot)
    return found.p_values()


@pytest.mark.parametrize("variance", [4, 400, 10**8])
def test_noise_of_the_law_passes(variance):
    """Three p-values above 1e-4 of a fixed seed; the audit refuses below 1e-7."""
    noise = discrete_gaussian(Fraction(variance), DRAWS, SeededSource(variance))
    assert min(p_values_of(noise, variance).values()) > 1e-4
    assert NoiseLaw(variance).p_values() == {}


def rounded(values: np.ndarray) -> np.ndarray:
    return np.rint(values).astype(np.int64)


WRONG = {
    "a little narrow": lambda rng, sd: rounded(rng.normal(0, 0.96 * sd, DRAWS)),
    "a little wide": lambda rng, sd: rounded(rng.normal(0, 1.04 * sd, DRAWS)),
    "shifted": lambda rng, sd: rounded(rng.normal(0.1 * sd, sd, DRAWS)),
    "other tails": lambda rng, sd: rounded(rng.laplace(0, sd / 2**0.5, DRAWS)),
    "no tails": lambda rng, sd: rounded(rng.uniform(-1, 1, DRAWS) * sd * 3**0.5),
    "a coarse grid": lambda rng, sd: 5 * rounded(rng.normal(0, sd / 5, DRAWS)),
    "none": lambda rng, sd: np.zeros(DRAWS, np.int64),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("variance", [100, 10**6])
def test_noise_of_another_law_is_found(wrong, variance):
    noise = wrong(np.random.default_rng(7), variance**0.5)
    assert min(p_values_of(noise, variance).values()) < P_VALUE


def test_noise_that_is_used_twice_is_found_and_fresh_noise_is_not():
    found, fresh = NoiseLaw(900), NoiseLaw(900)
    source = SeededSource(3)
    first, second = (discrete_gaussian(Fraction(900), 500, source) for _ in range(2))
    found.pair(first, first[:400], 900)
    fresh.pair(first, second, 900)
    assert found.p_values()["agreement"] < P_VALUE
    assert fresh.p_values()["agreement"] > 1e-3
    assert two_sided(0) == 1

"""Noisy sums over random samples: against dp-accounting, the integral, and no sampling."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from research.trainers.sampled_gaussian import (
    SampledGaussianLoss,
    sampled_delta,
    sampled_epsilon,
)
from research.trainers.sampled_sums import SampledSums, sampled_variance
from stream_app.privacy.accounting.loss_distribution import LossDistribution
from stream_app.privacy.exact.gaussian_calibration import gaussian_epsilon
from stream_app.privacy.gaussian.certificate import NoisySum
from tests.research.trainers.generate_sampled import SAMPLED, TABLE, TREES

pytestmark = pytest.mark.nightly

F = Fraction
PEER = json.loads(Path(TABLE).read_text(encoding="utf-8"))


def test_the_table_holds_every_setting_of_its_generator():
    assert [tuple(row[:4]) for row in PEER["sampled"]] == SAMPLED
    assert [tuple(row[:2]) for row in PEER["trees"]] == TREES


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta", "peer"), PEER["sampled"])
def test_both_libraries_agree(rate, sigma, steps, delta, peer):
    found = sampled_epsilon(F(rate), 1 / F(sigma) ** 2, steps, delta)
    assert peer * (1 - 1e-4) < found < peer * (1 + 1e-3)


def integral(rate: float, mu: float, epsilon: float, *, removed: bool) -> float:
    """Return delta of one step by a fine sum over the line."""
    x = np.linspace(-12, 12 + mu, 2_000_001)
    alone = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    mixed = (1 - rate) * alone + rate * np.exp(-((x - mu) ** 2) / 2) / math.sqrt(2 * math.pi)
    p, q = (mixed, alone) if removed else (alone, mixed)
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0]))


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("rate", "mu", "epsilon"), [(0.1, 1.0, 0.05), (0.5, 2.0, 0.4)])
def test_one_step_is_bounded_by_the_integral_and_hardly_more(rate, mu, epsilon, removed):
    loss = SampledGaussianLoss(F(rate), F(mu) ** 2, removed)
    bound = LossDistribution.single(loss).delta(epsilon)
    exact = integral(rate, mu, epsilon, removed=removed)
    assert exact <= bound * (1 + 1e-9)
    assert bound <= exact * (1 + 1e-3)


def test_the_larger_direction_counts():
    setting = F(1, 10), F(4), 20
    both = [
        LossDistribution.single(SampledGaussianLoss(F(1, 10), F(4), removed)).self_composed(20)
        for removed in (True, False)
    ]
    deltas = [each.delta(3.0) for each in both]
    assert deltas[0] > 2 * deltas[1]
    assert sampled_delta(*setting, 3.0) == max(deltas)


def test_a_sample_of_everything_is_the_gaussian():
    exact = float(gaussian_epsilon(F(1, 10**6), F(20, 25)))
    assert sampled_epsilon(F(1), F(1, 25), 20, 1e-6) == pytest.approx(exact, rel=1e-3)
    assert sampled_epsilon(F(1), F(1, 25), 20, 1e-6) >= exact


def test_added_alone_cannot_lose_more_than_leaving_the_sample():
    """Without the event in the second world, a step says at most -ln(1 - q)."""
    loss = LossDistribution.single(SampledGaussianLoss(F(1, 2), F(100), removed=False))
    assert loss.epsilon(0.0) == pytest.approx(math.log(2))
    assert loss.delta(0.7) == 0


@pytest.mark.parametrize(("rate", "square"), [(F(0), F(1)), (F(2), F(1)), (F(1), F(0))])
def test_a_loss_out_of_range_is_refused(rate, square):
    with pytest.raises(ValueError, match="above 0"):
        SampledGaussianLoss(rate, square)


def test_integers_cost_more_than_the_line_and_noise_fits_its_budget():
    sums = SampledSums(NoisySum(16, F(16**2 * 4), 50_000), F(1, 16), 20)
    line = sampled_epsilon(F(1, 16), F(1, 4), 20, 1e-6)
    found = sums.epsilon(F(1, 10**6))
    assert line < found < line * 1.01
    variance = sampled_variance(16, 50_000, F(1, 16), 20, (F(found), F(1, 10**6)))
    assert 1 <= variance / (16**2 * 4) < F(102, 100)
    fitted = SampledSums(NoisySum(16, variance, 50_000), F(1, 16), 20)
    assert fitted.epsilon(F(1, 10**6)) <= found

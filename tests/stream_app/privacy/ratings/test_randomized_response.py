"""Randomized response: certificate and estimates are exact, the numbers are the literature's."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.exact.integer_tables import exp_bounds
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from tests.stream_app.privacy.mechanisms import EPSILONS, EVERY_RANDOMIZED_RESPONSE, LEVELS, name

every = pytest.mark.parametrize("mechanism", EVERY_RANDOMIZED_RESPONSE, ids=name)


@every
def test_the_certificate_holds_the_worst_quotient_of_all_pairs_of_levels(
    mechanism: RandomizedResponse,
) -> None:
    proof = mechanism.certificate
    p, q = mechanism.keep, mechanism.change
    assert p + (mechanism.levels - 1) * q == 1
    # All pairs and all reports, over again, from p and q alone.
    all_levels = range(mechanism.levels)
    channel = [[p if z == v else q for z in all_levels] for v in all_levels]
    worst = max(
        channel[v][z] / channel[w][z] for v in all_levels for w in all_levels for z in all_levels
    )
    assert proof.worst_ratio == worst
    assert worst <= exp_bounds(mechanism.epsilon)[0]
    assert proof.slack <= 0
    assert proof.epsilon == mechanism.epsilon
    assert proof.adjacency is Adjacency.VALUE
    assert proof.mechanism == mechanism.id
    assert proof.outputs == mechanism.levels


@every
def test_the_channel_spends_nearly_all_of_its_epsilon(mechanism: RandomizedResponse) -> None:
    assert -1e-11 < mechanism.certificate.slack / float(mechanism.epsilon) < 0


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_channel_is_the_formula(levels: int, epsilon: Fraction) -> None:
    mechanism = RandomizedResponse(levels, epsilon)
    whole = math.exp(epsilon) + levels - 1
    assert float(mechanism.keep) == pytest.approx(math.exp(epsilon) / whole, rel=1e-10)
    assert float(mechanism.change) == pytest.approx(1 / whole, rel=1e-10)


@every
def test_the_estimates_are_unbiased_in_exact_arithmetic(mechanism: RandomizedResponse) -> None:
    p, q, reports = mechanism.keep, mechanism.change, range(mechanism.levels)
    for power in (0, 1, 2):
        targets = [Fraction(v) ** power for v in reports]
        estimate = mechanism.unbiased(targets)
        for v in reports:
            assert sum((p if z == v else q) * estimate[z] for z in reports) == targets[v]


def test_the_variance_is_that_of_the_report() -> None:
    # s(v) = v - 2 centred on five levels: Var = (q * 10 + (p - q) s^2) / (p - q)^2 - s^2.
    mechanism = RandomizedResponse(5, Fraction(2))
    p, q = float(mechanism.keep), float(mechanism.change)
    s = np.arange(5) - 2.0
    expected = (q * 10 + (p - q) * s**2) / (p - q) ** 2 - s**2
    np.testing.assert_allclose(mechanism.variance(), expected, rtol=1e-12)


@pytest.mark.parametrize("levels", [1, 0, -1, 257, 5.0, True, "5"])
def test_a_number_of_levels_that_no_scale_has_is_refused(levels: object) -> None:
    with pytest.raises(ValueError, match="2 to 256"):
        RandomizedResponse(levels, Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "epsilon",
    [Fraction(0), Fraction(-1), Fraction(65), Fraction(1, 10**7), 1, 0.5, "1", math.nan, math.inf,
     1e308, Fraction(10) ** 400, Fraction(1_000_001, 1_000_000_000), None],
    ids=lambda e: str(e)[:12],
)  # fmt: skip
def test_an_epsilon_out_of_range_is_refused_with_the_limit(epsilon: object) -> None:
    with pytest.raises(ValueError, match="at most 64") as caught:
        RandomizedResponse(5, epsilon)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


def test_the_largest_and_the_smallest_epsilon_have_certificates() -> None:
    for levels in (2, 256):
        for epsilon in (Fraction(64), Fraction(1, 1_000_000)):
            proof = RandomizedResponse(levels, epsilon).certificate
            assert proof.slack <= 0
            assert proof.worst_ratio > 1


def test_five_levels_compile_and_certify_in_a_few_milliseconds() -> None:
    best = math.inf
    for _ in range(5):
        started = time.process_time()
        RandomizedResponse(5, Fraction(2))
        best = min(best, time.process_time() - started)
    assert best < 0.02

"""What one report tells about its rating, against an enumeration and against known bounds."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from stream_app.privacy import registry
from stream_app.privacy.exact.report_information import (
    RATED,
    mutual_information,
    report_information_nats,
    stated_prior,
)

EVERY = [
    registry.mechanism(family, levels, epsilon)
    for family in registry.protecting()
    for levels in (5, 10)
    for epsilon in ("1/2", "2")
]


def entropy(shares: list[float]) -> float:
    return -sum(share * log(share) for share in shares if share > 0)


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda each: each.id)
def test_the_information_is_the_entropy_that_a_report_removes(mechanism) -> None:
    """I = H(V) - sum_z P(z) H(V | z), by a loop over reports and inputs."""
    prior = stated_prior(mechanism).tolist()
    found = []
    for mask in mechanism.masks or (0,):
        channel = mechanism.likelihood(mask).tolist()
        left = 0.0
        for row in channel:
            joint = [share * p for share, p in zip(prior, row, strict=True)]
            left += sum(joint) * entropy([each / sum(joint) for each in joint])
        found.append(entropy(prior) - left)
    assert report_information_nats(mechanism) == pytest.approx(max(found), abs=1e-12)


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda each: each.id)
def test_no_report_tells_more_on_average_than_epsilon_allows(mechanism) -> None:
    """A mean of ln(P(z | v) / P(z)) is at most epsilon (Dwork and Roth 2014)."""
    epsilon = float(mechanism.epsilon)
    assert 0 < report_information_nats(mechanism) <= min(epsilon, epsilon**2)


def test_the_prior_is_a_distribution_over_the_inputs() -> None:
    for mechanism in EVERY:
        prior = stated_prior(mechanism)
        assert prior.shape == (mechanism.inputs,)
        assert prior.sum() == pytest.approx(1)
        assert prior.min() > 0
    like = registry.parse("like:5:2")
    assert stated_prior(like)[-1] == 1 - RATED


def test_known_points() -> None:
    assert report_information_nats(registry.parse("rr:5:2")) == pytest.approx(0.43, abs=0.005)
    identity = registry.parse("none:5:inf")
    assert report_information_nats(identity) == pytest.approx(
        entropy(stated_prior(identity).tolist())
    )
    coin = np.full((2, 2), 0.5)
    assert mutual_information(coin, np.array([0.3, 0.7])) == 0

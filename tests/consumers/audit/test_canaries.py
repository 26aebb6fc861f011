"""Devices of known ratings: bounds of epsilon that hold, and faults that they show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from consumers.audit import Finding, PublicConfiguration, observe
from consumers.audit.canary_check import canary_findings, epsilon_bounds
from consumers.audit.configuration import NO_RATING
from consumers.audit.findings import Verdict
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from tests.consumers.audit.worlds import CELL, RR, World, keys, levels

ALPHA = 1e-4
EVERY = (
    *("rr:5:2", "rr:2:1/2", "rr:10:3", "partition:5:2", "cell:5:2", "cell:5:2:1/4"),
    *("ternary:5:1:1/2", "laplace:5:2", "like:5:2"),
)
NO_MORE, EXACT = f"{RR.id}: canaries show no epsilon above 2", f"{RR.id}: canaries have exactly"


def canaries(
    mechanism: Mechanism, reports: int, drawn_by: Mechanism | None = None, seed: int = 1
) -> list[Finding]:
    """Return what one canary for each input shows, of `reports` reports each."""
    world, rated = World(seed), {}
    for number in range(mechanism.inputs):
        device, inputs = world.device(), np.full(reports, number, np.uint8)
        for part in np.array_split(np.arange(reports, dtype=np.uint64), -(-reports // 256)):
            world.send(device, part, inputs[: len(part)], mechanism, drawn_by=drawn_by)
        rated[device] = number if number < mechanism.levels else NO_RATING
    world.send(world.device(), keys(range(50)), levels(world.rng, 50), mechanism)  # a stranger
    public = PublicConfiguration((mechanism,), canaries=rated, alpha=ALPHA)
    return canary_findings(observe(world.records, public), public)


def sampled(
    law: NDArray[np.float64], each: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return inputs and reports, `each` of every column of a law."""
    inputs = np.repeat(np.arange(law.shape[1]), each)
    drawn = (rng.random((len(inputs), 1)) > law.T[inputs].cumsum(axis=1)).sum(axis=1)
    return inputs, drawn.clip(max=len(law) - 1)


@pytest.mark.parametrize("name", EVERY)
def test_no_naming_of_inputs_is_right_more_often_than_epsilon_allows(name: str) -> None:
    """The best names, of inputs that are equally frequent: the inequality behind the first bound,
    which randomised response reaches."""
    mechanism = registry.parse(name)
    for mask in mechanism.masks or (0,):
        law = np.unique(mechanism.likelihood(mask), axis=1)
        k, most = law.shape[1], math.exp(float(mechanism.epsilon or 0))
        right = law.max(axis=1).sum() / k
        assert right <= most / (most + k - 1) + 1e-12
        if name.startswith(("rr", "partition")) or name == "cell:5:2":
            assert right == pytest.approx(most / (most + k - 1))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["rr:5:2", "laplace:5:2"])
def test_a_bound_exceeds_the_true_epsilon_as_rarely_as_stated(name: str) -> None:
    """Of 100 at .05, 5 are expected at most; more than 18 with probability 2e-7."""
    mechanism, rng = registry.parse(name), np.random.default_rng(7)
    law = mechanism.likelihood()
    bounds = [epsilon_bounds(*sampled(law, 60, rng), law, 0.05)[0] for _ in range(100)]
    assert sum(bound > float(mechanism.epsilon or 0) for bound in bounds) <= 18
    assert np.median(bounds) > 0


def test_an_honest_device_is_not_accused() -> None:
    for mechanism in (RR, CELL):
        found = canaries(mechanism, 500)
        assert [each.verdict for each in found] == [Verdict.OK, Verdict.OK]
        assert 1 < float(found[0].figures["epsilon"]) < 2


def test_an_epsilon_of_3_that_is_claimed_as_2_is_found_with_1000_reports() -> None:
    found, _ = canaries(RR, 200, registry.parse("rr:5:3"))
    assert (found.claim, found.verdict) == (NO_MORE, Verdict.VIOLATED)
    assert 2 < float(found.figures["epsilon"]) < 3


def test_presence_that_is_protected_less_than_claimed_is_found() -> None:
    assert canaries(CELL, 500, registry.parse("cell:5:3"))[0].verdict is Verdict.VIOLATED


def test_more_noise_than_claimed_is_another_law_and_no_epsilon() -> None:
    more, law = canaries(RR, 500, registry.parse("rr:5:1"))
    assert more.verdict is Verdict.OK
    assert law.claim.startswith(EXACT)
    assert law.verdict is Verdict.VIOLATED


def test_a_single_pair_that_is_told_apart_is_found_by_the_pair() -> None:
    """Reports have more noise than enough, but one of them hardly ever comes of one input."""
    law, rng = RR.likelihood(), np.random.default_rng(3)
    true = registry.parse("rr:5:1/2").likelihood()
    true[:, 4] = (0.001, 0.2, 0.2, 0.2, 0.399)
    whole, pair = epsilon_bounds(*sampled(true, 4000, rng), law, ALPHA)
    assert whole == pair
    assert 2 < pair < math.log(true[0, 0] / 0.001)


def test_one_canary_or_none_says_nothing() -> None:
    world = World(5)
    device = world.device()
    world.send(device, keys(range(9)), np.zeros(9, np.uint8))
    for known in ({device: 0}, {}, {bytes(16): 1}):
        public = PublicConfiguration((RR,), canaries=known, alpha=ALPHA)
        (found,) = canary_findings(observe(world.records, public), public)
        assert found.verdict is Verdict.UNTESTABLE


def test_canaries_of_few_ratings_are_tested_by_these() -> None:
    world, rated = World(6), {}
    for level in (0, 4):
        device = world.device()
        world.send(device, keys(range(200)), np.full(200, level, np.uint8), RR,
                   drawn_by=registry.parse("rr:5:6"))  # fmt: skip
        rated[device] = level
    public = PublicConfiguration((RR,), canaries=rated, alpha=ALPHA)
    assert canary_findings(observe(world.records, public), public)[0].verdict is Verdict.VIOLATED


def test_a_canary_that_reports_more_often_than_the_others_accuses_nobody() -> None:
    law, rng = RR.likelihood(), np.random.default_rng(8)
    few, many = sampled(law, 200, rng), sampled(law[:, [0]], 5000, rng)
    inputs, reports = (np.concatenate(both) for both in zip(few, many, strict=True))
    assert 0 < epsilon_bounds(inputs, reports, law, ALPHA)[0] < 2

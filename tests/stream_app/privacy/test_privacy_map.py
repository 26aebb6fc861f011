"""Every mechanism as a measurement: its map bounds the exact channel, at each distance."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import (
    Adjacency,
    InputMetric,
    Loss,
    OutputMeasure,
    group,
)
from stream_app.privacy.profiles import profile_registry as profiles
from stream_app.privacy.profiles.blip import Blip
from tests.stream_app.privacy.checks import masks_of
from tests.stream_app.privacy.mechanisms import EVERY_MECHANISM

METRIC = {
    Adjacency.VALUE: InputMetric.VALUE,
    Adjacency.CELL: InputMetric.CELL,
    Adjacency.NOTHING: InputMetric.VALUE,
}


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM, ids=lambda each: each.id)
def test_the_map_bounds_the_divergence_of_the_exact_channel(mechanism: Mechanism) -> None:
    assert mechanism.input_metric is METRIC[mechanism.adjacency]
    assert mechanism.privacy_map(0) == Loss(Fraction(0))
    loss = mechanism.privacy_map(1)
    assert loss == Loss(mechanism.epsilon)
    pure = mechanism.epsilon is not None
    assert mechanism.output_measure is (OutputMeasure.PURE if pure else OutputMeasure.NOTHING)
    for mask in masks_of(mechanism):
        with np.errstate(divide="ignore"):
            logs = np.log(mechanism.likelihood(mask))
        divergence = (logs.max(axis=1) - logs.min(axis=1)).max()
        assert divergence <= (math.inf if loss.epsilon is None else float(loss.epsilon) + 1e-9)
    for distance in (-1, 2):
        with pytest.raises(ValueError, match=f"distance {distance}"):
            mechanism.privacy_map(distance)


def test_the_map_of_a_filter_bounds_every_pair_of_profiles_by_enumeration() -> None:
    """All profiles of three items in a filter of 8 bits: the loss of each release."""
    blip = Blip(8, 2, Fraction(2))
    items = np.array([11, 12, 13], np.uint64)
    chosen = [items[list(pick)] for n in range(4) for pick in itertools.combinations(range(3), n)]
    outputs = [np.array([byte], np.uint8) for byte in range(256)]
    logs = [np.array([blip.log_likelihood(out, each) for out in outputs]) for each in chosen]
    for first, second in itertools.combinations(range(len(chosen)), 2):
        distance = len(set(chosen[first].tolist()) ^ set(chosen[second].tolist()))
        bound = blip.privacy_map(distance).epsilon
        assert bound is not None
        assert np.abs(logs[first] - logs[second]).max() <= float(bound) + 1e-9
    assert blip.privacy_map(3).epsilon == 6
    assert blip.privacy_map(100).epsilon == 8, "no more than all bits can carry"


@pytest.mark.parametrize("id", ["blip:5000:2:2", "jlt:1000:2:1/1000000", "jltpaper:1000:2:1/10"])
def test_a_profile_mechanism_maps_an_item_to_its_claim(id: str) -> None:
    mechanism = profiles.parse(id)
    assert mechanism.input_metric is InputMetric.PROFILE
    assert mechanism.privacy_map(0) == Loss(Fraction(0))
    assert mechanism.privacy_map(1) == Loss(mechanism.epsilon, mechanism.delta)
    approximate = mechanism.output_measure is OutputMeasure.APPROXIMATE
    assert approximate == (mechanism.delta > 0)
    with pytest.raises(ValueError, match="distance -1"):
        mechanism.privacy_map(-1)


def test_without_noise_there_is_no_bound() -> None:
    for id in ("blip:5000:2:inf", "jlt:1000:inf:0"):
        mechanism = profiles.parse(id)
        assert mechanism.output_measure is OutputMeasure.NOTHING
        assert mechanism.privacy_map(1) == Loss(None)
        assert str(mechanism.privacy_map(1)) == "unbounded"


def test_group_privacy_is_the_sum_of_the_steps() -> None:
    """k steps: e^(k eps) and delta (1 + e^eps + ... + e^((k-1) eps)), rounded up."""
    epsilon, delta = Fraction(1, 2), Fraction(1, 10**6)
    for k in range(1, 12):
        loss = group(epsilon, delta, k)
        truth = 1e-6 * sum(math.exp(i / 2) for i in range(k))
        assert loss.epsilon == k * epsilon
        assert truth * (1 - 1e-12) <= float(loss.delta) <= truth * (1 + 1e-12)
    assert group(epsilon, delta, 1000).delta == 1

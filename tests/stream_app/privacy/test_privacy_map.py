"""Every mechanism as a measurement: its map bounds the exact channel, at each distance."""

from __future__ import annotations

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
)
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

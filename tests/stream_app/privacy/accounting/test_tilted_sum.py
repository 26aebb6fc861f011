"""The transform's window: what lies above it counts, and below it nothing is claimed."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.accounting.loss_grid import GridLoss
from stream_app.privacy.accounting.tilted_sum import tilted_sum

COUNT = 20_000
KEEP = Fraction(5, 8)  # a step up with this probability, else a step down
COIN = GridLoss(np.array([-1, 1]), np.array([0.375, 0.625]), 0.0)
STEP = Fraction(1, 4)


def log_ways(up: int) -> float:
    """Return ln P(the sum of COUNT coins is 2 up - COUNT)."""
    ways = math.lgamma(COUNT + 1) - math.lgamma(up + 1) - math.lgamma(COUNT - up + 1)
    return ways + up * math.log(0.625) + (COUNT - up) * math.log(0.375)


@pytest.mark.parametrize("tilt", [0.01, 0.05, 0.2])
def test_every_entry_bounds_the_exact_law(tilt):
    total = tilted_sum([(COIN, COUNT)], STEP, tilt)
    assert total.low > -COUNT
    assert total.low + len(total.law) < COUNT
    places = range(total.low + total.low % 2, total.low + len(total.law), 2)
    for place in places[:: max(1, len(places) // 500)]:
        exact = log_ways((place + COUNT) // 2)
        found = math.log(total.law[place - total.low]) + total.scale - total.tilt * place
        assert found >= exact - 1e-8
    peak = total.low + int(total.law.argmax())
    found = math.log(total.law.max()) + total.scale - total.tilt * peak
    assert found == pytest.approx(log_ways((peak + COUNT) // 2), abs=1e-7)


@pytest.mark.parametrize("tilt", [0.01, 0.05])
def test_what_lies_above_the_window_is_in_the_bound(tilt):
    total = tilted_sum([(COIN, COUNT)], STEP, tilt)
    above = total.low + len(total.law)
    first = (above + COUNT + 1) // 2
    exact = math.log(sum(math.exp(log_ways(first + i) - log_ways(first)) for i in range(200)))
    exact += log_ways(first)
    assert total.beyond > 0
    assert math.log(total.beyond) >= exact
    assert total.delta((above + 10) * 0.25) == total.beyond


def test_below_the_window_nothing_is_claimed():
    total = tilted_sum([(COIN, COUNT)], STEP, 0.2)
    assert total.delta((total.low - 1) * 0.25) == 1.0
    assert total.delta((total.low + len(total.law) // 2) * 0.25) < 1e-100
    whole = tilted_sum([(COIN, 50)], STEP, 0.2)
    assert whole.whole
    assert whole.low == -50
    assert whole.delta(0.0) < 1.0


def test_an_infinite_loss_of_one_of_many_counts():
    rare = GridLoss(np.array([0]), np.array([1 - 1e-6]), 1e-6)
    assert tilted_sum([(rare, 100)], STEP, 0.1).delta(1.0) == pytest.approx(1e-4, rel=1e-4)

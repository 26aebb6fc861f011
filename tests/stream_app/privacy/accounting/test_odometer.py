"""The odometer: never below exact composition, little above, and valid under adaptive stopping."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.accounting.budget_plans import ExactPlan
from stream_app.privacy.accounting.odometer import odometer
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.gaussian import naming

F = Fraction
DELTA = F(1, 10**6)


def sums(epsilon: F) -> str:
    """Return the id of a campaign of this epsilon."""
    return naming.name(naming.within(epsilon, DELTA))


CAMPAIGNS = [sums(F(n, 20)) for n in (1, 2, 10, 20, 40)]
OTHERS = ["rr:5:1/4", "rr:5:1/2", "rr:5:1", "rr:5:2", "cell:5:1/2", "cell:5:1:1/4", "like:5:1",
          "partition:5:1", "laplace:5:1", "ternary:5:1/2"]  # fmt: skip


def histories(number: int) -> list[dict[str, int]]:
    """Return mixed histories, each campaign alone first."""
    print("seed 0")
    source, found = np.random.default_rng(0), [{each: 1} for each in CAMPAIGNS]
    while len(found) < number:
        ids = source.choice(CAMPAIGNS + OTHERS, source.integers(1, 5), replace=False)
        found.append({
            str(id): int(source.choice([1, 2, 3, 5, 10, 30] if ":5:" in id else [1, 2, 3]))
            for id in ids
        })  # fmt: skip
    return found


@pytest.mark.parametrize("number", [8, pytest.param(60, marks=pytest.mark.thorough)])
def test_it_is_between_exact_composition_and_a_third_more_over_histories(number: int) -> None:
    exact = ExactPlan((), DELTA)
    ratios = [odometer(used, DELTA) / exact.spent(used) for used in histories(number)]
    print(f"{len(ratios)} ratios from {min(ratios):.4f} to {max(ratios):.4f}")
    assert len(ratios) == number
    assert min(ratios) >= 1.0
    assert max(ratios) <= 1.3


@pytest.mark.parametrize("used", [{CAMPAIGNS[3]: 2, "rr:5:1/2": 12}, {"cell:5:1:1/4": 9}], ids=str)
def test_against_another_record_it_is_not_below_that_composition(used: dict[str, int]) -> None:
    loss = None
    for id, count in used.items():
        each = report_loss(id, "replaced").self_composed(count)
        loss = each if loss is None else loss.compose(each)
    assert loss is not None
    exact = loss.epsilon(float(DELTA))
    assert exact <= odometer(used, DELTA, "replaced") <= 1.3 * exact


def test_without_a_delta_it_is_the_sum_and_of_nothing_nothing() -> None:
    assert odometer({}, DELTA) == odometer({"rr:5:1": 0}, DELTA) == 0
    assert odometer({"rr:5:1/2": 4, "cell:5:1": 2}, F(0)) == pytest.approx(4, abs=1e-9)
    assert odometer({CAMPAIGNS[0]: 1}, F(0)) == math.inf


def test_it_rises_with_every_release() -> None:
    shown = [odometer({"rr:5:1/2": n, CAMPAIGNS[3]: n // 3}, DELTA) for n in range(40)]
    assert all(a < b for a, b in itertools.pairwise(shown))


def test_no_moment_to_stop_beats_its_delta() -> None:
    """The best stopping rule against it, exactly, by backward induction over all histories.

    Randomized response between two values: the loss is h for a report that agrees, else -h. The
    value of a state is the larger of (1 - e^(shown - L))+ now and its mean over the next report.
    """
    from stream_app.privacy.registry import parse

    delta, most = F(1, 100), 40
    (keep, change), _ = parse("rr:2:1").table().counts
    p, h = keep / 2**64, math.log(keep / change)
    shown = [odometer({"rr:2:1": n}, delta) for n in range(most + 1)]

    def now(n: int, agree: int) -> float:
        return max(0.0, -math.expm1(shown[n] - h * (2 * agree - n)))

    value = [now(most, agree) for agree in range(most + 1)]
    for n in range(most - 1, -1, -1):
        value = [max(now(n, k), p * value[k + 1] + (1 - p) * value[k]) for k in range(n + 1)]
    assert 0 < value[0] <= float(delta)
    # The exact composition of the counts is no odometer: the best rule exceeds its delta.
    curve = [report_loss("rr:2:1").self_composed(n).epsilon(float(delta)) for n in range(most + 1)]
    shown = curve
    value = [now(most, agree) for agree in range(most + 1)]
    for n in range(most - 1, -1, -1):
        value = [max(now(n, k), p * value[k + 1] + (1 - p) * value[k]) for k in range(n + 1)]
    assert value[0] > float(delta)

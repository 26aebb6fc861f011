"""Drift is detected where it was planted, soon, and not where the stream is the same throughout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from stream_app.monitoring import drift
from stream_app.monitoring.drift import ALLOWANCE, LEAST, THRESHOLD, Blocks, ListDrift, PageHinkley
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.state.replica import Replica
from stream_app.wire import decode_many
from tests.fixtures.drift import drift_world, messages
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import run_of


def first_call(values: np.ndarray) -> int | None:
    """Return the observation that completes a drift, None without one."""
    detector = PageHinkley()
    return next((at for at, value in enumerate(values) if detector.add(float(value))), None)


def test_the_statistic_is_that_of_the_definition(rng: np.random.Generator) -> None:
    """PH_t = m_t - min m_i, with sums over all observations as Mouss et al. write it."""
    values, detector = rng.normal(3, 2, 150), PageHinkley()
    sums = [0.0]
    for t in range(1, len(values) + 1):
        detector.add(float(values[t - 1]))
        if t > LEAST:
            deviation = np.sqrt(np.mean(np.diff(values[:t]) ** 2) / 2)
            sums.append(sums[-1] + (values[t - 1] - values[:t].mean()) / deviation - ALLOWANCE)
            assert detector.statistic * THRESHOLD == pytest.approx(sums[-1] - min(sums))


@pytest.mark.statistical
def test_a_rise_is_found_and_the_same_noise_without_it_is_not() -> None:
    """200 streams of 200 observations: at one false call in 170,000 the chance of more than two is
    .002; a rise by two deviations was found within 25 observations in 499 of 500 streams."""
    random = np.random.default_rng(11)
    noise = random.normal(size=(200, 200))
    assert sum(first_call(each) is not None for each in noise) <= 2
    later = [first_call(each) for each in noise + 2.0 * (np.arange(200) >= 100)]
    assert sum(at is not None and 100 <= at < 125 for at in later) >= 195
    better = [first_call(each) for each in noise - 2.0 * (np.arange(200) >= 100)]
    assert sum(at is not None for at in better) <= 2


def test_an_unknown_value_changes_nothing_and_a_detection_starts_over() -> None:
    values = [float(each % 3) for each in range(30)]
    with_gaps, without = PageHinkley(), PageHinkley()
    for value in values:
        with_gaps.add(float("nan"))
        with_gaps.add(value)
        without.add(value)
    assert vars(with_gaps) == vars(without)
    assert any(without.add(50.0) for _ in range(30))
    assert vars(without) == vars(PageHinkley())
    constant = PageHinkley()
    assert not any(constant.add(1.0) for _ in range(100))


@pytest.mark.parametrize("weighed", [False, True])
def test_blocks_are_the_same_whatever_the_batches(weighed: bool, rng: np.random.Generator) -> None:
    errors = rng.normal(1, 3, 3 * drift.HIDDEN_BLOCK + 7)
    errors[::10] = np.nan
    weights = rng.normal(0.3, 0.5, len(errors)) if weighed else None
    whole = list(Blocks().add(errors, weights))
    blocks, found = Blocks(), []
    for places in np.array_split(np.arange(len(errors)), 97):
        found += blocks.add(errors[places], weights[places] if weights is not None else None)
    assert found == pytest.approx(whole)
    known = ~np.isnan(errors)
    size = drift.HIDDEN_BLOCK if weighed else drift.BLOCK
    assert len(found) == known.sum() // size
    each = np.ones(len(errors)) if weights is None else weights
    assert found[0] == pytest.approx(errors[known][:size].sum() / each[known][:size].sum())


@pytest.mark.parametrize("name", ["none:5:inf", "rr:5:2"])
def test_a_worker_detects_items_that_change_and_nothing_in_a_stream_that_does_not(
    name: str,
) -> None:
    """30 % of the items lose 1.5 stars half-way, in the replica and gauges of a worker."""
    world = drift_world(5, users=4000, items=100, ratings=80_000)
    reports = registry.parse(name).release(world.levels, SeededSource(5))
    design = replace(SMALL, mechanisms=(registry.parse(name),), head_items=0, partitions=1)
    replica, metrics = Replica(design), Metrics(CollectorRegistry())
    gauges = Gauges(metrics, replica, Recommender(replica, Catalogue(), "exact"))
    records = messages(world, reports, name, partitions=1)

    def detected(first: int, end: int) -> float:
        for stop in range(first + 100, end + 1, 100):
            batch = decode_many(run_of(records, stop - 100, stop, 0), design.intake)
            gauges.watch(replica.apply(batch))
        value = metrics.registry.get_sample_value(
            "murmurec_drift_detected_total", {"detector": "error"}
        )
        return value or 0.0

    half, soon = len(records) // 2, 500  # of 20 ratings
    assert detected(0, half) == 0
    assert detected(half, half + soon) == 1


def test_lists_that_become_worse_than_popular_are_detected_on_new_devices_alone() -> None:
    """Figures of 500 devices, whose standard error is .01, 5,000 ratings apart."""
    random = np.random.default_rng(2)

    def observed(served: float, detector: ListDrift, steps: int, apart: int = 5_000) -> int:
        calls = 0
        for step in range(steps):
            ndcg = served + 0.01 * random.normal()
            begun = getattr(detector, "reached", 0)
            calls += bool(detector.observe(ndcg, 0.09, 0.01, begun + (step + 1) * apart, 5_000))
        detector.reached = begun + steps * apart  # type: ignore[attr-defined]
        return calls

    detector = ListDrift()
    assert observed(0.14, detector, 60) == 0
    assert observed(0.10, detector, 10) == 1
    repeated = ListDrift()
    observed(0.14, repeated, 30)
    assert observed(0.10, repeated, 100, apart=10) == 0  # one sample, measured again and again
    assert ListDrift().observe(None, None, 0.0, 10_000, 5_000) is None

"""What `murmurec top` shows, from pages of workers, and its alerts against those of Prometheus."""

from __future__ import annotations

import re

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from stream_app.monitoring.exposition import Exposition, quantile
from stream_app.monitoring.live_frame import (
    NAMES,
    BrokerLook,
    Watched,
    WorkerLook,
    WorkerRow,
    frame,
)
from stream_app.monitoring.metric_table import METRICS
from stream_app.monitoring.metrics import Metrics
from stream_app.monitoring.standing_alerts import NAMED, standing
from stream_app.wire import Reason
from tests.deploy.test_alert_rules import CASES, Series

URL = "http://127.0.0.1:8470"


def worker(metrics: Metrics, time: float, waiting: str = "") -> WorkerLook:
    return WorkerLook(time, Exposition(metrics.exposition().decode(), NAMES), waiting)


def busy() -> Metrics:
    """Return the metrics of a worker that has measured everything."""
    metrics = Metrics(CollectorRegistry())
    metrics.ready(True)
    metrics.clock_owner(True)
    metrics.round_applied(4812, 0.1, 0.0)
    metrics.lag(12, 0.5)
    metrics.memory("sketch", 3 << 20)
    metrics.checkpoint_durable(4800, 90.0, 0.2, 1)
    metrics.rmse("debiased", "recent", 0.9)
    metrics.rmse_baseline("debiased", 1.1)
    metrics.ranking("learned", 0.16, 0.06)
    metrics.drift("error", 0.25, detected=False)
    metrics.ratings(learned=900, held_out=100)
    return metrics


def test_a_frame_has_the_rates_between_two_looks_and_what_is_measured() -> None:
    metrics = busy()
    before = worker(metrics, 100.0)
    metrics.ratings(learned=180, held_out=20, clipped=50)
    metrics.rejected(Reason.MALFORMED, 4)
    for _ in range(10):
        metrics.query_answered("exact", 0.004)
    broker, earlier = BrokerLook(102.0, 1500, waiting=3), BrokerLook(100.0, 1000)
    watched = Watched(worker(metrics, 102.0), before)
    found = frame({"a": watched}, ("MurmurecDrift",), broker, earlier)
    assert found.workers == (
        WorkerRow("a", "ready", 4812, 12, 0.5, 100.0, 5.0, pytest.approx(0.005, abs=1e-4), 12.0,
                  3 << 20, True),
    )  # fmt: skip
    assert found.broker == "1,500 records, 250 more a second; 3 wait for a cut"
    assert found.rejected == {"malformed": 4}
    assert (found.rmse, found.rmse_baseline, found.ndcg, found.ndcg_popular) == (
        *(0.9, 1.1, 0.16, 0.06),
    )
    assert found.drift == {"error": 0.25}
    assert found.alerts == ("MurmurecDrift",)


def test_without_an_earlier_look_or_after_a_restart_no_rate_is_invented() -> None:
    broker, before = BrokerLook(1.0, 5), worker(busy(), 1.0)
    first = frame({"a": Watched(before)}, (), broker).workers[0]
    assert first.ratings_per_second is None
    assert first.p99_seconds is None
    fresh = Metrics(CollectorRegistry())
    again = Watched(worker(fresh, 2.0, "replaying the log"), before)
    row = frame({"a": again}, (), broker).workers[0]
    assert row.state == "not ready: replaying the log"
    assert (row.ratings_per_second, row.cut, row.checkpoint_age_seconds) == (None, None, None)


def test_what_does_not_answer_is_a_row_and_a_sentence() -> None:
    away = Watched(WorkerLook(1.0, None, "no answer"))
    seen = {"a": away, "b": Watched(worker(busy(), 1.0))}
    found = frame(seen, (), BrokerLook(1.0, None, "no broker"))
    assert found.workers[0] == WorkerRow("a", "no answer")
    assert found.workers[1].cut == 4812
    assert found.broker == "no broker"
    assert standing(seen) == ("MurmurecWorkerDown",)
    alone = frame({"a": away}, (), BrokerLook(1.0, 3))
    assert (alone.rmse, alone.rejected, alone.drift) == (None, {}, {})


def steps(text: str) -> list[float]:
    """Return the values of a series in the notation of promtool."""
    values: list[float] = []
    for part in text.split():
        first, step, times = re.fullmatch(
            r"([\d.]+(?:e\d+)?)([+-][\d.]+(?:e\d+)?)?(?:x(\d+))?", part
        ).groups("0")  # type: ignore[union-attr]
        values += [float(first) + n * float(step) for n in range(int(times) + 1)]
    return values


def looks_of(series: Series, minutes: int) -> dict[str, Watched]:
    """Return the first look and that after so many minutes at the workers of a case."""
    lines: list[dict[str, list[str]]] = [{}, {}]
    for name, text in series.items():
        if name.startswith("up"):
            continue
        instance = re.search(r'instance="(\w+)"', name)
        labels = re.sub(r'instance="\w+",?', "", name)
        values = steps(text)
        for page, at in zip(lines, (0, min(minutes, len(values) - 1)), strict=True):
            whose = instance[1] if instance else "a"
            page.setdefault(whose, []).append(f"{labels} {values[at]}")
    found: dict[str, Watched] = {}
    for page, time in zip(lines, (0.0, 60.0 * minutes), strict=True):
        for url, samples in page.items():
            owned = any("clock_owner" in each for each in samples)
            more = [] if owned else ["murmurec_clock_owner 1"]
            text = "\n".join([*samples, *more])
            look = WorkerLook(time, Exposition(text, NAMES))
            found[url] = Watched(look, found[url].after if url in found else None)
    return found


# Rules that look back: `top` shows what is so now, or since a worker has started.
_LATER = {"MurmurecWorkerDown", "MurmurecReplicasDiffer", "MurmurecDrift", "MurmurecDiskFull"}


@pytest.mark.parametrize("name", [each for each in NAMED if each not in _LATER])
def test_an_alert_of_the_rules_holds_where_prometheus_lets_it_fire(name: str) -> None:
    minutes, fires, silent = CASES[name.removeprefix("Murmurec")]
    assert standing(looks_of(fires, minutes)) == (name,)
    assert name not in standing(looks_of(silent, minutes))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("MurmurecReplicasDiffer", lambda m: m.replica_differs()),
        ("MurmurecDrift", lambda m: m.drift("lists", 0.0, detected=True)),
        ("MurmurecDiskFull", lambda m: m.disk_free("data", 1 << 30)),
    ],
)
def test_what_has_happened_since_a_worker_started_is_shown(name: str, call) -> None:
    metrics = busy()
    assert standing({"a": Watched(worker(metrics, 1.0))}) == ()
    call(metrics)
    assert standing({"a": Watched(worker(metrics, 1.0))}) == (name,)


def test_every_name_is_published_and_every_alert_is_a_rule() -> None:
    published = {metric.published_name for metric in METRICS}
    others = {"murmurec_query_duration_seconds_bucket", "process_resident_memory_bytes"}
    assert others < NAMES
    assert published > NAMES - others
    assert {each.removeprefix("Murmurec") for each in NAMED} <= CASES.keys()


def test_a_quantile_is_near_that_of_the_observations(rng: np.random.Generator) -> None:
    values = rng.exponential(0.05, 5000)
    bounds = [0.01 * step for step in range(1, 60)]
    below = {str(bound): float((values <= bound).sum()) for bound in bounds} | {"+Inf": 5000.0}
    assert quantile(0.99, below) == pytest.approx(np.quantile(values, 0.99), abs=0.01)
    assert quantile(0.5, {"0.1": 0.0, "+Inf": 4.0}) == 0.1
    assert quantile(0.5, {"+Inf": 0.0}) is None
    assert quantile(0.5, {}) is None

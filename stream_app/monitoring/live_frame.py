"""What is shown of a deployment at one moment: a function of two looks at its members.

    look    the time, what each worker's /metrics says, or why it says nothing, and the broker
    frame   a row for each worker, numbers of all of them, and the alerts that hold

Rates are of the time between the two looks; without an earlier one they are not known (None), and
quantiles are of the time since a worker started. Gauges of the state are equal on all replicas at
one cut, so one of them is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stream_app.monitoring.exposition import Exposition, quantile

NAMES = {
    f"murmurec_{name}"
    for name in (
        *("ready", "cut_number", "consumer_lag_records", "consumer_lag_seconds", "clock_owner"),
        *("ratings_total", "queries_total", "query_duration_seconds_bucket", "events_total"),
        *("checkpoint_timestamp_seconds", "model_memory_bytes", "rejected_total"),
        *("prediction_rmse", "prediction_rmse_baseline", "list_ndcg_ratio", "list_devices"),
        *("drift_statistic", "drift_detected_total", "query_recall_ratio", "leakage_kl_nats"),
        *("replicas_differ_total", "disk_free_bytes", "campaign_party_waiting_seconds"),
    )
} | {"process_resident_memory_bytes"}


class BrokerLook(NamedTuple):
    """Records in the log of ratings, or why that is not known, and how many no cut covers."""

    time: float
    records: int | None
    sentence: str = ""
    waiting: int = 0


class WorkerLook(NamedTuple):
    """The numbers of a worker when it was looked at, and what it waits for where it is not ready;
    or why there are none."""

    time: float
    numbers: Exposition | None
    sentence: str = ""


class Look(NamedTuple):
    """What was seen at one moment: of each worker by its address, and of the broker."""

    time: float
    workers: Mapping[str, WorkerLook]
    broker: BrokerLook


class WorkerRow(NamedTuple):
    """One worker; None: not known."""

    url: str
    state: str
    cut: int | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    ratings_per_second: float | None = None
    queries_per_second: float | None = None
    p99_seconds: float | None = None
    checkpoint_age_seconds: float | None = None
    memory_bytes: int | None = None
    clock: bool = False


class Frame(NamedTuple):
    """What is shown; `rejected` by reason, of the worker that has rejected most."""

    broker: str
    workers: tuple[WorkerRow, ...]
    rejected: Mapping[str, int]
    rmse: float | None
    rmse_baseline: float | None
    ndcg: float | None
    ndcg_popular: float | None
    drift: Mapping[str, float]
    alerts: tuple[str, ...]


def frame(before: Look | None, after: Look, alerts: tuple[str, ...] = ()) -> Frame:
    """Return what is shown of the newest look."""
    seen = [each.numbers for each in after.workers.values() if each.numbers is not None]
    furthest = max(seen, key=lambda each: each.number("cut_number") or 0, default=None)
    rejected = max((each.by("rejected_total", "reason") for each in seen), key=_sum, default={})
    one = furthest or Exposition("", ())
    return Frame(
        broker=_broker(before.broker if before else None, after.broker),
        workers=tuple(
            _row(url, before.workers.get(url) if before else None, look)
            for url, look in after.workers.items()
        ),
        rejected={reason: int(count) for reason, count in rejected.items() if count},
        rmse=one.number("prediction_rmse", window="recent", kind="debiased"),
        rmse_baseline=one.number("prediction_rmse_baseline", kind="debiased"),
        ndcg=one.number("list_ndcg_ratio", list="served"),
        ndcg_popular=one.number("list_ndcg_ratio", list="popular"),
        drift=one.by("drift_statistic", "detector"),
        alerts=alerts,
    )


def _sum(counts: Mapping[str, float]) -> float:
    return sum(counts.values())


def _broker(before: BrokerLook | None, after: BrokerLook) -> str:
    if after.records is None:
        return after.sentence
    grown = ""
    if before is not None and before.records is not None and after.time > before.time:
        per_second = max(after.records - before.records, 0) / (after.time - before.time)
        grown = f", {per_second:,.0f} more a second"
    return f"{after.records:,} records{grown}; {after.waiting:,} wait for a cut"


def _row(url: str, before: WorkerLook | None, after: WorkerLook) -> WorkerRow:
    numbers = after.numbers
    if numbers is None:
        return WorkerRow(url, after.sentence)
    written = numbers.number("checkpoint_timestamp_seconds")
    held = numbers.number("process_resident_memory_bytes") or numbers.total("model_memory_bytes")
    return WorkerRow(
        url,
        "ready" if numbers.number("ready") == 1 else f"not ready: {after.sentence}",
        numbers.whole("cut_number"),
        numbers.whole("consumer_lag_records"),
        numbers.number("consumer_lag_seconds"),
        rate(before, after, "ratings_total", "outcome", ("learned", "held_out")),
        rate(before, after, "queries_total", "outcome", ("answered",)),
        p99(before, after),
        None if written is None else after.time - written,
        int(held) or None,
        numbers.number("clock_owner") == 1,
    )


def rate(
    before: WorkerLook | None,
    after: WorkerLook,
    name: str,
    label: str,
    values: tuple[str, ...] | None = None,
) -> float | None:
    """Return by how much a counter grows in a second, for some values of a label, or all; None
    where that is not known, as after a restart."""
    if before is None or before.numbers is None or after.numbers is None:
        return None
    seconds = after.time - before.time
    sums = [
        sum(count for value, count in each.by(name, label).items() if not values or value in values)
        for each in (before.numbers, after.numbers)
    ]
    return None if seconds <= 0 or sums[1] < sums[0] else (sums[1] - sums[0]) / seconds


def p99(before: WorkerLook | None, after: WorkerLook) -> float | None:
    """Return the 99th percentile of the time to answer a query between two looks, since the start
    where there was none between them."""
    assert after.numbers is not None
    counts = after.numbers.by("query_duration_seconds_bucket", "le")
    if before is not None and before.numbers is not None:
        earlier = before.numbers.by("query_duration_seconds_bucket", "le")
        grown = {bound: count - earlier.get(bound, 0.0) for bound, count in counts.items()}
        if min(grown.values(), default=0.0) >= 0 and max(grown.values(), default=0.0) > 0:
            counts = grown
    return quantile(0.99, counts)

"""What is shown of a deployment at one moment: a function of two looks at each of its members.

    look    the time, what a worker's /metrics says, or why it says nothing; or the broker
    frame   a row for each worker, numbers of all of them, and the alerts that hold

Rates are of the time between the two looks; without an earlier one they are not known (None), and
quantiles are of the time since a worker started. Gauges of the state are equal on all replicas at
one cut, so one of them is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
_ANSWERED = "query_duration_seconds_bucket"
_NOTHING = Exposition("", ())


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


class Watched(NamedTuple):
    """The newest look at a worker, and the one before it."""

    after: WorkerLook
    before: WorkerLook | None = None

    @property
    def numbers(self) -> Exposition:
        """The newest numbers; without an answer there are none."""
        return self.after.numbers or _NOTHING

    def rate(self, name: str, label: str, values: Collection[str] = ()) -> float | None:
        """Return by how much a counter grows in a second, for some values of a label, or all; None
        where that is not known, as after a restart."""
        if self.before is None or self.before.numbers is None or self.after.numbers is None:
            return None
        seconds = self.after.time - self.before.time
        now, then = (
            sum(n for value, n in each.by(name, label).items() if not values or value in values)
            for each in (self.after.numbers, self.before.numbers)
        )
        return None if seconds <= 0 or now < then else (now - then) / seconds

    def p99(self) -> float | None:
        """Return the 99th percentile of the time to answer a query between the two looks, since the
        start where there was none between them."""
        counts = self.numbers.by(_ANSWERED, "le")
        earlier = ((self.before and self.before.numbers) or _NOTHING).by(_ANSWERED, "le")
        grown = {bound: count - earlier.get(bound, 0.0) for bound, count in counts.items()}
        between = min(grown.values(), default=0.0) >= 0 and max(grown.values(), default=0.0) > 0
        return quantile(0.99, grown if between else counts)


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


def frame(
    workers: Mapping[str, Watched],
    alerts: tuple[str, ...],
    broker: BrokerLook,
    earlier: BrokerLook | None = None,
) -> Frame:
    """Return what is shown of the workers by their address, and of two looks at the broker."""
    seen = [each.numbers for each in workers.values()]
    one = max(seen, key=lambda each: each.number("cut_number") or 0, default=_NOTHING)
    counts = (each.by("rejected_total", "reason") for each in seen)
    rejected = max(counts, key=lambda each: sum(each.values()), default={})
    return Frame(
        broker=_log(broker, earlier),
        workers=tuple(_row(url, watched) for url, watched in workers.items()),
        rejected={reason: int(count) for reason, count in rejected.items() if count},
        rmse=one.number("prediction_rmse", window="recent", kind="debiased"),
        rmse_baseline=one.number("prediction_rmse_baseline", kind="debiased"),
        ndcg=one.number("list_ndcg_ratio", list="served"),
        ndcg_popular=one.number("list_ndcg_ratio", list="popular"),
        drift=one.by("drift_statistic", "detector"),
        alerts=alerts,
    )


def _log(after: BrokerLook, before: BrokerLook | None) -> str:
    if after.records is None:
        return after.sentence
    grown = ""
    if before is not None and before.records is not None and after.time > before.time:
        per_second = max(after.records - before.records, 0) / (after.time - before.time)
        grown = f", {per_second:,.0f} more a second"
    return f"{after.records:,} records{grown}; {after.waiting:,} wait for a cut"


def _row(url: str, watched: Watched) -> WorkerRow:
    time, numbers, sentence = watched.after
    if numbers is None:
        return WorkerRow(url, sentence)
    written = numbers.number("checkpoint_timestamp_seconds")
    held = numbers.number("process_resident_memory_bytes") or sum(numbers.all("model_memory_bytes"))
    return WorkerRow(
        url,
        "ready" if numbers.number("ready") == 1 else f"not ready: {sentence}",
        numbers.whole("cut_number"),
        numbers.whole("consumer_lag_records"),
        numbers.number("consumer_lag_seconds"),
        watched.rate("ratings_total", "outcome", ("learned", "held_out")),
        watched.rate("queries_total", "outcome", ("answered",)),
        watched.p99(),
        None if written is None else time - written,
        int(held) or None,
        numbers.number("clock_owner") == 1,
    )

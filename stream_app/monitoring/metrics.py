"""Prometheus metrics of a worker; one method per event.

Every metric is a release, so its help text says what it is computed from. There are five sources:

    released  sanitized events and the model learned from them: post-processing, no further epsilon
              (under privacy mode `none` the events are raw, and so is everything made of them)
    arrivals  counts of records as they came; a rejected record need not have been sanitized
    queries   what readers asked, answered from the released model
    settings  what the operator chose
    process   clocks, offsets and memory of this worker

No user, item, pseudonym or correlation id is ever a label. A gauge that was not measured yet is
NaN, never 0. All names below begin with `murmurec_`; times are seconds, errors are stars. The file
is long because the table, the methods and the help texts of one list belong beside each other.

    name                              from      meaning
    events_total                      arrivals  records by outcome: applied, duplicate, rejected
    rejected_total                    arrivals  rejected records, by reason
    ratings_total                     released  by outcome: learned, held_out, clipped, duplicate
    cells_missing_total               released  cells whose report says that there is no rating
    seq_gaps_total                    released  sequence numbers that devices skipped
    prediction_rmse                   released  prequential RMSE, by window and kind
    prediction_rmse_baseline          released  RMSE of the running item means, recent, by kind
    log_loss_nats                     released  -ln P(report), by predictor (model, blank), window
    leakage_kl_nats                   released  KL(errors on learned || on held-out); not a bound
    update_clipped_total              released  updates refused: squared error above the threshold
    clip_threshold                    settings  that threshold, squared stars; not an epsilon
    epsilon_claimed                   settings  per rating, by mechanism and adjacency; +Inf: none
    privacy_mode_info                 settings  local, federated, central or none
    sketch_load_ratio                 released  entities per slot of a sketch, by table
    bloom_fill_ratio                  released  share of set bits in the seen-item filter
    bloom_false_positive_ratio        released  chance that an unseen item counts as seen
    second_moment                     released  AMS estimate of F2 of the item counts
    second_moment_relative_deviation  released  standard deviation of that estimate over its value
    count_min_error_bound             released  most that a count-min estimate exceeds the count by
    items                             released  distinct items
    devices                           released  distinct devices
    index_items                       released  items that an index can answer with, by method
    query_duration_seconds            queries   arrival to answer, by method and transport
    queries_total                     queries   by outcome: answered, expired, refused, busy
    query_recall_ratio                queries   share of the exact answer found, by method, sampled
    cut_number                        process   number of the newest cut applied
    rounds_total                      process   rounds applied since the start
    apply_duration_seconds            process   time to apply one round
    state_cut_timestamp_seconds       process   when the newest cut was applied (since 1970)
    consumer_lag_records              process   records published and not yet applied
    consumer_lag_seconds              process   age of the oldest record not yet applied
    ready                             process   1 while answers come from a state that is caught up
    build_info                        process   versions of this build
    model_memory_bytes                process   memory by part of the state
    freeze_duration_seconds           process   how long the stream stood still for one checkpoint
    checkpoint_duration_seconds       process   from the copy of the pages to the durable manifest
    checkpoint_bytes_total            process   bytes written as checkpoints
    checkpoint_cut_number             process   cut of this worker's newest durable checkpoint
    checkpoint_timestamp_seconds      process   when it became durable (since 1970)
    recovery_duration_seconds         process   how long the last recovery took, without the replay
    replicas_differ_total             process   cuts at which this replica differed: an alarm

`checkpoints` has the methods of the last seven (`checkpoint_metrics.py`).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from fractions import Fraction
from math import inf, nan
from typing import Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)

import stream_app
from stream_app.monitoring.checkpoint_metrics import CheckpointMetrics
from stream_app.wire import REASONS, Reason

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["reported", "debiased"]
Predictor = Literal["model", "blank"]
Window = Literal["recent", "all"]

# The end of every help text.
_RELEASED = "Computed from sanitized events (post-processing), raw ones under privacy mode none."
_ARRIVALS = "Counts records as they came, sanitized or not; no rating is looked at."
_QUERIES = "Computed from queries and the model of sanitized events (post-processing)."
_SETTINGS = "Set by the operator, not computed from events."
_PROCESS = "About this process, not computed from ratings."

# From an in-cache answer to the longest wait that a reader puts up with.
_QUERY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
# A round is cut every 200 ms: one that takes longer than that to apply is falling behind.
_ROUND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5)


class Metrics:
    """Everything a worker publishes, in one registry that the caller owns."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # A `_created` series per counter doubles their number and no panel reads it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        self._declare_events()
        self._declare_quality()
        self._declare_statistics()
        self._declare_queries()
        self._declare_process()
        self.checkpoints = CheckpointMetrics(self.registry)

    def exposition(self) -> bytes:
        """Return every metric in Prometheus' text format, to be served as `CONTENT_TYPE`."""
        return generate_latest(self.registry)

    # --- events ---------------------------------------------------------------------------

    def applied(self, records: int) -> None:
        """Count records that were accepted and are now part of the state."""
        self._events.labels("applied").inc(records)

    def duplicate(self, records: int) -> None:
        """Count records that had been applied before and changed nothing."""
        self._events.labels("duplicate").inc(records)

    def rejected(self, reason: Reason, records: int = 1) -> None:
        """Count records that were rejected for `reason`."""
        known = Reason(
            reason
        )  # a ValueError for any other text: labels come from the contract alone
        if known is Reason.ACCEPTED:
            raise ValueError("reason accepted: a record that is accepted is not rejected")
        self._events.labels("rejected").inc(records)
        self._rejected.labels(known.value).inc(records)

    def seq_gaps(self, gaps: int) -> None:
        """Count sequence numbers that a device skipped: records lost on the way, or withheld."""
        self._seq_gaps.inc(gaps)

    def ratings(
        self, *, learned: int = 0, held_out: int = 0, clipped: int = 0, duplicate: int = 0
    ) -> None:
        """Count the ratings of decoded records by what became of them."""
        self._ratings.labels("learned").inc(learned)
        self._ratings.labels("held_out").inc(held_out)
        self._ratings.labels("clipped").inc(clipped)
        self._ratings.labels("duplicate").inc(duplicate)
        self._clipped.inc(clipped)

    def cells_missing(self, cells: int) -> None:
        """Count cells whose report says nothing, where presence is protected."""
        self._cells_missing.inc(cells)

    # --- quality and leakage --------------------------------------------------------------

    def rmse(self, kind: Kind, window: Window, stars: float) -> None:
        """Publish the prequential RMSE in stars; NaN where it is not known."""
        self._rmse.labels(window, kind).set(stars)

    def rmse_baseline(self, kind: Kind, stars: float) -> None:
        """Publish the recent RMSE of the running item means; NaN where it is not known."""
        self._rmse_baseline.labels(kind).set(stars)

    def log_loss(self, predictor: Predictor, window: Window, nats: float) -> None:
        """Publish the log-loss of reports that have no debiased error; NaN where it is unknown."""
        self._log_loss.labels(predictor, window).set(nats)

    def kl(self, nats: float) -> None:
        """Publish the leakage measurement; NaN where it is not known."""
        self._kl.set(nats)

    def clip_threshold(self, squared_stars: float) -> None:
        """Publish the squared error above which a rating is refused; inf: nothing is clipped."""
        self._clip_threshold.set(squared_stars)

    def epsilon_claimed(
        self, mechanism: str, adjacency: str, epsilon: Fraction | float | None
    ) -> None:
        """Publish the epsilon per rating that an allowed mechanism claims; None: no claim."""
        value = inf if epsilon is None else float(epsilon)
        self._epsilon.labels(mechanism, adjacency).set(value)

    def privacy_mode(self, mode: str) -> None:
        """Publish the mode under which events arrive: local, federated, central or none."""
        self._privacy_mode.info({"privacy_mode": mode})

    # --- statistics of the stream ---------------------------------------------------------

    def sketch_load(self, table: str, ratio: float) -> None:
        """Publish how many entities share one slot of a sketch on average."""
        self._sketch_load.labels(table).set(ratio)

    def bloom(self, *, fill: float, false_positive: float) -> None:
        """Publish the seen-item filter's share of set bits and its false-positive probability."""
        self._bloom_fill.set(fill)
        self._bloom_false_positive.set(false_positive)

    def second_moment(self, value: float, relative_deviation: float) -> None:
        """Publish the AMS estimate of F2 of the item counts and its relative standard deviation."""
        self._second_moment.set(value)
        self._second_moment_deviation.set(relative_deviation)

    def count_min_error_bound(self, count: float) -> None:
        """Publish what a count-min estimate exceeds the count by at most, at its confidence."""
        self._count_min_bound.set(count)

    def entities(self, *, items: int, devices: int) -> None:
        """Publish how many distinct items and devices the state knows."""
        self._items.set(items)
        self._devices.set(devices)

    def memory(self, part: str, size_bytes: int) -> None:
        """Publish the memory of one named part of the state."""
        self._memory.labels(part).set(size_bytes)

    # --- queries --------------------------------------------------------------------------

    def query_answered(self, method: str, transport: str, seconds: float) -> None:
        """Count an answered query and how long it took from its arrival."""
        self._queries.labels("answered").inc()
        self._query_duration.labels(method, transport).observe(seconds)

    def query_expired(self, queries: int = 1) -> None:
        """Count queries whose deadline had passed before they were looked at."""
        self._queries.labels("expired").inc(queries)

    def query_refused(self, queries: int = 1) -> None:
        """Count queries that were not well-formed."""
        self._queries.labels("refused").inc(queries)

    def query_busy(self, queries: int = 1) -> None:
        """Count queries that were turned away because too many were waiting."""
        self._queries.labels("busy").inc(queries)

    def recall(self, method: str, ratio: float) -> None:
        """Publish the share of exact answers that `method` found, over the sampled queries."""
        self._recall.labels(method).set(ratio)

    def indexed(self, method: str, items: int) -> None:
        """Publish how many items an index can answer with."""
        self._index_items.labels(method).set(items)

    # --- the process ----------------------------------------------------------------------

    def round_applied(self, cut: int, seconds: float, now: float) -> None:
        """Count a round that took `seconds` to apply; `now` is the time of day since 1970."""
        self._rounds.inc()
        self._apply_duration.observe(seconds)
        self._cut.set(cut)
        self._cut_timestamp.set(now)

    def lag(self, records: float, seconds: float) -> None:
        """Publish how many records wait to be applied and how old the oldest of them is."""
        self._lag_records.set(records)
        self._lag_seconds.set(seconds)

    def ready(self, ready: bool) -> None:
        """Publish whether queries are answered from a state that is caught up."""
        self._ready.set(1 if ready else 0)

    def build(self, labels: Mapping[str, str] | None = None) -> None:
        """Publish the versions of the program and of Python, and whatever else names this build."""
        versions = {"version": stream_app.__version__, "python": platform.python_version()}
        self._build.info({**versions, **(labels or {})})

    # --- declarations ---------------------------------------------------------------------

    def _counter(self, name: str, meaning: str, source: str, *labels: str) -> Counter:
        help_text = f"{meaning} {source}"
        return Counter(f"murmurec_{name}", help_text, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, source: str, *labels: str) -> Gauge:
        gauge = Gauge(f"murmurec_{name}", f"{meaning} {source}", labels, registry=self.registry)
        if not labels:
            gauge.set(nan)  # not measured yet, which is not the same as zero
        return gauge

    def _declare_events(self) -> None:
        self._events = self._counter("events", "Records by outcome.", _ARRIVALS, "outcome")
        for outcome in ("applied", "duplicate", "rejected"):
            self._events.labels(outcome)
        self._ratings = self._counter("ratings", "Ratings by outcome.", _RELEASED, "outcome")
        for outcome in ("learned", "held_out", "clipped", "duplicate"):
            self._ratings.labels(outcome)
        self._cells_missing = self._counter(
            "cells_missing", "Cells whose report says that there is no rating.", _RELEASED
        )
        self._rejected = self._counter(
            "rejected",
            "Rejected records, by reason.",
            _ARRIVALS,
            "reason",
        )
        for reason in REASONS:
            if reason is not Reason.ACCEPTED:
                self._rejected.labels(reason.value)
        self._seq_gaps = self._counter(
            "seq_gaps", "Sequence numbers that devices skipped.", _RELEASED
        )

    def _declare_quality(self) -> None:
        self._rmse = self._gauge(
            "prediction_rmse",
            "Prequential RMSE in stars: against the reports, and debiased through the channel.",
            _RELEASED,
            "window",
            "kind",
        )
        self._rmse_baseline = self._gauge(
            "prediction_rmse_baseline",
            "RMSE in stars of the running item means over the recent window.",
            _RELEASED,
            "kind",
        )
        for kind in ("reported", "debiased"):
            self._rmse_baseline.labels(kind).set(nan)
            for window in ("recent", "all"):
                self._rmse.labels(window, kind).set(nan)
        self._log_loss = self._gauge(
            "log_loss_nats",
            "Prequential -ln P(report) where a report has no debiased error; blank: any level.",
            _RELEASED,
            "predictor",
            "window",
        )
        for predictor in ("model", "blank"):
            for window in ("recent", "all"):
                self._log_loss.labels(predictor, window).set(nan)
        self._kl = self._gauge(
            "leakage_kl_nats",
            "KL between the errors on learned and on held-out ratings: a measurement, not a bound.",
            _RELEASED,
        )
        self._clipped = self._counter(
            "update_clipped",
            "Updates refused because the squared error exceeded the clip threshold.",
            _RELEASED,
        )
        self._clip_threshold = self._gauge(
            "clip_threshold",
            "Largest squared error that is learned, in squared stars; not a privacy parameter.",
            _SETTINGS,
        )
        self._epsilon = self._gauge(
            "epsilon_claimed",
            "Epsilon per rating that a mechanism claims; +Inf where it claims nothing.",
            _SETTINGS,
            "mechanism",
            "adjacency",
        )
        self._privacy_mode = Info(
            "murmurec_privacy_mode",
            f"The mode under which events arrive; none means raw ratings. {_SETTINGS}",
            registry=self.registry,
        )

    def _declare_statistics(self) -> None:
        self._sketch_load = self._gauge(
            "sketch_load_ratio", "Entities per slot of a sketch, by table.", _RELEASED, "table"
        )
        self._bloom_fill = self._gauge(
            "bloom_fill_ratio", "Share of set bits in the seen-item filter.", _RELEASED
        )
        self._bloom_false_positive = self._gauge(
            "bloom_false_positive_ratio", "Chance that an unseen item counts as seen.", _RELEASED
        )
        self._second_moment = self._gauge(
            "second_moment", "AMS estimate of the second moment of the item counts.", _RELEASED
        )
        self._second_moment_deviation = self._gauge(
            "second_moment_relative_deviation",
            "Standard deviation of the AMS estimate, relative to its value.",
            _RELEASED,
        )
        self._count_min_bound = self._gauge(
            "count_min_error_bound",
            "What a count-min estimate exceeds the true count by at most, at its confidence.",
            _RELEASED,
        )
        self._items = self._gauge("items", "Distinct items.", _RELEASED)
        self._devices = self._gauge("devices", "Distinct devices.", _RELEASED)

    def _declare_queries(self) -> None:
        self._query_duration = Histogram(
            "murmurec_query_duration_seconds",
            f"Time from a query's arrival to its answer. {_QUERIES}",
            ("method", "transport"),
            buckets=_QUERY_BUCKETS,
            registry=self.registry,
        )
        self._queries = self._counter("queries", "Queries by outcome.", _QUERIES, "outcome")
        for outcome in ("answered", "expired", "refused", "busy"):
            self._queries.labels(outcome)
        self._recall = self._gauge(
            "query_recall_ratio",
            "Share of the exact answer that a method found, on a sample of queries.",
            _QUERIES,
            "method",
        )
        self._index_items = self._gauge(
            "index_items", "Items that an index can answer with.", _RELEASED, "method"
        )

    def _declare_process(self) -> None:
        self._cut = self._gauge("cut_number", "Number of the newest cut applied.", _PROCESS)
        self._rounds = self._counter("rounds", "Rounds applied since the start.", _PROCESS)
        self._apply_duration = Histogram(
            "murmurec_apply_duration_seconds",
            f"Time to apply one round. {_PROCESS}",
            buckets=_ROUND_BUCKETS,
            registry=self.registry,
        )
        self._cut_timestamp = self._gauge(
            "state_cut_timestamp_seconds",
            "When the newest cut was applied, seconds since 1970.",
            _PROCESS,
        )
        self._lag_records = self._gauge(
            "consumer_lag_records", "Records published and not yet applied.", _PROCESS
        )
        self._lag_seconds = self._gauge(
            "consumer_lag_seconds", "Age of the oldest record not yet applied.", _PROCESS
        )
        self._ready = self._gauge(
            "ready", "1 while queries are answered from a state that is caught up.", _PROCESS
        )
        self._ready.set(0)
        self._build = Info(
            "murmurec_build", f"Versions of this build. {_PROCESS}", registry=self.registry
        )
        self._memory = self._gauge(
            "model_memory_bytes", "Memory by part of the state.", _PROCESS, "part"
        )

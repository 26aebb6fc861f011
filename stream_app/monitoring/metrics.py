"""Prometheus metrics of a worker; one method per event.

The names, labels and help texts are rows of `metric_table`; a method enters its numbers under the
names of its rows.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from fractions import Fraction
from math import inf, nan
from typing import Any, Literal

from prometheus_client import CollectorRegistry

import stream_app
from stream_app.monitoring.collectors import Collectors
from stream_app.monitoring.metric_table import LISTED_BY, METRICS, PARTY
from stream_app.monitoring.prequential_error import Predictor, Window
from stream_app.wire import Reason

Kind = Literal["reported", "debiased"]
Figure = Literal["error", "lists"]


class Metrics(Collectors):
    """Everything a worker publishes, in one registry that the caller owns."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(METRICS, registry)

    # --- events ---------------------------------------------------------------------------

    def applied(self, records: int) -> None:
        """Count records that were accepted and are now part of the state."""
        self._counters["events_total"].labels("applied").inc(records)

    def duplicate(self, records: int) -> None:
        """Count records that had been applied before and changed nothing."""
        self._counters["events_total"].labels("duplicate").inc(records)

    def rejected(self, reason: Reason, records: int = 1) -> None:
        """Count records that were rejected for `reason`."""
        known = Reason(reason)  # ValueError for any other text: labels come from the contract alone
        if known is Reason.ACCEPTED:
            raise ValueError("reason accepted: a record that is accepted is not rejected")
        self._counters["events_total"].labels("rejected").inc(records)
        self._counters["rejected_total"].labels(known.value).inc(records)

    def seq_gaps(self, gaps: int) -> None:
        """Count sequence numbers that a device skipped: records lost on the way, or withheld."""
        self._counters["seq_gaps_total"].inc(gaps)

    def seq_reused(self, records: int) -> None:
        """Publish how many events of the log have a number that had other contents before.

        The number is the ledger's, so a restart and its replay change nothing.
        """
        self._gauges["seq_reused_records"].set(records)

    def ratings(
        self, *, learned: int = 0, held_out: int = 0, clipped: int = 0, duplicate: int = 0
    ) -> None:
        """Count the ratings of decoded records by outcome."""
        self._counters["ratings_total"].labels("learned").inc(learned)
        self._counters["ratings_total"].labels("held_out").inc(held_out)
        self._counters["ratings_total"].labels("clipped").inc(clipped)
        self._counters["ratings_total"].labels("duplicate").inc(duplicate)
        self._counters["update_clipped_total"].inc(clipped)

    def cells_missing(self, cells: int) -> None:
        """Count cells reported as missing, where presence is protected."""
        self._counters["cells_missing_total"].inc(cells)

    def rmse(self, kind: Kind, window: Window, stars: float) -> None:
        """Publish the prequential RMSE in stars; NaN where it is not known."""
        self._gauges["prediction_rmse"].labels(window, kind).set(stars)

    def rmse_baseline(self, kind: Kind, stars: float) -> None:
        """Publish the recent RMSE of the running item means; NaN where it is not known."""
        self._gauges["prediction_rmse_baseline"].labels(kind).set(stars)

    def log_loss(self, predictor: Predictor, window: Window, nats: float) -> None:
        """Publish the log-loss of reports that have no debiased error; NaN where it is unknown."""
        self._gauges["log_loss_nats"].labels(predictor, window).set(nats)

    def drift(self, detector: Figure, statistic: float, *, detected: bool) -> None:
        """Publish the statistic of a detector, and count a drift that it has detected."""
        self._gauges["drift_statistic"].labels(detector).set(statistic)
        self._counters["drift_detected_total"].labels(detector).inc(detected)

    def kl(self, nats: float) -> None:
        """Publish the leakage measurement; NaN where it is not known."""
        self._gauges["leakage_kl_nats"].set(nats)

    def report_information(self, mechanism: str, nats: float) -> None:
        """Publish what one report of an allowed mechanism tells about its rating, on average."""
        self._gauges["report_information_nats"].labels(mechanism).set(nats)

    def clip_threshold(self, squared_stars: float) -> None:
        """Publish the squared error above which a rating is refused; inf: nothing is clipped."""
        self._gauges["clip_threshold"].set(squared_stars)

    def epsilon_claimed(
        self, mechanism: str, adjacency: str, epsilon: Fraction | float | None
    ) -> None:
        """Publish the epsilon per rating that an allowed mechanism claims; None: no claim."""
        value = inf if epsilon is None else float(epsilon)
        self._gauges["epsilon_claimed"].labels(mechanism, adjacency).set(value)

    def privacy_mode(self, events: str, deployment: str) -> None:
        """Publish the weakest mode under which events have come, local or none, and that of the
        deployment, of which split and central have campaigns."""
        campaigns = "none" if deployment == "local" else deployment
        labels = {"privacy_mode": events, "campaigns": campaigns}
        self._infos["privacy_mode_info"].info(labels)

    def campaign(self, summary: Mapping[str, Any]) -> None:
        """Publish the campaign in force, as `CampaignPart.summary` returns it."""
        for name in ("number", "epsilon"):
            self._gauges[f"campaign_{name}"].set(nan if summary[name] is None else summary[name])
        self._gauges["campaign_stages"].set(summary["stages"])
        self._gauges["campaign_stages_released"].set(summary["released"])
        self._gauges["campaign_contributions"].set(summary["contributions"])
        self._gauges["campaign_stages_aborted"].set(summary["stages_aborted"])
        self._gauges["campaign_entries_ignored"].set(sum(summary["ignored"].values()))

    def parties_owing(self, seconds: Mapping[str, float]) -> None:
        """Publish for how long each party has owed an answer; those not named owe none."""
        for party in PARTY.values:
            self._gauges["campaign_party_waiting_seconds"].labels(party).set(seconds.get(party, 0))

    # --- lists ----------------------------------------------------------------------------

    def ranking(
        self,
        serving: str,
        ndcg: float | None,
        ndcg_popular: float | None,
        ndcg_error: float | None = None,
    ) -> None:
        """Publish the measured quality of the served list with its standard error, and of the
        popular items, NaN where it is not known, and which method serves."""
        for name, value in (("served", ndcg), ("popular", ndcg_popular)):
            self._gauges["list_ndcg_ratio"].labels(name).set(nan if value is None else value)
        self._gauges["list_ndcg_error_ratio"].set(nan if ndcg_error is None else ndcg_error)
        for method in LISTED_BY:
            self._gauges["list_method"].labels(method).set(1 if method == serving else 0)

    def devices_scored(self, devices: int) -> None:
        """Publish of how many devices the figures are."""
        self._gauges["list_devices"].set(devices)

    def item_side_derived(self, *, items: int, factors: int, seconds: float, now: float) -> None:
        """Enter an item side that took `seconds`; `now` is the time of day since 1970."""
        self._gauges["item_side_items"].set(items)
        self._gauges["item_side_factors"].set(factors)
        self._gauges["item_side_timestamp_seconds"].set(now)
        self._histograms["item_side_derivation_seconds"].observe(seconds)

    # --- statistics of the stream ---------------------------------------------------------

    def sketch_load(self, table: str, ratio: float) -> None:
        """Publish how many entities share one slot of a sketch on average."""
        self._gauges["sketch_load_ratio"].labels(table).set(ratio)

    def bloom(self, *, fill: float, false_positive: float) -> None:
        """Publish the seen-item filter's share of set bits and its false-positive probability."""
        self._gauges["bloom_fill_ratio"].set(fill)
        self._gauges["bloom_false_positive_ratio"].set(false_positive)

    def second_moment(self, value: float, relative_deviation: float) -> None:
        """Publish the AMS estimate of F2 of the item counts and its relative standard deviation."""
        self._gauges["second_moment"].set(value)
        self._gauges["second_moment_relative_deviation"].set(relative_deviation)

    def count_min_error_bound(self, count: float) -> None:
        """Publish the most by which a count-min estimate exceeds the count, at its confidence."""
        self._gauges["count_min_error_bound"].set(count)

    def entities(self, *, items: int, devices: int) -> None:
        """Publish how many distinct items and devices the state knows."""
        self._gauges["items"].set(items)
        self._gauges["devices"].set(devices)

    def memory(self, part: str, size_bytes: int) -> None:
        """Publish the memory of one named part of the state."""
        self._gauges["model_memory_bytes"].labels(part).set(size_bytes)

    # --- queries --------------------------------------------------------------------------

    def query_answered(self, method: str, seconds: float) -> None:
        """Count an answered query and how long it took from its arrival."""
        self._counters["queries_total"].labels("answered").inc()
        self._histograms["query_duration_seconds"].labels(method).observe(seconds)

    def query_expired(self) -> None:
        """Count a query whose deadline had passed before it was read."""
        self._counters["queries_total"].labels("expired").inc()

    def query_forwarded(self) -> None:
        """Count a query that was written again, to the shard of its user."""
        self._counters["queries_total"].labels("forwarded").inc()

    def query_refused(self) -> None:
        """Count a query that was not well-formed."""
        self._counters["queries_total"].labels("refused").inc()

    def query_busy(self) -> None:
        """Count a query that was turned away because too many were waiting."""
        self._counters["queries_total"].labels("busy").inc()

    def recall(self, method: str, ratio: float) -> None:
        """Publish the share of exact answers that `method` found, over the sampled queries."""
        self._gauges["query_recall_ratio"].labels(method).set(ratio)

    def indexed(self, method: str, items: int) -> None:
        """Publish how many items an index can answer with."""
        self._gauges["index_items"].labels(method).set(items)

    # --- the process ----------------------------------------------------------------------

    def learning_thread(self, activity: str, seconds: float) -> None:
        """Add to the time that the learning thread has spent on an activity (`LEARNING`)."""
        self._counters["learning_thread_seconds_total"].labels(activity).inc(seconds)

    def change_published(self, size: int, seconds: float) -> None:
        """Count a change of `size` bytes that took `seconds` to read from the state."""
        self._counters["exchange_bytes_total"].inc(size)
        self.learning_thread("exchanging", seconds)

    def changes_merged(self, count: int, seconds: float) -> None:
        """Count merged changes, which took `seconds`."""
        self._counters["exchange_merged_total"].inc(count)
        self.learning_thread("exchanging", seconds)

    def round_applied(self, cut: int, seconds: float, now: float) -> None:
        """Count a round that took `seconds` to apply; `now` is the time of day since 1970."""
        self._counters["rounds_total"].inc()
        self._histograms["apply_duration_seconds"].observe(seconds)
        self._gauges["cut_number"].set(cut)
        self._gauges["state_cut_timestamp_seconds"].set(now)

    def lag(self, records: float, seconds: float) -> None:
        """Publish how many records wait to be applied and how old the oldest of them is."""
        self._gauges["consumer_lag_records"].set(records)
        self._gauges["consumer_lag_seconds"].set(seconds)

    def ready(self, ready: bool) -> None:
        """Publish whether queries are answered from a state that is caught up."""
        self._gauges["ready"].set(1 if ready else 0)

    def clock_owner(self, owned: bool) -> None:
        """Publish whether this worker appends cuts."""
        self._gauges["clock_owner"].set(1 if owned else 0)

    def disk_free(self, folder: Literal["data", "broker"], size_bytes: int) -> None:
        """Publish how much is free on the disk of a folder."""
        self._gauges["disk_free_bytes"].labels(folder).set(size_bytes)

    def build(self, labels: Mapping[str, str] | None = None) -> None:
        """Publish that this process answers, the versions of the program and of Python, and the
        given labels of this build."""
        self._gauges["shard_up"].set(1)
        versions = {"version": stream_app.__version__, "python": platform.python_version()}
        self._infos["build_info"].info({**versions, **(labels or {})})

    # --- checkpoints ----------------------------------------------------------------------

    def frozen(self, seconds: float) -> None:
        """Enter how long the stream paused for one copy of the changed pages."""
        self._histograms["freeze_duration_seconds"].observe(seconds)

    def checkpoint_durable(self, cut: int, now: float, seconds: float, sent_bytes: int) -> None:
        """Enter a checkpoint that took `seconds`; `now` is the time of day since 1970."""
        self._histograms["checkpoint_duration_seconds"].observe(seconds)
        self._counters["checkpoint_bytes_total"].inc(sent_bytes)
        self._gauges["checkpoint_cut_number"].set(cut)
        self._gauges["checkpoint_timestamp_seconds"].set(now)

    def recovered(self, seconds: float) -> None:
        """Enter how long a recovery took."""
        self._gauges["recovery_duration_seconds"].set(seconds)

    def unsealed(self, records: int) -> None:
        """Count records without the deployment's seal."""
        self._counters["unsealed_records_total"].inc(records)

    def replica_differs(self) -> None:
        """Count a cut at which this replica's digests differ from those of a checkpoint."""
        self._counters["replicas_differ_total"].inc()

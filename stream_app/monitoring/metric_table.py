"""The metrics of a worker as a table; `python -m stream_app.monitoring.metric_table` prints it.

Every metric is a release, so its help text ends with what it is computed from, its source. No user,
item, pseudonym or correlation id is ever a label. Names begin with `murmurec_`; times are seconds,
errors are stars. A gauge that was not measured yet is NaN, never 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from math import nan
from typing import Literal

from stream_app.monitoring.prequential_error import PREDICTORS, WINDOWS
from stream_app.wire import REASONS, Reason

Kind = Literal["counter", "gauge", "histogram", "info"]


class Source(StrEnum):
    """What a metric is computed from: the last sentence of its help text."""

    RELEASED = "Computed from sanitized events (post-processing), raw ones under privacy mode none."
    ARRIVALS = "Counts records as they came, sanitized or not; no rating is looked at."
    QUERIES = "Computed from queries and the model of sanitized events (post-processing)."
    SETTINGS = "Set by the operator, not computed from events."
    PROCESS = "About this process, not computed from ratings."


@dataclass(frozen=True)
class Label:
    """A label, and the values that exist from the start; the others come with their first use."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Metric:
    """One row: the name as published, without `murmurec_`; `initial` is the value of a gauge."""

    name: str
    kind: Kind
    source: Source
    labels: tuple[Label, ...]
    meaning: str
    buckets: tuple[float, ...] = ()
    initial: float = nan

    @property
    def published_name(self) -> str:
        """The whole name of the metric."""
        return f"murmurec_{self.name}"

    @property
    def help_text(self) -> str:
        """The meaning, and what the metric is computed from."""
        return f"{self.meaning} {self.source}"

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the table."""
        return tuple(label.name for label in self.labels)

    def initial_series(self) -> Iterator[tuple[str, ...]]:
        """Yield the label values of each series that exists from the start."""
        return product(*(label.values for label in self.labels))


KIND = Label("kind", ("reported", "debiased"))
WINDOW = Label("window", WINDOWS)
PREDICTOR = Label("predictor", PREDICTORS)
REASON = Label("reason", tuple(each.value for each in REASONS if each is not Reason.ACCEPTED))
RECORD_OUTCOME = Label("outcome", ("applied", "duplicate", "rejected"))
RATING_OUTCOME = Label("outcome", ("learned", "held_out", "clipped", "duplicate"))
QUERY_OUTCOME = Label("outcome", ("answered", "expired", "refused", "busy", "forwarded"))
LISTED_BY = ("popular", "links", "learned", "factors")
RANKING = Label("method", LISTED_BY)
LIST = Label("list", ("served", "popular"))
DETECTOR = Label("detector", ("error", "lists"))
PARTY = Label("party", ("a", "b", "central"))
MECHANISM, ADJACENCY = Label("mechanism"), Label("adjacency")
LEARNING = Label(
    "activity",
    ("waiting", "kernels", "applying", "measuring", "ending_rounds", "exchanging", "serving"),
)
METHOD, TABLE, PART = Label("method"), Label("table"), Label("part")
FOLDER = Label("folder", ("data", "broker"))

# From an in-cache answer to the longest time that a reader waits.
QUERY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
# A round is cut every 200 ms: a worker that takes longer than that to apply one falls behind.
ROUND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5)
FREEZE_BUCKETS = (0.0001, 0.0003, 0.001, 0.002, 0.003, 0.005, 0.01, 0.03, 0.1)
DERIVATION_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CHECKPOINT_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

RELEASED, ARRIVALS, QUERIES = Source.RELEASED, Source.ARRIVALS, Source.QUERIES
SETTINGS, PROCESS = Source.SETTINGS, Source.PROCESS

# fmt: off
METRICS: tuple[Metric, ...] = (
    Metric("events_total", "counter", ARRIVALS, (RECORD_OUTCOME,),
           "Records by outcome."),
    Metric("rejected_total", "counter", ARRIVALS, (REASON,),
           "Rejected records, by reason."),
    Metric("ratings_total", "counter", RELEASED, (RATING_OUTCOME,),
           "Ratings by outcome."),
    Metric("cells_missing_total", "counter", RELEASED, (),
           "Cells whose report says that there is no rating."),
    Metric("seq_gaps_total", "counter", RELEASED, (),
           "Sequence numbers that devices skipped."),
    Metric("seq_reused_records", "gauge", RELEASED, (),
           "Events since the log began whose number had other contents before."),

    Metric("prediction_rmse", "gauge", RELEASED, (WINDOW, KIND),
           "Prequential RMSE in stars: against the reports, and debiased through the channel."),
    Metric("prediction_rmse_baseline", "gauge", RELEASED, (KIND,),
           "RMSE in stars of the running item means over the recent window."),
    Metric("log_loss_nats", "gauge", RELEASED, (PREDICTOR, WINDOW),
           "Prequential -ln P(report) without a debiased error; blank: any level or like."),
    Metric("drift_statistic", "gauge", RELEASED, (DETECTOR,),
           "Page-Hinkley statistic over its threshold; above 1 a drift is counted, and it starts "
           "over. error: debiased squared error; lists: nDCG@10 of popular items less served."),
    Metric("drift_detected_total", "counter", RELEASED, (DETECTOR,),
           "Drifts detected since the start."),
    Metric("leakage_kl_nats", "gauge", RELEASED, (),
           "KL between the errors on learned and on held-out ratings: a measurement, not a bound."),
    Metric("report_information_nats", "gauge", SETTINGS, (MECHANISM,),
           "What one report tells about its rating: a mean under the prior of docs/privacy.md."),
    Metric("update_clipped_total", "counter", RELEASED, (),
           "Updates refused because the squared error exceeded the clip threshold."),
    Metric("clip_threshold", "gauge", SETTINGS, (),
           "Largest squared error that is learned, in squared stars; not a privacy parameter."),
    Metric("epsilon_claimed", "gauge", SETTINGS, (MECHANISM, ADJACENCY),
           "Epsilon per rating that a mechanism claims; +Inf where it claims nothing."),
    Metric("privacy_mode_info", "info", RELEASED, (),
           "The weakest mode under which events have come; none: raw ratings are in the state; and "
           "the mode of campaigns: split, central or none."),

    Metric("campaign_number", "gauge", SETTINGS, (),
           "Number of the campaign in force; NaN before the first."),
    Metric("campaign_epsilon", "gauge", SETTINGS, (),
           "Epsilon of a person who contributes to every stage of the campaign in force."),
    Metric("campaign_stages", "gauge", SETTINGS, (),
           "Stages of the campaign in force; 0 before the first campaign."),
    Metric("campaign_stages_released", "gauge", PROCESS, (),
           "Stages of the campaign in force whose noisy sums were released."),
    Metric("campaign_contributions", "gauge", ARRIVALS, (),
           "Contributions in the newest noisy sum of the campaign in force."),
    Metric("campaign_stages_aborted", "gauge", ARRIVALS, (),
           "Stages that ended without a noisy sum, of all campaigns."),
    Metric("campaign_entries_ignored", "gauge", PROCESS, (),
           "Entries of campaigns in the cut log that had no effect."),

    Metric("campaign_party_waiting_seconds", "gauge", PROCESS, (PARTY,),
           "How long the open stage has waited for the answer of a party, on the worker that runs "
           "the campaign; 0 where nothing is owed, NaN without campaigns."),

    Metric("list_ndcg_ratio", "gauge", RELEASED, (LIST,),
           "nDCG@10 of a list against what is liked at a later visit, on a sample; NaN without "
           "second visits, and where presence is protected."),
    Metric("list_ndcg_error_ratio", "gauge", RELEASED, (),
           "Standard error of nDCG@10 of the served list: 1.96 of it to either side hold 95 %."),
    Metric("list_method", "gauge", RELEASED, (RANKING,),
           "1 for the ranking method that serves, 0 for the others."),
    Metric("list_devices", "gauge", RELEASED, (),
           "Devices with a later visit by which lists are measured, and their weights learned."),
    Metric("item_side_items", "gauge", RELEASED, (),
           "Items that are ranked by what goes together."),
    Metric("item_side_factors", "gauge", RELEASED, (),
           "Factors of taste that stand out from the noise."),
    Metric("item_side_timestamp_seconds", "gauge", PROCESS, (),
           "When the newest item side was derived, seconds since 1970."),
    Metric("item_side_derivation_seconds", "histogram", PROCESS, (),
           "Time to derive an item side, beside the stream.", DERIVATION_BUCKETS),

    Metric("sketch_load_ratio", "gauge", RELEASED, (TABLE,),
           "Entities per slot of a sketch, by table."),
    Metric("bloom_fill_ratio", "gauge", RELEASED, (),
           "Share of set bits in the seen-item filter."),
    Metric("bloom_false_positive_ratio", "gauge", RELEASED, (),
           "Chance that an unseen item counts as seen."),
    Metric("second_moment", "gauge", RELEASED, (),
           "AMS estimate of the second moment of the item counts."),
    Metric("second_moment_relative_deviation", "gauge", RELEASED, (),
           "Standard deviation of the AMS estimate, relative to its value."),
    Metric("count_min_error_bound", "gauge", RELEASED, (),
           "Most by which a count-min estimate exceeds the true count, at its confidence."),
    Metric("items", "gauge", RELEASED, (),
           "Distinct items."),
    Metric("devices", "gauge", RELEASED, (),
           "Distinct devices."),
    Metric("index_items", "gauge", RELEASED, (METHOD,),
           "Items that an index can answer with."),

    Metric("query_duration_seconds", "histogram", QUERIES, (METHOD,),
           "Time from a query's arrival to its answer.", QUERY_BUCKETS),
    Metric("queries_total", "counter", QUERIES, (QUERY_OUTCOME,),
           "Queries by outcome."),
    Metric("query_recall_ratio", "gauge", QUERIES, (METHOD,),
           "Share of the exact answer that a method found, on a sample of queries."),

    Metric("cut_number", "gauge", PROCESS, (),
           "Number of the newest cut applied."),
    Metric("rounds_total", "counter", PROCESS, (),
           "Rounds applied since the start."),
    Metric("apply_duration_seconds", "histogram", PROCESS, (),
           "Time to apply one round.", ROUND_BUCKETS),
    Metric("learning_thread_seconds_total", "counter", PROCESS, (LEARNING,),
           "Time of the thread that learns: waiting for ratings, inside compiled kernels, else "
           "applying ratings to the state, measuring errors and lists, ending rounds, exchanging "
           "changes with other shards, serving queries and pages."),
    Metric("exchange_bytes_total", "counter", PROCESS, (),
           "Bytes of the changes that this shard has published for others, not compressed."),
    Metric("exchange_merged_total", "counter", PROCESS, (),
           "Changes of all shards that were merged."),
    Metric("state_cut_timestamp_seconds", "gauge", PROCESS, (),
           "When the newest cut was applied, seconds since 1970."),
    Metric("consumer_lag_records", "gauge", PROCESS, (),
           "Records published and not yet applied."),
    Metric("consumer_lag_seconds", "gauge", PROCESS, (),
           "Age of the oldest record not yet applied."),
    Metric("shard_up", "gauge", PROCESS, (),
           "1; 0: the process of this shard does not answer the worker that holds it."),
    Metric("ready", "gauge", PROCESS, (),
           "1 while queries are answered from a state that is caught up.", initial=0),
    Metric("clock_owner", "gauge", PROCESS, (),
           "1 while this worker appends cuts; more than one in all are two clocks.", initial=0),
    Metric("build_info", "info", PROCESS, (),
           "Versions of this build."),
    Metric("disk_free_bytes", "gauge", PROCESS, (FOLDER,),
           "Free on the disk of data_dir, and of the local broker; NaN where it has none."),
    Metric("model_memory_bytes", "gauge", PROCESS, (PART,),
           "Memory by part of the state and of what is derived from it."),

    Metric("freeze_duration_seconds", "histogram", PROCESS, (),
           "How long the stream paused while changed pages were copied.", FREEZE_BUCKETS),
    Metric("checkpoint_duration_seconds", "histogram", PROCESS, (),
           "From the copy of the pages to the acknowledged manifest.", CHECKPOINT_BUCKETS),
    Metric("checkpoint_bytes_total", "counter", PROCESS, (),
           "Bytes written as checkpoints."),
    Metric("checkpoint_cut_number", "gauge", PROCESS, (),
           "Cut of the newest durable checkpoint."),
    Metric("checkpoint_timestamp_seconds", "gauge", PROCESS, (),
           "When the newest checkpoint became durable, seconds since 1970."),
    Metric("recovery_duration_seconds", "gauge", PROCESS, (),
           "How long the last recovery took, without replay."),
    Metric("unsealed_records_total", "counter", PROCESS, (),
           "Checkpoints, digest reports and entries of campaigns without the deployment's seal."),
    Metric("replicas_differ_total", "counter", PROCESS, (),
           "Cuts at which this replica differed from a checkpoint."),
)
# fmt: on


def table() -> str:
    """Return the table as text: name, source, labels and meaning, a line each."""
    rows = [("name", "source", "labels", "meaning")]
    for metric in METRICS:
        labels = ", ".join(metric.label_names)
        rows.append((metric.published_name, metric.source.name.lower(), labels, metric.meaning))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = (
        "  ".join((*(cell.ljust(n) for cell, n in zip(row, widths, strict=False)), row[3]))
        for row in rows
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())

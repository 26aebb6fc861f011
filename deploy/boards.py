"""The dashboard as a table; run as `python deploy/boards.py` it writes the JSON that Grafana loads.

    row    a heading; its panels follow in three columns
    panel  title, unit, one expression per curve, and whether it may be empty on a healthy worker

Classic dashboard JSON (schema 39): Grafana 10 to 13 load it. Expressions take two variables,
`$instance` (one process or all; every worker is a replica) and `$__rate_interval`. Gauges of the
state are equal on all replicas at the same cut, so only counters of separate work are summed. The
file is long because it is one table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "grafana" / "dashboards"
COLUMNS, WIDTH, HEIGHT = 3, 8, 8
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
ME = '{instance=~"$instance"}'


@dataclass(frozen=True)
class Curve:
    """One expression and the legend of its curves."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One panel of a board."""

    row: str
    title: str
    unit: str
    curves: tuple[Curve, ...]
    about: str = ""
    may_be_empty: bool = False
    kind: str = "timeseries"


@dataclass(frozen=True)
class Board:
    """One dashboard; `uid` never changes, so that links to it keep working."""

    uid: str
    title: str
    about: str
    panels: tuple[Panel, ...] = field(default=())

    @property
    def path(self) -> Path:
        """The committed file."""
        return FOLDER / f"{self.uid.removeprefix('murmurec-')}.json"


def _with(label: str, value: str) -> str:
    """Return a selector of one label's value that also restricts the instance."""
    return f'{{instance=~"$instance",{label}="{value}"}}'


RECENT, ALL = _with("window", "recent"), _with("window", "all")
SERVED, POPULAR = _with("list", "served"), _with("list", "popular")


def _rate(name: str, label: str) -> str:
    """Return the rate of a counter by one label, the maximum over the replicas."""
    return f"max by ({label}) (rate(murmurec_{name}{ME}[$__rate_interval]))"


def _quantile(share: float, name: str, labels: str = "") -> str:
    by = f"le, {labels}" if labels else "le"
    buckets = f"rate(murmurec_{name}_bucket{ME}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by ({by}) ({buckets}))"


QUALITY = "How well it predicts, and how much it leaks"
STREAM = "The stream"
QUERIES = "Queries"
STATE = "The state"
GATEWAYS = "Gateways"

OVERVIEW = Board(
    "murmurec-overview",
    "murmurec: overview",
    "Accuracy and leakage side by side, then the stream, the queries, the state and the gateways.",
    (
        Panel(
            QUALITY,
            "Prediction error, recent events",
            "suffix: stars",
            (
                Curve(f"murmurec_prediction_rmse{RECENT}", "model, {{kind}}"),
                Curve(f"murmurec_prediction_rmse_baseline{ME}", "item means, {{kind}}"),
            ),
            "Prequential RMSE. Debiased: the error on the true ratings, which the server never "
            "sees, estimated through the mechanism's exact channel; empty while there are too few "
            "events. Reported: the error on the sanitized reports, mostly their noise. A model "
            "below the item means has learned personal taste.",
        ),
        Panel(
            QUALITY,
            "Leakage",
            "suffix: nats",
            (
                Curve(f"murmurec_leakage_kl_nats{ME}", "the model: KL, learned against held-out"),
                Curve(f"murmurec_report_information_nats{ME}", "one report: {{mechanism}}"),
            ),
            "Two different things. One report: what a reader of the topic learns about the rating "
            "behind it, the mutual information of the mechanism's channel under the prior stated "
            "in PRIVACY.md (0.43 for rr:5:2); a mean, while epsilon bounds the worst case. The "
            "model: Kullback-Leibler divergence between the errors on learned and on held-out "
            "ratings, what learning adds to that. A measurement of an average, not a bound: a low "
            "value proves nothing about one person, and nothing about the reports. About 0.0005 "
            "is the floor of the measurement itself.",
        ),
        Panel(
            QUALITY,
            "Claimed epsilon per rating",
            "none",
            (Curve(f"murmurec_epsilon_claimed{ME}", "{{mechanism}}, {{adjacency}}"),),
            "The epsilon per rating of each allowed mechanism. The ratings of one person add up: "
            "100 ratings at epsilon 2 cost 200. +Inf: no protection is claimed.",
            kind="stat",
        ),
        Panel(
            QUALITY,
            "Prediction error, all events",
            "suffix: stars",
            (Curve(f"murmurec_prediction_rmse{ALL}", "model, {{kind}}"),),
            "The same error over all events since this worker started to read the log.",
        ),
        Panel(
            QUALITY,
            "nDCG@10 of later visits: served list, popular items",
            "none",
            (
                Curve(f"max(murmurec_list_ndcg_ratio{SERVED})", "the served list"),
                Curve(f"max(murmurec_list_ndcg_ratio{POPULAR})", "the floor: popular items"),
            ),
            "The list of a user as it was at a visit, scored against what the user likes at a "
            "later one, on a sample, beside the most popular items. Absent: no second visits, or "
            "presence protected.",
            may_be_empty=True,
        ),
        Panel(
            QUALITY,
            "What lists are made from",
            "none",
            (Curve(f"murmurec_list_method{ME} == 1", "{{method}}, {{instance}}"),),
            "Learned weights serve while they are better on later visits, beyond three standard "
            "errors; else links and popularity by their default weights.",
            may_be_empty=True,
            kind="stat",
        ),
        Panel(
            QUALITY,
            "Devices that lists are measured on",
            "none",
            (Curve(f"murmurec_list_devices{ME}", "{{instance}}"),),
            "Devices with a later visit, at most 1,000, of the newest visits.",
        ),
        Panel(
            QUALITY,
            "Log-loss of reports without a debiased error",
            "suffix: nats",
            (
                Curve(f"murmurec_log_loss_nats{RECENT}", "{{predictor}}, recent"),
                Curve(f"murmurec_log_loss_nats{ALL}", "{{predictor}}, all"),
            ),
            "-ln of the predicted probability of each report, for mechanisms whose channel has no "
            "inverse (a partition of the levels, one bit). blank: every level equally likely, for "
            "likes the item's share. Both curves are mostly the channel's own noise; their "
            "distance measures the taste that the model has learned. Empty where every mechanism "
            "has a debiased error.",
        ),
        Panel(
            QUALITY,
            "Clipped updates",
            "percentunit",
            (
                Curve(
                    f"max(rate(murmurec_update_clipped_total{ME}[$__rate_interval])) / "
                    f"max(sum by (instance) (rate(murmurec_ratings_total{ME}[$__rate_interval])))",
                    "share of the ratings",
                ),
            ),
            "Ratings refused because the squared error exceeded the threshold. The threshold "
            "bounds an error; it is not privacy. Empty while no ratings arrive.",
        ),
        Panel(
            QUALITY,
            "Clip threshold",
            "suffix: stars²",
            (Curve(f"murmurec_clip_threshold{ME}", "squared error"),),
            "+Inf: nothing is clipped.",
            kind="stat",
        ),
        Panel(
            QUALITY,
            "Privacy mode",
            "none",
            (Curve(f"murmurec_privacy_mode_info{ME}", "{{privacy_mode}}, sums: {{campaigns}}"),),
            "local: each report that came is private by itself. none: raw ratings came, and every "
            "number on this board is then computed from them. What is allowed does not matter. "
            "sums: the mode in which campaigns sum contributions of people.",
            kind="stat",
        ),
        Panel(
            QUALITY,
            "Campaigns",
            "none",
            (
                Curve(f"murmurec_campaign_number{ME}", "number in force"),
                Curve(f"murmurec_campaign_epsilon{ME}", "epsilon of a person"),
                Curve(f"murmurec_campaign_stages_released{ME}", "stages released"),
                Curve(f"murmurec_campaign_stages{ME}", "stages of the plan"),
                Curve(f"murmurec_campaign_contributions{ME}", "contributions in the newest sum"),
                Curve(f"murmurec_campaign_stages_aborted{ME}", "stages aborted, of all campaigns"),
                Curve(f"murmurec_campaign_entries_ignored{ME}", "entries without effect"),
            ),
            "Empty where privacy_mode is local, and number and epsilon before the first campaign. "
            "A stage is aborted where too few devices contributed or an aggregator did not answer.",
            kind="stat",
        ),
        Panel(
            STREAM,
            "Records",
            "ops",
            (Curve(_rate("events_total", "outcome"), "{{outcome}}"),),
            "Records of the rating topic per second, on the fastest replica.",
        ),
        Panel(
            STREAM,
            "Ratings",
            "ops",
            (
                Curve(_rate("ratings_total", "outcome"), "{{outcome}}"),
                Curve(f"max(rate(murmurec_cells_missing_total{ME}[$__rate_interval]))", "empty"),
            ),
            "Ratings per second; a record carries one or many. Where presence is protected some "
            "ratings are fakes; empty: cells reported as missing.",
        ),
        Panel(
            STREAM,
            "Rejected records",
            "ops",
            (
                Curve(_rate("rejected_total", "reason") + " > 0", "{{reason}}"),
                Curve(
                    f"max(rate(murmurec_seq_gaps_total{ME}[$__rate_interval])) > 0",
                    "numbers skipped by devices",
                ),
            ),
            "Empty on a healthy deployment. The topic of rejections has an entry for each record.",
            may_be_empty=True,
        ),
        Panel(
            STREAM,
            "Profiles",
            "ops",
            (
                Curve(_rate("profiles_total", "outcome") + " > 0", "{{outcome}}"),
                Curve(_rate("profiles_rejected_total", "reason") + " > 0", "{{reason}}"),
            ),
            "Records of the profile topic per second, by outcome; rejected ones by reason. Empty "
            "where profile_mechanisms is unset. removed: the device was forgotten; no_room: more "
            "devices than profiles_most.",
            may_be_empty=True,
        ),
        Panel(
            STREAM,
            "Devices with a profile",
            "none",
            (Curve(f"murmurec_profile_devices{ME}", "{{instance}}"),),
            "Devices whose newest profile a worker holds, for queries for neighbours.",
            kind="stat",
            may_be_empty=True,
        ),
        Panel(
            STREAM,
            "Numbers used again",
            "none",
            (Curve(f"max(murmurec_seq_reused_records{ME})", "events"),),
            "Events whose number their device had given to other contents before; they are "
            "duplicates and change nothing. Any value above 0 is an alarm: a device runs with an "
            "older copy of its journal, whose budget no longer counts what it has sent, or events "
            "are forged in its name. Counted since the log began, as in /state.",
            kind="stat",
        ),
        Panel(
            STREAM,
            "Records behind",
            "short",
            (Curve(f"murmurec_consumer_lag_records{ME}", "{{instance}}"),),
            "Published and not yet applied, per worker.",
        ),
        Panel(
            STREAM,
            "Seconds behind",
            "s",
            (
                Curve(f"murmurec_consumer_lag_seconds{ME}", "oldest waiting, {{instance}}"),
                Curve(
                    f"time() - murmurec_state_cut_timestamp_seconds{ME}",
                    "since the newest cut, {{instance}}",
                ),
            ),
            "A cut is made only when records have arrived: age without lag means an idle stream.",
        ),
        Panel(
            STREAM,
            "Time to apply a round",
            "s",
            (
                Curve(_quantile(0.5, "apply_duration_seconds"), "p50"),
                Curve(_quantile(0.99, "apply_duration_seconds"), "p99"),
            ),
            "A worker that needs more than the time between two cuts (0.2 s) falls behind.",
        ),
        Panel(
            STREAM,
            "The learning thread's time",
            "percentunit",
            (
                Curve(
                    "sum by (activity) "
                    f"(rate(murmurec_learning_thread_seconds_total{ME}[$__rate_interval]))",
                    "{{activity}}",
                ),
            ),
            "Share of a second spent waiting, inside compiled kernels (learning, pairs, counts) "
            "and around them. A worker that catches up should hardly wait, and be in kernels for "
            "most of the time.",
        ),
        Panel(
            STREAM,
            "Rounds",
            "ops",
            (Curve(f"rate(murmurec_rounds_total{ME}[$__rate_interval])", "{{instance}}"),),
            "Rounds applied per second, per worker; 0 while no records arrive.",
        ),
        Panel(
            QUERIES,
            "Queries",
            "ops",
            (
                Curve(
                    f"sum by (outcome) (rate(murmurec_queries_total{ME}[$__rate_interval]))",
                    "{{outcome}}",
                ),
            ),
            "Per second, over all workers.",
        ),
        Panel(
            QUERIES,
            "Time to answer",
            "s",
            (
                Curve(_quantile(0.5, "query_duration_seconds", "method"), "p50, {{method}}"),
                Curve(_quantile(0.99, "query_duration_seconds", "method"), "p99, {{method}}"),
            ),
            "From a query's arrival at the worker to its answer.",
            may_be_empty=True,
        ),
        Panel(
            QUERIES,
            "Recall of the index",
            "percentunit",
            (Curve(f"murmurec_query_recall_ratio{ME}", "{{method}}"),),
            "Share of the exact answer that the index found, on a sample of the queries.",
            may_be_empty=True,
        ),
        Panel(
            QUERIES,
            "Private lists",
            "short",
            (
                Curve(
                    f"sum by (instance) (increase(murmurec_private_lists_total{ME}[1d]))",
                    "lists, {{instance}}",
                ),
                Curve(
                    f"sum by (instance) (increase(murmurec_private_list_epsilon_total{ME}[1d]))",
                    "epsilon, {{instance}}",
                ),
            ),
            "In a day, of all users: how many lists, and what one device may show in all of them.",
            may_be_empty=True,
        ),
        Panel(
            STATE,
            "Ready",
            "none",
            (Curve(f"murmurec_ready{ME}", "{{instance}}"),),
            "1: queries are answered from a state that is caught up.",
            kind="stat",
        ),
        Panel(
            STATE,
            "Cut",
            "none",
            (
                Curve(f"murmurec_cut_number{ME}", "{{instance}}"),
                Curve(f"max(murmurec_checkpoint_cut_number{ME})", "checkpoint"),
            ),
            "At the same cut all workers hold the same state.",
            kind="stat",
        ),
        Panel(
            STATE,
            "Age of the newest checkpoint",
            "s",
            (Curve(f"time() - max(murmurec_checkpoint_timestamp_seconds{ME})", "age"),),
            "A restart replays the log from the newest checkpoint. The age grows while no records "
            "arrive; while records arrive it should stay at a second or two.",
            may_be_empty=True,
        ),
        Panel(
            STATE,
            "Checkpoints",
            "s",
            (
                Curve(_quantile(0.99, "freeze_duration_seconds"), "stream paused, p99"),
                Curve(_quantile(0.5, "checkpoint_duration_seconds"), "until durable, p50"),
                Curve(_quantile(0.99, "checkpoint_duration_seconds"), "until durable, p99"),
                Curve(f"max(murmurec_recovery_duration_seconds{ME})", "last recovery"),
            ),
            "The stream is paused only while changed pages are copied; a thread hashes and writes "
            "them.",
            may_be_empty=True,
        ),
        Panel(
            STATE,
            "Checkpoint traffic",
            "Bps",
            (
                Curve(
                    f"sum(rate(murmurec_checkpoint_bytes_total{ME}[$__rate_interval]))", "written"
                ),
            ),
            "Changed pages that the owner of the clock writes to the compacted state topic.",
        ),
        Panel(
            STATE,
            "Replicas that differ",
            "none",
            (
                Curve(f"sum(murmurec_replicas_differ_total{ME})", "cuts"),
                Curve(f"sum(murmurec_unsealed_records_total{ME})", "records without the seal"),
            ),
            "Any value above 0 is an alarm: the state of a replica differed from the checkpoint at "
            "the same cut. The replica kept evidence and reloaded; run murmurec state verify to "
            "find the faulty worker. Records without the seal come from a writer without the "
            "state secret; all but entries of campaigns are ignored.",
            kind="stat",
        ),
        Panel(
            STATE,
            "Build",
            "none",
            (Curve(f"murmurec_build_info{ME}", "{{version}}, Python {{python}}, {{instance}}"),),
            kind="stat",
        ),
        Panel(
            STATE,
            "Items and devices",
            "short",
            (
                Curve(f"max(murmurec_items{ME})", "items"),
                Curve(f"max(murmurec_devices{ME})", "devices"),
                Curve(f"max by (method) (murmurec_index_items{ME})", "items indexed, {{method}}"),
            ),
            "Distinct items and devices in the state.",
        ),
        Panel(
            STATE,
            "Age of the item side",
            "s",
            (
                Curve(f"time() - murmurec_item_side_timestamp_seconds{ME}", "age, {{instance}}"),
                Curve(_quantile(0.5, "item_side_derivation_seconds"), "derivation, p50"),
                Curve(_quantile(0.99, "item_side_derivation_seconds"), "derivation, p99"),
            ),
            "What goes together is derived again in a thread when enough ratings have arrived, so "
            "age without new ratings means an idle stream.",
            may_be_empty=True,
        ),
        Panel(
            STATE,
            "Items ranked by what goes together",
            "short",
            (
                Curve(f"max(murmurec_item_side_items{ME})", "items"),
                Curve(f"max(murmurec_item_side_factors{ME})", "factors of taste"),
            ),
            "Items of the head, and the factors of taste that stand out from the noise.",
            may_be_empty=True,
        ),
        Panel(
            STATE,
            "Memory of the state",
            "bytes",
            (Curve(f"max by (part) (murmurec_model_memory_bytes{ME})", "{{part}}"),),
            "Sketches and filters have a fixed size; marks and item directory grow with entities.",
        ),
        Panel(
            STATE,
            "Sketch load",
            "none",
            (Curve(f"max by (table) (murmurec_sketch_load_ratio{ME})", "{{table}}"),),
            "Entities per slot: above 1 collisions cost accuracy; give the sketch more memory.",
            may_be_empty=True,
        ),
        Panel(
            STATE,
            "Seen-item filter",
            "percentunit",
            (
                Curve(f"max(murmurec_bloom_fill_ratio{ME})", "bits set"),
                Curve(f"max(murmurec_bloom_false_positive_ratio{ME})", "false positives"),
            ),
            "A false positive omits an item that the person never rated.",
        ),
        Panel(
            STATE,
            "Concentration of the ratings on items",
            "short",
            (
                Curve(f"max(murmurec_second_moment{ME})", "second moment F2"),
                Curve(
                    f"max(murmurec_second_moment{ME} * "
                    f"(1 + murmurec_second_moment_relative_deviation{ME}))",
                    "plus one deviation",
                ),
            ),
            "Sum of the squared item counts; a jump is a flood of ratings on one item.",
        ),
        Panel(
            STATE,
            "Error of an item count",
            "short",
            (Curve(f"max(murmurec_count_min_error_bound{ME})", "most, at its confidence"),),
            "The most by which a count-min estimate exceeds the true count, at its confidence.",
        ),
        Panel(
            GATEWAYS,
            "Gateways ready",
            "none",
            (Curve(f"murmurec_gateway_ready{ME}", "{{instance}}"),),
            "1: Kafka and the topics answer. A gateway that is not ready serves the page, and "
            "takes no event.",
            kind="stat",
            may_be_empty=True,
        ),
        Panel(
            GATEWAYS,
            "Events over HTTP",
            "ops",
            (
                Curve(
                    f"sum by (answer) (rate(murmurec_gateway_reports_total{ME}"
                    "[$__rate_interval])) > 0",
                    "{{answer}}",
                ),
            ),
            "Bodies sent to /reports, by how they were answered. accepted: Kafka confirmed it; "
            "duplicate: the same bytes again; any other is the reason of a refusal.",
            may_be_empty=True,
        ),
        Panel(
            GATEWAYS,
            "Time until Kafka confirms",
            "s",
            (
                Curve(_quantile(0.5, "gateway_confirm_seconds"), "p50"),
                Curve(_quantile(0.99, "gateway_confirm_seconds"), "p99"),
            ),
            "From an event's arrival to its confirmation by all copies.",
            may_be_empty=True,
        ),
        Panel(
            GATEWAYS,
            "Clients",
            "short",
            (
                Curve(f"murmurec_gateway_connections{ME}", "connections, {{instance}}"),
                Curve(f"murmurec_gateway_unconfirmed{ME}", "events that wait, {{instance}}"),
            ),
            "Open connections, and events that wait for Kafka's confirmation.",
            may_be_empty=True,
        ),
        Panel(
            GATEWAYS,
            "Queries over HTTP",
            "ops",
            (
                Curve(
                    f"sum by (answer) (rate(murmurec_gateway_queries_total{ME}"
                    "[$__rate_interval])) > 0",
                    "{{answer}}",
                ),
            ),
            "Lists asked for over HTTP, by how they were answered.",
            may_be_empty=True,
        ),
        Panel(
            GATEWAYS,
            "Time to answer over HTTP",
            "s",
            (
                Curve(_quantile(0.5, "gateway_answer_seconds"), "p50"),
                Curve(_quantile(0.99, "gateway_answer_seconds"), "p99"),
            ),
            "From a query's arrival at the gateway to a worker's answer.",
            may_be_empty=True,
        ),
    ),
)

BOARDS = (OVERVIEW,)


def _targets(panel: Panel) -> list[dict[str, Any]]:
    instant = panel.kind == "stat"
    return [
        {
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": curve.expression,
            "instant": instant,
            "legendFormat": curve.legend,
            "range": not instant,
            "refId": chr(ord("A") + number),
        }
        for number, curve in enumerate(panel.curves)
    ]


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        # The value of an info metric is always 1: show its labels.
        text = "name" if "_info{" in panel.curves[0].expression else "auto"
        return {
            "colorMode": "none",
            "graphMode": "none",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": text,
        }
    return {
        "legend": {"calcs": ["lastNotNull"], "displayMode": "table", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "none"},
    }


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
        "options": _options(panel),
        "targets": _targets(panel),
    }


def _layout(panels: Iterable[Panel]) -> list[dict[str, Any]]:
    """Return headings and panels with their positions, three panels to a line."""
    placed: list[dict[str, Any]] = []
    row, column, y = "", 0, 0
    for panel in panels:
        if panel.row != row:
            y += HEIGHT if column else 0
            row, column = panel.row, 0
            placed.append(
                {
                    "id": len(placed) + 1,
                    "type": "row",
                    "title": row,
                    "collapsed": False,
                    "gridPos": {"h": 1, "w": COLUMNS * WIDTH, "x": 0, "y": y},
                    "panels": [],
                }
            )
            y += 1
        placed.append(_panel(panel, len(placed) + 1, column * WIDTH, y))
        column += 1
        if column == COLUMNS:
            column, y = 0, y + HEIGHT
    return placed


def dashboard(board: Board) -> dict[str, Any]:
    """Return the board as Grafana's classic JSON model."""
    instances = 'label_values({__name__=~"murmurec_(gateway_)?ready"}, instance)'
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.about,
        "tags": ["murmurec"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "links": [],
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                    "current": {},
                    "hide": 0,
                    "refresh": 1,
                },
                {
                    "name": "instance",
                    "label": "Process",
                    "type": "query",
                    "datasource": DATASOURCE,
                    "definition": instances,
                    "query": {"qryType": 1, "query": instances, "refId": "instances"},
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                    "includeAll": True,
                    "multi": True,
                    "refresh": 2,
                    "sort": 1,
                },
            ]
        },
        "panels": _layout(board.panels),
    }


def text(board: Board) -> str:
    """Return the committed file's content."""
    return json.dumps(dashboard(board), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write every board to its file."""
    for board in BOARDS:
        board.path.write_text(text(board), encoding="utf-8")
        print(f"{board.path}: {len(board.panels)} panels")
    return 0


if __name__ == "__main__":
    sys.exit(main())

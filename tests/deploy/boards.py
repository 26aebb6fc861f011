"""The dashboard as a table; `python -m tests.deploy.boards` writes the JSON that Grafana loads.

    row    a heading; its panels follow in three columns
    panel  title, unit, text, a legend and an expression for each curve, and whether it may be
           empty on a healthy worker; a threshold, drawn as a line, above which it is bad; a band
           between two of its curves, by their legends

Classic dashboard JSON (schema 39): Grafana 10 to 13 load it. Expressions take two variables,
`$instance` (one process or all; every worker is a replica) and `$__rate_interval`. Gauges of the
state are equal on all replicas at the same cut, so only counters of separate work are summed. What
each shard has a part of is a sum over the shards of the most of its replicas; without shards the
label `shard` is empty.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards"
COLUMNS, WIDTH, HEIGHT = 3, 8, 8
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


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
    threshold: float | None = None
    band: tuple[str, str] | None = None


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


def _expression(text: str) -> str:
    """Return an expression of the table in PromQL.

    @NAME, @NAME{LABELS}    the metric of the chosen processes
    ~                       over the rate interval
    p99(NAME, LABEL)        a quantile of a histogram over all of them, by a label or by none
    """
    quantile = r"histogram_quantile(0.\1, sum by (le\3) (rate(@\2_bucket~)))"
    text = re.sub(r"p(\d\d)\((\w+)((?:, \w+)?)\)", quantile, text).replace("(0.50,", "(0.5,")
    text = re.sub(r"@(\w+)\{", r'murmurec_\1{instance=~"$instance",', text)
    text = re.sub(r"@(\w+)", r'murmurec_\1{instance=~"$instance"}', text)
    return text.replace("~)", "[$__rate_interval])")


def _panel(title: str, unit: str, about: str, *curves: str, **more: Any) -> Callable[[str], Panel]:
    """Return a panel for its row; a curve is `legend | expression`."""
    drawn = tuple(
        Curve(_expression(expression), legend)
        for legend, _, expression in (curve.partition(" | ") for curve in curves)
    )
    return lambda row: Panel(row, title, unit, drawn, about, **more)


QUALITY = "How well it predicts, and how much it leaks"
_LOWEST, _HIGHEST = "the served list, 95 %: from", "the served list, 95 %: to"
_SERVED = 'avg(max by (shard) (@list_ndcg_ratio{list="served"}) >= 0)'
# One table: a panel is its head, its text and its curves.
# fmt: off
_ROWS: dict[str, tuple[Callable[[str], Panel], ...]] = {
    QUALITY: (
        _panel("Prediction error, recent events", "suffix: stars",
            "Prequential RMSE. Debiased: the error on the true ratings, which the server never "
            "sees, estimated through the mechanism's exact channel; empty while there are too few "
            "events. Reported: the error on the sanitized reports, mostly their noise. A model "
            "below the item means has learned personal taste.",
            'model, {{kind}} {{shard}} | @prediction_rmse{window="recent"}',
            "item means, {{kind}} {{shard}} | @prediction_rmse_baseline"),
        _panel("Leakage", "suffix: nats",
            "Two different things. One report: what a reader of the topic learns about the rating "
            "behind it, the mutual information of the mechanism's channel under the prior stated "
            "in docs/privacy.md (0.43 for rr:5:2); a mean, while epsilon bounds the worst case. "
            "The model: Kullback-Leibler divergence between the errors on learned and on held-out "
            "ratings, what learning adds to that. A measurement of an average, not a bound: a low "
            "value proves nothing about one person, and nothing about the reports. About 0.0005 "
            "is the floor of the measurement itself.",
            "the model: KL, learned against held-out {{shard}} | @leakage_kl_nats",
            "one report: {{mechanism}} | @report_information_nats"),
        _panel("Lists: nDCG@10 at later visits", "none",
            "The list of a user as it was at a visit, scored against what the user likes at a "
            "later one, on a sample, beside the most popular items. The band holds the mean of "
            "such users with 95 %: 1.96 standard errors; of shards, the mean. Absent: no second "
            "visits, or presence protected.",
            f"the served list | {_SERVED}",
            "the floor: popular items | "
            'avg(max by (shard) (@list_ndcg_ratio{list="popular"}) >= 0)',
            f"{_LOWEST} | {_SERVED} - 1.96 * avg(max by (shard) (@list_ndcg_error_ratio) >= 0)",
            f"{_HIGHEST} | {_SERVED} + 1.96 * avg(max by (shard) (@list_ndcg_error_ratio) >= 0)",
            may_be_empty=True, band=(_LOWEST, _HIGHEST)),
        _panel("Drift", "none",
            "Page-Hinkley statistics over their thresholds: above 1 a drift is counted, and the "
            "statistic starts over. error: the debiased squared error of blocks of 1,000 ratings; "
            "lists: how far popular items are ahead of the served lists. Absent: too few ratings, "
            "or nothing to measure.",
            "{{detector}} | max by (detector) (@drift_statistic)",
            "drifts in a day: {{detector}} | "
            "max by (detector) (increase(@drift_detected_total[1d]))",
            threshold=1),
        _panel("Epsilon of a report", "none",
            "Claimed: of each allowed mechanism. The ratings of one person add up: 100 ratings at "
            "epsilon 2 cost 200. +Inf: no protection is claimed. Shown: the lower bound that "
            "murmurec audit canary has measured with devices of known ratings, through a file for "
            "Prometheus. Above the claim, the claim is false; below it, nothing is proved.",
            "claimed: {{mechanism}}, {{adjacency}} | "
            "max by (mechanism, adjacency) (@epsilon_claimed)",
            "shown by canaries, at least: {{mechanism}} | "
            "max by (mechanism, adjacency) (@audit_epsilon_lower_bound)",
            kind="stat", may_be_empty=True),
        _panel("What lists are made from", "none",
            "Learned weights serve while they are better on later visits, beyond three standard "
            "errors; else links and popularity by their default weights.",
            "{{method}}, {{instance}} {{shard}} | @list_method == 1", kind="stat",
            may_be_empty=True),
        _panel("Devices that lists are measured on", "none",
            "Devices with a later visit, at most 1,000, of the newest visits.",
            "{{instance}} | sum by (instance) (@list_devices)"),
        _panel("Prediction error, all events", "suffix: stars",
            "The same error over all events since this worker started to read the log.",
            'model, {{kind}} {{shard}} | @prediction_rmse{window="all"}'),
        _panel("Clipped updates", "percentunit",
            "Ratings refused because the squared error exceeded the threshold. The threshold "
            "bounds an error; it is not privacy. Empty while no ratings arrive.",
            "share of the ratings | sum(max by (shard) (rate(@update_clipped_total~))) / "
            "sum(max by (shard) (sum by (instance, shard) (rate(@ratings_total~))))"),
        _panel("Clip threshold", "suffix: stars²",
            "+Inf: nothing is clipped.",
            "squared error | max(@clip_threshold)", kind="stat"),
        _panel("Log-loss of reports without a debiased error", "suffix: nats",
            "-ln of the predicted probability of each report, for mechanisms whose channel has no "
            "inverse (a partition of the levels, one bit). blank: every level equally likely, for "
            "likes the item's share. Both curves are mostly the channel's own noise; their "
            "distance measures the taste that the model has learned. Empty where every mechanism "
            "has a debiased error.",
            '{{predictor}}, recent {{shard}} | @log_loss_nats{window="recent"}',
            '{{predictor}}, all {{shard}} | @log_loss_nats{window="all"}'),
    ),
    "Campaigns": (
        _panel("Privacy mode", "none",
            "local: each report that came is private by itself. none: raw ratings came, and every "
            "number on this board is then computed from them. What is allowed does not matter. "
            "sums: the mode in which campaigns sum contributions of people.",
            "{{privacy_mode}}, sums: {{campaigns}} | @privacy_mode_info", kind="stat"),
        _panel("Campaigns", "none",
            "Empty where privacy_mode is local, and number and epsilon before the first campaign. "
            "A stage is aborted where too few devices contributed or an aggregator did not "
            "answer.",
            "number in force | @campaign_number", "epsilon of a person | @campaign_epsilon",
            "stages released | @campaign_stages_released", "stages of the plan | @campaign_stages",
            "contributions in the newest sum | @campaign_contributions",
            "stages aborted, of all campaigns | @campaign_stages_aborted",
            "entries without effect | @campaign_entries_ignored", kind="stat"),
        _panel("Parties that owe an answer", "s",
            "How long the open stage of a campaign has waited for a party; 0: nothing is owed.",
            "{{party}} | max by (party) (@campaign_party_waiting_seconds)", may_be_empty=True),
    ),
    "The stream": (
        _panel("Records", "ops",
            "Records of the rating topic per second, of each shard on its fastest replica.",
            "{{outcome}} | sum by (outcome) (max by (shard, outcome) (rate(@events_total~)))"),
        _panel("Ratings", "ops",
            "Ratings per second; a record carries one or many. Where presence is protected some "
            "ratings are fakes; empty: cells reported as missing.",
            "{{outcome}} | sum by (outcome) (max by (shard, outcome) (rate(@ratings_total~)))",
            "empty | sum(max by (shard) (rate(@cells_missing_total~)))"),
        _panel("Rejected records", "ops",
            "Empty on a healthy deployment. The topic of rejections has an entry for each record.",
            "{{reason}} | sum by (reason) (max by (shard, reason) (rate(@rejected_total~))) > 0",
            "numbers skipped by devices | sum(max by (shard) (rate(@seq_gaps_total~))) > 0",
            may_be_empty=True),
        _panel("Numbers used again", "none",
            "Events whose number their device had given to other contents before; they are "
            "duplicates and change nothing. Any value above 0 is an alarm: a device runs with an "
            "older copy of its journal, whose budget no longer counts what it has sent, or events "
            "are forged in its name. Counted since the log began, as in /state.",
            "events | sum(max by (shard) (@seq_reused_records))", kind="stat"),
        _panel("Records behind", "short",
            "Published and not yet applied, per worker.",
            "{{instance}} | sum by (instance) (@consumer_lag_records)"),
        _panel("Seconds behind", "s",
            "A cut is made only when records have arrived: age without lag means an idle stream.",
            "oldest waiting, {{instance}} {{shard}} | @consumer_lag_seconds",
            "since the newest cut, {{instance}} {{shard}} | time() - @state_cut_timestamp_seconds"),
        _panel("Time to apply a round", "s",
            "A worker that needs more than the time between two cuts (0.2 s) falls behind.",
            "p50 | p50(apply_duration_seconds)", "p99 | p99(apply_duration_seconds)"),
        _panel("The learning thread's time", "percentunit",
            "Share of a second spent waiting, inside compiled kernels (learning, pairs, counts) "
            "and around them. A worker that catches up should hardly wait, and be in kernels for "
            "most of the time.",
            "{{activity}} | sum by (activity) (rate(@learning_thread_seconds_total~))"),
        _panel("Rounds", "ops",
            "Rounds applied per second, per worker; 0 while no records arrive.",
            "{{instance}} {{shard}} | rate(@rounds_total~)"),
        _panel("Exchange between shards", "short",
            "Bytes that each shard publishes of what it has learned of items, and changes of all "
            "shards that it merges, a second. A shard that merges none has other item sides.",
            "bytes, {{instance}} {{shard}} | rate(@exchange_bytes_total~)",
            "merged, {{instance}} {{shard}} | rate(@exchange_merged_total~)", may_be_empty=True),
    ),
    "Queries": (
        _panel("Queries", "ops",
            "Per second, over all workers; a forwarded one counts again where it is answered.",
            "{{outcome}} | sum by (outcome) (rate(@queries_total~))"),
        _panel("Time to answer", "s",
            "From a query's arrival at the worker to its answer.",
            "p50, {{method}} | p50(query_duration_seconds, method)",
            "p99, {{method}} | p99(query_duration_seconds, method)", may_be_empty=True),
        _panel("Recall of the index", "percentunit",
            "Share of the exact answer that the index found, on a sample of the queries.",
            "{{method}} {{shard}} | @query_recall_ratio", may_be_empty=True),
    ),
    "The state": (
        _panel("Ready", "none",
            "1: queries are answered from a state that is caught up; one worker owns the clock of "
            "each shard.",
            "{{instance}} | min by (instance) (@ready)",
            "clocks, {{instance}} | sum by (instance) (@clock_owner)",
            "processes without an answer | count(@shard_up == 0) or vector(0)", kind="stat"),
        _panel("Cut", "none",
            "At the same cut all workers of a shard hold the same state.",
            "{{instance}} {{shard}} | @cut_number",
            "checkpoint {{shard}} | max by (shard) (@checkpoint_cut_number)", kind="stat"),
        _panel("Age of the newest checkpoint", "s",
            "A restart replays the log from the newest checkpoint. The age grows while no records "
            "arrive; while records arrive it should stay at a second or two.",
            "age | time() - min(max by (shard) (@checkpoint_timestamp_seconds))",
            may_be_empty=True),
        _panel("Checkpoints", "s",
            "The stream is paused only while changed pages are copied; a thread hashes and writes "
            "them.",
            "stream paused, p99 | p99(freeze_duration_seconds)",
            "until durable, p50 | p50(checkpoint_duration_seconds)",
            "until durable, p99 | p99(checkpoint_duration_seconds)",
            "last recovery | max(@recovery_duration_seconds)", may_be_empty=True),
        _panel("Checkpoint traffic", "Bps",
            "Changed pages that the owner of the clock writes to the compacted state topic.",
            "written | sum(rate(@checkpoint_bytes_total~))"),
        _panel("Replicas that differ", "none",
            "Any value above 0 is an alarm: the state of a replica differed from the checkpoint "
            "at the same cut. The replica kept evidence and reloaded; run murmurec state verify "
            "to find the faulty worker. Records without the seal come from a writer without the "
            "state secret; all but entries of campaigns are ignored.",
            "cuts | sum(@replicas_differ_total)",
            "records without the seal | sum(@unsealed_records_total)", kind="stat"),
        _panel("Build", "none",
            "",
            "{{version}}, Python {{python}}, {{instance}} | "
            "max by (version, python, instance) (@build_info)", kind="stat"),
        _panel("Items and devices", "short",
            "Distinct items and devices in the state.",
            "items | max(@items)", "devices | sum(max by (shard) (@devices))",
            "items indexed, {{method}} | max by (method) (@index_items)"),
        _panel("Age of the item side", "s",
            "What goes together is derived again in a thread when enough ratings have arrived, so "
            "age without new ratings means an idle stream.",
            "age, {{instance}} {{shard}} | time() - @item_side_timestamp_seconds",
            "derivation, p50 | p50(item_side_derivation_seconds)",
            "derivation, p99 | p99(item_side_derivation_seconds)", may_be_empty=True),
        _panel("Items ranked by what goes together", "short",
            "Items of the head, and the factors of taste that stand out from the noise.",
            "items | max(@item_side_items)", "factors of taste | max(@item_side_factors)",
            may_be_empty=True),
        _panel("Memory of the state", "bytes",
            "Sketches and filters have a fixed size; marks and item directory grow with entities.",
            "{{part}} | sum by (part) (max by (shard, part) (@model_memory_bytes))"),
        _panel("Free disk", "bytes",
            "Of the worker's data_dir, and of a broker of murmurec broker start beside it; watch "
            "any other broker's log.dirs with its own tools.",
            "{{folder}}, {{instance}} | min by (instance, folder) (@disk_free_bytes)"),
        _panel("Sketch load", "none",
            "Entities per slot: above 1 collisions cost accuracy; give the sketch more memory.",
            "{{table}} | max by (table) (@sketch_load_ratio)", may_be_empty=True),
        _panel("Seen-item filter", "percentunit",
            "A false positive omits an item that the person never rated.",
            "bits set | max(@bloom_fill_ratio)",
            "false positives | max(@bloom_false_positive_ratio)"),
        _panel("Concentration of the ratings on items", "short",
            "Sum of the squared item counts; a jump is a flood of ratings on one item.",
            "second moment F2 | max(@second_moment)",
            "plus one deviation | max(@second_moment * (1 + @second_moment_relative_deviation))"),
        _panel("Error of an item count", "short",
            "The most by which a count-min estimate exceeds the true count, at its confidence.",
            "most, at its confidence | max(@count_min_error_bound)"),
    ),
    "Gateways": (
        _panel("Gateways ready", "none",
            "1: Kafka and the topics answer. A gateway that is not ready serves the page, and "
            "takes no event.",
            "{{instance}} | @gateway_ready", kind="stat", may_be_empty=True),
        _panel("Events over HTTP", "ops",
            "Bodies sent to /reports, by how they were answered. accepted: Kafka confirmed it; "
            "duplicate: the same bytes again; any other is the reason of a refusal.",
            "{{answer}} | sum by (answer) (rate(@gateway_reports_total~)) > 0", may_be_empty=True),
        _panel("Time until Kafka confirms", "s",
            "From an event's arrival to its confirmation by all copies.",
            "p50 | p50(gateway_confirm_seconds)", "p99 | p99(gateway_confirm_seconds)",
            may_be_empty=True),
        _panel("Clients", "short",
            "Open connections, and events that wait for Kafka's confirmation.",
            "connections, {{instance}} | @gateway_connections",
            "events that wait, {{instance}} | @gateway_unconfirmed", may_be_empty=True),
        _panel("Queries over HTTP", "ops",
            "Lists asked for over HTTP, by how they were answered.",
            "{{answer}} | sum by (answer) (rate(@gateway_queries_total~)) > 0",
            "replies refused | sum(rate(@gateway_refused_replies_total~))", may_be_empty=True),
        _panel("Time to answer over HTTP", "s",
            "From a query's arrival at the gateway to a worker's answer.",
            "p50 | p50(gateway_answer_seconds)", "p99 | p99(gateway_answer_seconds)",
            may_be_empty=True),
    ),
}
_EDGE_ROWS: dict[str, tuple[Callable[[str], Panel], ...]] = {
    "What the lists bring, and what leaves the site": (
        _panel("Click-through by model", "percentunit",
            "Share of the lists of the last 30 days with a click, by the model that ranked them; "
            "intervals and differences of the models: /quality.",
            "{{model}} | max by (model) (@edge_clicked_lists / @edge_shown_lists)"),
        _panel("Lists shown", "short",
            "Lists of the last 30 days that the site said were shown.",
            "{{model}} | max by (model) (@edge_shown_lists)"),
        _panel("Reports", "short",
            "Sanitized reports that were paid for, and accounts whose budget holds no further one: "
            "their events rank here alone.",
            "reports | sum(@edge_reports)", "accounts | max(@edge_accounts)",
            "accounts without budget | sum(@edge_exhausted)"),
        _panel("Waits for the recommender", "decbytes",
            "Sanitized bytes that the recommender has not confirmed. They wait in the store, and "
            "lists go on.",
            "{{instance}} | @edge_waiting_bytes"),
        _panel("Recommender reached, events taken", "none",
            "1: yes. An edge that is not ready cannot write its store.",
            "reached, {{instance}} | @edge_connected", "ready, {{instance}} | @edge_ready",
            "store, {{instance}} | @edge_store",
            kind="stat"),
        _panel("Books", "short",
            "Parts of the accounts that each edge reports for; 16 over all edges.",
            "{{instance}} | @edge_books"),
    ),
    "Requests": (
        _panel("Events", "ops",
            "By how they were answered: busy and store are sent again by the site.",
            "{{answer}} | sum by (answer) (rate(@edge_events_total~)) > 0"),
        _panel("Time until events are durable", "s", "From a body to its commit.",
            "p50 | p50(edge_durable_seconds)", "p99 | p99(edge_durable_seconds)"),
        _panel("Events that wait, connections", "short", "",
            "events, {{instance}} | @edge_waiting_events",
            "connections, {{instance}} | @edge_connections"),
        _panel("Lists", "ops", "By kind.",
            "{{list}} | sum by (list) (rate(@edge_lists_total~)) > 0"),
        _panel("Time to a list", "s", "From a request to its list.",
            "p50 | p50(edge_list_seconds)", "p99 | p99(edge_list_seconds)"),
    ),
}
# fmt: on

OVERVIEW = Board(
    "murmurec-overview",
    "murmurec: overview",
    "Accuracy and leakage side by side, then the stream, the queries, the state and the gateways.",
    tuple(panel(row) for row, panels in _ROWS.items() for panel in panels),
)

EDGE = Board(
    "murmurec-edge",
    "murmurec: edge of a site",
    "What the lists bring and what leaves the site, then events and lists.",
    tuple(panel(row) for row, panels in _EDGE_ROWS.items() for panel in panels),
)

BOARDS = (OVERVIEW, EDGE)


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
        # The value of an info metric, or of a comparison, is always 1: show its labels.
        shown = panel.curves[0].expression
        text = "name" if "_info{" in shown or shown.endswith("== 1") else "auto"
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


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.threshold is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.threshold}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        defaults["custom"] = {"thresholdsStyle": {"mode": "line"}}
    return defaults


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    """Return what fills the band: its two curves have no line of their own."""
    if panel.band is None:
        return []
    low, high = panel.band
    thin = {"id": "custom.lineWidth", "value": 0}
    filled = [
        {"id": "custom.fillBelowTo", "value": low},
        {"id": "custom.fillOpacity", "value": 20},
    ]
    return [
        {"matcher": {"id": "byName", "options": low}, "properties": [thin]},
        {"matcher": {"id": "byName", "options": high}, "properties": [thin, *filled]},
    ]


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
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
    instances = 'label_values({__name__=~"murmurec_(gateway_|edge_)?ready"}, instance)'
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

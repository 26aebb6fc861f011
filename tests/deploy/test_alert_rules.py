"""Every alert fires on what it is for and is silent beside it, as Prometheus evaluates it."""

from __future__ import annotations

import json
import re
import subprocess
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from stream_app.monitoring.collectors import together
from stream_app.monitoring.metrics import Metrics
from tests.fixtures.metric_calls import CALLS
from tests.fixtures.programs import program

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"].removeprefix("Murmurec"): rule
    for rule in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
}
Series = dict[str, str]
WORKER = 'instance="a",job="murmurec"'
_RMSE = 'murmurec_prediction_rmse{instance="a",window="recent",kind="debiased"}'
_BASELINE = 'murmurec_prediction_rmse_baseline{instance="a",kind="debiased"}'
_SERVED, _POPULAR = (f'murmurec_list_ndcg_ratio{{list="{each}"}}' for each in ("served", "popular"))
_WORK = 'murmurec_learning_thread_seconds_total{instance="a",activity="applying"}'
_SLOW, _SLOWER, _ALL = (
    f'murmurec_query_duration_seconds_bucket{{le="{le}"}}' for le in ("0.5", "1.0", "+Inf")
)
_STAGES, _RELEASED = "murmurec_campaign_stages", "murmurec_campaign_stages_released"
_ACCEPTED = 'murmurec_gateway_reports_total{answer="accepted"}'
_MALFORMED = 'murmurec_gateway_reports_total{answer="malformed"}'
_LIMITED = 'murmurec_gateway_reports_total{answer="rate"}'

# Alert -> (minutes until it is looked at, series under which it fires, under which it is silent);
# a series is that of promtool: first value, step a minute, number of steps.
CASES: dict[str, tuple[int, Series, Series]] = {
    "WorkerDown": (3, {f"up{{{WORKER}}}": "0x9"}, {f"up{{{WORKER}}}": "1x9"}),
    "EdgeNotReady": (
        3,
        {"murmurec_edge_ready": "1x9", "murmurec_edge_store": "0x9"},
        {"murmurec_edge_ready": "0 1x9", "murmurec_edge_store": "0 1x9"},
    ),
    "EdgeCutOff": (
        150,
        {"murmurec_edge_waiting_bytes": "500+10x200"},
        {"murmurec_edge_waiting_bytes": "0x70 500x20 0x99"},
    ),
    "WorkerNotReady": (7, {"murmurec_ready": "0x9"}, {"murmurec_ready": "0x3 1x9"}),
    "ConsumerLag": (
        7,
        {"murmurec_consumer_lag_seconds": "90x9"},
        {"murmurec_consumer_lag_seconds": "90x3 5x9"},
    ),
    "CheckpointStale": (
        90,
        {"murmurec_checkpoint_timestamp_seconds": "60x99", _WORK: "0+6x99"},
        {"murmurec_checkpoint_timestamp_seconds": "60x99", _WORK: "0+0.1x99"},  # idle
    ),
    "ReplicasDiffer": (
        5,
        {"murmurec_replicas_differ_total": "0x2 1x9"},
        {"murmurec_replicas_differ_total": "1x9"},
    ),
    "TwoClocks": (
        3,
        {f'murmurec_clock_owner{{instance="{each}"}}': "1x9" for each in "ab"},
        {f'murmurec_clock_owner{{instance="{each}"}}': f"{each == 'a':d}x9" for each in "ab"},
    ),
    "NoClock": (
        3,
        {'murmurec_clock_owner{instance="a"}': "0x9"},
        {f'murmurec_clock_owner{{instance="{each}"}}': f"{each == 'a':d}x9" for each in "ab"},
    ),
    "DiskFull": (
        70,
        {'murmurec_disk_free_bytes{folder="data"}': "50e9-0.5e9x90"},  # full in 30 minutes more
        {'murmurec_disk_free_bytes{folder="data"}': "50e9-0.01e9x90"},
    ),
    "RecordsRejected": (
        25,
        {
            'murmurec_rejected_total{reason="malformed"}': "0+6x30",
            'murmurec_events_total{outcome="applied"}': "0+94x30",
        },
        {
            'murmurec_rejected_total{reason="malformed"}': "0+4x30",
            'murmurec_events_total{outcome="applied"}': "0+96x30",
        },
    ),
    "SequenceNumberUsedAgain": (
        30,
        {"murmurec_seq_reused_records": "0x20 1x20"},
        {"murmurec_seq_reused_records": "1x40"},
    ),
    "UnsealedRecords": (
        5,
        {"murmurec_unsealed_records_total": "0x2 3x9"},
        {"murmurec_unsealed_records_total": "3x9"},
    ),
    "ErrorAboveBaseline": (
        40,
        {_RMSE: "1.05x50", _BASELINE: "1x50"},
        {_RMSE: "1.01x50", _BASELINE: "1x50"},
    ),
    "Drift": (
        5,
        {'murmurec_drift_detected_total{detector="lists"}': "0x2 1x9"},
        {'murmurec_drift_detected_total{detector="lists"}': "1x9"},
    ),
    "ListsBelowPopular": (
        40,
        {_SERVED: "0.1x50", _POPULAR: "0.12x50", "murmurec_list_devices": "500x50"},
        {_SERVED: "0.1x50", _POPULAR: "0.12x50", "murmurec_list_devices": "20x50"},
    ),
    "RecallLow": (
        20,
        {'murmurec_query_recall_ratio{method="qolsh"}': "0.7x30"},
        {'murmurec_query_recall_ratio{method="qolsh"}': "0.9x30"},
    ),
    "LeakageHigh": (
        40,
        {"murmurec_leakage_kl_nats": "0.3x50"},
        {"murmurec_leakage_kl_nats": "0.01x50"},
    ),
    "QueriesUnanswered": (
        15,
        {
            'murmurec_queries_total{outcome="busy"}': "0+10x30",
            'murmurec_queries_total{outcome="answered"}': "0+90x30",
        },
        {
            'murmurec_queries_total{outcome="refused"}': "0+10x30",
            'murmurec_queries_total{outcome="answered"}': "0+90x30",
        },
    ),
    "QueriesSlow": (
        20,
        {_SLOW: "0+90x30", _SLOWER: "0+100x30", _ALL: "0+100x30"},
        {_SLOW: "0+100x30", _SLOWER: "0+100x30", _ALL: "0+100x30"},
    ),
    "CampaignStuck": (
        1600,
        {_STAGES: "3x1700", _RELEASED: "1x1700", "murmurec_campaign_number": "1x1700"},
        {_STAGES: "3x1700", _RELEASED: "1x1000 2x700", "murmurec_campaign_number": "1x1700"},
    ),
    "PartyAway": (
        3,
        {'murmurec_campaign_party_waiting_seconds{party="b"}': "0 20 80x9"},
        {'murmurec_campaign_party_waiting_seconds{party="b"}': "0 20 0x9"},
    ),
    "StageAborted": (
        5,
        {"murmurec_campaign_stages_aborted": "0x2 1x9"},
        {"murmurec_campaign_stages_aborted": "1x9"},
    ),
    "GatewayAway": (
        3,
        {'up{instance="g",job="murmurec-gateway"}': "0x9"},
        {'up{instance="g",job="murmurec-gateway"}': "1x9"},
    ),
    "GatewayWithoutKafka": (
        3,
        {'murmurec_gateway_ready{instance="g"}': "0x9"},
        {'murmurec_gateway_ready{instance="g"}': "1x9"},
    ),
    "GatewayRejects": (
        15,
        {_ACCEPTED: "0+90x30", _MALFORMED: "0+10x30"},
        {_ACCEPTED: "0+90x30", _LIMITED: "0+10x30"},
    ),
}


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def test_every_alert_has_a_severity_a_runbook_and_a_case() -> None:
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    anchors = {slug(heading) for heading in re.findall(r"^#+ (.+)$", page, re.M)}
    assert RULES.keys() == CASES.keys()
    for rule in RULES.values():
        assert rule["labels"]["severity"] in ("page", "ticket")
        file, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert file == "docs/operate.md"
        assert anchor in anchors


def with_up(name: str, series: Series) -> Series:
    """Return the series of a deployment whose worker is up, unless the alert is about that."""
    return series if name == "WorkerDown" else {f"up{{{WORKER}}}": "1x2000"} | series


def passes(tests: list[dict[str, Any]], folder: Path) -> None:
    """Run tests of the rules under promtool; a failure names the test."""
    file = folder / "rules_test.yml"
    held = {"rule_files": [str(ALERTS)], "evaluation_interval": tests[0]["interval"]}
    file.write_text(json.dumps({**held, "tests": tests}), encoding="utf-8")
    ran = subprocess.run(
        [program("promtool", package="prometheus"), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("fires", [True, False], ids=["fires", "silent"])
def test_every_alert_fires_on_what_it_is_for_and_is_silent_beside_it(
    fires: bool, tmp_path: Path
) -> None:
    """All cases in one run of promtool, which starts once; a failure names the alert."""
    tests = []
    for name, (minutes, firing, silent) in CASES.items():
        series = with_up(name, firing if fires else silent)
        # The number of alerts is asked: which labels they carry is not what is tested.
        count = f'count(ALERTS{{alertname="Murmurec{name}",alertstate="firing"}}) or vector(0)'
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [{"series": s, "values": v} for s, v in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f"({count}) > bool 0",
                        "eval_time": f"{minutes}m",
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                ],
            }
        )
    passes(tests, tmp_path)


# --- two shards -----------------------------------------------------------------------------------

STEP_SECONDS = 5  # as in deploy/prometheus.yml


def held_for(page: str, steps: int, **labels: str) -> Series:
    """Return the series of a page that is scraped so often and shows the same."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            pairs = sample.labels | {"instance": "a", "job": "murmurec"} | labels
            text = ",".join(f"{name}={json.dumps(value)}" for name, value in pairs.items())
            found[f"{sample.name}{{{text}}}"] = again(sample.value, steps)
    return found


def again(value: float, steps: int) -> str:
    """Return a value so often; of what is no number promtool wants each."""
    return f"{value}x{steps - 1}" if isfinite(value) else " ".join([str(value)] * steps)


def pending(name: str, series: Series, seconds: int, expected: int, state: str = "") -> Any:
    """Return the test that after so long so many alerts are pending or firing, or in a state."""
    chosen = f'{{alertstate="{state}"}}' if state else ""
    value = {"labels": "{}", "value": expected}
    asked = {"expr": f"count(ALERTS{chosen}) or vector(0)", "eval_time": f"{seconds}s"}
    inputs = [{"series": s, "values": v} for s, v in series.items()]
    return {
        "name": name,
        "interval": f"{STEP_SECONDS}s",
        "input_series": inputs,
        "promql_expr_test": [{**asked, "exp_samples": [value]}],
    }


def healthy(shard: int) -> Metrics:
    """Return the metrics of a shard that has measured everything and lacks nothing."""
    metrics = Metrics(CollectorRegistry())
    for name, call in CALLS.items():
        if name not in ("seq_reused", "replica_differs", "unsealed", "campaign", "parties_owing"):
            call(metrics)
    metrics.ready(True)
    metrics.clock_owner(True)
    metrics.lag(3, 0.2)
    metrics.disk_free("data", 50_000_000_000)
    metrics.disk_free("broker", 50_000_000_000)
    metrics.round_applied(7 + 100 * shard, 0.02, 1.7e9)
    return metrics


def test_two_healthy_shards_are_silent_for_an_hour(tmp_path: Path) -> None:
    """In one worker and in two; the same series at every scrape."""
    pages = {shard: healthy(shard).exposition(shard=str(shard)).decode() for shard in (0, 1)}
    steps = 3600 // STEP_SECONDS
    up = {f'up{{instance="{each}",job="murmurec"}}': f"1x{steps}" for each in "ab"}
    one = held_for(together(pages).decode(), steps) | up
    two = held_for(pages[0], steps) | held_for(pages[1], steps, instance="b") | up
    tests = [
        pending(name, series, seconds, 0)
        for name, series in (("one worker", one), ("two workers", two))
        for seconds in (5, 60, 300, 3600)
    ]
    passes(tests, tmp_path)


def test_a_shard_that_does_not_answer_rings_within_a_minute_and_alone(tmp_path: Path) -> None:
    pages = {shard: healthy(shard).exposition(shard=str(shard)).decode() for shard in (0, 1)}
    series = {f"up{{{WORKER}}}": "1x99"}
    before, after = (held_for(together(each).decode(), 1) for each in (pages, pages | {1: None}))
    for name in before:
        first, *later = (
            float(each[name].removesuffix("x0")) for each in (before, after) if name in each
        )
        series[name] = f"{again(first, 12)} {again(later[0], 88) if later else 'stale'}"
    down = 'ALERTS{alertname="MurmurecWorkerDown",shard="1"'
    tests = [
        pending("before", series, 55, 0),
        pending("noticed", series, 60, 1, "pending"),
        pending("rings", series, 90, 1, "firing"),
    ]
    for test in tests[1:]:
        (asked,) = test["promql_expr_test"]
        asked["expr"] = asked["expr"].replace("ALERTS{", down + ",")
    passes([*tests, pending("alone", series, 300, 1)], tmp_path)


BY_SHARD: dict[str, tuple[int, Series]] = {
    "TwoClocks": (
        3,
        {f'murmurec_clock_owner{{instance="{i}",shard="{i != "a":d}"}}': "1x9" for i in "abc"},
    ),
    "NoClock": (3, {f'murmurec_clock_owner{{shard="{shard}"}}': f"{shard}x9" for shard in (0, 1)}),
    "CheckpointStale": (
        90,
        {
            'murmurec_checkpoint_timestamp_seconds{shard="0"}': "0+60x99",
            'murmurec_checkpoint_timestamp_seconds{shard="1"}': "60x99",
            _WORK.replace("}", ',shard="0"}'): "0+6x99",
            _WORK.replace("}", ',shard="1"}'): "0+6x99",
        },
    ),
    "RecordsRejected": (
        25,
        {
            'murmurec_rejected_total{reason="malformed",shard="1"}': "0+6x30",
            'murmurec_events_total{outcome="applied",shard="1"}': "0+94x30",
            'murmurec_rejected_total{reason="malformed",shard="0"}': "0+0x30",
            'murmurec_events_total{outcome="applied",shard="0"}': "0+900x30",
        },
    ),
    "SequenceNumberUsedAgain": (
        30,
        {
            'murmurec_seq_reused_records{shard="0"}': "5x40",
            'murmurec_seq_reused_records{shard="1"}': "0x20 1x20",
        },
    ),
    "ErrorAboveBaseline": (
        40,
        {
            _RMSE.replace("}", ',shard="0"}'): "0.9x50",
            _RMSE.replace("}", ',shard="1"}'): "1.05x50",
            _BASELINE.replace("}", ',shard="0"}'): "1.1x50",
            _BASELINE.replace("}", ',shard="1"}'): "1x50",
        },
    ),
    "ListsBelowPopular": (
        40,
        {
            _SERVED.replace("}", ',shard="0"}'): "0.2x50",
            _SERVED.replace("}", ',shard="1"}'): "0.1x50",
            _POPULAR.replace("}", ',shard="0"}'): "0.12x50",
            _POPULAR.replace("}", ',shard="1"}'): "0.12x50",
            'murmurec_list_devices{shard="0"}': "500x50",
            'murmurec_list_devices{shard="1"}': "500x50",
        },
    ),
    "QueriesUnanswered": (  # each answered one was forwarded before
        15,
        {
            'murmurec_queries_total{outcome="busy",shard="0"}': "0+6x30",
            'murmurec_queries_total{outcome="answered",shard="0"}': "0+94x30",
            'murmurec_queries_total{outcome="forwarded",shard="1"}': "0+94x30",
        },
    ),
}


def test_a_shard_that_is_ill_beside_a_healthy_one_rings_once(tmp_path: Path) -> None:
    tests = []
    for name, (minutes, series) in BY_SHARD.items():
        made = pending(name, with_up(name, series), 60 * minutes, 1, "firing")
        (asked,) = made["promql_expr_test"]
        asked["expr"] = asked["expr"].replace("{", f'{{alertname="Murmurec{name}",')
        tests.append(made | {"interval": "1m"})
    passes(tests, tmp_path)

"""Every alert fires on what it is for and is silent beside it, as Prometheus evaluates it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.programs import program

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"].removeprefix("Murmurec"): rule
    for rule in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
}
Series = dict[str, str]
_WORKER = 'instance="a",job="murmurec"'
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
    "WorkerDown": (3, {f"up{{{_WORKER}}}": "0x9"}, {f"up{{{_WORKER}}}": "1x9"}),
    "EdgeNotReady": (3, {"murmurec_edge_ready": "0x9"}, {"murmurec_edge_ready": "0 1x9"}),
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
    "BudgetsSpent": (
        50,
        {
            "murmurec_private_lists_refused_total": "0+2x60",
            "murmurec_private_lists_total": "0+4x60",
        },
        {
            "murmurec_private_lists_refused_total": "0+2x60",
            "murmurec_private_lists_total": "0+40x60",
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
    return series if name == "WorkerDown" else {f"up{{{_WORKER}}}": "1x2000"} | series


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
    file = tmp_path / "rules_test.yml"
    held = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(json.dumps(held), encoding="utf-8")
    ran = subprocess.run(
        [program("promtool", package="prometheus"), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr

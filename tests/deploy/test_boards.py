"""The dashboard: its names against the registry, both ways, and its JSON against its table."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from prometheus_client import CollectorRegistry

from producers.edge.http.site import EdgeMetrics
from stream_app.cli.reader.audit_metrics import AuditMetrics
from stream_app.gateway.context import ANSWERS, GatewayMetrics
from stream_app.monitoring.metrics import Metrics
from stream_app.privacy import registry
from stream_app.privacy.exact.report_information import report_information_nats
from tests.deploy import boards
from tests.deploy.boards import BOARDS, EDGE, OVERVIEW, QUALITY, Board, Panel

EVERY_PANEL = [(board, panel) for board in BOARDS for panel in board.panels]
NAMES = [panel.title for _, panel in EVERY_PANEL]


def registered() -> dict[str, set[str]]:
    """Return series name -> its labels, of all that workers, gateways, edges and audits publish."""
    metrics = Metrics(CollectorRegistry())
    series: dict[str, set[str]] = {}
    others = GatewayMetrics(), EdgeMetrics(), AuditMetrics()
    registries = (metrics.registry, *(each.registry for each in others))
    for collector in [each for held in registries for each in held._collector_to_names]:
        labels = set(collector._labelnames)  # type: ignore[attr-defined]
        name, kind = collector._name, collector._type  # type: ignore[attr-defined]
        suffixes = {
            "counter": ("_total",),
            "gauge": ("",),
            "info": ("_info",),
            "histogram": ("_bucket", "_sum", "_count"),
        }[kind]
        for suffix in suffixes:
            series[name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    series["murmurec_build_info"] |= {"version", "python"}
    series["murmurec_privacy_mode_info"] |= {"privacy_mode", "campaigns"}
    return series


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"murmurec_[a-z0-9_]+", expression))


def drawn(panels: tuple[Panel, ...]) -> set[str]:
    return {
        name for panel in panels for curve in panel.curves for name in names_in(curve.expression)
    }


@pytest.mark.parametrize(("board", "panel"), EVERY_PANEL, ids=NAMES)
def test_every_name_in_an_expression_is_published(board: Board, panel: Panel) -> None:
    for curve in panel.curves:
        assert names_in(curve.expression)
        assert names_in(curve.expression) <= set(registered())


@pytest.mark.parametrize(("board", "panel"), EVERY_PANEL, ids=NAMES)
def test_labels_in_selectors_groupings_and_legends_exist(board: Board, panel: Panel) -> None:
    for curve in panel.curves:
        labels: set[str] = {"instance", "job", "shard"}
        for name in names_in(curve.expression):
            labels |= registered()[name]
        by = re.findall(r"\bby \(([^)]*)\)", curve.expression)
        used = {label.strip() for group in by for label in group.split(",")}
        used |= set(re.findall(r"[{,]([a-z_]+)=", curve.expression))
        used |= set(re.findall(r"{{([a-z_]+)}}", curve.legend))
        assert used <= labels


@pytest.mark.parametrize(("board", "panel"), EVERY_PANEL, ids=NAMES)
def test_every_selector_looks_at_the_chosen_workers(board: Board, panel: Panel) -> None:
    for curve in panel.curves:
        selectors = re.findall(r"murmurec_[a-z0-9_]+(\{[^}]*\})?", curve.expression)
        assert all('instance=~"$instance"' in selector for selector in selectors)


def test_every_metric_is_on_its_board() -> None:
    series = {name for name in registered() if not name.endswith(("_sum", "_count"))}
    of_edges = {name for name in series if name.startswith("murmurec_edge_")}
    assert drawn(OVERVIEW.panels) == series - of_edges
    assert drawn(EDGE.panels) == of_edges


def test_every_alert_reads_a_published_metric_and_is_on_the_board() -> None:
    folder = boards.FOLDER.parents[1]
    text = (folder / "alerts.yml").read_text(encoding="utf-8")
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    read = set().union(*(names_in(rule["expr"]) for rule in rules))
    assert read <= set(registered())
    assert read <= drawn(OVERVIEW.panels) | drawn(EDGE.panels)
    configured = yaml.safe_load((folder / "prometheus.yml").read_text(encoding="utf-8"))
    jobs = {job["job_name"] for job in configured["scrape_configs"]}
    scraped = {job for rule in rules for job in re.findall(r'job="([^"]*)"', rule["expr"])}
    assert scraped == {"murmurec", "murmurec-gateway"} < jobs
    assert configured["rule_files"] == ["alerts.yml"]
    compose = (folder / "compose.yaml").read_text(encoding="utf-8")
    assert "./alerts.yml:/etc/prometheus/alerts.yml:ro" in compose


def test_what_the_alert_on_refusals_leaves_out_are_answers_of_a_gateway() -> None:
    text = (boards.FOLDER.parents[1] / "alerts.yml").read_text(encoding="utf-8")
    (left_out,) = re.findall(r'answer!~"([^"]*)"', text)
    assert set(left_out.split("|")) == {"accepted", "duplicate", "rate", "kafka"} < set(ANSWERS)


def test_accuracy_and_leakage_come_first_and_side_by_side() -> None:
    first, second = OVERVIEW.panels[:2]
    assert first.row == second.row == QUALITY
    assert drawn((first,)) == {"murmurec_prediction_rmse", "murmurec_prediction_rmse_baseline"}
    leaks = {"murmurec_leakage_kl_nats", "murmurec_report_information_nats"}
    assert drawn((second,)) == leaks  # a KL near 0 must not be read as what a report tells
    places = [
        panel["gridPos"]
        for panel in boards.dashboard(OVERVIEW)["panels"]
        if panel["title"] in (first.title, second.title)
    ]
    assert places[0]["y"] == places[1]["y"]
    assert places[0]["x"] + places[0]["w"] == places[1]["x"]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_the_committed_json_matches_the_table(board: Board) -> None:
    assert board.path.read_text(encoding="utf-8") == boards.text(board), (
        "run `python -m tests.deploy.boards`"
    )


def test_no_dashboard_is_left_over() -> None:
    assert set(boards.FOLDER.glob("*.json")) == {board.path for board in BOARDS}


def test_the_address_of_the_board_never_changes() -> None:
    assert OVERVIEW.uid == "murmurec-overview"
    assert OVERVIEW.path.name == "overview.json"


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_panels_have_ids_of_their_own_and_do_not_overlap(board: Board) -> None:
    panels = boards.dashboard(board)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not covered & cells, panel["title"]
        cells |= covered


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_query_goes_to_the_chosen_data_source(board: Board) -> None:
    dashboard = boards.dashboard(board)
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert targets
    assert {target["datasource"]["uid"] for target in targets} == {"${datasource}"}
    assert names_in(variables["instance"]["definition"]) <= set(registered())


def test_leakage_panels_state_that_it_is_a_measurement_and_not_a_bound() -> None:
    (leakage,) = [panel for panel in OVERVIEW.panels if panel.title == "Leakage"]
    assert "not a bound" in leakage.about
    nats = report_information_nats(registry.parse("rr:5:2"))
    assert f"{nats:.2f} for rr:5:2" in leakage.about
    (clipped,) = [panel for panel in OVERVIEW.panels if panel.title == "Clipped updates"]
    assert "not privacy" in clipped.about


def test_the_json_is_plain_json() -> None:
    for board in BOARDS:
        assert json.loads(boards.text(board)) == boards.dashboard(board)

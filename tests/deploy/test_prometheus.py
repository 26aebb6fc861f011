"""The board against a real Prometheus that scrapes a process exposing the metrics."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from consumers.audit.findings import Finding, Verdict
from stream_app.cli.reader.audit_metrics import AuditMetrics
from stream_app.gateway.context import GatewayMetrics
from stream_app.monitoring.collectors import CONTENT_TYPE, together
from stream_app.monitoring.metrics import Metrics
from stream_app.privacy import registry
from tests.deploy.boards import OVERVIEW, Panel
from tests.fixtures.metric_calls import CALLS
from tests.fixtures.programs import program
from tests.fixtures.scraped import Recorded, ask, scraping
from tests.pictures.boards import PREVIEWS, Preview, draw
from tests.pictures.series import filled

# What a worker publishes before the first event.
STARTING = (
    *("build", "privacy_mode", "clip_threshold", "epsilon_claimed", "report_information"),
    *("memory", "indexed"),
)
OF_THE_OVERVIEW = [preview for preview in PREVIEWS if preview.board is OVERVIEW]
SHOWN = Finding("", Verdict.OK, "", None, {"mechanism": "rr:5:2", "epsilon": 1.9})


class Exposing(ThreadingHTTPServer):
    """/metrics on a free loopback port; every scrape finds that more has happened."""

    daemon_threads = True

    def __init__(self, worker: str) -> None:
        self.metrics = Metrics(CollectorRegistry())
        self.gateway, self.audit = GatewayMetrics(), AuditMetrics()
        self.empty, self.shards = worker == "just started", worker == "two shards"
        for name in STARTING:
            CALLS[name](self.metrics)
        super().__init__(("127.0.0.1", 0), _Answer)

    def body(self) -> bytes:
        if not self.empty:
            for name, call in CALLS.items():
                if name not in STARTING:
                    call(self.metrics)
            self.metrics.rmse("reported", "recent", 1.6)
            self.audit.found([SHOWN], [registry.parse("rr:5:2")])
            self.gateway.answered("accepted")
            self.gateway.confirmed(0.01)
            self.gateway.asked("answered", 0.01)
        gateway = self.gateway.render(1, 2, ready=not self.empty)
        own = self.metrics.exposition()
        if self.shards:
            each = {n: self.metrics.exposition(shard=str(n)).decode() for n in (0, 1)}
            own = together(each)
        return own + gateway + self.audit.exposition()


class _Answer(BaseHTTPRequestHandler):
    server: Exposing

    def do_GET(self) -> None:
        body = self.server.body()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module", params=["in use", "two shards", "just started"])
def prometheus(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[str, str]]:
    """Yield the address of a Prometheus, scraping every second, and the worker that it sees."""
    tool = program("prometheus", package="prometheus")
    folder: Path = tmp_path_factory.mktemp("prometheus")
    exposing = Exposing(request.param)
    threading.Thread(target=exposing.serve_forever, daemon=True).start()
    try:
        with scraping(tool, folder, {"worker": f"127.0.0.1:{exposing.server_port}"}) as address:
            yield address, request.param
    finally:
        exposing.shutdown()
        exposing.server_close()


@pytest.mark.nightly
@pytest.mark.parametrize("panel", OVERVIEW.panels, ids=lambda panel: panel.title)
def test_every_curve_of_every_panel_answers(prometheus: tuple[str, str], panel: Panel) -> None:
    """In use every curve has a series; just started, only a panel that `may_be_empty` lacks one."""
    address, worker = prometheus
    for curve in panel.curves:
        expression = curve.expression.replace("$__rate_interval", "10s").replace("$instance", ".*")
        assert "$" not in expression
        series = ask(address, expression)
        assert series or (panel.may_be_empty and worker == "just started"), expression
        for each in series:
            for label in re.findall(r"{{([a-z_]+)}}", curve.legend):
                shown = each["metric"].get(label) or (label == "shard" and worker != "two shards")
                assert shown, f"{curve.legend}: {each['metric']}"


@pytest.mark.nightly
@pytest.mark.parametrize("preview", OF_THE_OVERVIEW, ids=lambda preview: preview.name)
def test_a_preview_is_drawn_of_the_json_and_what_was_scraped(
    prometheus: tuple[str, str], preview: Preview
) -> None:
    address, worker = prometheus
    now = time.time()
    panels = [filled(panel, Recorded(address, now - 5, now)) for panel in preview.panels]
    drawn = sum(bool(panel.curves) for panel in panels)  # a gauge that is NaN has no curve
    assert drawn > len(panels) / 2 or worker == "just started"
    assert draw(preview, panels, "dark").startswith(b"\x89PNG")


@pytest.mark.nightly
def test_every_series_is_the_one_that_the_worker_published(prometheus: tuple[str, str]) -> None:
    address, worker = prometheus
    series = 2 if worker == "two shards" else 1
    ready = [each["value"][1] for each in ask(address, "murmurec_ready")]
    assert ready == ["0" if worker == "just started" else "1"] * series
    kl = [each["value"][1] for each in ask(address, "murmurec_leakage_kl_nats")]
    assert kl == ["NaN" if worker == "just started" else "0.0144"] * series


@pytest.mark.nightly
def test_the_newest_exposition_is_clean(prometheus: tuple[str, str]) -> None:
    """`promtool check metrics` finds nothing to complain about in names, types and help texts."""
    promtool = program("promtool", package="prometheus")
    exposing = Exposing(prometheus[1])
    body = exposing.body()
    exposing.server_close()
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=body, capture_output=True, timeout=30, check=False
    )
    assert checked.returncode == 0, checked.stderr.decode()

"""The processes of a worker of several shards: started, stopped, refused; and its pages."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from stream_app.agents.shards import readiness_pages
from stream_app.agents.shards.readiness_pages import JOINING, Pages
from stream_app.agents.shards.shard_worker import Children
from stream_app.errors import UserError
from stream_app.monitoring.metrics import Metrics
from stream_app.operations.watching.workers import ask
from stream_app.settings import Settings, load
from tests.fixtures.shard_processes import ends, process, running
from tests.fixtures.waiting import PATIENCE_SECONDS, until


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    """Give the processes of a worker whose clock stands still; none is left afterwards."""
    made = Children(lambda shard: process(tmp_path, shard), lambda: 0.0)
    yield made
    made.stop(made.shards)


def test_a_process_ends_cleanly_when_its_shard_goes_away(
    children: Children, tmp_path: Path
) -> None:
    children.start([0, 2])
    until(lambda: running(tmp_path) == {0, 2}, "both run")
    children.start([0, 1, 2])
    until(lambda: running(tmp_path) == {0, 1, 2}, "a third one runs")
    children.stop([0, 1, 3])
    assert children.shards == [2]
    assert (running(tmp_path), ends(tmp_path)) == ({2}, [0, 1])
    children.stop([2])
    assert (children.shards, ends(tmp_path)) == ([], [0, 1, 2])


def test_a_process_that_was_killed_is_started_again_after_a_pause(tmp_path: Path) -> None:
    now = [0.0]
    children = Children(lambda shard: process(tmp_path, shard), lambda: now[0])
    children.start([0])
    try:
        for end, pause in enumerate((1.0, 2.0, 4.0)):
            until(lambda: running(tmp_path) == {0}, "it runs")
            os.kill(children._running[0].pid, signal.SIGKILL)
            children._running[0].wait()
            assert children.look() is None, end
            now[0] += pause - 0.01
            assert children.look() is None
            assert not children._running
            assert children.shards == [0]  # held, and started again
            now[0] += 0.01
            children.look()
            assert list(children._running) == [0]
    finally:
        children.stop([0])
    now[0] += 100
    assert children.look() is None
    assert not children._running


@pytest.mark.parametrize("code", [1, 2])
def test_a_process_that_is_refused_ends_the_worker(code: int) -> None:
    children = Children(lambda _: [sys.executable, "-c", f"raise SystemExit({code})"])
    children.start([0])
    children._running[0].wait()
    assert children.look() == code


def test_the_processes_of_a_worker_that_is_killed_end_with_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path;"
        "from stream_app.agents.shards.shard_worker import Children;"
        "from tests.fixtures.shard_processes import process;"
        "Children(lambda s: process(Path(sys.argv[1]), s)).start([0, 1]); input()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as worker:
        until(lambda: running(tmp_path) == {0, 1}, "both run")
        worker.kill()
    until(lambda: not running(tmp_path), "both have ended")
    assert ends(tmp_path) == []


def page(url: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_worker_is_ready_when_the_processes_of_all_its_shards_are() -> None:
    settings: Settings = load(admin_port=0)
    held: dict[int, str] | None = None
    one = Pages(settings, lambda: waiting)
    every = Pages(settings, lambda: held)
    waiting: dict[int, str] | None = None
    process_url, url = one.start(), every.start()
    try:
        assert page(f"{url}/livez") == (200, {"alive": True})
        assert page(f"{url}/readyz") == (503, {"ready": False, "waiting_for": JOINING})
        held = {1: process_url}
        found = {"ready": False, "waiting_for": f"shard 1: {JOINING}"}
        assert page(f"{url}/readyz") == (503, found)
        waiting = {}
        assert page(f"{url}/readyz") == (200, {"ready": True, "waiting_for": None})
        held = {1: process_url, 3: "http://127.0.0.1:1"}
        status, found = page(f"{url}/readyz")
        assert (status, found["waiting_for"]) == (503, "shard 3: its process does not answer")
    finally:
        one.stop()
        every.stop()


class Process(ThreadingHTTPServer):
    """In the place of a shard's process: its pages, behind a token; hung with a page `hung`."""

    daemon_threads = True

    def __init__(self, shard: int, token: str) -> None:
        metrics = Metrics(CollectorRegistry())
        metrics.build()
        metrics.ready(True)
        metrics.applied(10 + shard)
        self.pages = {
            "/livez": b'{"alive": true}',
            "/readyz": b'{"ready": true}',
            "/metrics": metrics.exposition(shard=str(shard)),
        }
        self.token, self.hangs = token, threading.Event()
        super().__init__(("127.0.0.1", 0), _Reply)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def end(self) -> None:
        """Answer nobody any more."""
        self.hangs.set()
        self.shutdown()
        self.server_close()


class _Reply(BaseHTTPRequestHandler):
    server: Process

    def do_GET(self) -> None:
        if "hung" in self.server.pages:
            self.server.hangs.wait(PATIENCE_SECONDS)
        admitted = self.headers["Authorization"] == f"Bearer {self.server.token}"
        self.send_response(200 if admitted or self.path != "/metrics" else 401)
        self.end_headers()
        self.wfile.write(self.server.pages[self.path] if admitted else b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def two_shards(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Process, Process, str]]:
    """Give the processes of two shards, and the address of the worker that holds them."""
    monkeypatch.setattr(readiness_pages, "_SECONDS", 1.0)
    monkeypatch.setattr(readiness_pages, "_LIVE_SECONDS", 1.0)
    token = "the-token-of-a-test"
    processes = Process(0, token), Process(1, token)
    pages = Pages(
        load(admin_port=0, admin_token=token),
        lambda: {shard: each.url for shard, each in enumerate(processes)},
    )
    try:
        yield *processes, pages.start()
    finally:
        pages.stop()
        for each in processes:
            each.end()


def numbers(url: str) -> dict[str, dict[str, float]]:
    """Return the metrics of a worker: name -> shard -> value of the first series."""
    request = urllib.request.Request(f"{url}/metrics")
    request.add_header("Authorization", "Bearer the-token-of-a-test")
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
        text = reply.read().decode()
    assert len(re.findall("^# HELP murmurec_ready ", text, re.M)) <= 1
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.type in ("gauge", "counter", "histogram")
        assert family.documentation
        for sample in family.samples:
            name = sample.name.removeprefix("murmurec_")
            found.setdefault(name, {}).setdefault(sample.labels["shard"], sample.value)
    return found


def test_a_worker_shows_the_metrics_of_its_shards_and_which_of_them_do_not_answer(
    two_shards: tuple[Process, Process, str],
) -> None:
    _, second, url = two_shards
    assert page(f"{url}/livez") == (200, {"alive": True})
    assert page(f"{url}/readyz")[0] == 200
    found = numbers(url)
    assert (found["ready"], found["shard_up"]) == ({"0": 1, "1": 1}, {"0": 1, "1": 1})
    assert found["events_total"] == {"0": 10, "1": 11}
    second.pages["hung"] = b""
    assert page(f"{url}/livez") == (503, {"alive": False, "shards": [1]})
    second.end()
    assert numbers(url)["ready"] == {"0": 1}
    assert page(f"{url}/livez") == (503, {"alive": False, "shards": [1]})
    assert page(f"{url}/readyz")[1]["waiting_for"] == "shard 1: its process does not answer"
    assert numbers(url)["shard_up"] == {"0": 1, "1": 0}


def test_a_process_that_fails_or_shows_another_page_is_not_alive_and_not_up(
    two_shards: tuple[Process, Process, str],
) -> None:
    first, second, url = two_shards
    first.pages |= {"/livez": b'{"alive": false}', "/metrics": b"<html>{}"}
    second.pages |= {"/livez": b"[]"}
    assert page(f"{url}/livez") == (503, {"alive": False, "shards": [0, 1]})
    assert numbers(url)["shard_up"] == {"0": 0, "1": 1}


def test_who_asks_a_worker_of_several_shards_for_its_state_is_told_where_it_is(
    two_shards: tuple[Process, Process, str],
) -> None:
    first, _second, url = two_shards
    with pytest.raises(UserError, match=f"each shard has a state of its own: ask {first.url}, "):
        ask(url, "the-token-of-a-test")

"""The processes of a worker of several shards: started, stopped, refused; and its pages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_app.agents.shards.children import Children
from stream_app.agents.shards.readiness_pages import JOINING, Pages
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
        "from stream_app.agents.shards.children import Children;"
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
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE_SECONDS)
    finally:
        one.stop()
        every.stop()

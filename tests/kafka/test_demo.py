"""The demo, whole, on a small generated world: everything is accounted for and nothing is left
running. A visitor of the page is part of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from stream_app.wire import EPOCH_SECONDS
from tests.conftest import Kafka
from tests.fixtures.gateways import body
from tests.fixtures.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.kafka

VISITOR = "ab" * 16


def answer(url: str, body: bytes | None = None) -> bytes:
    """Return what a page of the gateway holds; with a body, what it replies to it."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
        return bytes(reply.read())


def visit(page: str) -> None:
    """Look at the page while the demo runs, and send one report as its device does."""
    assert b"<html" in answer(page)
    # The page is there before its gateway has found Kafka: a device sends again.
    until(lambda: json.loads(answer(page + "catalogue"))["items"], "the catalogue")
    items = json.loads(answer(page + "catalogue"))["items"]
    assert all(item["title"] for item in items[:10])
    found = json.loads(answer(page + "mechanisms"))
    assert found["default"] == "rr:5:4"
    allowed = [mechanism["id"] for mechanism in found["allowed"]]
    assert sorted(allowed) == ["rr:5:1", "rr:5:1/2", "rr:5:2", "rr:5:4"]
    report = body(device=VISITOR, mechanism="rr:5:1", epoch=int(time.time()) // EPOCH_SECONDS)
    until(lambda: "offset" in json.loads(answer(page + "reports", report)), "a confirmed report")


def visit_again(page: str) -> None:
    """Ask for what the page shows while ratings are learned."""
    lists = f"{page}recommendations/{VISITOR}?k=5"
    until(lambda: json.loads(answer(lists))["user"] == VISITOR, "a list over HTTP")
    until(lambda: answer(page + "demo"), "the demo's size")
    facts = json.loads(answer(page + "demo"))
    assert (facts["mode"], facts["people"]) == ("local", 133)


def test_the_demo_runs_through_and_accounts_for_every_row(kafka: Kafka, tmp_path: Path) -> None:
    lines = []
    command = [sys.executable, "-m", "stream_app.cli", "demo", "--bootstrap", kafka.bootstrap]
    command += ["--ratings", "20000", "--seconds", "5", "--epsilon", "4"]
    with (tmp_path / "errors").open("wb") as errors:
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        for line in demo.stdout:
            lines.append(line)
            if line.startswith("the page: "):
                page = line.split()[2]
                visit(page)
            if line.startswith("started: "):
                visit_again(page)
        demo.wait(PATIENCE_SECONDS)
    finally:
        demo.kill()
    shown, stderr = "".join(lines), (tmp_path / "errors").read_text()
    assert demo.returncode == 0, shown + stderr
    assert "(while the demo runs; --keep keeps it up)" in shown
    with pytest.raises(OSError, match="refused"):
        answer(page)
    *_, learned, quality, recomputed = lines
    assert re.match(r"learned 1\d,\d{3} ratings of 133 people; .* \(rr:5:4, adjacency v", learned)
    found = re.match(r"lists: quality here (0\.\d{3}), popular (0\.\d{3}) \(nDCG", quality)
    assert found is not None
    assert float(found[1]) > float(found[2]) > 0
    assert re.fullmatch(r"state recomputed from the log in \d+\.\d s: equal\n", recomputed)
    assert "Traceback" not in stderr
    prefix = re.search(r"topics (murmurec-demo-[0-9a-f]+)", shown)
    assert prefix is not None
    left = subprocess.run(["pgrep", "-f", prefix[1]], capture_output=True, text=True, check=False)
    assert left.stdout == ""

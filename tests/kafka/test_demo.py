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

from stream_app.ranking.compact_side import decode_side
from stream_app.wire import EPOCH_SECONDS
from tests.conftest import Kafka
from tests.fixtures.gateways import body
from tests.fixtures.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.kafka

KEYS = {
    *("rows", "published", "refused", "applied", "duplicates", "rejected", "held_out"),
    *("ratings_per_second", "rmse_reported", "rmse_debiased", "rmse_true", "rmse_baseline"),
    *("kl_nats", "mechanism", "epsilon", "adjacency", "query_p50_ms", "query_p99_ms"),
    *("worker_rss_mb", "cut", "model_digest", "log_digest", "quality"),
}
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
    assert len(decode_side(answer(page + "demo/item-links"))) > 100
    until(lambda: json.loads(answer(page + "demo"))["example"], "an example before the end")
    facts = json.loads(answer(page + "demo"))
    assert facts["mode"] == "local"  # with its quality, on a slow machine
    assert 0 < len(facts["example"]["list"]) <= 10


def test_the_demo_runs_through_and_accounts_for_every_row(kafka: Kafka, tmp_path: Path) -> None:
    report, lines, seen_again = tmp_path / "report.json", [], False
    command = [sys.executable, "-m", "stream_app.cli", "demo", "--bootstrap", kafka.bootstrap]
    command += ["--ratings", "20000", "--seconds", "5", "--epsilon", "4", "--verbose"]
    command += ["--json", str(report)]
    with (tmp_path / "errors").open("wb") as errors:
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        for line in demo.stdout:
            lines.append(line)
            if line.startswith("the page: "):
                page = line.split()[2]
                visit(page)
            if line.startswith("published ") and not seen_again:
                visit_again(page)
                seen_again = True
        demo.wait(PATIENCE_SECONDS)
    finally:
        demo.kill()
    shown, stderr = "".join(lines), (tmp_path / "errors").read_text()
    assert demo.returncode == 0, shown + stderr
    assert seen_again
    assert shown.index("the page: ") < shown.index("published ")
    assert "(while the demo runs; --keep keeps it up)" in shown
    with pytest.raises(OSError, match="refused"):
        answer(page)
    found = json.loads(report.read_text())
    assert set(found) >= KEYS
    assert found["rows"] == found["published"] + found["refused"] > 15_000
    assert found["visitors"] == 1
    assert found["published"] + 1 == found["applied"] + found["held_out"]
    assert found["duplicates"] == found["rejected"] == 0
    assert found["held_out"] > 0
    assert found["model_digest"] == found["log_digest"]
    assert (found["mechanism"], found["epsilon"], found["adjacency"]) == ("rr:5:4", 4.0, "value")
    assert found["rmse_best_possible"] < found["rmse_true"] < 1.5
    assert abs(found["rmse_true"] - found["rmse_debiased"]) < 0.1
    assert found["query_p50_ms"] > 0
    assert found["query_unanswered"] <= 10  # of some hundreds; on a busy machine some come late
    story = "".join(lines[-11:])
    assert re.search(
        r"\nlists: quality here 0\.\d{3}, popular 0\.\d{3}, with privacy off 0\.\d{3} \(", story
    )
    assert story.startswith("learned ")
    assert story.count("a person who likes ") == story.count("  is recommended ") == 2
    assert re.search(r"here \d+%, popular \d+%, with privacy off \d+%", story)
    assert "a measurement, not a guarantee" in story
    assert re.fullmatch(r"state recomputed from the log in \d+\.\d s: equal\n", lines[-1])
    assert set(found["genres"]) == {"here", "popular", "privacy_off"}
    assert found["attacker"]["with"] > found["attacker"]["without"]
    assert found["quality"]["users"] > 100
    assert found["quality"]["served"] > found["quality"]["popular"] > 0
    assert "Traceback" not in stderr
    prefix = re.search(r"topics (murmurec-demo-[0-9a-f]+)", shown)
    assert prefix is not None
    left = subprocess.run(["pgrep", "-f", prefix[1]], capture_output=True, text=True, check=False)
    assert left.stdout == ""

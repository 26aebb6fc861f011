"""What leaves an edge, byte for byte: a relay before its broker keeps all of it."""

from __future__ import annotations

import json
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.broker.local import free_ports
from stream_app.cli import run
from tests.faults.brokers import Node
from tests.fixtures import forks
from tests.fixtures.relays import Relay, relaying
from tests.fixtures.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

PEOPLE, EACH = 60, 30
# All that the site gives is text that occurs nowhere else.
SECRETS = ("customer", "wishlisted", "bought", "SKU-", "Zephyrine", "Category-of", "label-of")
SITE = """
[plan]
epsilon = 80
for = "rr:5:2"
[reports]
every_seconds = 0.2
[feedback]
bought = 5
wishlisted = "0.4 like"
"""


def ask(url: str, path: str, rows: list[dict[str, Any]] | None = None) -> Any:
    body = None if rows is None else json.dumps(rows).encode()
    request = urllib.request.Request(url + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


def behind_a_relay(stack: ExitStack, folder: Path) -> tuple[Node, Relay]:
    """Start a broker with a second listener, whose address is that of a relay to it."""
    (inner,) = free_ports(1)
    relay = stack.enter_context(relaying(inner))
    node = Node(folder)
    listeners = node._overrides["listeners"] + f",RELAYED://127.0.0.1:{inner}"
    node._overrides["listeners"] = listeners
    node._overrides["advertised.listeners"] = listeners.replace(
        f"RELAYED://127.0.0.1:{inner}", f"RELAYED://{relay.url.removeprefix('http://')}"
    )
    node._overrides["listener.security.protocol.map"] += ",RELAYED:PLAINTEXT"
    stack.callback(node.kill)
    node.start()
    return node, relay


def test_only_reports_leave_and_the_audit_of_the_wire_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("site.toml").write_text(SITE)
    with ExitStack() as stack:
        node, relay = behind_a_relay(stack, tmp_path / "broker")
        assert run(["topics", "apply", "--bootstrap", node.bootstrap]) == 0
        (port,) = free_ports(1)
        url, words = f"http://127.0.0.1:{port}", ["edge", "--site", "site.toml"]
        words += ["--port", str(port), "--bootstrap", relay.url.removeprefix("http://")]
        words += ["-X", "compression.type=none"]  # so that the bytes can be searched
        process = forks.start(words, tmp_path / "log")
        stack.callback(process.wait, 60)
        stack.callback(process.terminate)
        until(lambda: ask(url, "/livez"), "the edge answers")
        rng = np.random.default_rng(5)
        catalogue = [
            {
                "item": f"SKU-{n}",
                "title": f"Zephyrine {n}",
                "categories": [f"Category-of-{n % 7}"],
                "labels": [f"label-of-{n % 5}"],
            }
            for n in range(200)
        ]
        assert ask(url, "/items", catalogue)["stored"] == 200
        events = [
            {"user": f"customer{person}@example.org", "item": f"SKU-{item}", "type": kind}
            for person in range(PEOPLE)
            for kind, items in (
                ("bought", rng.choice(100, EACH // 2, replace=False)),
                ("wishlisted", 100 + rng.choice(100, EACH // 2, replace=False)),
            )
            for item in items.tolist()
        ]
        assert ask(url, "/events", events)["accepted"] == PEOPLE * EACH
        for person in range(0, PEOPLE, 7):
            list_of = f"/recommendations/customer{person}@example.org?n=5"
            until(lambda path=list_of: ask(url, path)["items"], "a list")  # type: ignore[misc]

        def all_arrived() -> bool:
            found = ask(url, "/status")["reporting"]
            return bool(found["reports"] == PEOPLE * EACH and found["waiting"] == 0)

        until(all_arrived, "every report has arrived")
        mine = ask(url, "/users/customer3@example.org")["pseudonym"]
        sent = b"".join(map(bytes, relay.received))
        assert bytes.fromhex(mine) in sent or mine.encode() in sent  # it can be searched
        for secret in SECRETS:
            assert secret.encode() not in sent

        command = ["audit", "wire", "--bootstrap", node.bootstrap, "--allow", "rr:5:2", "--json"]
        capsys.readouterr()
        assert run([*command, "--budget", "80"]) == 0
        found = json.loads(capsys.readouterr().out)["findings"]
        assert {row["verdict"] for row in found} <= {"ok", "not testable here"}
        verdicts = {row["claim"]: row["verdict"] for row in found}
        assert verdicts["rr:5:2: reports follow the claimed channel"] == "ok"

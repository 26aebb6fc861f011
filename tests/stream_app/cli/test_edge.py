"""`murmurec edge`: options, files, accounts, and from nothing to a list with one command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import murmurec
from producers.edge.store.database import Database
from stream_app.broker.local import free_ports
from stream_app.cli import run
from tests.fixtures import forks
from tests.fixtures.waiting import until

ITEMS = "item_id,title,genres\n" + "".join(
    f"SKU-{n},Shoe {n},{'Trail' if n % 2 else 'Road'}\n" for n in range(60)
)
EVENTS = "user,item,type,time\n" + "".join(
    f"u{n},SKU-{(7 * n + 3 * k) % 60},purchase,{1_700_000_000 + k}\n"
    for n in range(40)
    for k in range(8)
)

WRONG = {
    "import without a file": ["import"],
    "a file without import": ["serve", "x.csv"],
    "backup without a file": ["backup"],
    "a mapping without a topic": ["--mapping", "x.toml"],
    "a topic without a mapping": ["--from-topic", "shop.events"],
    "two brokers": ["--standalone", "--bootstrap", "kafka:9092"],
    "standalone on a shared store": ["--standalone", "--store", "postgresql://host/shop"],
    "a password on the command line": ["--store", "postgresql://me:secret@host/shop"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_options_that_contradict_each_other_are_wrong_usage(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["edge", *words]) == 2
    assert "secret" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_short_token_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MURMUREC_EDGE_TOKEN", "short")
    assert run(["edge", "--bootstrap", "127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert "MURMUREC_EDGE_TOKEN" in err
    assert "short" not in err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "shop.example"])
def test_no_edge_is_open_to_a_network_without_a_token(host, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MURMUREC_EDGE_TOKEN", raising=False)
    assert run(["edge", "--host", host, "--bootstrap", "127.0.0.1:1"]) == 2
    err = capsys.readouterr().err
    assert f"--host {host}" in err
    assert "MURMUREC_EDGE_TOKEN" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["sqlalchemy", "psycopg"])
def test_a_missing_package_is_named_with_its_extra(package, tmp_path):
    program = (
        f"import sys; sys.modules[{package!r}] = None\nfrom stream_app.cli import main; main()"
    )
    words = ["edge", "accounts", "--store", "postgresql://127.0.0.1:1/shop"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stderr == f"murmurec: this needs {package}: pip install 'murmurec[edge]'\n"


def test_a_file_of_events_is_imported_once_and_its_accounts_are_listed(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_text(EVENTS)
    assert run(["edge", "import", "events.csv"]) == 0
    assert "320 events, 0 known before" in capsys.readouterr().out
    assert run(["edge", "import", "events.csv"]) == 0
    assert "0 events, 320 known before" in capsys.readouterr().out
    assert run(["edge", "accounts"]) == 0
    out = capsys.readouterr().out
    assert "40 accounts, the newest first" in out
    assert "8 events  nothing spent" in out
    assert run(["edge", "accounts", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 40


def test_a_wrong_store_or_site_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("site.toml").write_text("[plan]\nepsilon = -1\n")
    for words in (["--store", "mysql://x/y"], ["--site", "site.toml"], ["--site", "absent.toml"]):
        assert run(["edge", "accounts", *words]) == 1
        err = capsys.readouterr().err
        assert err.startswith("murmurec: ")
        assert err.count("\n") == 1


WRONG_ARGUMENTS = {
    "another database": (["--store", "mysql://x/y"], "--store mysql: is no store of an edge"),
    "no database": (["--store", "edge.db"], "give sqlite:///edge.db or postgresql://"),
    "no mapping": (["--from-topic", "t", "--mapping", "none.toml"], "none.toml: cannot be read"),
    "no scope": (["--scope", "none.csv"], "none.csv"),
    "no items": (["--items", "none.csv"], "none.csv: cannot be read"),
    "no events": (["--events", "none.csv"], "none.csv: cannot be read"),
    "no file to import": (["import", "none.csv"], "none.csv: cannot be read"),
    "nothing to back up": (["backup", "copy.db"], "cannot be opened"),
    "a mechanism without its scope": (["--site", "cell.toml"], "give it with --scope FILE"),
}


@pytest.mark.parametrize(("words", "sentence"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_a_wrong_argument_is_named_before_anything_is_made_or_reached(
    words, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MURMUREC_BOOTSTRAP_SERVERS", raising=False)
    Path("cell.toml").write_text('[reports]\nmechanism = "cell:5:1/2"\n')
    assert run(["edge", *words]) in (1, 2)
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cell.toml"]


def test_a_copy_of_a_store_in_use_is_taken_up(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_text(EVENTS)
    assert run(["edge", "import", "events.csv"]) == 0
    with Database("sqlite:///edge.db"):
        assert run(["edge", "backup", "copy.db"]) == 0
        assert run(["edge", "backup", "copy.db"]) == 1
    assert "copy.db: is there" in capsys.readouterr().err
    assert Path("copy.db").stat().st_mode & 0o777 == 0o600
    assert run(["edge", "accounts", "--store", "sqlite:///copy.db"]) == 0
    assert "40 accounts" in capsys.readouterr().out
    assert run(["edge", "backup", "copy.db", "--store", "postgresql://h/d"]) == 1
    assert "pg_dump" in capsys.readouterr().err


def ask(url, path, body=None, method=None):
    kind = {"Content-Type": "text/csv"} if path == "/items" else {}
    request = urllib.request.Request(url + path, body, kind, method=method)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


def children(pid):
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def alive(pid):
    """Whether a process runs: one that has ended may wait for its parent to look."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.kafka
@pytest.mark.thorough
def test_one_command_and_three_requests_give_a_list(tmp_path, monkeypatch):
    """From nothing to a list, and on to one that the recommender's table ranks; a second start goes
    on where the first ended. The seconds of each step are printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MURMUREC_BOOTSTRAP_SERVERS", raising=False)
    port = free_ports(1)[0]
    url, began = f"http://127.0.0.1:{port}", time.monotonic()

    def passed(step):
        print(f"{step}: {time.monotonic() - began:.1f} s")

    command = ["edge", "--standalone", "--port", str(port)]
    process = forks.start(command, tmp_path / "log")
    try:
        until(lambda: ask(url, "/livez"), "the edge answers")
        passed("live")
        assert ask(url, "/items", ITEMS.encode())["stored"] == 60
        rows = [line.split(",") for line in EVENTS.splitlines()[1:]]
        events = [{"user": row[0], "item": row[1], "type": "purchase"} for row in rows]
        assert ask(url, "/events", json.dumps(events).encode())["accepted"] == 320
        until(lambda: len(ask(url, "/recommendations/u1?n=5")["items"]) == 5, "a list")
        passed("first list")
        until(lambda: ask(url, "/readyz")["waiting_for"] is None, "a public table", seconds=300.0)
        trail = "/recommendations/u1?n=5&category=Trail"
        until(lambda: ask(url, trail)["ranked_by"] == "local", "its items have their places")
        listed = ask(url, trail)
        assert {"Trail"} == {word for each in listed["items"] for word in each["categories"]}
        passed("ranked by the public table")
        status = ask(url, "/status")["reporting"]
        assert (status["reports"], status["waiting"]) == (320, 0)
        receipt = ask(url, "/users/u2", method="DELETE")
        assert (receipt["events_removed"], receipt["upstream"]) == (8, "asked")
        with murmurec.Edge(url) as edge:
            assert edge.user("u3")["left_the_site"][0]["confirmed"] == 1
        done = forks.run(["edge", "accounts", "--port", str(port), "--json"])
        assert len(json.loads(done.stdout)) == 40, done.stderr
        beside = children(process.pid)
        assert len(beside) == 3  # broker, worker, gateway
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code == 0, (tmp_path / "log").read_text()
    passed("ended")
    until(lambda: not any(map(alive, beside)), "what it started has ended")

    process = forks.start(command, tmp_path / "log")
    try:
        until(lambda: ask(url, "/livez"), "the edge answers again")
        status = ask(url, "/status")
        assert status["accounts"] == 39
        until(lambda: ask(url, "/status")["reporting"]["reports"] >= 312, "its books are open")
        status = ask(url, "/status")["reporting"]
        assert status["connected"]
        assert status["reports"] in (312, 320)  # those of the deleted user may not be counted
        assert status["messages"] == 0  # nothing is reported twice
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, (tmp_path / "log").read_text()


@pytest.mark.kafka
@pytest.mark.thorough
@pytest.mark.nightly
def test_a_standalone_edge_that_is_ended_while_it_starts_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MURMUREC_BOOTSTRAP_SERVERS", raising=False)
    process = forks.start(["edge", "--standalone", "--port", "0"], tmp_path / "log")
    until(lambda: children(process.pid), "the broker is starting")
    beside = children(process.pid)
    process.terminate()
    process.wait(60)
    until(lambda: not any(map(alive, beside)), "what it started has ended")

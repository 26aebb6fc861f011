"""The server's commands: what they refuse, in one sentence, with exit code 1 and no traceback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_app.cli import run
from stream_app.cli.server.forget_device import left_behind
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import create, delete
from stream_app.operations.watching.workers import page
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.fixtures.http import OK, answering


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 1) -> str:
    """Run a command that must end with this exit code and return its sentence."""
    assert run(arguments) == code
    err = capsys.readouterr().err.strip()
    assert "Traceback" not in err
    sentence = err.splitlines()[-1]
    assert sentence.startswith("murmurec: ")
    return sentence


@pytest.mark.parametrize(
    "command",
    [
        ["worker"], ["state", "digest"], ["ask", "--device", "0" * 32], ["topics", "apply"],
        ["publish", "--user", "a", "--item", "1", "--rating", "4"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_without_a_broker_each_command_explains_how_to_name_or_start_one(
    command: list[str], environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(command, capsys) == (
        "murmurec: no Kafka is configured: give --bootstrap or set MURMUREC_BOOTSTRAP_SERVERS "
        "(murmurec broker start runs one here)"
    )


@pytest.mark.parametrize(
    "command", [["worker"], ["state", "digest"], ["ask", "--device", "0" * 32]]
)
def test_a_broker_that_is_not_there_is_named(
    command: list[str], environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in refused([*command, "--bootstrap", address], capsys)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-k", "0", "--device", "0" * 32], "1 to 100"),
        (["-k", "101", "--device", "0" * 32], "1 to 100"),
        (["--device", "xyz"], "32 hex"),
        (["--device", "0" * 32, "--timeout", "nan"], "--timeout nan: give 0.1 to 3600 seconds"),
        (["--device", "0" * 32, "--timeout", "inf"], "--timeout inf: give 0.1 to 3600 seconds"),
        (["--device", "0" * 32, "--timeout", "-1"], "--timeout -1: give 0.1 to 3600 seconds"),
        ([], "--user"),
        (["--user", "a", "--device", "0" * 32], "either"),
        (["--user", "a", "--journal", "nowhere.journal"], "does not exist"),
        (["--device", "0" * 32, "--http", "--url", "ftp://x"], "http://"),
        (["--device", "0" * 32, "--http", "--url", "http://127.0.0.1:1"], "murmurec gateway"),
        (["--device", "0" * 32, "--http", "--url", "http://127.0.0.1:abc"], "murmurec gateway"),
        (["--device", "0" * 32, "--http", "--url", "http://127.0.0.1:99999"], "murmurec gateway"),
        (["--device", "0" * 32, "--http", "--url", "http://["], "murmurec gateway"),
        (["--device", "0" * 32, "--http", "--url", "http://a b/"], "murmurec gateway"),
        (["--device", "0" * 32, "--http", "--url", "http://ü/"], "murmurec gateway"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    arguments: list[str],
    sentence: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    # A journal that does not exist and a gateway that does not answer are no wrong usage.
    code = 1 if sentence in ("does not exist", "murmurec gateway") else 2
    assert sentence in refused(["ask", *arguments], capsys, code)


PAGE = {
    "user": "0" * 32,
    "items": [{"item": 7, "title": "Seven", "score": 4.5}, {"item": "x", "title": "", "score": 4}],
    "method": "exact",
    "as_of": 3,
    "privacy": "none",
}
NO_PAGES = {
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "cut short": b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "not found": b"HTTP/1.0 404 Not Found\r\n\r\n",
    "text": OK + b"hello",
    "no text": OK + b"\xff\xfe",
    "a list": OK + b"[]",
    "an empty map": OK + b"{}",
    "rows that are none": OK + json.dumps(PAGE | {"items": [[]]}).encode(),
    "a score that is none": OK + json.dumps(PAGE | {"items": [{"item": 1, "score": "4"}]}).encode(),
    "no cut": OK + json.dumps(PAGE | {"as_of": None}).encode(),
    "deep": OK + b"[" * 100_000,
}


@pytest.mark.parametrize("reply", NO_PAGES.values(), ids=NO_PAGES)
def test_what_is_no_gateway_is_refused_in_one_sentence(
    reply: bytes, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(reply) as url:
        sentence = refused(["ask", "--device", "0" * 32, "--http", "--url", url], capsys)
    assert sentence.startswith(f"murmurec: no gateway answered at {url}")


def test_the_answer_of_a_gateway_is_shown(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(OK + json.dumps(PAGE).encode()) as url:
        question = ["ask", "--device", "0" * 32, "--http", "--url", url]
        assert run(question) == 0
        shown = capsys.readouterr().out.splitlines()
        assert run([*question, "--json"]) == 0
    assert shown[:2] == ["   1  4.50  7  Seven", "   2  4.00  x"]
    answer = json.loads(capsys.readouterr().out)
    assert answer.pop("seconds") > 0
    assert answer == PAGE


@pytest.mark.parametrize(
    ("allow", "sentence"),
    [
        ("rr:5:100", "64"),
        ("rr:5:0", "epsilon"),
        ("magic:5:1", "magic"),
        ("rr", "family:levels:epsilon"),
    ],
)
def test_a_mechanism_that_is_none_is_refused(
    allow: str,
    sentence: str,
    kafka: Kafka,
    topics: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    assert sentence in refused(["state", "digest", *where, "--allow", allow], capsys)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"cleanup.policy": "compact"}, "compact"),
        ({"retention.ms": "1000000"}, "retention.ms"),
        ({"retention.bytes": "1000000"}, "retention.bytes"),
        ({}, "partitions"),
        (None, "topics apply"),
    ],
    ids=["compacted", "forgets by time", "forgets by size", "wrong partitions", "absent"],
)
def test_a_worker_refuses_topics_that_lose_records(
    config: dict[str, str] | None,
    sentence: str,
    kafka: Kafka,
    prefix: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    from dataclasses import replace

    admin = clients.admin(kafka.connection)
    ratings, *others = Topics(prefix).table(3 if config == {} else 4)
    if config is not None:
        others.append(replace(ratings, config={**ratings.config, **config}))
    create(admin, others)
    try:
        where = ["--bootstrap", kafka.bootstrap, "--prefix", prefix]
        assert sentence in refused(["worker", *where], capsys)
        if sentence.startswith("retention"):
            return  # how long ratings are kept is the server's to know, not a device's
        rating = ["--user", "ann", "--item", "1", "--rating", "4", "--journal", str(tmp_path / "s")]
        assert sentence in refused(["publish", *rating, *where], capsys)
        assert not (tmp_path / "s").exists()
        assert run(["topics", "apply", "--dry-run", *where]) == int(sentence == "partitions")
    finally:
        delete(admin, [topic.name for topic in others])


@pytest.mark.parametrize("seconds", ["nan", "inf", "0.5", "-1"])
def test_a_demo_without_a_length_is_refused(
    seconds: str, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = f"--seconds {seconds}: give 1 to 86400"
    assert sentence in refused(["demo", "--seconds", seconds], capsys, 2)


def test_a_demo_of_more_ratings_than_fit_is_refused(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", "--ratings", "9" * 23]) == 2
    assert "--ratings" in capsys.readouterr().err


def test_a_full_disk_is_one_sentence() -> None:
    command = [sys.executable, "-m", "stream_app.cli", "config", "show", "--json"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert b"nothing more can be written" in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_token_goes_to_the_worker_and_not_where_its_reply_redirects_to() -> None:
    first: list[dict[str, str]] = []
    second: list[dict[str, str]] = []
    with answering(OK + b"{}", second) as elsewhere:
        redirect = f"HTTP/1.0 302 Found\r\nLocation: {elsewhere}/x\r\n\r\n".encode()
        with answering(redirect, first) as url:
            assert page(url, "/state", "a token", 10) == b"{}"
    assert first[0]["Authorization"] == "Bearer a token"
    assert "Authorization" not in second[0]


@pytest.mark.parametrize("rebuild", [False, True])
def test_forgetting_says_what_stays_of_campaigns_where_there_are_any(rebuild: bool) -> None:
    with_campaigns, without = left_behind(rebuild, True), left_behind(rebuild, False)
    assert with_campaigns.startswith(without)
    assert "Sums that were released" in with_campaigns
    assert "Campaigns" not in without

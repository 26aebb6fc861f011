"""The server's commands: what they refuse, in one sentence, with exit code 1 and no traceback."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_app import clients
from stream_app.cli import run
from stream_app.topics import create, delete
from stream_app.wire import Topics
from tests.conftest import Kafka


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must be refused and return its sentence."""
    assert run(arguments) == 1
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said
    sentence = said.splitlines()[-1]
    assert sentence.startswith("murmurec: ")
    return sentence


@pytest.mark.parametrize(
    "command", [["worker"], ["state", "digest"], ["ask", "--device", "0" * 32]]
)
def test_without_a_broker_each_command_says_how_to_name_one(
    command: list[str], environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--bootstrap" in refused(command, capsys)


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
        ([], "--user"),
        (["--user", "a", "--device", "0" * 32], "either"),
        (["--user", "a", "--store", "nowhere.sqlite"], "does not exist"),
        (["--device", "0" * 32, "--http", "--url", "ftp://x"], "http://"),
        (["--device", "0" * 32, "--http", "--url", "http://127.0.0.1:1"], "worker"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    arguments: list[str],
    sentence: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sentence in refused(["ask", *arguments], capsys)


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
) -> None:
    from dataclasses import replace

    admin = clients.admin(kafka.bootstrap)
    ratings, *others = Topics(prefix).table(3 if config == {} else 4)
    if config is not None:
        others.append(replace(ratings, config={**ratings.config, **config}))
    create(admin, others)
    try:
        where = ["--bootstrap", kafka.bootstrap, "--prefix", prefix]
        assert sentence in refused(["worker", *where], capsys)
    finally:
        delete(admin, [topic.name for topic in others])


def test_a_demo_on_a_file_that_is_not_ratings_is_refused(
    environment: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "letter.csv"
    file.write_text("Dear Sir or Madam\n")
    assert "letter.csv" in refused(["demo", "--data", str(file)], capsys)
    assert "nowhere" in refused(["demo", "--data", "nowhere.npz"], capsys)

"""The device program as a process on a real broker: it reports at its moment, and can be ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from producers.daemon.schedule import moment
from producers.identities import Identities
from producers.journal import Journal, PersonBudget, read_journal
from stream_app import wire
from stream_app.cli import run
from tests.conftest import Kafka
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.test_devices import everything

pytestmark = pytest.mark.kafka
DAY = float(wire.EPOCH_SECONDS)
CELL = ["--mechanism", "cell", "--epsilon", "2", "--scope", "scope.txt", "--producer-per-account"]


@pytest.fixture
def ratings_topic(environment: Callable[..., None], kafka: Kafka, topics: str) -> str:
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL="device.journal",
        MURMUREC_MECHANISMS="rr:5:2,cell:5:2",
    )
    return wire.Topics(topics).ratings


def user_whose_moment_is_near(seconds: float) -> tuple[str, bytes, float]:
    """Enrol the first user who reports within 4 seconds after so many seconds from now."""
    with Journal.open("device.journal") as journal:
        now = time.time()
        epoch = int((now + seconds + 4) // DAY)
        earliest = max(now + seconds, epoch * DAY)
        named = Identities(journal.key)
        for number in count():
            device = named.pseudonym(f"user {number}")
            if earliest <= (at := moment(device, epoch, DAY).at) < earliest + 4:
                journal.enrol([device], PersonBudget(), epoch - 1)
                return f"user {number}", device, at
    raise AssertionError


def user_who_reports_soon() -> tuple[str, bytes, float]:
    """Enrol a user whose moment comes when the program has certainly started: it starts in a few
    times what its help takes, on this machine and beside what else runs."""
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "stream_app.cli", "--help"], check=True, stdout=subprocess.DEVNULL
    )
    return user_whose_moment_is_near(5 + 8 * (time.monotonic() - began))


@contextmanager
def program(*options: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-m", "stream_app.cli", "device", "run", *options],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait(PATIENCE_SECONDS)


def test_an_account_without_a_rating_reports_at_its_moment_and_the_program_ends_when_asked(
    ratings_topic: str,
    kafka: Kafka,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("scope.txt").write_text("5\n6\n7\n")
    user, device, at = user_who_reports_soon()
    older = Path("device.journal").read_bytes()
    with program("--user", user, "--watch", "ratings.csv", *CELL) as running:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (events := everything(kafka, ratings_topic)):
            assert running.poll() is None, running.communicate()[1]
            assert time.monotonic() < deadline, f"nothing was sent; the moment is {at}"
        assert at <= time.time()
        assert run(["device", "run", "--user", user, *CELL]) == 1
        assert "another process is using it" in capsys.readouterr().err
        running.send_signal(signal.SIGTERM)
        _, notices = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, notices
    assert "public     the scope of 3 items" in notices
    assert "stopped after 1 message; 0 messages wait in the journal" in notices
    ((event,),) = (events,)
    assert (event.device, sorted(event.items.tolist())) == (device, [5, 6, 7])
    assert read_journal("device.journal").pending == 0

    Path("device.journal").write_bytes(older)  # a backup that was put back on another machine
    monkeypatch.setenv("XDG_STATE_HOME", "other-machine")
    with program("--user", user, *CELL) as running:
        _, notices = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 1
    assert "holds number 1, so this is an older copy" in notices


def test_a_catalogue_is_the_scope_that_was_taken_first_and_another_only_by_its_digest(
    ratings_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user, _, _ = user_whose_moment_is_near(3600)
    options = ["--user", user, "--mechanism", "cell", "--epsilon", "2", "--trust-catalogue"]

    def started(*more: str, until: str) -> str:
        """Return the notice that holds `until`, after the program was asked to end."""
        with program(*options, *more) as running:
            assert running.stderr is not None
            found = [line for line in running.stderr if noticed(line, until, running)]
        assert running.returncode == 0
        (line,) = found
        return line

    def pinned() -> str:
        return read_journal("device.journal").book.scope.hex()

    assert run(["items", "put", "1", "--title", "A"]) == 0
    started(until="the server's catalogue of 1 item, SHA-256 ")
    first = pinned()
    assert run(["items", "put", "2", "--title", "B"]) == 0
    changed = started(until="the server's catalogue changed since this device took 1 item of it")
    assert pinned() == first
    digest = changed.rpartition("--accept-scope ")[2].strip()
    started("--accept-scope", digest, until="the server's catalogue of 2 items, SHA-256 ")
    assert pinned() == digest != first

    Path("device.journal.catalogue").unlink()
    assert run(["items", "put", "1", "--withdraw"]) == 0
    capsys.readouterr()
    with program(*options) as running:
        _, notices = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 1
    assert "who changes the scope chooses on what the budget is spent" in notices


def noticed(line: str, part: str, running: subprocess.Popen[str]) -> bool:
    """Return whether a line holds `part`; the program is asked to end then."""
    if part in line:
        running.send_signal(signal.SIGTERM)
    return part in line

"""Progress of data sets, and one owner: a journal belongs to one thread of one process."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from producers.journal import (
    FinishedBefore,
    Journal,
)
from stream_app.errors import UserError
from stream_app.privacy.randomness import SeededSource
from tests.producers.journals import ANN, ask, at, release


def moved(replay: Any, reserved: int) -> Any:
    return type(replay)(
        replay.digest, replay.mechanism, reserved, replay.total, replay.begun, replay.republish
    )


def test_progress_is_durable_with_the_events_it_belongs_to(path: Path) -> None:
    with at(path) as journal:
        replay = journal.begin(b"digest", "rr:5:2", 100)
        assert (replay.reserved, replay.begun) == (0, 1)
        journal.commit([ask(ANN, 1)], moved(replay, 40))
        with pytest.raises(UserError):
            journal.commit([ask(ANN, 1)], moved(replay, 60))
        for reserved in (40, 10):
            with pytest.raises(RuntimeError, match="recorded already"):
                journal.commit([ask(ANN, 2)], moved(replay, reserved))
    with at(path) as journal:
        replay = journal.begin(b"digest", "rr:5:2", 100)
        assert (replay.reserved, replay.begun) == (40, 1)
        with pytest.raises(UserError, match=r"begun under rr:5:2 .40 of 100 rows., not rr:5:1"):
            journal.begin(b"digest", "rr:5:1", 100)
        journal.commit([], moved(replay, 100))
        journal.compact()
    with at(path) as journal:
        for mechanism in ("rr:5:2", "rr:5:1"):
            with pytest.raises(FinishedBefore, match=r"100 rows under rr:5:2.*--republish"):
                journal.begin(b"digest", mechanism, 100)
        restarted = journal.begin(b"digest", "rr:5:2", 100, republish=True)
        assert (restarted.reserved, restarted.begun, restarted.republish) == (0, 2, True)
        journal.commit([], moved(restarted, 20))
        assert journal.begin(b"digest", "rr:5:2", 100) == moved(restarted, 20)
        with pytest.raises(RuntimeError, match="recorded already"):
            journal.commit([], moved(replay, 60))


def test_a_closed_journal_says_so(path: Path) -> None:
    journal = at(path)
    journal.close()
    for use in (lambda: release(journal, ANN, 1), lambda: journal.acknowledge(1), journal.compact):
        with pytest.raises(RuntimeError, match="it is closed; open it again"):
            use()


def test_a_journal_belongs_to_one_thread(journal: Journal) -> None:
    before, errors = journal.path.read_bytes(), []

    def elsewhere() -> None:
        for use in (lambda: release(journal, ANN, 1), journal.compact, journal.close):
            try:
                use()
            except RuntimeError as error:
                errors.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(10)
    assert len(errors) == 3
    assert all("another thread" in sentence for sentence in errors)
    assert journal.path.read_bytes() == before
    assert release(journal, ANN, 1)[0].seq == 1


def test_a_journal_does_not_cross_a_fork(path: Path) -> None:
    program = f"""
import os
from pathlib import Path
from tests.producers.journals import ANN, at, release
journal = at(Path({str(path)!r}))
child = os.fork()
if child == 0:
    try:
        release(journal, ANN, 1)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(release(journal, ANN, 1)[0].seq)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "before a fork" in out.stdout
    assert out.stdout.splitlines()[-1] == "1"


def test_noise_that_can_be_replayed_is_refused_and_never_hidden(path: Path) -> None:
    with pytest.raises(ValueError, match="SystemSource"):
        at(path, source=SeededSource(1))
    assert not path.exists()
    with at(path, source=SeededSource(1), allow_tests=True) as journal:
        assert journal.unsafe
    with at(path) as journal:
        assert not journal.unsafe

"""The journal: durable, private, one owner; memo and budget hold; the same bytes every time."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.device import requests as device
from producers.journal import (
    BudgetExhausted,
    FinishedBefore,
    Journal,
    Limits,
    Message,
    OutboxFull,
    Request,
    Spent,
    read_journal,
    read_key,
)
from producers.journal.disk import Disk
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.accounting import PrivacyLoss
from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from tests.producers.conftest import TOPIC

ANN, BOB = b"a" * 16, b"b" * 16
RR, HALF, OPEN, CELL = (
    registry.parse(id) for id in ("rr:5:2", "rr:5:1/2", "none:5:inf", "cell:5:2")
)


def ask(who: bytes, *items: int, mechanism: Mechanism = RR, **changed: Any) -> Request:
    given = {"epoch": changed.pop("epoch", 20_000), "republish": changed.pop("republish", False)}
    line = device.ReportSettings(changed.pop("topic", TOPIC), mechanism)
    levels = np.zeros(len(items), np.uint8)
    return device.request(levels, list(items), line, device=who, **given, **changed)


def release(journal: Journal, who: bytes, *items: int, **changed: Any) -> list[Message]:
    return journal.release(ask(who, *items, **changed))


def at(path: Path, **changed: Any) -> Journal:
    return Journal.open(path, **changed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "device.journal"


# --- the file -------------------------------------------------------------------------------------


def test_the_key_is_made_once_and_shown_to_nobody(tmp_path: Path) -> None:
    path = tmp_path / "here" / "device.journal"
    with at(path) as journal:
        key = journal.key
        assert len(key) == 32
        assert key.hex() not in repr(journal)
        assert repr(key) not in repr(journal)
    with at(path) as journal:
        assert journal.key == key
    assert read_key(path) == key
    assert repr(key) not in repr(read_journal(path))
    with at(tmp_path / "other") as other:
        assert other.key != key


def test_nobody_else_may_open_what_holds_the_key(path: Path) -> None:
    old = os.umask(0)
    try:
        with at(path) as journal:
            release(journal, ANN, 1)
            journal.compact()
            for file in path.parent.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    finally:
        os.umask(old)
    path.chmod(0o644)
    with pytest.raises(UserError, match=r"others can open it .mode 644.*chmod 600"):
        at(path)


def test_a_second_process_gets_one_sentence_and_may_look(journal: Journal) -> None:
    release(journal, ANN, 1)
    program = f"""
from producers.journal import Journal, read_journal, read_key
from stream_app.errors import UserError
print(read_key({str(journal.path)!r}).hex(), read_journal({str(journal.path)!r}).pending)
try:
    Journal.open({str(journal.path)!r})
except UserError as refusal:
    print(refusal)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    key, sentence = out.stdout.splitlines()
    assert key == f"{journal.key.hex()} 1"
    assert "another process is using it" in sentence
    assert "--journal" in sentence
    journal.compact()  # another file has the name now; its lock is held as well
    with pytest.raises(UserError, match="another process is using it"):
        at(journal.path)
    assert release(journal, ANN, 2)[0].seq == 2


def test_the_journal_is_free_again_when_its_process_is_gone(journal: Journal) -> None:
    journal.close()
    journal.close()
    with at(journal.path) as again:
        assert again.key == journal.key


def test_what_is_no_journal_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(5000))
    (tmp_path / "sqlite").write_bytes(b"SQLite format 3\0" + bytes(4096))
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for name, said in {
        ".": "is a directory", "noise": "is not a device journal",
        "sqlite": "is a device store of an earlier murmurec, which cannot be read",
        "noise/below": "cannot be used", "/dev/full": "is not a plain file",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=said) as caught:
            at(tmp_path / name)
        assert str(caught.value).startswith("device journal ")
        assert "--journal" in str(caught.value)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(UserError, match="there is none"):
        read_key(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_damage_is_refused_with_its_position_and_a_torn_end_is_cut(path: Path) -> None:
    with at(path) as journal:
        release(journal, ANN, 1)
        place = path.stat().st_size
        release(journal, ANN, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with at(path) as journal:
        assert [message.seq for message in journal.pending()] == [1, 2]
    damaged = bytearray(whole)
    damaged[place + 30] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(
        UserError, match=rf"damaged at byte {place} of {len(whole)}; nothing is sent"
    ):
        at(path)
    assert path.read_bytes() == damaged
    path.write_bytes(whole[: place + 30])
    with at(path) as journal:
        assert [message.seq for message in journal.pending()] == [1]
        assert release(journal, ANN, 2)[0].seq == 2
    assert path.stat().st_size > place


def test_damage_of_the_last_record_is_told_from_its_first_delivery_report_on(path: Path) -> None:
    journal = at(path)
    release(journal, ANN, 1)
    place = path.stat().st_size
    (message,) = release(journal, ANN, 2)
    assert path.stat().st_size > place
    journal.acknowledge(message.number)  # and then the process is gone: nothing was closed
    damaged = bytearray(path.read_bytes())
    damaged[place + 30] ^= 4
    copy = path.with_name("copy")
    copy.touch(0o600)
    copy.write_bytes(damaged)
    with pytest.raises(UserError, match=f"damaged at byte {place}"):
        at(copy)
    size = path.stat().st_size
    for given in journal.commit([ask(ANN, item) for item in range(3, 30)]):
        journal.acknowledge(given.number)
    more = path.stat().st_size - size
    assert more < 27 * 250  # one note for a record, not one for each message
    journal.close()


def test_a_note_for_which_the_disk_has_no_room_waits(
    failing: tuple[Journal, Failing],
) -> None:
    journal, disk = failing
    (message,) = journal.pending()
    before = journal.path.read_bytes()
    disk.call, disk.number = "append", 28
    journal.acknowledge(message.number)
    disk.call = ""
    assert journal.path.read_bytes() == before
    release(journal, ANN, 2)
    journal.close()
    with at(journal.path) as again:
        assert [message.seq for message in again.pending()] == [2]


class Recording(Disk):
    """A disk that remembers which folders were synced, and that no journal was there yet."""

    def __init__(self) -> None:
        self.synced: list[Path] = []

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self.synced.append(path.parent)


def test_new_folders_outlive_a_power_cut_before_there_is_a_key_in_them(tmp_path: Path) -> None:
    (tmp_path / "by a life that was killed").mkdir()
    path = tmp_path / "by a life that was killed" / "b" / "c" / "device.journal"
    disk = Recording()
    os.close(disk.open(path))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    synced = {folder for folder in disk.synced if tmp_path in (folder, *folder.parents)}
    assert synced == {tmp_path, path.parents[2], path.parents[1]}
    disk.synced.clear()
    os.close(disk.open(path))
    assert disk.synced == []


def test_a_record_is_on_the_disk_before_it_is_given_out(path: Path) -> None:
    program = f"""
import os, signal
from tests.producers.test_journal import ANN, at, release
from pathlib import Path
journal = at(Path({str(path)!r}))
(message,) = release(journal, ANN, 7)
print(message.value.hex(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -9, ended.stderr
    with at(path) as journal:
        (message,) = journal.pending()
        assert message.value.hex() == ended.stdout.strip()
        with pytest.raises(UserError, match="published already"):
            release(journal, ANN, 7)


# --- memo and budget ------------------------------------------------------------------------------


def test_an_item_is_reported_once_unless_again_and_that_is_a_new_debit(journal: Journal) -> None:
    assert release(journal, ANN, 7)[0].seq == 1
    for mechanism in (RR, HALF, CELL):  # the memo is of the rating, whatever reports on it
        with pytest.raises(
            UserError, match=r"rating of this item was published already.*--republish"
        ):
            release(journal, ANN, 7, mechanism=mechanism)
    assert release(journal, BOB, 7)[0].seq == 1
    assert journal.spent(ANN)["value"] == Spent("value", 2 * 10**9, 0, 1)
    assert release(journal, ANN, 7, republish=True)[0].seq == 2
    assert journal.spent(ANN)["value"].spend == PrivacyLoss(
        Fraction(4), Fraction(0), Adjacency.VALUE
    )
    keys = np.array([6, 7, 2**64 - 1], np.uint64)
    assert journal.unreported(ANN, keys).tolist() == [True, False, True]


def test_a_limit_may_allow_more_reports_of_an_item(path: Path) -> None:
    with at(path, limits=Limits(reports=2)) as journal:
        release(journal, ANN, 7)
        release(journal, ANN, 7)
        with pytest.raises(UserError, match="published already"):
            release(journal, ANN, 7)
    with at(path, limits=Limits(reports=3)) as journal:
        release(journal, ANN, 7)


def test_a_budget_holds_to_the_last_nano_and_over_reopening(path: Path) -> None:
    limits = Limits(Fraction(5))
    with at(path, limits=limits) as journal:
        release(journal, ANN, 1, 2)
        assert journal.room(ANN, RR, 20_000) == 0
        assert journal.room(ANN, HALF, 20_000) == 2
        with pytest.raises(BudgetExhausted, match=r"budget is 5 in all.*has spent 4.*costs 2"):
            release(journal, ANN, 3)
        release(journal, BOB, 3)
    with at(path, limits=limits) as journal:
        release(journal, ANN, 3, 4, mechanism=HALF)
        assert journal.room(ANN, HALF, 20_000) == 0
        with pytest.raises(BudgetExhausted):
            release(journal, ANN, 5, mechanism=HALF)
    with at(path) as journal:
        assert journal.room(ANN, RR, 20_000) is None
        release(journal, ANN, 5)


def test_an_event_is_paid_for_as_a_whole_or_not_at_all(path: Path) -> None:
    with at(path, limits=Limits(Fraction(5))) as journal:
        before = path.read_bytes()
        with pytest.raises(BudgetExhausted):
            release(journal, ANN, 1, 2, 3)
        with pytest.raises(BudgetExhausted):  # gone in the middle of a batch
            journal.commit([ask(ANN, 1), ask(BOB, 1), ask(ANN, 2), ask(ANN, 3)])
        with pytest.raises(UserError, match="published already"):  # by the same batch
            journal.commit([ask(ANN, 1), ask(ANN, 1)])
        assert path.read_bytes() == before
        assert journal.spent(ANN) == journal.spent(BOB) == {}
        assert journal.pending() == []
        assert [m.seq for m in journal.commit([ask(ANN, 1), ask(BOB, 1), ask(ANN, 2)])] == [1, 1, 2]


@pytest.mark.parametrize(("first", "second"), [(RR, CELL), (CELL, RR)], ids=["value", "cell"])
def test_one_limit_holds_for_values_and_cells_together(
    first: Mechanism, second: Mechanism, path: Path
) -> None:
    """A cell's epsilon is a value's, too: a rating told of by both is told apart by the sum."""
    with at(path, limits=Limits(Fraction(6))) as journal:
        release(journal, ANN, 1, 2, mechanism=first)
        for mechanism in (first, second):
            assert journal.room(ANN, mechanism, 20_000) == 1
            with pytest.raises(BudgetExhausted, match=r"spent 4 .*values, cells and profiles"):
                release(journal, ANN, 2, 3, mechanism=mechanism, republish=True)
        with pytest.raises(BudgetExhausted):  # also within one record
            journal.commit([ask(ANN, 3, mechanism=first), ask(ANN, 4, mechanism=second)])
        release(journal, ANN, 2, mechanism=second, republish=True)
        assert journal.room(ANN, first, 20_000) == journal.room(ANN, second, 20_000) == 0
        assert {kind: spent.nano for kind, spent in journal.spent(ANN).items()} == {
            str(first.adjacency): 4 * 10**9, str(second.adjacency): 2 * 10**9,
        }  # fmt: skip


def test_a_clock_set_far_forward_is_refused_unless_it_is_right(path: Path) -> None:
    with at(path) as journal:
        assert journal.epoch(20_000) == 20_000  # a new journal has nothing to compare with
        release(journal, ANN, 1, epoch=20_000)
        assert journal.epoch(20_366) == 20_366
        before = path.read_bytes()
        said = r"says day 20367, 367 days after the last release.*20000.*--trust-clock"
        with pytest.raises(UserError, match=said):
            journal.epoch(20_367)
        with pytest.raises(UserError, match=said):  # whoever made the request
            release(journal, ANN, 2, epoch=20_367)
        assert path.read_bytes() == before
    with at(path, limits=Limits(trust_clock=True)) as journal:
        release(journal, ANN, 2, epoch=journal.epoch(30_000))
    with at(path) as journal:
        assert journal.epoch(20_001) == 30_000


def test_what_protects_nothing_fits_no_budget(path: Path) -> None:
    with at(path, limits=Limits(Fraction(4))) as journal:
        assert journal.room(ANN, OPEN, 20_000) == 0
        with pytest.raises(BudgetExhausted, match="none:5:inf protects nothing"):
            release(journal, ANN, 1, mechanism=OPEN)
    with at(path) as journal:
        release(journal, ANN, 1, mechanism=OPEN)
        assert journal.spent(ANN) == {"nothing": Spent("nothing", 0, 0, 1)}


def test_a_window_forgets_what_is_old_and_a_clock_set_back_opens_nothing(path: Path) -> None:
    with at(path, limits=Limits(Fraction(4), window=3)) as journal:
        release(journal, ANN, 1, epoch=100)
        release(journal, ANN, 2, epoch=101)
        for epoch in (102, 100, 0):
            assert journal.epoch(epoch) == max(epoch, 101 if epoch != 102 else 102)
            with pytest.raises(BudgetExhausted, match="in any 3 epochs"):
                release(journal, ANN, 3, epoch=epoch)
        release(journal, ANN, 3, epoch=103)  # epoch 100 has left the window
        with pytest.raises(BudgetExhausted):
            release(journal, ANN, 4, epoch=103)
        with pytest.raises(BudgetExhausted):
            release(journal, ANN, 4, epoch=50)
    with at(path, limits=Limits(Fraction(4), window=3)) as journal:
        assert journal.epoch(20) == 103
        release(journal, BOB, 1, 2, epoch=60)  # stored as of epoch 103
        assert journal.epoch(20) == 103
        assert journal.room(BOB, RR, 60) == journal.room(BOB, RR, 105) == 0
        assert journal.room(BOB, RR, 106) == 2
        release(journal, ANN, 4, epoch=104)
    with at(path, limits=Limits(Fraction(4))) as journal, pytest.raises(BudgetExhausted):
        release(journal, ANN, 5, epoch=400)


# --- what is given out ----------------------------------------------------------------------------


def test_what_was_not_acknowledged_is_given_out_again_the_same_bytes(path: Path) -> None:
    with at(path) as journal:
        given = release(journal, ANN, 1, 2, 3) + release(journal, BOB, 1) + release(journal, ANN, 4)
        journal.acknowledge(given[1].number)
        journal.acknowledge(given[1].number)
        journal.acknowledge(10**6)
    for _ in range(2):
        with at(path) as journal:
            assert journal.pending() == [given[0], given[2]]
            assert journal.waiting_bytes == sum(len(one.value) for one in (given[0], given[2]))
    with at(path) as journal:
        journal.compact()
        assert journal.pending() == [given[0], given[2]]
        journal.acknowledge(given[0].number)
    with at(path) as journal:
        assert journal.pending() == [given[2]]
        assert release(journal, ANN, 9)[0].number > given[2].number


def test_numbers_rise_for_each_device_and_topic(journal: Journal) -> None:
    assert [release(journal, ANN, item)[0].seq for item in (1, 2)] == [1, 2]
    assert release(journal, BOB, 1)[0].seq == 1
    assert release(journal, ANN, 3, topic="other.ratings.v1")[0].seq == 1
    assert [m.seq for m in release(journal, ANN, 4, 5, 6, ratings_per_message=1)] == [3, 4, 5]
    assert release(journal, ANN, 7)[0].key == ANN.hex().encode()


def test_a_compacted_journal_knows_the_same(path: Path) -> None:
    with at(path) as journal:
        for item in range(300):
            (message,) = release(journal, ANN, item, epoch=20_000 + item // 100)
            journal.acknowledge(message.number)
        release(journal, BOB, 5, mechanism=CELL)
        spent, size = [journal.spent(who) for who in (ANN, BOB)], path.stat().st_size
        journal.compact()
        assert path.stat().st_size < size / 3
        release(journal, BOB, 6)
    with at(path, limits=Limits(Fraction(600), window=2)) as journal:
        assert [journal.spent(ANN), journal.spent(BOB)["cell"]] == [spent[0], spent[1]["cell"]]
        assert not journal.unreported(ANN, np.arange(300, dtype=np.uint64)).any()
        assert len(journal.pending()) == 2
        assert release(journal, ANN, 1000)[0].seq == 301
        assert journal.room(ANN, RR, 20_002) == 99  # epochs 20001 and 20002: 201 reports so far
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


def test_a_journal_is_compacted_when_it_has_grown(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("producers.journal.journal._COMPACTED_FROM", 20_000)
    sizes = []
    with at(path) as journal:
        for item in range(600):
            (message,) = release(journal, ANN, item)
            journal.acknowledge(message.number)
            sizes.append(path.stat().st_size)
    assert max(sizes) < 2 * 20_000
    assert sum(later < earlier for earlier, later in pairwise(sizes)) > 3
    with at(path) as journal:
        assert not journal.unreported(ANN, np.arange(600, dtype=np.uint64)).any()


def test_a_full_outbox_is_an_error_and_nothing_is_lost(path: Path) -> None:
    with at(path, outbox_bytes=1000) as journal:
        given = []
        while journal.waiting_bytes < 920:
            given += release(journal, ANN, len(given))
        before = path.read_bytes()
        with pytest.raises(OutboxFull, match="at most 1000 may: wait for delivery reports"):
            release(journal, ANN, 500)
        assert path.read_bytes() == before
        assert journal.pending() == given
        journal.acknowledge(given[0].number)
        release(journal, ANN, 500)


def test_a_public_scope_that_all_devices_share_is_kept_once(path: Path) -> None:
    scope = np.arange(5000, dtype=np.uint64)
    line = device.ReportSettings(TOPIC, CELL)

    def asked(place: int) -> Request:
        return device.build_request(
            device.ReportColumns(np.full(5000, 5, np.uint8), scope, None, scope), line,
            device=bytes([place] * 16),
            epoch=1, republish=False, parts=device.message_slices(5000, 4096),
        )  # fmt: skip

    with at(path) as journal:
        for message in journal.commit([asked(place) for place in range(20)]):
            journal.acknowledge(message.number)
        assert path.stat().st_size < 20 * 5000 * 9 + 2 * 5000 * 8
        journal.compact()
        assert path.stat().st_size < 3 * 5000 * 8
        release(journal, bytes([3] * 16), 9999, epoch=1)
    with at(path) as journal:
        assert not journal.unreported(bytes([3] * 16), np.array([9999], np.uint64))[0]
        for place in range(20):
            assert not journal.unreported(bytes([place] * 16), scope).any()


# --- data sets ------------------------------------------------------------------------------------


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
        anew = journal.begin(b"digest", "rr:5:2", 100, republish=True)
        assert (anew.reserved, anew.begun, anew.republish) == (0, 2, True)
        journal.commit([], moved(anew, 20))
        assert journal.begin(b"digest", "rr:5:2", 100) == moved(anew, 20)
        with pytest.raises(RuntimeError, match="recorded already"):
            journal.commit([], moved(replay, 60))


# --- one owner ------------------------------------------------------------------------------------


def test_a_closed_journal_says_so(path: Path) -> None:
    journal = at(path)
    journal.close()
    for use in (lambda: release(journal, ANN, 1), lambda: journal.acknowledge(1), journal.compact):
        with pytest.raises(RuntimeError, match="it is closed; open it again"):
            use()


def test_a_journal_belongs_to_one_thread(journal: Journal) -> None:
    before, said = journal.path.read_bytes(), []

    def elsewhere() -> None:
        for use in (lambda: release(journal, ANN, 1), journal.compact, journal.close):
            try:
                use()
            except RuntimeError as error:
                said.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(10)
    assert len(said) == 3
    assert all("another thread" in sentence for sentence in said)
    assert journal.path.read_bytes() == before
    assert release(journal, ANN, 1)[0].seq == 1


def test_a_journal_does_not_cross_a_fork(path: Path) -> None:
    program = f"""
import os
from pathlib import Path
from tests.producers.test_journal import ANN, at, release
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


# --- a disk that fails ----------------------------------------------------------------------------


class Failing(Disk):
    """A disk on which one call fails, as told."""

    def __init__(self, call: str, number: int) -> None:
        self.call, self.number = call, number

    def _fail(self, call: str) -> None:
        if call == self.call:
            raise OSError(self.number, os.strerror(self.number))

    def append(self, handle: int, data: bytes) -> None:
        if self.call == "append":
            super().append(handle, data[: len(data) // 2])
        self._fail("append")
        super().append(handle, data)

    def sync(self, handle: int) -> None:
        self._fail("sync")
        super().sync(handle)

    def rename(self, path: Path, to: Path) -> None:
        self._fail("rename")
        super().rename(path, to)


@pytest.fixture
def failing(path: Path) -> Iterator[tuple[Journal, Failing]]:
    disk = Failing("", 0)
    with at(path, disk=disk) as journal:
        release(journal, ANN, 1)
        yield journal, disk
        disk.call = ""


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EROFS, "is read-only; make it writable or give another with --journal"),
     (errno.EACCES, "cannot be used .Permission denied.; give another with --journal"),
     (errno.EIO, "the disk cannot be read or written"), (errno.ENOSPC, "the disk is full")],
)  # fmt: skip
def test_a_file_that_cannot_be_opened_is_one_sentence(
    number: int, said: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UserError, match=said):
        at(path)


def test_a_journal_that_may_not_be_written_is_one_sentence(path: Path) -> None:
    with at(path):
        pass
    path.chmod(0o400)
    if os.access(path, os.W_OK):
        pytest.skip("the superuser may write everywhere")
    with pytest.raises(UserError, match=r"cannot be used .Permission denied."):
        at(path)


def test_a_link_to_a_journal_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, real = tmp_path / "link", tmp_path / "there" / "real"
    link.symlink_to(real)
    with at(link) as journal:
        release(journal, ANN, 1)
        journal.compact()
    assert link.is_symlink()
    with at(real) as journal:
        assert len(journal.pending()) == 1


def test_a_file_planted_for_the_compaction_does_not_get_the_key(journal: Journal) -> None:
    planted = journal.path.with_name(f"{journal.path.name}.new")
    planted.touch(0o666)
    before = planted.open("rb")
    release(journal, ANN, 1)
    journal.compact()
    with before:
        assert before.read() == b""
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


def test_a_full_disk_leaves_the_file_as_it_was_and_the_journal_usable(
    failing: tuple[Journal, Failing],
) -> None:
    journal, disk = failing
    before = journal.path.read_bytes()
    disk.call, disk.number = "append", 28
    with pytest.raises(UserError, match=r"the disk is full; free some space"):
        release(journal, ANN, 2)
    assert journal.path.read_bytes() == before
    disk.call = ""
    assert release(journal, ANN, 2)[0].seq == 2


def test_after_a_sync_that_failed_nothing_is_given_out_any_more(
    failing: tuple[Journal, Failing],
) -> None:
    journal, disk = failing
    disk.call, disk.number = "sync", 5
    with pytest.raises(UserError, match="the disk cannot be read or written; check it"):
        release(journal, ANN, 2)
    disk.call = ""
    with pytest.raises(UserError, match="an earlier write failed; open it again"):
        release(journal, ANN, 2)
    assert len(journal.pending()) == 1


def test_a_compaction_that_fails_keeps_the_old_file(failing: tuple[Journal, Failing]) -> None:
    journal, disk = failing
    before = journal.path.read_bytes()
    for call in ("append", "sync", "rename"):
        disk.call, disk.number = call, 28
        with pytest.raises(UserError, match="the disk is full"):
            journal.compact()
        assert journal.path.read_bytes() == before
        assert [file.name for file in journal.path.parent.iterdir()] == [journal.path.name]
    disk.call = ""
    assert release(journal, ANN, 2)[0].seq == 2


def test_what_was_recorded_is_given_out_also_where_the_disk_has_no_room_to_compact(
    failing: tuple[Journal, Failing], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, disk = failing
    monkeypatch.setattr("producers.journal.journal._COMPACTED_FROM", 100)
    disk.call, disk.number = "rename", 28
    for item in range(2, 12):
        assert [message.seq for message in release(journal, ANN, item)] == [item]
    assert len(journal.pending()) == 11


def test_the_lock_of_a_file_that_was_replaced_meanwhile_is_not_taken(path: Path) -> None:
    for other in (path, path.with_name("newer")):
        at(other).close()
    newer = read_key(path.with_name("newer"))

    class Compacted(Disk):
        """Another process compacts between opening and locking."""

        locked = 0

        def lock(self, handle: int) -> None:
            if not self.locked:
                path.with_name("newer").rename(path)
            self.locked += 1
            super().lock(handle)

    disk = Compacted()
    with at(path, disk=disk) as journal:
        assert journal.key == newer
    assert disk.locked == 2


@pytest.mark.parametrize("reported_keys", [[], [3, 3], [4, 3]], ids=str)
def test_reported_keys_must_be_rising_and_distinct(reported_keys: list[int]) -> None:
    with pytest.raises(ValueError, match="rising, distinct keys"):
        Request(
            device=ANN, topic=TOPIC, reported_keys=np.array(reported_keys, np.uint64), mechanism=RR,
            raw_inputs=np.zeros(1, np.uint8), count=1, epoch=1,
            encode=lambda seq, part, released, test: b"",
        )  # fmt: skip


def test_a_file_that_may_not_grow_is_one_sentence(path: Path) -> None:
    program = f"""
import resource
from pathlib import Path
from stream_app.errors import UserError
from tests.producers.test_journal import ANN, at, release
path = Path({str(path)!r})
with at(path) as journal:
    release(journal, ANN, 1)
    before = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, resource.RLIM_INFINITY))
    try:
        release(journal, ANN, 2)
    except UserError as refusal:
        print(refusal)
    print(path.read_bytes() == before)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(release(journal, ANN, 2)[0].seq)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    sentence, unchanged, seq = out.stdout.splitlines()
    assert "the file may not grow any more; raise the limit" in sentence
    assert (unchanged, seq) == ("True", "2")


def test_an_interrupt_in_the_middle_of_a_commit_ends_the_use_of_the_journal(
    failing: tuple[Journal, Failing], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, disk = failing

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(disk, "sync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release(journal, ANN, 2)
    with pytest.raises(RuntimeError, match="interrupted while it wrote; open it again"):
        release(journal, ANN, 3)
    journal.close()
    with at(journal.path) as again:
        assert [message.seq for message in again.pending()] == [1]


def test_a_file_that_is_no_journal_is_told_so_before_its_mode_is(path: Path) -> None:
    path.write_text("hello")
    path.chmod(0o644)
    with pytest.raises(UserError, match="is not a device journal"):
        at(path)
    path.unlink()
    with at(path) as journal:
        assert journal.made
    path.chmod(0o644)
    with pytest.raises(UserError, match="run chmod 600"):
        at(path)

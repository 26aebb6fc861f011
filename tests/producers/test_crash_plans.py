"""The order of a release, under every crash plan: the journal keeps its promises, wrong orders do
not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from producers.journal import BudgetExhausted, Enrolment, Journal, Message, PersonBudget, Request
from producers.journal.account_book import enrolments_record
from producers.journal.frames import Kind, scan
from producers.journal.journal_replay import Outbox, replayed
from producers.journal.records import encode
from producers.journal.release import commit_record, debits_of
from producers.person.changes import raising
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.ticket import admitted
from tests.producers.crashes import CrashingDisk, Found, Life, ViolationError, explore

PATH = Path("device.journal")
WHO = b"w" * 16
FIRST, RAISED = 2, 4  # one report at epsilon 2, then two; the third item is refused
ITEMS = (1, 2, 3)
EPOCH = 7
# What else the caller is promised, beside items.
ENROLLED, MORE, WITHDRAWN = 100, 101, 102
COMPACTED = 1  # the item between whose commit and sending the file is compacted


@dataclass(frozen=True)
class Echo:
    """A mechanism that reports the very words it draws: two draws are never alike."""

    id: ClassVar[str] = "echo:5:2"
    adjacency: ClassVar[Adjacency] = Adjacency.VALUE
    epsilon: ClassVar[Fraction] = Fraction(2)

    def certify(self) -> tuple[Any, ...]:
        return ()

    def release(self, inputs: Any, source: Any) -> Any:
        return admitted(source, self, len(inputs)).words(len(inputs)).astype(np.uint16)


ECHO = Echo()


def request(item: int) -> Request:
    return Request(
        device=WHO, topic="t", reported_keys=np.array([item], np.uint64), mechanism=ECHO,
        raw_inputs=np.zeros(1, np.uint8), count=1, epoch=EPOCH,
        encode=lambda seq, part, released, _: bytes([seq, item]) + released[part].tobytes(),
    )  # fmt: skip


def program(kind: type[Journal]) -> Callable[[Life], None]:
    """Return what a device does: send what is left, enrol, release what it may, raise the budget,
    compact, withdraw, close."""

    def run(life: Life) -> None:
        _NOW[0] = life.number
        journal = kind.open(PATH, source=life.draws, allow_tests=True, disk=life.disk)

        def send(message: Message) -> None:
            life.publish(message.seq, message.value, journal.key)
            journal.acknowledge(message.number)
            life.step()

        for message in journal.pending():
            send(message)
        if journal.enrolment(WHO) is None:
            journal.enrol([WHO], PersonBudget(Fraction(FIRST), Fraction(0)), EPOCH)
        life.promise(ENROLLED)
        for item in ITEMS:
            release(life, journal, item, send)
        if not terms(journal).withdrawn:
            journal.withdraw([WHO], EPOCH)
        life.promise(WITHDRAWN)
        journal.close()
        life.step()

    return run


def release(life: Life, journal: Journal, item: int, send: Callable[[Message], None]) -> None:
    """Release one item, with a larger budget where the first one does not hold it."""
    if terms(journal).withdrawn or not journal.unreported(WHO, np.array([item], np.uint64))[0]:
        return
    if item > 1 and terms(journal).budget.epsilon == FIRST:
        journal.raise_budget([WHO], Fraction(RAISED))
        life.promise(MORE)
    try:
        (message,) = journal.release(request(item))
    except BudgetExhausted:
        return
    life.promise(item)
    if item == COMPACTED:
        journal.compact()  # with what was recorded and not sent: PENDING
    send(message)


def terms(journal: Journal) -> Enrolment:
    found = journal.enrolment(WHO)
    assert found is not None
    return found


@dataclass(frozen=True)
class Known:
    """What a journal would know from one image of the disk."""

    items: frozenset[int]
    nano: int
    budget: int  # epsilon; 0 without an account
    withdrawn: bool
    waiting: bool  # there is a PENDING frame


def books(names: Any) -> Known:
    return book_of(next((content for name, content, _ in names if name == PATH.name), b""))


@cache
def book_of(data: bytes) -> Known:
    frames = scan(data).frames if data else ()
    book, _ = replayed(frames, PATH)
    nano = sum(account.total for account in book.accounts.values())
    waiting = any(frame.kind is Kind.PENDING for frame in frames)
    known = book.enrolment(WHO)
    budget = 0 if known is None else int(known.budget.epsilon or 0)
    withdrawn = known is not None and known.withdrawn > 0
    items = frozenset(book.reported_keys(WHO, "rating").tolist())
    return Known(items, nano, budget, withdrawn, waiting)


def check(life: Life, seq: int, value: bytes) -> None:
    """What must hold at the moment when bytes are handed to the broker."""
    before = dict(life.world.published)
    if before.get(seq, value) != value:
        raise ViolationError("two different byte strings for one event")
    items = {one: other[1] for one, other in (before | {seq: value}).items()}
    if len(set(items.values())) != len(items):
        raise ViolationError("two events for one rating")
    cost = 2 * 10**9
    for names, _ in life.disk.cut():  # whatever a power cut would leave at this very moment
        known = books(names)
        if not known.items.issuperset(items.values()):
            raise ViolationError("published without a durable debit")
        if known.nano < cost * len(items):
            raise ViolationError("less is debited than was published")
        if cost * len(items) > known.budget * 10**9:
            raise ViolationError("published beyond a durable budget")
        kept = {ENROLLED: known.budget > 0, MORE: known.budget >= RAISED,
                WITHDRAWN: known.withdrawn}  # fmt: skip
        if lost := [what for what in life.world.promised & set(kept) if not kept[what]]:
            raise ViolationError(f"what the caller was promised is not durable: {lost}")


def finish(life: Life) -> None:
    """What must hold when a life has come to its end without a crash."""
    published, known = dict(life.world.published), books(life.disk.images().__next__()[0])
    arrived = {value[1] for value in published.values()}
    if not life.world.promised & set(ITEMS) <= arrived:
        raise ViolationError("what the caller was promised never arrives")
    if known.items != arrived:
        raise ViolationError("a rating is paid for and never arrives")
    if known.nano > known.budget * 10**9:
        raise ViolationError("debits beyond the budget")
    if not known.withdrawn or (MORE in life.world.promised and known.budget != RAISED):
        raise ViolationError("a budget or a withdrawal was lost")
    if len(life.world.keys) > 1:
        raise ViolationError("the device key was recreated after something was published")


_NOW = [0]  # the life that is running


@pytest.fixture(autouse=True)
def _keys_of_their_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the life in which a device key is made decide it, so that a plan can be repeated."""
    monkeypatch.setattr(os, "urandom", lambda count: bytes([_NOW[0]]) * count)


@pytest.mark.nightly
def test_no_crash_plan_breaks_a_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """Every plan of up to three crashes, at every step of the disk, the sending and the reports."""
    found = explored(3, capsys)
    assert (found.plans > 1_000_000, found.worlds > 1500) == (True, True)


@pytest.mark.nightly
def test_no_crash_plan_of_four_crashes_breaks_a_promise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explored(4, capsys).plans > 100_000_000


def explored(crashes: int, capsys: pytest.CaptureFixture[str]) -> Found:
    """Run every plan, print how many there are and return it; PENDING frames are among them."""
    waited: set[bool] = set()

    def checked(life: Life, seq: int, value: bytes) -> None:
        waited.add(books(next(life.disk.images())[0]).waiting)
        check(life, seq, value)

    found = explore(program(Journal), checked, finish, crashes)
    assert waited == {False, True}
    with capsys.disabled():
        print(f" [{found.plans:,} crash plans, {found.worlds:,} different worlds]", end="")
    return found


# --- wrong orders ---------------------------------------------------------------------------------


def prepared(journal: Journal, requests: Any, drawn: Any) -> Any:
    debits = debits_of(journal._state, journal.limits, requests)
    return commit_record(journal._state, requests, debits, drawn, None, test=True)


def taken_in(journal: Journal, commit: Any, messages: list[Message]) -> list[Message]:
    journal._state.apply(commit)
    journal._outbox.put(messages)
    return messages


class PublishThenDebit(Journal):
    late: Any = None

    def commit(self, requests: Any, replay: Any = None) -> list[Message]:
        self.late, messages = prepared(self, requests, self._drawer.drawn(requests))
        return taken_in(self, self.late, messages)

    def acknowledge(self, number: int) -> None:
        if self.late is not None:
            self._append((Kind.COMMIT, encode(self.late)), durable=True)
            self.late = None
        super().acknowledge(number)


def stubbed(requests: Any) -> list[Request]:
    """The requests, with records that name the event and do not hold its bytes."""
    stubs = [request(int(one.reported_keys[0])) for one in requests]
    for stub in stubs:
        encoded = stub.encode
        stub.encode = lambda *given, encoded=encoded: encoded(*given)[:2]
    return stubs


STUB = [np.zeros(1, np.uint16)]


class DebitThenSample(Journal):
    def commit(self, requests: Any, replay: Any = None) -> list[Message]:
        commit, _ = prepared(self, stubbed(requests), STUB)
        self._append((Kind.COMMIT, encode(commit)), durable=True)
        _, messages = prepared(self, requests, self._drawer.drawn(requests))
        return taken_in(self, commit, messages)

    def pending(self) -> list[Message]:
        return [message for message in super().pending() if len(message.value) > 2]


class ResampleOnRetry(DebitThenSample):
    def pending(self) -> list[Message]:
        return [self.redrawn(message) for message in Journal.pending(self)]

    def redrawn(self, old: Message) -> Message:
        (drawn,) = self._drawer.drawn([request(old.value[1])])
        value = old.value[:2] + drawn.tobytes()
        return Message(old.number, old.device, old.seq, old.topic, value)


class BytesThenDebit(Journal):
    def commit(self, requests: Any, replay: Any = None) -> list[Message]:
        commit, messages = prepared(self, requests, self._drawer.drawn(requests))
        bytes_only = Outbox()
        bytes_only.put(messages)
        self._append((Kind.PENDING, encode(bytes_only.record())), durable=True)
        self._append((Kind.COMMIT, encode(commit)), durable=True)
        return taken_in(self, commit, messages)


class DebitThenBytes(DebitThenSample):
    def commit(self, requests: Any, replay: Any = None) -> list[Message]:
        messages = super().commit(requests, replay)
        bytes_only = Outbox()
        bytes_only.put(messages)
        self._append((Kind.PENDING, encode(bytes_only.record())), durable=True)
        return messages


class AckBeforePublish(Journal):
    def commit(self, requests: Any, replay: Any = None) -> list[Message]:
        messages = super().commit(requests, replay)
        for message in messages:
            self.acknowledge(message.number)
        self._append(durable=True)
        return messages


class CompactsTheOutboxAway(Journal):
    def compact(self) -> None:
        known = enrolments_record(self._state.enrolments(), test=self.test)
        self._log.replace(
            [(Kind.ACCOUNTS, encode(self._state.record())), (Kind.ENROLMENTS, encode(known))]
        )


class CompactsTheAccountsAway(Journal):
    def compact(self) -> None:
        frames = [(Kind.ACCOUNTS, encode(self._state.record()))]
        if len(self._outbox):
            frames.append((Kind.PENDING, encode(self._outbox.record())))
        self._log.replace(frames)


class EnrolsUnsynced(Journal):
    def _record(self, enrolments: Any) -> int:
        record = enrolments_record(enrolments, test=self.test)
        self._append((Kind.ENROLMENTS, encode(record)), durable=False)
        self._state.apply_enrolments(record)
        return len(enrolments)


class RaisesInMemory(Journal):
    def raise_budget(self, devices: Any, epsilon: Any) -> None:
        more = raising(self._state.enrolment, devices, epsilon)
        self._state.apply_enrolments(enrolments_record(more, test=self.test))


class NeverSyncs(CrashingDisk):
    def sync(self, handle: int) -> None:
        self.step()


class SyncsNotAtOpening(CrashingDisk):
    written = False

    def append(self, handle: int, data: bytes) -> None:
        self.written = True
        super().append(handle, data)

    def sync(self, handle: int) -> None:
        if self.written:
            super().sync(handle)


class RenamesUnsynced(CrashingDisk):
    def sync(self, handle: int) -> None:
        if self.handles[handle] is not self.names.get(f"{PATH.name}.new"):
            super().sync(handle)


class NamesUnsynced(CrashingDisk):
    def sync_folder(self, path: Path) -> None:
        self.step()


class LeavesTheTornEnd(CrashingDisk):
    def truncate(self, handle: int, size: int) -> None:
        self.step()


WRONG: dict[str, tuple[type[Journal], type[CrashingDisk], str]] = {
    "publish then debit": (PublishThenDebit, CrashingDisk, "without a durable debit"),
    "debit then sample": (DebitThenSample, CrashingDisk, "never arrives"),
    "resample on retry": (ResampleOnRetry, CrashingDisk, "two different byte strings"),
    "two records, bytes first": (BytesThenDebit, CrashingDisk, "without a durable debit"),
    "two records, debit first": (DebitThenBytes, CrashingDisk, "never arrives"),
    "ack before publish": (AckBeforePublish, CrashingDisk, "never arrives"),
    "compaction without what waits": (CompactsTheOutboxAway, CrashingDisk, "never arrives"),
    "compaction without the accounts": (CompactsTheAccountsAway, CrashingDisk, "."),
    "an account that is not synced": (EnrolsUnsynced, CrashingDisk, "durable"),
    "a budget that is raised in memory": (RaisesInMemory, CrashingDisk, "durable budget"),
    "no sync": (Journal, NeverSyncs, "without a durable debit"),
    "no sync of what an earlier life has left": (Journal, SyncsNotAtOpening, "durable debit"),
    "a new file that is not synced": (Journal, RenamesUnsynced, "durable debit"),
    "a new name that is not synced": (Journal, NamesUnsynced, "."),
    "a torn end that is left": (Journal, LeavesTheTornEnd, "."),
}


@pytest.mark.parametrize(("journal", "disk", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wrong_order_is_found_out(
    journal: type[Journal], disk: type[CrashingDisk], sentence: str
) -> None:
    with pytest.raises(ViolationError, match=sentence):
        explore(program(journal), check, finish, 2, disk)

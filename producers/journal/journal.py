"""The journal of a device: the order in which a release is paid, recorded and returned.

    request --> keys, budget --> ticket --> mechanism.release --> encode --> ONE record --> sync
                may refuse: nothing         (the only noise)                                  |
                was drawn or spent                                                            v
    acknowledge <-- delivery report <-- broker <---- exactly these bytes <------ Message returned

A record holds the debit, the event's id (device, topic, seq) and the very bytes that are sent, so
after any crash each record is in the file as a whole or not at all. A recorded message without
acknowledgement is `pending`: the same bytes are sent again, and the server drops the duplicate by
its seq. Nothing is drawn twice for one debit. Acknowledgements need no sync: if one is lost, the
same bytes are sent again.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from producers.journal.account_book import enrolments_record
from producers.journal.append_log import ANOTHER, Log
from producers.journal.budget import Limits
from producers.journal.disk import Disk
from producers.journal.frames import HEADER_BYTES, FrameLog, Kind
from producers.journal.high_water_mark import HighWaterMark
from producers.journal.journal_progress import DatasetProgress, resumed
from producers.journal.journal_replay import replayed
from producers.journal.records import Acks, column, encode
from producers.journal.release import ReleaseSampler, commit_record, debits_of
from producers.journal.request import Message, Request
from producers.ownership import Owner
from producers.person.account import Spent, report_counts
from producers.person.changes import UsedBy, enrolling, pacing, planning, raising, withdrawing
from producers.person.enrolment import Enrolment, Pace, PersonBudget
from producers.person.remaining_reports import Parts, rooms
from producers.person.reports import Costing, room
from producers.person.spending_so_far import Spending, spending
from stream_app.errors import OutboxFull, UserError
from stream_app.privacy.gaussian.campaign_loss import is_campaign
from stream_app.privacy.randomness import RandomSource, SystemSource
from stream_app.wire.signatures import TAG, TAG_BYTES, digest_of

OUTBOX_BYTES = 64 * 1024 * 1024
_DIGEST_BYTES = 32
_TAGGED = b"murmurec record tag\0"  # a user id holds no NUL: no tag is a pseudonym or a seed
_COMPACTED_FROM = 8 * 1024 * 1024
_ACKS = 65_536  # acknowledgements kept in memory before they are written without a record


class Journal:
    """An open journal; use it as a context manager. One thread of one process owns it.

    `limits` hold for every release made through this object. `path`: of the file, links resolved;
    `key`: the device key, from which pseudonyms are made; `made`: opening created the file, so that
    earlier releases are unknown; `cut`: bytes of a torn end that opening removed. `test`: the
    journal is named a test, or its noise came from a seed. `unsafe`: every event is marked as a
    test.
    """

    def __init__(
        self, log: FrameLog, limits: Limits, source: RandomSource, outbox_bytes: int, *, test: bool
    ) -> None:
        self.limits = limits
        self._mark: HighWaterMark | None = None
        self.outbox_bytes = outbox_bytes
        self._log = log
        self.path, self.key, self.made, self.cut = log.path, log.key, log.made, log.cut
        self._drawer = ReleaseSampler(source)
        self._owner = Owner("device journal")
        self._closed = self._torn = False
        self._acks: list[int] = []
        self._state, self._outbox = replayed(log.frames, log.path)
        # The size right after the last compaction; the next one is due when the file has doubled.
        whole = [each for each in log.frames if each.kind in (Kind.ACCOUNTS, Kind.PENDING)]
        self._compacted = whole[-1].position + len(whole[-1].body) if whole else HEADER_BYTES
        log.frames = ()
        if test and self._state.accounts and not self._state.test:
            raise UserError(
                f"device journal {log.path}: holds accounts that are no test; leave --test out, or "
                "give another path for the test (--journal)"
            )
        fresh = (test or source.unsafe) and not self._state.accounts
        self.test = self._state.test or fresh
        self.unsafe = self.test or source.unsafe
        if self._state.unkeyed:
            self._try_to_compact()  # the file no longer says what was in a data set

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        limits: Limits | None = None,
        source: RandomSource | None = None,
        allow_tests: bool = False,
        outbox_bytes: int = OUTBOX_BYTES,
        disk: Disk | None = None,
        test: bool = False,
    ) -> Self:
        """Open the journal at `path`, or make it (mode 0600) with a fresh device key.

        `test` names a new one a test: for good, and all its events are marked as tests.
        """
        source = source or SystemSource()
        if source.unsafe and not allow_tests:
            raise ValueError(
                "random source: it can be replayed and protects nothing; a device uses SystemSource"
            )
        # A link is followed: compaction would put a file in its place and leave the old one behind.
        log = Log(Path(os.path.realpath(Path(path).expanduser())), disk or Disk())
        try:
            found = cls(log, limits or Limits(), source, outbox_bytes, test=test)
        except BaseException:
            log.close()
            raise
        if disk is None:  # it lies on the real disk
            found._mark = HighWaterMark(log.key)
        return found

    # --- state -----------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether the file takes records: not after a failed sync, until it is opened again."""
        return self._log.usable

    def epoch(self, now: int) -> int:
        """Return the epoch to release in: `now`, or the largest seen where the clock went back.

        Raises UserError for an epoch more than 366 days beyond the largest seen, unless
        `Limits.trust_clock`: a clock set forward would open a window and date all later releases.
        """
        if not 0 <= now < 2**32:
            raise ValueError(
                f"epoch {now}: must be 0 .. 2^32-1 (days since 1970); set the clock right"
            )
        self._state.check_clock(now, self.limits)
        return max(now, self._state.epoch)

    def pending(self) -> list[Message]:
        """Return the messages without acknowledgement, oldest first; they must be sent again."""
        return list(self._outbox)

    @property
    def waiting_bytes(self) -> int:
        """Size of the pending messages in bytes."""
        return self._outbox.waiting

    def unreported(
        self, device: bytes, keys: NDArray[np.uint64], scope: str = "rating"
    ) -> NDArray[np.bool_]:
        """Return for each distinct key whether it may still be reported on, (n,) bool."""
        return report_counts(self._state.reported_keys(device, scope), keys) < self.limits.reports

    def reports(
        self, device: bytes, keys: NDArray[np.uint64], scope: str = "rating"
    ) -> NDArray[np.int64]:
        """Return how often each distinct key was reported on, (n,)."""
        return report_counts(self._state.reported_keys(device, scope), keys)

    def room(self, device: bytes, mechanism: Costing, epoch: int) -> int | None:
        """Return how many more reports the person's budget holds, campaigns within their pace; None
        without a limit, 0 for a device that is not enrolled or was withdrawn."""
        enrolment = self._state.enrolment(device)
        if enrolment is None or enrolment.withdrawn:
            return 0
        budget = enrolment.budget
        left = room(budget, self._state.used(device, epoch, budget), mechanism)
        if left and is_campaign(mechanism.id):
            return min(left, self._state.paced(device, epoch, mechanism).left)
        return left

    def rooms(self, device: bytes, mechanism: Costing, epoch: int) -> Parts | None:
        """Return how many more reports the parts of a budget hold; None without parts or limit."""
        enrolment, share = self._state.enrolment(device), self.limits.share
        if enrolment is None or enrolment.withdrawn or share is None:
            return None
        budget = enrolment.budget
        return rooms(budget, self._state.used(device, epoch, budget), mechanism, share)

    def spent(self, device: bytes) -> dict[str, Spent]:
        """Return what a device has spent in its life, by adjacency."""
        account = self._state.accounts.get(device)
        return {} if account is None else account.by_adjacency()

    def spending(self, device: bytes, epoch: int) -> dict[str, Spending]:
        """Return what a person has spent within the window if it ended now, all and by purpose;
        empty for a device that is not enrolled or has no limit."""
        enrolment = self._state.enrolment(device)
        if enrolment is None or not enrolment.budget.limited:
            return {}
        return spending(self._state.used(device, epoch, enrolment.budget), enrolment.budget)

    def seq(self, device: bytes, topic: str) -> int:
        """Return the number of the last message of a device to a topic, 0 before the first."""
        return self._state.seq(device, topic)

    def begin(
        self, digest: bytes, mechanism: str, total: int, *, republish: bool = False
    ) -> DatasetProgress:
        """Return where the publication of a data set continues: after its last recorded row.

        It restarts at row 0 with `republish`, and where only rows over budget are left (the keys
        reported before exclude the others). Raises as `progress.resumed` does for a data set that
        is finished or was begun under another mechanism. The first commit with it makes it durable.
        """
        self._check_owner()
        start = DatasetProgress(digest, mechanism, 0, total, 1, republish)
        return resumed(self._state.replays.get(digest), start)

    def held_back(self, digest: bytes) -> int:
        """Return how many rows of a finished data set were over budget; 0 for any other."""
        known = self._state.replays.get(digest)
        return 0 if known is None or known.reserved < known.total else known.over

    @property
    def next_number(self) -> int:
        """The number of the next message: of two copies of a journal, the older has the smaller."""
        return self._state.next

    def tag(self, topic: str, device: bytes, digest: bytes) -> bytes:
        """Return the tag of a record, which only this journal and its copies can make: 16 bytes of
        topic, device and the digest of the value, which holds the number, or plan and stage."""
        body = b"%b%b\0%b%b" % (_TAGGED, topic.encode(), device, digest)
        return hmac.digest(self.key, body, "sha256")[:TAG_BYTES]

    def headers(self, message: Message) -> list[tuple[str, bytes]]:
        """Return the headers of the record of a message: its tag."""
        return [(TAG, self.tag(message.topic, message.device, digest_of(message.value)))]

    def check_newest(self) -> None:
        """Raise OlderJournal where a newer copy of the journal is known to this user."""
        if self._mark is not None:
            self._mark.check(self.path, self._state.next)

    # --- accounts --------------------------------------------------------------------------------

    def enrolment(self, device: bytes) -> Enrolment | None:
        """Return the terms of a device; None where it is not enrolled."""
        return self._state.enrolment(device)

    def enrolled(self, epoch: int | None = None) -> list[Enrolment]:
        """Return the accounts that are not withdrawn, in the order in which the journal met them;
        with `epoch` those that release in it: enrolled in an earlier one."""
        return [
            each
            for each in self._state.enrolments()
            if not each.withdrawn and (epoch is None or each.active(epoch))
        ]

    def enrol(
        self, devices: Sequence[bytes], budget: PersonBudget, epoch: int, *, simulated: bool = False
    ) -> int:
        """Enrol devices in one durable record; return how many accounts are new or changed.

        Enrolling again on the same terms changes nothing, except that a withdrawn account takes
        part again, with what it has spent, and that another plan holds from now on; UserError for
        other terms, and as `check_kind`: then none is enrolled.
        """
        self._state.check_clock(epoch, self.limits)
        if devices:
            self.check_kind(simulated=simulated)
        known, used = self._state.enrolment, self._used_by(epoch)
        return self._record(enrolling(known, used, devices, budget, epoch, simulated=simulated))

    def check_kind(self, *, simulated: bool) -> None:
        """Raise UserError where a simulation would join the account of a person, or a person a
        simulation."""
        kinds = {each.simulated for each in self._state.enrolments()}
        if simulated and False in kinds:
            raise UserError(
                f"device journal {self.path}: holds the account of a person, and a simulation has "
                f"a journal of its own; {ANOTHER}"
            )
        if not simulated and kinds == {True}:
            raise UserError(
                f"device journal {self.path}: holds a simulation, and a person has a journal of "
                f"their own; {ANOTHER}"
            )

    def withdraw(self, devices: Sequence[bytes], epoch: int) -> int:
        """Withdraw devices: nothing is released for them any more; return how many took part.

        The messages that wait for the broker still go out: they are released and paid for.
        """
        return self._record(withdrawing(self._state.enrolment, devices, epoch))

    def raise_budget(self, devices: Sequence[bytes], epsilon: Fraction | None) -> None:
        """Raise the epsilon of the whole person, which can never be taken back; UserError for one
        that is not larger. None, for no limit, is for simulated accounts."""
        self._record(raising(self._state.enrolment, devices, epsilon))

    def set_plan(self, devices: Sequence[bytes], plan: str, epoch: int = 0) -> None:
        """Decide, or change from now on, the mechanism that a budget is for, or "adaptive";
        UserError where that does not hold beside what was released (`producers.person.changes`)."""
        self._record(planning(self._state.enrolment, self._used_by(epoch), devices, plan))

    def set_pace(self, devices: Sequence[bytes], pace: Pace) -> None:
        """Change what campaigns may spend, and how fast, from now on."""
        self._record(pacing(self._state.enrolment, devices, pace))

    def _used_by(self, epoch: int) -> UsedBy:
        return lambda account: self._state.used(account.device, epoch, account.budget)

    @property
    def scope(self) -> bytes:
        """The SHA-256 of the public scope on which the device reports; empty without one."""
        return self._state.scope

    @property
    def campaign_scope(self) -> bytes:
        """The SHA-256 of the public items of campaigns; empty without one."""
        return self._state.campaign_scope

    def pin_scope(self, digest: bytes, *, campaigns: bool = False) -> None:
        """Store the digest of the public scope of reports, or of campaigns, durably; it replaces
        the one before."""
        if len(digest) != _DIGEST_BYTES:
            raise ValueError(f"digest of {len(digest)} bytes: a SHA-256 has {_DIGEST_BYTES}")
        self._record((), **{"campaign_scope" if campaigns else "scope": digest})

    def _record(self, enrolments: Sequence[Enrolment], **scopes: bytes) -> int:
        """Make these terms durable, then hold them; return how many they are."""
        self._check_owner()
        if not enrolments and not scopes:
            return 0
        record = enrolments_record(enrolments, test=self.test, **scopes)
        with self._interrupted_is_torn():
            self._append((Kind.ENROLMENTS, encode(record)), durable=True)
            self._state.apply_enrolments(record)
        return len(enrolments)

    @contextmanager
    def _interrupted_is_torn(self) -> Iterator[None]:
        """Refuse further use where a write was interrupted: memory would be behind the file."""
        self._torn = True
        try:
            yield
        except (UserError, ValueError):
            self._torn = False
            raise
        self._torn = False

    # --- releasing --------------------------------------------------------------------------------

    def release(self, request: Request) -> list[Message]:
        """Release one request; see `commit`."""
        return self.commit([request])

    def commit(
        self, requests: Sequence[Request], replay: DatasetProgress | None = None
    ) -> list[Message]:
        """Pay for, draw and record all requests in one durable record; return the messages to send.

        All or nothing: `BudgetExhausted`, `OutboxFull`, `UserError` (keys reported before, an older
        copy) and ValueError (no valid request) leave file and budget unchanged. The record also
        holds `replay`, the progress of the data set.
        """
        self._check_owner()
        self.check_newest()
        if replay is not None:
            self._state.check_progress(replay)
        self._check_room(0)
        debits = debits_of(self._state, self.limits, requests)
        drawn = self._drawer.drawn(requests)
        commit, messages = commit_record(
            self._state, requests, debits, drawn, replay, test=self.unsafe
        )
        self._check_room(len(commit.values))
        with self._interrupted_is_torn():
            self._append((Kind.COMMIT, encode(commit)), durable=True)
            self._state.apply(commit)
            self._outbox.put(messages)
        if self._mark is not None:
            self._mark.advance(self._state.next)
        if self._log.size > max(_COMPACTED_FROM, 2 * self._compacted):
            self._try_to_compact()
        return messages

    def _try_to_compact(self) -> None:
        """Compact; what prevents it does not stop the release, which is recorded already."""
        try:
            self.compact()
        except UserError:
            self._compacted = self._log.size  # try again when it has doubled

    def _check_room(self, more: int) -> None:
        waiting = self._outbox.waiting
        if waiting + more > self.outbox_bytes or waiting == self.outbox_bytes:
            raise OutboxFull(
                f"device journal {self.path}: {waiting} bytes wait for the broker and {more} more "
                f"would exceed the limit of {self.outbox_bytes}: wait for delivery reports, then "
                "try again"
            )

    # --- delivery and the file --------------------------------------------------------------------

    def acknowledge(self, number: int) -> None:
        """Record that the broker has accepted a message; it is resent only if this is lost."""
        self._check_owner()
        if self._outbox.drop(number):
            self._acks.append(number)
            # The first one after a record is written at once: it vouches for it, see `frames`.
            if self._log.usable and (self._log.unvouched or len(self._acks) >= _ACKS):
                with suppress(UserError):  # on a full disk they keep waiting
                    self._append(durable=False)

    def _append(self, *more: tuple[Kind, bytes], durable: bool) -> None:
        """Write waiting acknowledgements and `more`; after a failure the former keep waiting."""
        acks, self._acks = self._acks, []
        try:
            self._log.append([*([_ack_frame(acks)] if acks else []), *more], durable=durable)
        except BaseException:
            self._acks = acks
            raise

    def compact(self) -> None:
        """Replace the file by one without the acknowledged messages.

        UserError, and the file is as it was, where the disk refuses, or the state has more than 256
        different topics, scopes and mechanisms, which one record cannot name.
        """
        self._check_owner()
        try:
            frames = self._whole()
        except ValueError as error:
            raise UserError(
                f"device {error}, so {self.path} cannot be compacted: it stays as it is, and grows"
            ) from None
        self._log.replace(frames)
        self._state.unkeyed = False
        self._acks = []
        self._compacted = self._log.size

    def _whole(self) -> list[tuple[Kind, bytes]]:
        """Return the records of a file that holds the whole state and the pending messages."""
        frames = [(Kind.ACCOUNTS, encode(self._state.record()))]
        state, enrolments = self._state, self._state.enrolments()
        if enrolments or state.scope or state.campaign_scope or self.test:
            record = enrolments_record(
                enrolments, test=self.test, scope=state.scope, campaign_scope=state.campaign_scope
            )
            frames.append((Kind.ENROLMENTS, encode(record)))
        if len(self._outbox):
            frames.append((Kind.PENDING, encode(self._outbox.record())))
        return frames

    def close(self) -> None:
        """Write the waiting acknowledgements, close the file and release its lock."""
        if self._closed:
            return
        self._torn = False
        self._check_owner()
        self._closed = True
        try:
            # An empty frame is written too: it vouches for the record before it.
            if self._log.usable and (self._acks or self._log.unvouched):
                self._log.append([_ack_frame(self._acks)], durable=False)
        finally:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_owner(self) -> None:
        if self._closed:
            raise RuntimeError("device journal: it is closed; open it again")
        self._owner.check()
        if self._torn:
            raise RuntimeError("device journal: interrupted while it wrote; open it again")


def _ack_frame(numbers: list[int]) -> tuple[Kind, bytes]:
    return Kind.ACKS, encode(Acks(column(numbers, "<u8")))

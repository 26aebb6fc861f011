"""The journal of a device: the order in which a release is paid, recorded and given out.

    request --> keys, budget --> ticket --> mechanism.release --> encode --> ONE record --> sync
                refused here,               (the only noise)                                  |
                nothing has happened                                                          v
    acknowledge <-- delivery report <-- broker <---- exactly these bytes <------ Message given out

A record holds the debit, the event's id (device, topic, seq) and the very bytes that are sent, so
after any crash each record is in the file as a whole or not at all. A recorded message without
acknowledgement is `pending`: the same bytes are sent again, and the server drops the duplicate by
its seq. Nothing is drawn twice for one debit. Acknowledgements need no sync: if one is lost, the
same bytes are sent again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from producers.journal.account_book import BudgetState, Spent, report_counts
from producers.journal.append_log import Log
from producers.journal.budget import Costing, Limits, fitting
from producers.journal.disk import Disk
from producers.journal.frames import HEADER_BYTES, Kind
from producers.journal.outbox import Outbox
from producers.journal.progress import resumed
from producers.journal.records import Acks, DatasetProgress, column, encode
from producers.journal.release import ReleaseSampler, commit_record, debits_of
from producers.journal.replay import apply_frame
from producers.journal.request import Message, Request
from stream_app.errors import OutboxFull, UserError
from stream_app.privacy.randomness import RandomSource, SystemSource

OUTBOX_BYTES = 64 * 1024 * 1024
_COMPACTED_FROM = 8 * 1024 * 1024
_ACKS = 65_536  # acknowledgements that wait in memory before they are written by themselves


class Journal:
    """An open journal; use it as a context manager. One thread of one process owns it.

    `limits` hold for every release made through this object; `unsafe` says that its noise comes
    from a seed, and then every event that it gives out is marked as a test.
    """

    def __init__(self, log: Log, limits: Limits, source: RandomSource, outbox_bytes: int) -> None:
        self.limits = limits
        self.unsafe = source.unsafe
        self.outbox_bytes = outbox_bytes
        self._log = log
        self._drawer = ReleaseSampler(source)
        self._owner = os.getpid(), threading.get_ident()
        self._closed = self._torn = False
        self._acks: list[int] = []
        self._book, self._outbox = BudgetState(), Outbox()
        # A compacted file begins with the state of that time: it has grown by the later frames.
        self._compacted = HEADER_BYTES
        for frame in log.frames:
            self._book = apply_frame(frame, self._book, self._outbox, log.path)
            if frame.kind in (Kind.ACCOUNTS, Kind.PENDING):
                self._compacted = frame.position + len(frame.body)
        log.frames = ()

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
    ) -> Self:
        """Open the journal at `path`, or make it (mode 0600) with a fresh device key."""
        source = source or SystemSource()
        if source.unsafe and not allow_tests:
            raise ValueError(
                "random source: it can be replayed and protects nothing; a device uses SystemSource"
            )
        # A link is followed: compaction would put a file in its place and leave the old one behind.
        log = Log(Path(os.path.realpath(Path(path).expanduser())), disk or Disk())
        try:
            return cls(log, limits or Limits(), source, outbox_bytes)
        except BaseException:
            log.close()
            raise

    # --- state -----------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._log.path

    @property
    def made(self) -> bool:
        """Whether opening created the file: earlier releases are unknown then."""
        return self._log.made

    @property
    def cut(self) -> int:
        """How many bytes of a torn end were cut off when it was opened."""
        return self._log.cut

    @property
    def key(self) -> bytes:
        """The device key, from which pseudonyms are made."""
        return self._log.key

    def epoch(self, now: int) -> int:
        """Return the epoch to release in: `now`, or the largest seen where the clock went back.

        Refused is one more than 366 days beyond the largest seen, unless `Limits.trust_clock`:
        a clock set forward would open a window, and all later releases would bear its date.
        """
        if not 0 <= now < 2**32:
            raise ValueError(f"epoch {now}: must be 0 .. 2^32-1 (days since 1970)")
        self._book.check_clock(now, self.limits)
        return max(now, self._book.epoch)

    def pending(self) -> list[Message]:
        """Return the messages without acknowledgement, oldest first: send them again."""
        return list(self._outbox)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes are pending."""
        return self._outbox.waiting

    def unreported(
        self, device: bytes, keys: NDArray[np.uint64], scope: str = "rating"
    ) -> NDArray[np.bool_]:
        """Return for each distinct key whether it may still be reported on, (n,) bool."""
        return report_counts(self._book.reported_keys(device, scope), keys) < self.limits.reports

    def room(self, device: bytes, mechanism: Costing, epoch: int) -> int | None:
        """Return how many reports in one release the budget still holds; None without a limit."""
        nano, atto = self._book.spent(device, epoch, self.limits)
        most, loosest = self.limits.nano, self.limits.atto
        return fitting(
            mechanism,
            None if most is None else most - nano,
            None if loosest is None else loosest - atto,
        )

    def spent(self, device: bytes) -> dict[str, Spent]:
        """Return the spent budget of a device's life, by adjacency, on ratings and profiles."""
        account = self._book.accounts.get(device)
        return {} if account is None else account.by_adjacency()

    def begin(
        self, digest: bytes, mechanism: str, total: int, *, republish: bool = False
    ) -> DatasetProgress:
        """Return where a data set goes on: after its last reserved row, or at row 0: `republish`,
        or where it is finished but for rows over budget (the reported keys exclude the others).

        It is durable with the first commit that carries it. A data set that is finished, or was
        begun under another mechanism, is refused unless `republish`.
        """
        self._check_owner()
        start = DatasetProgress(digest, mechanism, 0, total, 1, republish)
        return resumed(self._book.replays.get(digest), start)

    def held_back(self, digest: bytes) -> int:
        """Return how many rows of a finished data set the budget did not hold; 0 for any other."""
        known = self._book.replays.get(digest)
        return 0 if known is None or known.reserved < known.total else known.over

    # --- releasing --------------------------------------------------------------------------------

    def release(self, request: Request) -> list[Message]:
        """Release one request; see `commit`."""
        return self.commit([request])

    def commit(
        self, requests: Sequence[Request], replay: DatasetProgress | None = None
    ) -> list[Message]:
        """Pay for, draw and record all requests in one durable record; return what is to be sent.

        All or nothing. Raises `BudgetExhausted`, `UserError` (keys reported before),
        `OutboxFull`, or ValueError for what cannot be released; each leaves file and budget as they
        were. `replay` is recorded with them.
        """
        self._check_owner()
        if replay is not None:
            self._book.check_progress(replay)
        self._check_room(0)
        debits = debits_of(self._book, self.limits, requests)
        drawn = self._drawer.drawn(requests)
        commit, messages = commit_record(
            self._book, requests, debits, drawn, replay, test=self.unsafe
        )
        self._check_room(len(commit.values))
        self._torn = True  # an interrupt between file and memory would leave them apart
        try:
            self._append((Kind.COMMIT, encode(commit)), durable=True)
        except (UserError, ValueError):
            self._torn = False
            raise
        self._book.apply(commit)
        self._outbox.put(messages)
        self._torn = False
        if self._log.size > max(_COMPACTED_FROM, 2 * self._compacted):
            self._compact_or_not()
        return messages

    def _compact_or_not(self) -> None:
        """Compact; if there is no room, the recorded messages are returned all the same."""
        try:
            self.compact()
        except UserError:
            self._compacted = self._log.size  # try again when it has doubled

    def _check_room(self, more: int) -> None:
        waiting = self._outbox.waiting
        if waiting + more > self.outbox_bytes or waiting == self.outbox_bytes:
            raise OutboxFull(
                f"device journal {self.path}: {waiting} bytes wait for the broker and {more} more "
                f"would, at most {self.outbox_bytes} may: wait for delivery reports, then go on"
            )

    # --- delivery and the file --------------------------------------------------------------------

    def acknowledge(self, number: int) -> None:
        """Record that the broker has a message; it is sent again only if this record is lost."""
        self._check_owner()
        if self._outbox.drop(number):
            self._acks.append(number)
            # Written at once behind a new record: it vouches for that, see `frames`.
            if self._log.usable and (self._log.unvouched or len(self._acks) >= _ACKS):
                self._note_or_not()

    def _note_or_not(self) -> None:
        """Write the waiting acknowledgements; if there is no room, they wait on."""
        with suppress(UserError):
            self._append(durable=False)

    def _append(self, *more: tuple[Kind, bytes], durable: bool) -> None:
        """Write waiting acknowledgements and `more`; after a failure the former wait on."""
        acks, self._acks = self._acks, []
        noted = [_noted(acks)] if acks else []
        try:
            self._log.append([*noted, *more], durable=durable)
        except BaseException:
            self._acks = acks
            raise

    def compact(self) -> None:
        """Replace the file by one without the acknowledged messages."""
        self._check_owner()
        frames = [(Kind.ACCOUNTS, encode(self._book.record()))]
        if len(self._outbox):
            frames.append((Kind.PENDING, encode(self._outbox.record())))
        self._log.replace(frames)
        self._acks = []
        self._compacted = self._log.size

    def close(self) -> None:
        """Write the waiting acknowledgements, close the file and release its lock."""
        if self._closed:
            return
        self._torn = False
        self._check_owner()
        self._closed = True
        try:
            # Also without acknowledgements: the frame vouches for those before it.
            if self._log.usable and (self._acks or self._log.unvouched):
                self._log.append([_noted(self._acks)], durable=False)
        finally:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_owner(self) -> None:
        if self._closed:
            raise RuntimeError("device journal: it is closed; open it again")
        process, thread = self._owner
        if os.getpid() != process:
            raise RuntimeError(
                "device journal: opened before a fork; open it in the process that uses it"
            )
        if threading.get_ident() != thread:
            raise RuntimeError("device journal: belongs to another thread; use it in one")
        if self._torn:
            raise RuntimeError("device journal: interrupted while it wrote; open it again")


def _noted(acknowledged: list[int]) -> tuple[Kind, bytes]:
    return Kind.ACKS, encode(Acks(column(acknowledged, "<u8")))

"""Budget state: used seqs, reported keys and spent budget of every device, kept for life.

    account    seqs           topic -> the last seq that was used
               reported_keys  scope -> keys that were reported, sorted, once for each report
               spends         (epoch, adjacency, scope) -> nano-epsilon, 10^-18 of delta, reports

The state is a function of the journal's records. An account needs 8 bytes for each reported item;
devices that report on the same public scope share one key column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from producers.journal.budget import ATTO, CLOCK_EPOCHS, NANO, NOTHING, Limits
from producers.journal.records import (
    Accounts,
    Commit,
    DatasetProgress,
    KeyColumns,
    RowIndex,
    Texts,
    column,
    key_columns_of,
    numbers,
)
from stream_app.errors import UserError
from stream_app.privacy.accounting import PrivacyLoss
from stream_app.privacy.adjacency import Adjacency
from stream_app.wire import DEVICE_BYTES

_NONE = np.zeros(0, np.uint64)
_SMALL = 4096  # keys: a shorter column is copied out of its record


@dataclass(frozen=True)
class Spent:
    """Spent budget of a device under one adjacency, on `reports` reports (or profiles)."""

    adjacency: str
    nano: int = 0
    atto: int = 0
    reports: int = 0

    @property
    def spend(self) -> PrivacyLoss:
        """The loss as an exact (epsilon, delta); ValueError where nothing was protected."""
        epsilon, delta = Fraction(self.nano, NANO), Fraction(self.atto, ATTO)
        return PrivacyLoss(epsilon, min(delta, Fraction(1)), Adjacency(self.adjacency))

    def __add__(self, other: Spent) -> Spent:
        """Return the sum; both are of one adjacency."""
        return Spent(
            self.adjacency,
            self.nano + other.nano,
            self.atto + other.atto,
            self.reports + other.reports,
        )


class Account:
    """Used seqs, reported keys and spent budget of one device."""

    __slots__ = ("reported_keys", "seqs", "spends")

    def __init__(self) -> None:
        self.seqs: dict[str, int] = {}
        self.reported_keys: dict[str, NDArray[np.uint64]] = {}
        self.spends: dict[tuple[int, str, str], list[int]] = {}

    def total(self, after: int = -1) -> tuple[int, int]:
        """Return the (nano-epsilon, 10^-18 of delta) that count for a budget: the sum over the
        epochs above `after` and all adjacencies except `nothing`."""
        nano = atto = 0
        for (epoch, kind, _), spend in self.spends.items():
            if epoch > after and kind != NOTHING:
                nano += spend[0]
                atto += spend[1]
        return nano, atto

    def spent(self, after: int = -1) -> dict[tuple[str, str], Spent]:
        """Return the spends by (scope, adjacency) in the epochs above `after`."""
        found: dict[tuple[str, str], Spent] = {}
        for (epoch, kind, scope), spend in self.spends.items():
            if epoch > after:
                found[scope, kind] = found.get((scope, kind), Spent(kind)) + Spent(kind, *spend)
        return found

    def by_adjacency(self) -> dict[str, Spent]:
        """Return the lifetime spends by adjacency, summed over scopes."""
        found: dict[str, Spent] = {}
        for (_, kind), spent in self.spent().items():
            found[kind] = found.get(kind, Spent(kind)) + spent
        return found


def report_counts(reported_keys: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how often each key (n,) was reported; `reported_keys` is sorted."""
    return reported_keys.searchsorted(keys, "right") - reported_keys.searchsorted(keys, "left")


def merge_sorted(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sorted column of both."""
    merged = np.concatenate((old, new))
    merged.sort(kind="stable")
    return merged


@dataclass
class BudgetState:
    """All accounts of a journal, the progress of data sets, largest epoch and next number."""

    epoch: int = 0
    next: int = 1  # number of the next message
    accounts: dict[bytes, Account] = field(default_factory=dict, repr=False)
    replays: dict[bytes, DatasetProgress] = field(default_factory=dict, repr=False)

    def reported_keys(self, device: bytes, scope: str) -> NDArray[np.uint64]:
        """Return the keys on which a device has reported in a scope, sorted."""
        account = self.accounts.get(device)
        return _NONE if account is None else account.reported_keys.get(scope, _NONE)

    def check_progress(self, replay: DatasetProgress) -> None:
        """Raise RuntimeError for progress that goes back, or belongs to a run that was replaced."""
        known = self.replays.get(replay.digest)
        if known is not None and (replay.begun, replay.reserved) <= (known.begun, known.reserved):
            raise RuntimeError(f"device journal: rows below {replay.reserved} are recorded already")

    def seq(self, device: bytes, topic: str) -> int:
        """Return the last number that a device has used in a topic, 0 before the first."""
        account = self.accounts.get(device)
        return 0 if account is None else account.seqs.get(topic, 0)

    def spent(self, device: bytes, epoch: int, limits: Limits) -> tuple[int, int]:
        """Return the nano-epsilon and delta of a device that count within the limits' window."""
        account = self.accounts.get(device)
        return (0, 0) if account is None else account.total(self.after(epoch, limits))

    def check_clock(self, epoch: int, limits: Limits) -> None:
        """Raise UserError for an epoch over `CLOCK_EPOCHS` beyond the largest: a wrong clock."""
        if self.epoch and epoch > self.epoch + CLOCK_EPOCHS and not limits.trust_clock:
            raise UserError(
                f"the clock says day {epoch}, {epoch - self.epoch} days after the last release in "
                f"this journal ({self.epoch}); at most {CLOCK_EPOCHS} days are accepted, because a "
                "clock that is set forward opens budgets for good: correct the clock, or give "
                "--trust-clock if it is right"
            )

    def after(self, epoch: int, limits: Limits) -> int:
        """Return the last epoch that is outside of the window which ends with `epoch`."""
        return -1 if limits.window is None else max(epoch, self.epoch) - limits.window

    def apply(self, commit: Commit) -> None:
        """Add the debits of a commit; its messages go to the outbox."""
        self.epoch = max(self.epoch, commit.epoch)
        if commit.replay is not None:
            self.replays[commit.replay.digest] = commit.replay
        texts, columns = commit.texts, key_columns_of(commit)
        shared = len(columns) < len(commit.devices) // DEVICE_BYTES
        merged: dict[tuple[int, int], tuple[NDArray[np.uint64], NDArray[np.uint64]]] = {}
        rows = zip(
            commit.scopes,
            commit.adjacencies,
            commit.topics,
            numbers(commit.nanos, "<u8"),
            numbers(commit.attos, "<u8"),
            numbers(commit.reports, "<u4"),
            numbers(commit.reported_keys, "<u4"),
            numbers(commit.messages, "<u4"),
            numbers(commit.seqs, "<u8"),
            strict=True,
        )
        for i, (scope, kind, topic, nano, atto, reports, place, messages, seq) in enumerate(rows):
            device = commit.devices[i * DEVICE_BYTES : (i + 1) * DEVICE_BYTES]
            account = self.accounts.get(device)
            if account is None:
                account = self.accounts[device] = Account()
            account.seqs[texts[topic]] = seq + messages - 1
            name = texts[scope]
            spend = account.spends.setdefault((self.epoch, texts[kind], name), [0, 0, 0])
            spend[0] += nano
            spend[1] += atto
            spend[2] += reports
            self.next += messages
            new = columns[place]
            old = account.reported_keys.get(name)
            if old is None:
                account.reported_keys[name] = new if shared or len(new) > _SMALL else new.copy()
            elif shared:
                pair = id(old), place
                if pair not in merged:
                    # `old` is kept, so that no other array gets its id.
                    merged[pair] = old, merge_sorted(old, new)
                account.reported_keys[name] = merged[pair][1]
            else:
                account.reported_keys[name] = merge_sorted(old, new)

    # --- a compacted file -------------------------------------------------------------------------

    def record(self) -> Accounts:
        """Return the whole state as one record."""
        texts, columns = Texts(), KeyColumns()
        seqs = [
            (i, texts.place(topic), seq)
            for i, account in enumerate(self.accounts.values())
            for topic, seq in account.seqs.items()
        ]
        kept = [
            (i, texts.place(scope), columns.place(keys))
            for i, account in enumerate(self.accounts.values())
            for scope, keys in account.reported_keys.items()
        ]
        spends = [
            (i, texts.place(kind), texts.place(scope), epoch, *spend)
            for i, account in enumerate(self.accounts.values())
            for (epoch, kind, scope), spend in account.spends.items()
        ]
        seqs_of, (last,) = _columns(seqs, "<u8")
        reported_of, (places,) = _columns(kept, "<u4")
        spends_of, spent = _columns(spends, "u1", "<u4", "<u8", "<u8", "<u8")
        return Accounts(
            self.epoch,
            self.next,
            list(self.replays.values()),
            texts.all,
            b"".join(self.accounts),
            seqs_of,
            last,
            reported_of,
            places,
            columns.sizes,
            columns.keys,
            spends_of,
            *spent,
        )

    @classmethod
    def from_record(cls, record: Accounts) -> BudgetState:
        """Return the state that a compacted file begins with."""
        state = cls(record.epoch, record.next)
        state.replays = {replay.digest: replay for replay in record.replays}
        names = [
            record.devices[i : i + DEVICE_BYTES]
            for i in range(0, len(record.devices), DEVICE_BYTES)
        ]
        accounts = [Account() for _ in names]
        state.accounts = dict(zip(names, accounts, strict=True))
        texts, columns = record.texts, key_columns_of(record)
        for i, name, seq in _rows(record.seqs_of, (record.seqs, "<u8")):
            accounts[i].seqs[texts[name]] = seq
        for i, name, place in _rows(record.reported_of, (record.reported_keys, "<u4")):
            accounts[i].reported_keys[texts[name]] = columns[place]
        spend_columns = (
            (record.spend_scopes, "u1"),
            (record.spend_epochs, "<u4"),
            (record.spend_nanos, "<u8"),
            (record.spend_attos, "<u8"),
            (record.spend_reports, "<u8"),
        )
        for i, kind, scope, epoch, *spend in _rows(record.spends_of, *spend_columns):
            accounts[i].spends[epoch, texts[kind], texts[scope]] = spend
        return state


def _columns(rows: Sequence[tuple[int, ...]], *kinds: str) -> tuple[RowIndex, tuple[bytes, ...]]:
    """Return rows (device, name, values...) as columns."""
    columns = list(zip(*rows, strict=True)) or [()] * (2 + len(kinds))
    index = RowIndex(column(columns[0], "<u4"), bytes(columns[1]))
    return index, tuple(column(c, kind) for c, kind in zip(columns[2:], kinds, strict=True))


def _rows(index: RowIndex, *columns: tuple[bytes, str]) -> list[tuple[int, ...]]:
    return list(
        zip(
            numbers(index.places, "<u4"),
            index.names,
            *(numbers(data, kind) for data, kind in columns),
            strict=True,
        )
    )

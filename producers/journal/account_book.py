"""Budget state: the terms, used seqs, reported keys and spent budget of every device, for life.

The state is a function of the journal's records. An account (`producers.person.account`) needs 8
bytes for each reported item; devices that report on the same public scope share one key column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from producers.journal.budget import CLOCK_EPOCHS, Limits
from producers.journal.journal_progress import DatasetProgress
from producers.journal.records import (
    Accounts,
    Commit,
    Enrolments,
    KeyColumns,
    RowIndex,
    Texts,
    column,
    devices_of,
    key_columns_of,
    numbers,
)
from producers.person.account import Account, merge_sorted
from producers.person.enrolment import ATTO, NANO, Enrolment, Pace, PersonBudget
from producers.person.pace import Paced, paced
from producers.person.reports import Costing, Used
from stream_app.errors import UserError
from stream_app.privacy.gaussian.campaign_loss import is_campaign

_NONE = np.zeros(0, np.uint64)
_NONE_USED: Mapping[str, Used] = {}
_NOBODY = Account()  # of a device without one; nothing is written to it
_SMALL = 4096  # keys: a shorter column is copied out of its record
_UNKEYED_BYTES = 16
_NO_LIMIT = 2**64 - 1  # in a column of nano-epsilon


@dataclass
class BudgetState:
    """All accounts of a journal, the progress of data sets, largest epoch and next number; `test`:
    the journal is a test; `scope`: the digest of the public scope of reports, empty without one,
    and `campaign_scope` that of campaigns; `unkeyed`: the file still holds a digest of ratings that
    an earlier murmurec made without a key."""

    epoch: int = 0
    next: int = 1  # number of the next message
    accounts: dict[bytes, Account] = field(default_factory=dict, repr=False)
    replays: dict[bytes, DatasetProgress] = field(default_factory=dict, repr=False)
    test: bool = False
    scope: bytes = b""
    campaign_scope: bytes = b""
    unkeyed: bool = False

    def reported_keys(self, device: bytes, scope: str) -> NDArray[np.uint64]:
        """Return the keys on which a device has reported in a scope, sorted."""
        return self.accounts.get(device, _NOBODY).reported_keys.get(scope, _NONE)

    def check_progress(self, replay: DatasetProgress) -> None:
        """Raise RuntimeError for progress that goes back, or belongs to a run that was replaced."""
        known = self.replays.get(replay.digest)
        if known is not None and (replay.begun, replay.reserved) <= (known.begun, known.reserved):
            raise RuntimeError(f"device journal: rows below {replay.reserved} are recorded already")

    def seq(self, device: bytes, topic: str) -> int:
        """Return the last number that a device has used in a topic, 0 before the first."""
        return self.accounts.get(device, _NOBODY).seqs.get(topic, 0)

    def enrolment(self, device: bytes) -> Enrolment | None:
        """Return the terms of a device, None where it is not enrolled."""
        return self.accounts.get(device, _NOBODY).enrolment

    def enrolments(self) -> list[Enrolment]:
        """Return the terms of all devices, withdrawn ones too."""
        return [each.enrolment for each in self.accounts.values() if each.enrolment is not None]

    def used(self, device: bytes, epoch: int, budget: PersonBudget) -> dict[str, Used]:
        """Return what counts within the window of a budget, by mechanism."""
        account = self.accounts.get(device)
        return {} if account is None else account.used(self.after(epoch, budget.window))

    def paced(
        self,
        device: bytes,
        epoch: int,
        mechanism: Costing,
        plan: str = "",
        asked: Mapping[str, Used] = _NONE_USED,
    ) -> Paced:
        """Return what share and pace of campaigns hold for a device that is enrolled with a limit,
        beside what is asked for in this epoch."""
        account, now = self.accounts[device], max(epoch, self.epoch)
        assert account.enrolment is not None
        budget = account.enrolment.budget
        debits = account.campaigns(self.after(epoch, budget.window))
        debits += [(now, id, each.reports) for id, each in asked.items() if is_campaign(id)]
        return paced(budget, debits, mechanism, now, plan)

    def check_clock(self, epoch: int, limits: Limits) -> None:
        """Raise UserError for an epoch over `CLOCK_EPOCHS` beyond the largest: a wrong clock."""
        if self.epoch and epoch > self.epoch + CLOCK_EPOCHS and not limits.trust_clock:
            raise UserError(
                f"the clock says day {epoch}, {epoch - self.epoch} days after the last release in "
                f"this journal ({self.epoch}); at most {CLOCK_EPOCHS} days are accepted, because a "
                "clock that is set forward opens budgets for good: correct the clock, or give "
                "--trust-clock if it is right"
            )

    def after(self, epoch: int, window: int | None) -> int:
        """Return the last epoch that is outside of the window which ends with `epoch`."""
        return -1 if window is None else max(epoch, self.epoch) - window

    def apply(self, commit: Commit) -> None:
        """Add the debits of a commit; its messages go to the outbox."""
        self.epoch = max(self.epoch, commit.epoch)
        if commit.replay is not None and not _keyed(commit.replay):
            self.unkeyed = True
        elif commit.replay is not None:
            self.replays[commit.replay.digest] = commit.replay
        texts, columns = commit.texts, key_columns_of(commit)
        shared = len(columns) < len(commit.scopes)
        merged: dict[tuple[int, int], tuple[NDArray[np.uint64], NDArray[np.uint64]]] = {}
        rows = zip(
            commit.scopes,
            commit.adjacencies,
            commit.topics,
            _places(commit.mechanisms, len(commit.scopes)),
            numbers(commit.nanos, "<u8"),
            numbers(commit.attos, "<u8"),
            numbers(commit.reports, "<u4"),
            numbers(commit.reported_keys, "<u4"),
            numbers(commit.messages, "<u4"),
            numbers(commit.seqs, "<u8"),
            numbers(commit.again, "<u4") or [0] * len(commit.scopes),
            strict=True,
        )
        for device, row in zip(devices_of(commit), rows, strict=True):
            scope, kind, topic, named, nano, atto, reports, place, messages, seq, again = row
            account = self._account(device)
            account.seqs[texts[topic]] = seq + messages - 1
            name, mechanism = texts[scope], "" if named is None else texts[named]
            account.spend((self.epoch, texts[kind], name, mechanism), nano, atto, reports, again)
            account.enrolment = _pinned(account.enrolment, mechanism)
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

    def apply_enrolments(self, record: Enrolments) -> None:
        """Replace the terms of the devices of a record."""
        self.test = self.test or record.test
        self.scope = record.scope or self.scope
        self.campaign_scope = record.campaign_scope or self.campaign_scope
        budgets: dict[tuple[int, ...], PersonBudget] = {}
        rows = zip(
            devices_of(record),
            numbers(record.epochs, "<u4"),
            numbers(record.nanos, "<u8"),
            numbers(record.attos, "<u8"),
            numbers(record.windows, "<u4"),
            record.plans,
            numbers(record.held, "<u8") or [0] * len(record.plans),
            _places(record.paces, len(record.plans)),
            record.simulated,
            numbers(record.withdrawn, "<u4"),
            strict=True,
        )
        for device, epoch, *terms, simulated, withdrawn in rows:
            nano, atto, window, plan, held, place = key = tuple(terms)
            if key not in budgets:
                pace = Pace() if place is None else Pace.parse(record.texts[place])
                budgets[key] = _budget(nano, atto, window, record.texts[plan], held, pace)
            self._account(device).enrolment = Enrolment(
                device, epoch, budgets[key], bool(simulated), withdrawn
            )

    def _account(self, device: bytes) -> Account:
        if device not in self.accounts:
            self.accounts[device] = Account()
        return self.accounts[device]

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
            (i, texts.place(kind), texts.place(scope), epoch, *spend, texts.place(mechanism), again)
            for i, account in enumerate(self.accounts.values())
            for (epoch, kind, scope, mechanism), (*spend, again) in account.spends.items()
        ]
        seqs_of, (last,) = _columns(seqs, "<u8")
        reported_of, (places,) = _columns(kept, "<u4")
        spends_of, spent = _columns(spends, "u1", "<u4", "<u8", "<u8", "<u8", "u1", "<u8")
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
        state.replays = {replay.digest: replay for replay in record.replays if _keyed(replay)}
        state.unkeyed = len(state.replays) < len(record.replays)
        state.accounts = {device: Account() for device in devices_of(record)}
        accounts = list(state.accounts.values())
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
            (record.spend_again or bytes(len(record.spend_reports)), "<u8"),
        )
        rows = _rows(record.spends_of, *spend_columns)
        ids = _places(record.spend_mechanisms, len(rows))
        for (i, kind, scope, epoch, *spend), named in zip(rows, ids, strict=True):
            mechanism = "" if named is None else texts[named]
            accounts[i].spend((epoch, texts[kind], texts[scope], mechanism), *spend)
        return state


def enrolments_record(
    enrolments: Sequence[Enrolment], *, test: bool, scope: bytes = b"", campaign_scope: bytes = b""
) -> Enrolments:
    """Return these accounts, and the digests of scopes, as one record."""
    texts, budgets = Texts(), [enrolment.budget for enrolment in enrolments]
    plans = bytes([texts.place(budget.plan) for budget in budgets])
    paces = bytes([texts.place(str(budget.pace)) for budget in budgets])
    held = [int(budget.held * ATTO) for budget in budgets]
    return Enrolments(
        texts.all,
        b"".join([enrolment.device for enrolment in enrolments]),
        column([enrolment.epoch for enrolment in enrolments], "<u4"),
        column([_NO_LIMIT if b.nano is None else b.nano for b in budgets], "<u8"),
        column([budget.atto for budget in budgets], "<u8"),
        column([budget.window or 0 for budget in budgets], "<u4"),
        plans,
        bytes([enrolment.simulated for enrolment in enrolments]),
        column([enrolment.withdrawn for enrolment in enrolments], "<u4"),
        test,
        scope,
        campaign_scope,
        column(held, "<u8") if any(held) else b"",
        paces,
    )


def _budget(nano: int, atto: int, window: int, plan: str, held: int, pace: Pace) -> PersonBudget:
    epsilon = None if nano == _NO_LIMIT else Fraction(nano, NANO)
    return PersonBudget(
        epsilon, Fraction(atto, ATTO), window or None, plan, Fraction(held, ATTO), pace
    )


def _pinned(enrolment: Enrolment | None, mechanism: str) -> Enrolment | None:
    """Return the account after a release: the first one decides the plan of a budget."""
    if enrolment is None or enrolment.budget.plan or not enrolment.budget.limited or not mechanism:
        return enrolment
    return replace(enrolment, budget=replace(enrolment.budget, plan=mechanism))


def _keyed(progress: DatasetProgress) -> bool:
    """Return whether a data set is named by a keyed digest; an earlier murmurec wrote 16 bytes of
    one without a key that covered the ratings, which is forgotten: its rows are known by their
    reported keys."""
    return len(progress.digest) != _UNKEYED_BYTES


def _places(column: bytes, rows: int) -> Sequence[int | None]:
    """Return the places of a column of texts; None in each row of a file without the column."""
    return column or [None] * rows


def _columns(rows: Sequence[tuple[int, ...]], *kinds: str) -> tuple[RowIndex, tuple[bytes, ...]]:
    """Return rows (device, name, values...) as columns."""
    columns = list(zip(*rows, strict=True)) or [()] * (2 + len(kinds))
    index = RowIndex(column(columns[0], "<u4"), bytes(columns[1]))
    return index, tuple(column(c, kind) for c, kind in zip(columns[2:], kinds, strict=True))


def _rows(index: RowIndex, *columns: tuple[bytes, str]) -> list[tuple[int, ...]]:
    values = [numbers(data, kind) for data, kind in columns]
    return list(zip(numbers(index.places, "<u4"), index.names, *values, strict=True))

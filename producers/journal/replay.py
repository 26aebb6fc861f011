"""Applying frames to state: when a journal is opened, or read while another process writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from producers.journal.account_book import BudgetState
from producers.journal.append_log import refusing_os_errors, scan_or_refuse
from producers.journal.frames import Frame, Kind
from producers.journal.outbox import Outbox, messages_of
from producers.journal.records import (
    decode_accounts,
    decode_acks,
    decode_commit,
    decode_enrolments,
    decode_pending,
    numbers,
)
from stream_app.errors import UserError


def replayed(frames: Sequence[Frame], path: Path) -> tuple[BudgetState, Outbox]:
    """Return the budget state and the pending messages after these frames of the file at `path`."""
    state, outbox = BudgetState(), Outbox()
    for frame in frames:
        state = _apply(frame, state, outbox, path)
    return state, outbox


def _apply(frame: Frame, state: BudgetState, outbox: Outbox, path: Path) -> BudgetState:
    """Return the budget state after a frame; its messages are added to or removed from `outbox`."""
    try:
        if frame.kind is Kind.ACCOUNTS:
            return BudgetState.from_record(decode_accounts(frame.body))
        if frame.kind is Kind.ENROLMENTS:
            state.apply_enrolments(decode_enrolments(frame.body))
            return state
        if frame.kind is Kind.ACKS:
            for number in numbers(decode_acks(frame.body).numbers, "<u8"):
                outbox.drop(number)
            return state
        if frame.kind is Kind.PENDING:
            outbox.put(messages_of(decode_pending(frame.body)))
            return state
        commit = decode_commit(frame.body)
    except msgspec.MsgspecError:
        raise UserError(
            f"device journal {path}: holds a record of a later murmurec; use that one"
        ) from None
    state.apply(commit)
    outbox.put(messages_of(commit))
    return state


@dataclass(frozen=True)
class JournalView:
    """A journal as it is on the disk now: device key, spent budget, number of pending messages."""

    key: bytes = field(repr=False)
    book: BudgetState = field(repr=False)
    pending: int


def read_journal(path: Path | str) -> JournalView:
    """Return the content of a journal, also while another process writes it; changes nothing."""
    path = Path(path).expanduser()
    if not path.exists():
        raise UserError(f"device journal {path}: there is none; murmurec device enrol creates it")
    if not path.is_file() and not path.is_dir():
        raise UserError(f"device journal {path}: not a plain file; give another path (--journal)")
    with refusing_os_errors(path):
        data = path.read_bytes()
    if not data:
        raise UserError(
            f"device journal {path}: is empty and no journal, unless it is just being created; "
            "give another path (--journal)"
        )
    scanned = scan_or_refuse(data, path)
    state, outbox = replayed(scanned.frames, path)
    return JournalView(scanned.key, state, len(outbox))


def read_key(path: Path | str) -> bytes:
    """Return the device key of a journal, also while another process writes it."""
    return read_journal(path).key

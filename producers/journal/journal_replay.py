"""Applying frames to state: when a journal is opened, or read while another process writes it.

Messages without acknowledgement, which are sent until the broker has accepted them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from producers.journal import records
from producers.journal.account_book import BudgetState
from producers.journal.append_log import ANOTHER, refusing_os_errors, scan_or_refuse
from producers.journal.frames import Frame, Kind
from producers.journal.request import Message
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
            return BudgetState.from_record(records.decode_accounts(frame.body))
        if frame.kind is Kind.ENROLMENTS:
            state.apply_enrolments(records.decode_enrolments(frame.body))
            return state
        if frame.kind is Kind.ACKS:
            for number in records.numbers(records.decode_acks(frame.body).numbers, "<u8"):
                outbox.drop(number)
            return state
        if frame.kind is Kind.PENDING:
            outbox.put(messages_of(records.decode_pending(frame.body)))
            return state
        commit = records.decode_commit(frame.body)
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
        raise UserError(f"device journal {path}: not a plain file; {ANOTHER}")
    with refusing_os_errors(path):
        data = path.read_bytes()
    if not data:
        raise UserError(
            f"device journal {path}: is empty and no journal, unless it is just being created; "
            + ANOTHER
        )
    scanned = scan_or_refuse(data, path)
    state, outbox = replayed(scanned.frames, path)
    return JournalView(scanned.key, state, len(outbox))


def read_key(path: Path | str) -> bytes:
    """Return the device key of a journal, also while another process writes it."""
    return read_journal(path).key


class Outbox:
    """Messages by number, in the order of their release; `waiting` is their size in bytes."""

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}
        self.waiting = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def put(self, messages: Iterable[Message]) -> None:
        """Add messages."""
        for message in messages:
            self._messages[message.number] = message
            self.waiting += len(message.value)

    def drop(self, number: int) -> bool:
        """Remove a message that the broker has accepted; False if it was not waiting."""
        message = self._messages.pop(number, None)
        if message is None:
            return False
        self.waiting -= len(message.value)
        return True

    def record(self) -> records.Pending:
        """Return all messages as one record."""
        texts = records.Texts()
        kept = list(self)
        topics = bytes([texts.place(message.topic) for message in kept])
        return records.Pending(
            texts.all,
            records.column([message.number for message in kept], "<u8"),
            b"".join([message.device for message in kept]),
            topics,
            records.column([message.seq for message in kept], "<u8"),
            records.column([len(message.value) for message in kept], "<u4"),
            b"".join([message.value for message in kept]),
        )


def messages_of(record: records.Commit | records.Pending) -> Iterator[Message]:
    """Yield the messages of a record: the same bytes as when they were drawn."""
    names = _names_in(record) if isinstance(record, records.Commit) else _names(record)
    start = 0
    for (number, device, seq, topic), size in zip(
        names, records.numbers(record.value_sizes, "<u4"), strict=True
    ):
        value = record.values[start : start + size]
        yield Message(number, device, seq, record.texts[topic], value)
        start += size


_Names = Iterator[tuple[int, bytes, int, int]]  # number, device, seq, place of the topic


def _names_in(commit: records.Commit) -> _Names:
    number = commit.first
    columns = records.numbers(commit.messages, "<u4"), records.numbers(commit.seqs, "<u8")
    for device, topic, messages, seq in zip(
        records.devices_of(commit), commit.topics, *columns, strict=True
    ):
        for part in range(messages):
            yield number, device, seq + part, topic
            number += 1


def _names(record: records.Pending) -> _Names:
    columns = records.numbers(record.seqs, "<u8"), record.topics
    return zip(
        records.numbers(record.numbers, "<u8"), records.devices_of(record), *columns, strict=True
    )

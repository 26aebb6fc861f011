"""Messages without acknowledgement, which are sent until the broker has accepted them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from producers.journal.records import Commit, Pending, Texts, column, devices_of, numbers
from producers.journal.request import Message


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

    def record(self) -> Pending:
        """Return all messages as one record."""
        texts = Texts()
        kept = list(self)
        topics = bytes([texts.place(message.topic) for message in kept])
        return Pending(
            texts.all,
            column([message.number for message in kept], "<u8"),
            b"".join([message.device for message in kept]),
            topics,
            column([message.seq for message in kept], "<u8"),
            column([len(message.value) for message in kept], "<u4"),
            b"".join([message.value for message in kept]),
        )


def messages_of(record: Commit | Pending) -> Iterator[Message]:
    """Yield the messages of a record: the same bytes as when they were drawn."""
    names = _names_in(record) if isinstance(record, Commit) else _names(record)
    start = 0
    for (number, device, seq, topic), size in zip(
        names, numbers(record.value_sizes, "<u4"), strict=True
    ):
        value = record.values[start : start + size]
        yield Message(number, device, seq, record.texts[topic], value)
        start += size


_Names = Iterator[tuple[int, bytes, int, int]]  # number, device, seq, place of the topic


def _names_in(commit: Commit) -> _Names:
    number = commit.first
    columns = numbers(commit.messages, "<u4"), numbers(commit.seqs, "<u8")
    for device, topic, messages, seq in zip(
        devices_of(commit), commit.topics, *columns, strict=True
    ):
        for part in range(messages):
            yield number, device, seq + part, topic
            number += 1


def _names(record: Pending) -> _Names:
    columns = numbers(record.seqs, "<u8"), record.topics
    return zip(numbers(record.numbers, "<u8"), devices_of(record), *columns, strict=True)

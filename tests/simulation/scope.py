"""The parts of the exhaustive search: requests, processes and topics as values, and numbers."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from stream_app.checkpoints.protocol.writer import Durable, Event, Send, Writer

Topic = frozenset[tuple[bytes, bytes]]
"""The newest record of each key that has a value."""

EMPTY: Topic = frozenset()
T = TypeVar("T")


class Request(NamedTuple):
    """A record on its way; `cut` is the oldest cut that it depends on."""

    cut: int
    token: int
    key: bytes
    value: bytes | None

    @property
    def generation(self) -> int:
        """The generation of its key, 0 for a claim."""
        return 0 if self.key[:1] == b"C" else int.from_bytes(self.key[-8:])


class Worker(NamedTuple):
    """A process; `mail` are its unread assignments, `prefix` the records it read before it paused
    in the topic (after compaction: those that are gone from the topic)."""

    writer: Writer
    live: bool = False
    prefix: Topic = EMPTY
    cut: int = 0
    owns: bool = False
    mail: tuple[bool, ...] = ()
    frozen: int = 0
    durable: int = 0
    requests: tuple[Request, ...] = ()

    @property
    def written_cut(self) -> int:
        """The cut of what this owner has written or is writing, or its current cut."""
        return min(self.cut, self.durable or self.frozen or self.cut)

    @property
    def newest_generation(self) -> int:
        """The newest generation of its keys and requests."""
        keys = (int.from_bytes(key[-8:]) for key, _ in self.prefix)
        return max((self.writer.generation or 0, *keys, *(r.generation for r in self.requests)))

    def future(self) -> Hashable:
        """Return what decides the future of this process, whatever tokens it has given."""
        w = self.writer
        manifest = w._manifest and (w._manifest.number, w._manifest.cut, w._frozen is None)
        requests = sorted((*r[::2], r.value or b"", r.token in w._in_flight) for r in self.requests)
        return (
            self[1:8], tuple(requests), w.generation, w._claim is None, w._min_cut,
            tuple(w._obsolete_keys),
            w._durable and (w._durable.number, w._durable.cut), manifest,
            tuple(w._pages), tuple(w._tombstones), tuple(sorted(w._written)),
        )  # fmt: skip

    def moved(self, event: Event, **changed: Any) -> Worker:
        """Return this process, changed so, after its writer took an event."""
        writer = copy.copy(self.writer)
        for name, value in vars(writer).items():
            if isinstance(value, dict | set | deque):
                setattr(writer, name, value.copy())
        outputs = writer.step(event)
        durable = next((o.manifest.cut for o in outputs if isinstance(o, Durable)), self.durable)
        moved = self._replace(**({"durable": durable} | changed), writer=writer)
        cut = moved.written_cut
        sent = (Request(cut, o.token, o.key, o.value) for o in outputs if isinstance(o, Send))
        return moved._replace(requests=(*moved.requests, *sent))


class Numbers(Generic[T]):
    """Numbers values by a key; values with equal keys are one."""

    def __init__(self, what: Callable[[T], Hashable]) -> None:
        self._what = what
        self._numbers: dict[Hashable, int] = {}
        self.things: list[T] = []

    def of(self, thing: T) -> int:
        """Return the number of a value, a new number if it is new."""
        number = self._numbers.setdefault(self._what(thing), len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class Node(NamedTuple):
    """The whole system at one moment, as numbers of its parts."""

    topic: int
    kept_from: int
    workers: tuple[int, int]
    late: int
    owner: int
    faults: int
    compactions: int


def contents(requests: tuple[Request, ...]) -> Hashable:
    """Return the key by which bundles of late requests are compared."""
    return tuple(sorted((r.cut, r.key, r.value or b"") for r in requests))

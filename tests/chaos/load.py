"""The load: events of a made-up population for as long as wanted, one record in ten of them poison.

The outcome of every record is known when it is made: `applied`, `duplicate` or `rejected`. The
records themselves are not kept, but for a few that are sent again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from types import TracebackType
from typing import Self

import msgspec
import numpy as np

from stream_app import wire
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.wire import Event, Topics
from tests.fixtures.streams import MECHANISMS, Published, partition_of, publish

_TICK_SECONDS = 0.01
_POISON_SHARE = 0.1


class Population:
    """Devices and what they send; `next()` gives a record and its expected outcome."""

    def __init__(self, rng: np.random.Generator, devices: int = 300, items: int = 400) -> None:
        self._rng = rng
        self._items = items
        self._names = [rng.bytes(16) for _ in range(devices)]
        self._seqs = [0] * devices
        self._again: deque[Published] = deque(maxlen=50)

    def next(self) -> tuple[Published, str]:
        """Return the next record."""
        if self._rng.random() < _POISON_SHARE:
            return self._poison()
        event = self._event(int(self._rng.integers(len(self._names))))
        record = publish(event, json=bool(self._rng.integers(2)))
        self._again.append(record)
        return record, "applied"

    def _event(self, device: int, counts: bool = True) -> Event:
        self._seqs[device] += counts
        size = int(self._rng.integers(1, 7))
        first, step = int(self._rng.integers(self._items)), 1 + 2 * int(self._rng.integers(20))
        items = (first + step * np.arange(size)) % self._items
        return Event(
            self._names[device],
            max(1, self._seqs[device]),
            MECHANISMS[int(self._rng.integers(len(MECHANISMS)))],
            20_000,
            items.astype(np.uint64),
            self._rng.integers(0, 5, size).astype(np.uint8),
        )

    def _poison(self) -> tuple[Published, str]:
        rng = self._rng
        event = self._event(int(rng.integers(len(self._names))), counts=False)
        good = publish(event)
        assert good.value is not None
        key, value, place = good.key, good.value, good.partition
        match int(rng.integers(10)):
            case 0:
                return Published(place, key, rng.bytes(int(rng.integers(1, 300)))), "rejected"
            case 1:
                return Published(place, key, None), "rejected"
            case 2:
                return Published(place, key, value[:-1]), "rejected"
            case 3:
                return Published(place, key, value + b"\x00"), "rejected"
            case 4:
                return Published(place, key, _with(event, v=2)), "rejected"
            case 5:
                return Published(place, key, _with(event, mechanism="rr:5:3")), "rejected"
            case 6:
                return Published(place, key, _with(event, reports=[200])), "rejected"
            case 7:
                return Published((place + 1) % 4, key, value), "rejected"
            case 8:
                other = rng.bytes(16).hex().encode()
                return Published(partition_of(other), other, value), "rejected"
            case _:
                if not self._again:
                    return Published(place, None, value), "rejected"
                return self._again[int(rng.integers(len(self._again)))], "duplicate"


def _with(event: Event, **changed: object) -> bytes:
    """Return an event as JSON with fields that it must not have."""
    fields: dict[str, object] = msgspec.json.decode(wire.encode_json(event))
    return msgspec.json.encode(fields | changed)


class Load:
    """Publishes at `rate` records a second from a thread until the block is left."""

    def __init__(self, bootstrap: str, topics: Topics, seed: int, rate: float = 200.0) -> None:
        self._producer = clients.producer(Connection(bootstrap), linger_ms=2)
        self._topic = topics.ratings
        self._population = Population(np.random.default_rng(seed))
        self._rate = rate
        self._lock = threading.Lock()
        self._going = threading.Event()
        self._ended = threading.Event()
        self._failed: list[str] = []
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.expected: Counter[str] = Counter()
        self.sent = 0
        self.end_offsets = [0] * 4

    def __enter__(self) -> Self:
        self._going.set()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._going.set()
        self._thread.join(30)

    def burst(self, records: int) -> None:
        """Publish so many at once, and return when the broker has them."""
        with self._lock:
            self._send(records)
            self._flush()

    def pause(self) -> list[int]:
        """Publish nothing more until `go_on`, and return the end of each partition."""
        self._going.clear()
        with self._lock:
            self._flush()
            return list(self.end_offsets)

    def go_on(self) -> None:
        """Publish again."""
        self._going.set()

    def _run(self) -> None:
        owed, before = 0.0, time.monotonic()
        while not self._ended.is_set():
            if not self._going.wait(0.2):
                before = time.monotonic()
                continue
            now = time.monotonic()
            owed, before = min(owed + (now - before) * self._rate, self._rate), now
            with self._lock:
                if self._going.is_set():
                    self._send(int(owed))
            owed -= int(owed)
            self._ended.wait(_TICK_SECONDS)
        with self._lock:
            self._flush()

    def _send(self, records: int) -> None:
        for _ in range(records):
            record, becomes = self._population.next()
            while True:
                try:
                    self._producer.produce(
                        self._topic,
                        key=record.key,
                        value=record.value,
                        partition=record.partition,
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self.expected[becomes] += 1
            self.end_offsets[record.partition] += 1
            self.sent += 1
        self._producer.poll(0)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(str(error))

    def _flush(self) -> None:
        if self._producer.flush(30) or self._failed:
            raise AssertionError(f"the load was not taken by the broker: {self._failed[:3]}")

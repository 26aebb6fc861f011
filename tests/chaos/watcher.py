"""The watcher: reads the state topic and the cut log from outside, and kills at a named
point within milliseconds of its record.

    claim  page page ... page  manifest  tombstone ...     state topic
                                         cut, digest report      cut log

A kill is late by the latency of the broker and of this process, and requests on their way still
arrive. So the point of death is determined afterwards, from the last records (`where`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message, TopicPartition

from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.wire import Cut, DigestReport, Topics, WireError, decode_entry
from stream_app.wire.state_records import (
    ManifestKey,
    PageKey,
    decode_claim,
    decode_manifest,
    decode_page,
)
from stream_app.wire.state_records import decode_state_key as named
from tests.chaos.points import Point
from tests.fixtures.waiting import PATIENCE_SECONDS


@dataclass
class _Armed:
    point: Point
    amount: float
    kill: Callable[[], bool]
    fired: threading.Event


class Watcher:
    """Knows the last record, its writer, and the progress of a checkpoint."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        self._topics = topics
        self._consumer = clients.consumer(
            Connection(bootstrap), group="chaos-watcher", partition_eof=False, fetch_wait_max_ms=50
        )
        # Asked by the driver's thread, while the other one is in `poll`.
        self._ends = clients.consumer(Connection(bootstrap), group="chaos-watcher-ends")
        self._places = [TopicPartition(topics.state, 0, 0), TopicPartition(topics.cuts, 0, 0)]
        self._read = {place.topic: 0 for place in self._places}
        self._consumer.assign(self._places)
        self._armed: _Armed | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._checkpoint = (-1, -1)  # generation, number
        self._pages = 0
        self._expected = {True: 1, False: 1}  # pages of a first and of a later checkpoint
        self._last = Point.STARTING
        self._manifest_cut = -1
        self.writer = ""
        self.cut = 0
        self.cut_time = 0.0
        self.checkpoints = 0
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def arm(self, point: Point, amount: float, kill: Callable[[], bool]) -> threading.Event:
        """Call `kill` when a record of this point is seen, until it returns true: then the event
        is set."""
        fired = threading.Event()
        with self._lock:
            self._armed = _Armed(point, amount, kill, fired)
        return fired

    def disarm(self) -> None:
        """Cancel the kill."""
        with self._lock:
            self._armed = None

    def settle(self) -> None:
        """Return when everything that the broker holds now was read."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for place in self._places:
            end = clients.offsets(self._ends, place)[1]
            while self._read[place.topic] < end:
                if time.monotonic() > deadline:
                    raise AssertionError(
                        f"{place.topic} was read up to {self._read[place.topic]}, not to {end}"
                    )
                self._ended.wait(0.002)

    @property
    def where(self) -> str:
        """Where the writer's records end."""
        if self._last is not Point.PAGE:
            return str(self._last)
        first = self._checkpoint[1] == 1
        if first and self._pages < self._expected[True]:
            return str(Point.FIRST)
        if self._pages >= self._expected[first]:
            return str(Point.LAST)
        return str(Point.PAGE if self._pages == 1 else Point.MIDDLE)

    def close(self) -> None:
        """Leave the broker."""
        self._ended.set()
        self._thread.join(10)
        self._consumer.close()
        self._ends.close()

    # --- thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.05)
            if message is None or message.error() is not None:
                continue
            points = self._points(message)
            with self._lock:
                armed = self._armed
                if armed is not None and armed.point in points and armed.kill():
                    armed.fired.set()
                    self._armed = None
            self._read[message.topic()] = message.offset() + 1  # type: ignore[operator,index]

    def _points(self, message: Message) -> set[Point]:
        if message.topic() == self._topics.cuts:
            return self._entry(message.value())
        try:
            key: Any = named(message.key())
        except WireError:
            return set()
        value: Any = message.value()
        if value is None:
            self._last = Point.TOMBSTONES
        elif isinstance(key, PageKey):
            return self._page(key, decode_page(value)[0])
        elif isinstance(key, ManifestKey):
            self._last = Point.MANIFEST
            self._manifest_cut = decode_manifest(value).cut
            self._expected[self._checkpoint[1] == 1] = self._pages
            self.checkpoints += 1
        else:
            self.writer = decode_claim(key, value).worker
            self._last = Point.CLAIM
        return {self._last}

    def _page(self, key: PageKey, number: int) -> set[Point]:
        if (key.generation, number) != self._checkpoint:
            self._checkpoint, self._pages = (key.generation, number), 0
        self._pages += 1
        self._last = Point.PAGE
        first, armed = number == 1, self._armed
        share = armed.amount if armed else 0.5
        points = {Point.PAGE} if self._pages == 1 else set()
        if self._pages == max(2, round((0.2 + 0.6 * share) * self._expected[first])):
            points.add(Point.MIDDLE)
        if self._pages >= self._expected[first]:
            points.add(Point.LAST)
        if first and self._pages >= share * self._expected[first]:
            points.add(Point.FIRST)
        return points

    def _entry(self, value: bytes | None) -> set[Point]:
        try:
            entry = decode_entry(value)
        except WireError:
            return set()
        if isinstance(entry, Cut) and entry.number > self.cut:
            self.cut, self.cut_time = entry.number, time.monotonic()
        if isinstance(entry, DigestReport) and entry.cut == self._manifest_cut:
            if self._last is Point.MANIFEST:
                self._last = Point.DIGEST_REPORT
            return {Point.DIGEST_REPORT}
        return set()

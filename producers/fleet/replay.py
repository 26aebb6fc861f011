"""A data set as a fleet of devices: each rating, in time order, is published by its user's device.

    rows in time order -> chunk -> reported keys and budget of each user: which rows may go
                                -> one record: debits, all reports of the chunk (one draw), the
                                   bytes of one event per user, and the data set's progress
                                -> send

Replayed ratings take the same path as live ones. A row is refused, and counted, if the same user's
rating of the same item occurs earlier in the data set or was published before (a second report
would spend a second epsilon), if its cost exceeds the user's budget, or if its rating is off the
scale; always `published + refused = rows`. Recorded messages are sent by this run or by the next
one (`Journal.pending`), so an interrupted replay loses nothing and no rating is drawn twice. Clock,
pause and broker are arguments: `send`, `make_room` and the `Pace`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from producers.device import requests as device
from producers.device.rating import check_levels_agree, check_may_be_sent_at_once
from producers.fleet.population import Population, runs
from producers.journal import DatasetProgress, Journal, Message, OutboxFull, Request
from stream_app import wire

CHUNK = 16_384
_SLICES_PER_SECOND = 10  # chunks per second at a given speed
SLOWEST, FASTEST = 0.001, 1e9
SPEEDS = "reports per second from 0.001 to 1e9, or max"

Send = Callable[[Message], None]


@dataclass(frozen=True)
class ReplayProgress:
    """Progress of a run; `rows` counts the rows of the data set that this run has processed.

    `skipped` rows were recorded by an earlier run; `total` is what this run will process; of the
    refused rows `before` were published before, `over` exceeded the budget, `unreadable` were off
    the scale, and `repeated` occur a second time in the data set.
    """

    rows: int
    published: int
    refused: int
    messages: int
    skipped: int
    total: int
    before: int = 0
    over: int = 0
    unreadable: int = 0

    @property
    def repeated(self) -> int:
        """Rows whose user and item occur earlier in the data set."""
        return self.refused - self.before - self.over - self.unreadable


@dataclass(frozen=True)
class Pace:
    """The speed in rows per second, 0.001 to 10^9 (None: unlimited), and the clock."""

    speed: float | None = None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        if self.speed is not None and not SLOWEST <= self.speed <= FASTEST:
            raise ValueError(f"speed {self.speed}: give {SPEEDS}")

    def wait(self, started: float, rows: float) -> None:
        """Pause until `rows` rows are due."""
        ahead = started + rows / self.speed - self.clock() if self.speed else 0.0
        if ahead > 0:
            self.pause(ahead)


@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay.

    pace                  speed at which rows are sent
    limit                 largest number of rows in this run
    republish             start over and publish every row again, for a second epsilon
    ratings_per_message   largest number of ratings in one event
    chunk                 rows that are drawn and recorded together
    """

    pace: Pace = field(default_factory=Pace)
    limit: int | None = None
    republish: bool = False
    ratings_per_message: int = wire.MAX_RATINGS
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit {self.limit}: publish at least 1 row")
        device.message_slices(1, self.ratings_per_message)
        if self.chunk < 1:
            raise ValueError(f"chunk of {self.chunk} rows: at least 1")

    @property
    def rows_together(self) -> int:
        """Rows of one chunk: fewer at a low speed, so that rows are sent evenly."""
        if self.pace.speed is None:
            return self.chunk
        return max(1, min(self.chunk, int(self.pace.speed / _SLICES_PER_SECOND)))


def replay(
    population: Population,
    reporting: device.ReportSettings,
    *,
    journal: Journal,
    send: Send,
    epoch: int,
    options: ReplayOptions | None = None,
    make_room: Callable[[], None] | None = None,
) -> Iterator[ReplayProgress]:
    """Publish a population, chunk by chunk; closing the iterator stops after the current chunk.

    A data set that is finished except for rows over budget is replayed: published rows are skipped,
    and rows that fit the budget now are published. `make_room` waits for the broker while the
    outbox is full; without it a full outbox raises `OutboxFull`.
    """
    options = options or ReplayOptions()
    check_levels_agree(population.scale, reporting.mechanism)
    check_may_be_sent_at_once(reporting.mechanism)
    record = journal.begin(
        population.digest, reporting.mechanism.id, population.rows, republish=options.republish
    )
    last = population.rows
    if options.limit is not None:
        last = min(last, record.reserved + options.limit)
    chunk = options.rows_together

    def release(start: int, over: int) -> ReleasedChunk:
        today, most = journal.epoch(epoch), options.ratings_per_message
        releaser = _ChunkReleaser(population, reporting, journal, record, today, most)
        return releaser.release(start, min(start + chunk, last), record.over + over, make_room)

    starts = range(record.reserved, last, chunk)
    return _run(population, record, starts, last, release, send, options.pace)


def _run(
    population: Population,
    record: DatasetProgress,
    starts: range,
    last: int,
    release: Callable[[int, int], ReleasedChunk],
    send: Send,
    pace: Pace,
) -> Iterator[ReplayProgress]:
    first = record.reserved
    # Unreadable rows have no place in the order; the run that begins the data set counts them.
    published, refused, messages = 0, 0 if first else population.unreadable, 0
    extra, before, over = refused, 0, 0
    started = pace.clock()
    for start in starts:
        end = min(start + starts.step, last)
        done = release(start, over)
        for message in done.messages:
            send(message)
        messages += len(done.messages)
        published += len(done.rows)
        refused += end - start - len(done.rows)
        before, over = before + done.before, over + done.over
        yield ReplayProgress(
            *(end - first + extra, published, refused, messages, first, last - first + extra),
            *(before, over, extra),
        )
        if end < last:
            pace.wait(started, end - first)


@dataclass(frozen=True)
class ReleasedChunk:
    """The messages of a chunk, the rows they hold, and why the other rows were not published."""

    messages: list[Message]
    rows: NDArray[np.int64]
    before: int
    over: int


@dataclass(frozen=True)
class _ChunkReleaser:
    population: Population
    reporting: device.ReportSettings
    journal: Journal
    record: DatasetProgress
    epoch: int
    ratings_per_message: int

    def release(
        self, start: int, end: int, over: int, make_room: Callable[[], None] | None
    ) -> ReleasedChunk:
        """Record the publishable rows of start .. end-1 in one commit; `over` rows before them
        exceeded the budget."""
        fresh = start + np.flatnonzero(self.population.fresh[start:end])
        fresh = fresh[np.argsort(self.population.users[fresh], kind="stable")]
        rows = self._unreported(fresh)
        fitting = self._affordable(rows)
        requests = self._requests(fitting)
        held = over + len(rows) - len(fitting)
        progress = structs.replace(self.record, reserved=end, over=held)
        messages = commit_when_room(self.journal, requests, progress, make_room)
        return ReleasedChunk(messages, fitting, len(fresh) - len(rows), len(rows) - len(fitting))

    def _unreported(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that were not published before; all of them with `republish`."""
        if self.record.republish or not len(rows):
            return rows
        owners, heads = runs(self.population.users[rows])
        devices = self.population.devices
        new = [
            self.journal.unreported(devices[owner], items)
            for owner, items in zip(
                owners.tolist(), np.split(self.population.items[rows], heads[1:]), strict=True
            )
        ]
        return rows[np.concatenate(new)]

    def _affordable(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first rows of each user, as many as fit the budget."""
        if not len(rows):
            return rows
        owners, heads = runs(self.population.users[rows])
        sizes = np.diff(heads, append=len(rows)).tolist()
        kept = np.zeros(len(rows), bool)
        for owner, head, size in zip(owners.tolist(), heads.tolist(), sizes, strict=True):
            room = self.journal.room(
                self.population.devices[owner], self.reporting.mechanism, self.epoch
            )
            kept[head : head + (size if room is None else min(room, size))] = True
        return rows[kept]

    def _requests(self, rows: NDArray[np.int64]) -> list[Request]:
        """Return one request per user, its rows in the order of their keys: the order in which the
        user rated them is not sent."""
        if not len(rows):
            return []
        rows = rows[np.lexsort((self.population.items[rows], self.population.users[rows]))]
        keys = self.population.items[rows]
        masks = device.masks_of(self.reporting.mechanism, keys, self.reporting.table)
        owners, heads = runs(self.population.users[rows])
        raw_levels, most = self.population.raw_levels[rows], self.ratings_per_message
        ends = [*heads[1:].tolist(), len(rows)]
        return [
            device.build_request(
                device.ReportColumns(
                    raw_levels[head:end],
                    keys[head:end],
                    None if masks is None else masks[head:end],
                    keys[head:end],
                ),
                self.reporting,
                device=self.population.devices[owner],
                epoch=self.epoch,
                republish=self.record.republish,
                parts=device.message_slices(end - head, most),
            )
            for owner, head, end in zip(owners.tolist(), heads.tolist(), ends, strict=True)
        ]


def commit_when_room(
    journal: Journal,
    requests: list[Request],
    progress: DatasetProgress | None,
    make_room: Callable[[], None] | None,
) -> list[Message]:
    """Commit requests; while the outbox is full, call `make_room` and try again."""
    while True:
        try:
            return journal.commit(requests, progress)
        except OutboxFull:
            if make_room is None or not journal.waiting_bytes:
                raise
            make_room()

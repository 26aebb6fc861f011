"""A data set as a population of devices: every rating, in time order, leaves its user's device.

    rows in time order -> chunk -> store: reserve rows and seqs (one commit)
                                -> release all of the chunk (one draw)
                                -> per user one event, encoded  -> send

The same path as live ratings, only faster. A row is refused, and counted, when the same user rated
the same item before (a second report would spend a second epsilon) or when its rating is off the
scale; always `published + refused = rows`. Because rows are reserved before they are drawn, an
interrupted replay goes on after the last reserved chunk: what was not sent of that chunk is lost,
and no rating is ever drawn twice. Nothing here reads a clock or talks to Kafka by itself: `send`,
`clock` and `pause` are arguments.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from producers import device
from producers.datasets import Dataset
from producers.pseudonyms import pseudonyms
from producers.rating import check_levels_agree
from producers.scale import Scale
from producers.store import Replay, Store
from stream_app import wire
from stream_app.errors import Refusal
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource

CHUNK = 16_384
_SLICES_PER_SECOND = 10  # at a given speed: how often a chunk leaves

Send = Callable[[bytes, bytes], None]


@dataclass(frozen=True)
class Progress:
    """How far a run has come; `rows` counts the data set's rows dealt with in this run.

    `skipped` rows were reserved by an earlier run; `total` is what this run will deal with;
    `most` is the largest number of ratings that one user has published in this run.
    """

    rows: int
    published: int
    refused: int
    messages: int
    skipped: int
    total: int
    most: int
    ended: bool


@dataclass(frozen=True, eq=False, repr=False)  # raw columns have no place in a log
class Population:
    """A data set ready to be published: (n,) columns in time order; `users` indexes `devices`."""

    users: NDArray[np.int64]
    items: NDArray[np.uint64]
    raw_levels: NDArray[np.uint8]
    fresh: NDArray[np.bool_]  # the first rating of its (user, item)
    devices: tuple[bytes, ...]
    digest: bytes
    scale: Scale
    unreadable: int  # rows that the loader refused

    @property
    def rows(self) -> int:
        """Number of rows that were read."""
        return len(self.users)

    @property
    def most(self) -> int:
        """The largest number of ratings that one user will have published."""
        return int(np.bincount(self.users[self.fresh]).max())


def populate(dataset: Dataset, key: bytes) -> Population:
    """Give every user of a data set a device under the device key, and find repeated ratings."""
    ordered = dataset.in_time_order()
    names, users = np.unique(ordered.users, return_inverse=True)
    item_names, places = np.unique(ordered.items, return_inverse=True)
    try:
        item_keys = device.item_keys(item_names.tolist())
        devices = tuple(pseudonyms(key, names.tolist()))
    except ValueError as error:
        raise Refusal(f"{dataset.name}: {error}") from None
    cells = users.astype(np.int64) * len(item_names) + places
    fresh = np.zeros(len(cells), bool)
    fresh[np.unique(cells, return_index=True)[1]] = True
    digest = blake2b(digest_size=16)
    for column in (ordered.users, ordered.items):
        digest.update("\n".join(map(str, column.tolist())).encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    digest.update(np.ascontiguousarray(ordered.ratings, "<f8").tobytes())
    return Population(
        users.astype(np.int64),
        item_keys[places],
        ordered.levels,
        fresh,
        devices,
        digest.digest(),
        dataset.scale,
        dataset.refused,
    )


def replay(
    population: Population,
    *,
    mechanism: Mechanism,
    store: Store,
    source: RandomSource,
    send: Send,
    epoch: int,
    speed: float | None = None,
    limit: int | None = None,
    again: bool = False,
    ratings_per_message: int = wire.MAX_RATINGS,
    chunk: int = CHUNK,
    allow_tests: bool = False,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[Progress]:
    """Publish a population, chunk by chunk; closing the iterator stops after the chunk it is at.

    `speed` in ratings per second, None for as fast as possible; `limit`: at most so many rows in
    this run; `again`: publish what the store says was published already, at the price of a second
    epsilon.
    """
    if speed is not None and not speed > 0:
        raise ValueError(f"speed {speed}: give ratings per second above 0, or max")
    if limit is not None and limit < 1:
        raise ValueError(f"limit {limit}: publish at least 1 row")
    if not 1 <= ratings_per_message <= wire.MAX_RATINGS:
        raise ValueError(f"{ratings_per_message} ratings per message: 1 to {wire.MAX_RATINGS}")
    if chunk < 1:
        raise ValueError(f"chunk of {chunk} rows: at least 1")
    check_levels_agree(population.scale, mechanism)
    device.check_source(source, allow_tests=allow_tests)
    record = store.begin(population.digest, mechanism.id, population.rows, again=again)
    last = population.rows if limit is None else min(population.rows, record.reserved + limit)
    if speed is not None:
        chunk = max(1, min(chunk, int(speed / _SLICES_PER_SECOND)))

    def released(start: int) -> Iterator[wire.Event]:
        return release_chunk(
            population,
            start,
            min(start + chunk, last),
            record,
            mechanism=mechanism,
            store=store,
            source=source,
            epoch=epoch,
            ratings_per_message=ratings_per_message,
            allow_tests=allow_tests,
        )

    return _run(
        population,
        record,
        range(record.reserved, last, chunk),
        last,
        released,
        send,
        Pace(speed, clock, pause),
    )


@dataclass(frozen=True)
class Pace:
    """How fast rows may leave: `speed` per second (None: unbounded), and the clock that tells."""

    speed: float | None
    clock: Callable[[], float]
    pause: Callable[[float], object]

    def wait(self, started: float, rows: int) -> None:
        """Pause until `rows` rows are due."""
        ahead = started + rows / self.speed - self.clock() if self.speed else 0.0
        if ahead > 0:
            self.pause(ahead)


def _run(
    population: Population,
    record: Replay,
    starts: range,
    last: int,
    released: Callable[[int], Iterator[wire.Event]],
    send: Send,
    pace: Pace,
) -> Iterator[Progress]:
    first = record.reserved
    # Unreadable rows have no place in the order; the run that begins the data set counts them.
    published, refused, messages = 0, 0 if first else population.unreadable, 0
    extra, spent = refused, np.zeros(len(population.devices), np.int64)
    started = pace.clock()
    for start in starts:
        end = min(start + starts.step, last)
        for event in released(start):
            send(event.key, wire.encode(event))
            published += len(event.items)
            messages += 1
        fresh = population.fresh[start:end]
        spent += np.bincount(population.users[start:end][fresh], minlength=len(spent))
        refused += int((~fresh).sum())
        rows, total, most = end - first + extra, last - first + extra, int(spent.max())
        yield Progress(rows, published, refused, messages, first, total, most, end == last)
        if end < last:
            pace.wait(started, end - first)


def release_chunk(
    population: Population,
    start: int,
    end: int,
    record: Replay,
    *,
    mechanism: Mechanism,
    store: Store,
    source: RandomSource,
    epoch: int,
    ratings_per_message: int = wire.MAX_RATINGS,
    allow_tests: bool = False,
) -> Iterator[wire.Event]:
    """Reserve rows start .. end-1, draw all their reports at once, return events user by user."""
    rows = start + np.flatnonzero(population.fresh[start:end])
    users = population.users[rows]
    order = np.argsort(users, kind="stable")
    rows, users = rows[order], users[order]
    heads = np.flatnonzero(np.diff(users, prepend=-1))
    owners = users[heads]
    sizes = np.diff(heads, append=len(rows))
    parts = -(-sizes // ratings_per_message)
    devices = [population.devices[owner] for owner in owners.tolist()]
    seqs = store.advance(record, end, list(zip(devices, parts.tolist(), strict=True)))
    reports = device.release(
        population.raw_levels[rows], mechanism, source, allow_tests=allow_tests
    )
    items, name, test = population.items[rows], mechanism.id, source.unsafe
    spans = zip(devices, seqs, heads.tolist(), sizes.tolist(), strict=True)
    return (
        wire.Event(
            owner, seq + part, name, epoch,
            items[head + at : head + min(at + ratings_per_message, size)],
            reports[head + at : head + min(at + ratings_per_message, size)],
            test,
        )
        for owner, seq, head, size in spans
        for part, at in enumerate(range(0, size, ratings_per_message))
    )  # fmt: skip

"""A data set as a population of devices: every rating, in time order, leaves its user's device.

    rows in time order -> chunk -> store: reserve rows and seqs (one commit)
                                -> release all of the chunk (one draw)
                                -> per user one event, encoded  -> send

The same path as live ratings, only faster. A row is refused, and counted, when the same user's
rating of the same item stands before it in the data set or was published before from anywhere (a
second report would spend a second epsilon), or when its rating is off the scale; always
`published + refused = rows`. Because rows and ratings are reserved before they are drawn, an
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
    `most` is the largest number of ratings that one user has published in this run; `before` of
    the refused rows were published before this data set was begun.
    """

    rows: int
    published: int
    refused: int
    messages: int
    skipped: int
    total: int
    most: int
    ended: bool
    before: int = 0


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
        # "1193" among texts is the item 1193, as it is in a column of numbers and when it is typed.
        item_keys = device.item_keys([_item(name) for name in item_names.tolist()])
        devices = tuple(pseudonyms(key, names.tolist()))
    except ValueError as error:
        raise Refusal(f"{dataset.name}: {error}") from None
    keys, same = np.unique(item_keys, return_inverse=True)
    cells = users.astype(np.int64) * len(keys) + same[places]
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


def _item(name: int | str) -> wire.Item:
    return wire.parse_item(name) if isinstance(name, str) else name


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
    this run; `again`: start over and publish what the store says was published already, at the
    price of a second epsilon.
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

    def released(start: int) -> tuple[NDArray[np.int64], Iterator[wire.Event]]:
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
    released: Callable[[int], tuple[NDArray[np.int64], Iterator[wire.Event]]],
    send: Send,
    pace: Pace,
) -> Iterator[Progress]:
    first = record.reserved
    # Unreadable rows have no place in the order; the run that begins the data set counts them.
    published, refused, messages, before = 0, 0 if first else population.unreadable, 0, 0
    extra, spent = refused, np.zeros(len(population.devices), np.int64)
    started = pace.clock()
    for start in starts:
        end = min(start + starts.step, last)
        sent, events = released(start)
        for event in events:
            send(event.key, wire.encode(event))
            published += len(event.items)
            messages += 1
        spent += np.bincount(population.users[sent], minlength=len(spent))
        refused += end - start - len(sent)
        before += int(np.count_nonzero(population.fresh[start:end])) - len(sent)
        rows, total, most = end - first + extra, last - first + extra, int(spent.max())
        yield Progress(rows, published, refused, messages, first, total, most, end == last, before)
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
) -> tuple[NDArray[np.int64], Iterator[wire.Event]]:
    """Reserve rows start .. end-1 and draw all their reports at once.

    Returns the rows that are published, user by user, and their events.
    """
    rows = start + np.flatnonzero(population.fresh[start:end])
    rows = rows[np.argsort(population.users[rows], kind="stable")]
    owners, heads = _runs(population.users[rows])
    asked = zip(
        (population.devices[owner] for owner in owners.tolist()),
        np.split(population.items[rows], heads[1:]),
        strict=True,
    )
    reserved = store.advance(record, end, asked if len(rows) else (), ratings_per_message)
    seqs = {owner: seq for owner, (seq, _) in zip(owners.tolist(), reserved, strict=True)}
    if reserved:
        rows = rows[np.concatenate([wanted for _, wanted in reserved])]
    owners, heads = _runs(population.users[rows])
    sizes = np.diff(heads, append=len(rows))
    reports = device.release(
        population.raw_levels[rows], mechanism, source, allow_tests=allow_tests
    )
    items, name, test = population.items[rows], mechanism.id, source.unsafe
    spans = zip(owners.tolist(), heads.tolist(), sizes.tolist(), strict=True)
    return rows, (
        wire.Event(
            population.devices[owner], seqs[owner] + part, name, epoch,
            items[head + at : head + min(at + ratings_per_message, size)],
            reports[head + at : head + min(at + ratings_per_message, size)],
            test,
        )
        for owner, head, size in spans
        for part, at in enumerate(range(0, size, ratings_per_message))
    )  # fmt: skip


def _runs(users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the users of a column in which each one's rows lie together, and where they begin."""
    heads = np.flatnonzero(np.diff(users, prepend=-1))
    return users[heads], heads

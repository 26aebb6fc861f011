"""Ratings whose pairs are counted, per CPU second of one thread: MovieLens-1M, lists of 128 items.

One rating a message in time order, all of one day, which counts pairs within a visit, too, and 200
a message as devices publish a backlog, of one day or each of a later one; the naive version counts
the same ratings in dictionaries. `apply` is the state without Kafka: a backlog of packed messages
through the default replica, with pairs and without.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stream_app import wire
from stream_app.models.cooccurrence.item_pairs import ItemPairs, RecordColumns
from stream_app.models.cooccurrence.like_weights import like_weights
from stream_app.models.factorization.channels import Channels
from stream_app.privacy import registry
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import Batch, Event, RecordRun, decode_many
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import Ratings, load, skipped
from tests.naive import pairs as naive

HEAD, RECENT, BATCH, NAIVE = 2048, 128, 50_000, 2000
MECHANISM = registry.parse("rr:5:2")


def measure() -> list[Figure]:
    """Return counted ratings per CPU second, and the rate of the whole state."""
    ratings = load()
    if ratings is None:
        return skipped("pairs counted per second")
    single, packed = columns(ratings, 1), columns(packed_order(ratings, 200), 200)
    one = rate(single)
    daily = [part._replace(days=np.arange(len(part.days)) + n * BATCH)
             for n, part in enumerate(packed)]  # fmt: skip
    figures = [
        Figure("pairs counted, W = 128, 1 rating a message", one / 1e6, "M ratings/s", ">= 0.2"),
        Figure("the same, 200 a message", rate(packed) / 1e6, "M ratings/s", ">= 0.2"),
        Figure("the same, each of a later day", rate(daily) / 1e6, "M ratings/s", ">= 0.2"),
        Figure("against the naive version", one / naive_rate(single), "x", ">= 20"),
    ]
    for mechanism in ("rr:5:2", "none:5:inf"):
        off, on = (apply_rate(ratings, mechanism, head) for head in (0, HEAD))
        name = f"state applied, 200 a packed message, {mechanism}"
        figures += [
            Figure(f"{name}, pairs on", on / 1e6, "M ratings/s", ">= 0.8"),
            Figure(f"{name}, slower with pairs by", 1 - on / off, "", "<= 0.4"),
        ]
    return figures


def packed_order(ratings: Ratings, each: int) -> Ratings:
    """Return ratings in runs of `each` of one user, from users with as many, in random order."""
    order = np.argsort(ratings.users, kind="stable")
    ends = np.flatnonzero(np.diff(ratings.users[order], append=0))
    runs = []
    for start, end in zip(np.append(0, ends[:-1] + 1), ends + 1, strict=True):
        runs += [order[at : at + each] for at in range(start, end - each + 1, each)]
    chosen = np.random.default_rng(1).permutation(len(runs))
    rows = np.concatenate([runs[i] for i in chosen])
    return Ratings(ratings.users[rows], ratings.items[rows], ratings.levels[rows])


def columns(ratings: Ratings, each: int) -> list[RecordColumns]:
    """Return batches of records of `each` ratings."""
    users = np.unique(ratings.users, return_inverse=True)[1]
    items = np.unique(ratings.items, return_inverse=True)[1]
    reports, made = ratings.reports(MECHANISM), []
    for start in range(0, len(items), BATCH):
        part = slice(start, start + BATCH)
        count = len(items[part])
        made.append(
            RecordColumns(
                users[part][::each].copy(), np.full(count // each, each),
                np.zeros(count // each, np.int64), items[part].copy(),
                np.zeros(count, np.uint16), reports[part].copy(), np.full(count, 3.6),
                np.zeros(count, np.bool_),
            )
        )  # fmt: skip
    return made


def rate(batches: list[RecordColumns]) -> float:
    """Return ratings a CPU second, elections at the end of each batch included."""
    channels = Channels.from_mechanisms([MECHANISM])
    weights, best = like_weights(channels), 0.0
    items = 1 + max(int(batch.rows.max()) for batch in batches)
    keys = np.arange(items, dtype=np.uint64)
    for _ in range(3):
        feed = ItemPairs(channels, weights, HEAD, RECENT, one=15, in_order=True)
        feed.extend(items, 1 + max(int(batch.devices.max()) for batch in batches))
        began = time.process_time()
        for batch in batches:
            feed.count(batch)
            feed.elect(keys)
        seconds = time.process_time() - began
        best = max(best, sum(len(batch.rows) for batch in batches) / seconds)
    return best


def naive_rate(batches: list[RecordColumns]) -> float:
    """Return ratings a CPU second of the naive version, on lists that are full."""
    slow = naive.Pairs(HEAD, RECENT // 16, in_order=True)
    slow.count(0, [(item, 1 + item % 15) for item in range(RECENT)])
    first = batches[0]
    began = time.process_time()
    for item in first.rows[:NAIVE].tolist():
        slow.count(0, [(item, 1 + item % 15)])
    return NAIVE / (time.process_time() - began)


def apply_rate(ratings: Ratings, mechanism: str, head: int) -> float:
    """Return ratings a CPU second of a default replica, the best of three."""
    mechanisms = (registry.parse(mechanism),)
    spec = StateSpec(mechanisms, partitions=1, head_items=head)
    batches = list(decoded(packed_order(ratings, 200), mechanism, spec))
    best = 0.0
    for _ in range(3):
        replica = Replica(replace(spec))
        began = time.process_time()
        for number, batch in enumerate(batches, 1):
            replica.apply(batch)
            replica.end_round(number, [int(batch.offsets[-1]) + 1])
        best = max(best, sum(batch.ratings for batch in batches) / (time.process_time() - began))
    return best


def decoded(ratings: Ratings, mechanism: str, spec: StateSpec) -> Iterator[Batch]:
    """Yield a backlog of messages of 200 ratings, 250 to a batch."""
    reports, seqs = ratings.reports(registry.parse(mechanism)), dict[int, int]()
    keys, values = list[bytes](), list[bytes]()
    for at in range(0, len(reports), 200):
        part, user = slice(at, at + 200), int(ratings.users[at])
        seqs[user] = seqs.get(user, 0) + 1
        event = Event(
            user.to_bytes(16, "little"), seqs[user], mechanism, 0, ratings.items[part],
            reports[part],
        )  # fmt: skip
        keys.append(event.key)
        values.append(wire.encode(event))
    for at in range(0, len(keys), 250):
        part = slice(at, at + 250)
        run = RecordRun(0, range(at, at + len(keys[part])), keys[part], values[part])
        yield decode_many(run, spec.intake)

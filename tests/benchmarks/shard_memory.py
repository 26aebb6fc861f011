"""Memory of one worker of 3 M devices, and of one of eight shards, each in a process of its own.

A device rates four items of 10,000, on one day. The shard is fed the ratings of its own devices and
merges its own change, so that it holds the base of all items.

    devices      marks, lists, seen filter, rows and scalars of users   (tracked)
    item side    all else: items, pairs, counts and their bases          (tracked)
    target       (devices of one worker) / 8 x 1.1 + item side of the shard

Once with tables of the size that the devices of a shard need, as of a deployment that begins with
shards; once with those of one worker, as of a state that was divided.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.privacy import registry
from stream_app.state.replica import Replica, StateSpec
from tests.benchmarks.figure import Figure
from tests.fixtures.shards import Numbered, Stream, home

DEVICES, ITEMS, EACH, SHARDS, STEP = 3_000_000, 10_000, 4, 8, 200_000
_MIB = 1 << 20
SIZES = {"sketch_bytes": 448 * _MIB, "scalars_bytes": 96 * _MIB, "seen_bytes": 16 * _MIB}


@dataclass(frozen=True)
class Held:
    """Bytes that a process holds: by which it has grown, and what is tracked."""

    grown: int
    devices: int
    items: int


def measure() -> list[Figure]:
    """Return what one worker and a shard hold, and the shard over its target."""
    small = {name: size // SHARDS for name, size in SIZES.items()}
    one, figures = _of("one worker", SIZES, 1), list[Figure]()
    figures += _figures("one worker", one)
    for name, sizes in (("own sizes", small), ("sizes of one worker", SIZES)):
        label = f"a shard of {SHARDS}, {name}"
        shard = _of(label, sizes, SHARDS)
        target = one.devices / SHARDS * 1.1 + shard.items
        figures += _figures(label, shard)
        figures += [
            Figure(f"{label}, target", target / _MIB, "MiB"),
            Figure(f"{label}, resident over target", shard.grown / target, "x", "<= 1"),
        ]
    return figures


def _figures(name: str, held: Held) -> list[Figure]:
    parts = {"resident": held.grown, "devices": held.devices, "item side": held.items}
    return [Figure(f"{name}, {part}", size / _MIB, "MiB") for part, size in parts.items()]


def crowd(devices: int, draw: np.random.Generator) -> Stream:
    """Return four ratings of each device, of items with a long tail, over twenty days."""
    ratings = devices * EACH
    weights = np.cumsum(1 / (np.arange(ITEMS) + 20.0))
    chosen = np.searchsorted(weights / weights[-1], draw.random(ratings)).astype(np.uint64)
    users = np.repeat(draw.permutation(devices).astype(np.uint64), EACH)
    days = 20_000 + np.arange(ratings) * 20 // ratings
    return Stream(users, chosen, draw.integers(0, 5, ratings).astype(np.uint8), days)


def spec_of(sizes: dict[str, int], shards: int = 1) -> StateSpec:
    """Return a spec of eight partitions."""
    return StateSpec((registry.parse("none:5:inf"),), partitions=8, shards=shards, **sizes)


def fill(replica: Replica, stream: Stream, devices: int) -> None:
    """Let a replica learn the ratings of its partitions, in rounds of `STEP` of all."""
    numbered = Numbered(devices)
    for first in range(0, len(stream), STEP):
        part = stream.part(first, first + STEP)
        homes = home(part.users, replica.spec.partitions)
        for partition in replica.spec.owned:
            replica.apply(numbered.batch(partition, part.at(homes == partition)))
        replica.end_round(replica.cut + 1, replica.end_offsets)


def _of(name: str, sizes: dict[str, int], shards: int) -> Held:
    """Return what a worker holds, measured in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_held, (sizes, shards))


def _held(sizes: dict[str, int], shards: int) -> Held:
    spec = spec_of(sizes, shards)
    _learned(replace(spec, sketch_bytes=_MIB, head_items=64), 1_000)  # kernels, compiled or read
    before = _resident()
    replica = _learned(spec, DEVICES)
    return _tracked(replica, _resident() - before)


def _learned(spec: StateSpec, devices: int) -> Replica:
    """Return what has learned its share of the ratings of so many devices."""
    replica = Replica(spec)
    fill(replica, crowd(devices, np.random.default_rng(1)), devices)
    change = replica.change(1, pairs=True)
    if change is not None:
        replica.merge([change])
    return replica


def _tracked(replica: Replica, grown: int) -> Held:
    learner, memory, feed = replica.learner, replica.memory(), replica.pairs.rated
    assert isinstance(learner, HybridLearner)
    assert feed is not None
    items, row = len(replica.items), 4 * learner.factors
    tables = sum(array.nbytes for name, array in learner.arrays().items() if name != "vectors")
    devices = memory["marks"] + feed.lists.memory_bytes + memory["seen"] + tables
    devices += (learner.rows_given - items) * row
    side = memory["items"] + memory["statistics"] + memory["pairs"] - feed.lists.memory_bytes
    side += items * row
    if replica.shared is not None:  # of the base of rows what items own
        base = replica.shared.rows
        side += memory["shared"] - base.memory_bytes + items * 8 * (3 + learner.factors)
    return Held(grown, devices, side)


def _resident() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * next(int(r.split()[1]) for r in status.splitlines() if r.startswith("VmRSS"))

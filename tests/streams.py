"""Small logs for tests: what a population of devices would have published, partition by
partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app import wire
from stream_app.privacy import registry
from stream_app.wire import Event, Run

MECHANISMS = ("rr:5:2", "none:5:inf")
# One of every family; what is not of value adjacency sends every cell of a scope.
EVERY_FAMILY = (*MECHANISMS, "partition:5:2", "cell:5:2", "ternary:5:1:1/2", "laplace:5:4")


@dataclass(frozen=True)
class Published:
    """One record: where it lies, its key and its value."""

    partition: int
    key: bytes | None
    value: bytes | None


def partition_of(key: bytes, partitions: int = 4) -> int:
    """Return where a record with this key lies."""
    return int(wire.partitions_of(np.frombuffer(key, np.uint8).reshape(1, 32), partitions)[0])


def publish(event: Event, *, json: bool = False, partitions: int = 4) -> Published:
    """Return the record of an event."""
    value = wire.encode_json(event) if json else wire.encode(event)
    return Published(partition_of(event.key, partitions), event.key, value)


def events(
    rng: np.random.Generator,
    count: int,
    *,
    devices: int = 30,
    items: int = 50,
    most: int = 6,
    mechanism: str | None = None,
    families: tuple[str, ...] = MECHANISMS,
) -> list[Event]:
    """Return events of random devices with random reports, each device counting its `seq` up."""
    names = [rng.bytes(16) for _ in range(devices)]
    seqs = dict.fromkeys(names, 0)
    made = []
    for _ in range(count):
        device = names[int(rng.integers(devices))]
        seqs[device] += 1
        size = int(rng.integers(1, most + 1))
        name = mechanism or families[int(rng.integers(len(families)))]
        of = registry.parse(name)
        masks = rng.integers(of.masks[0], of.masks[-1] + 1, size) if of.masks else None
        reports = rng.integers(0, of.alphabet, size)
        if masks is not None:
            reports %= np.array([int(mask).bit_count() + 1 for mask in masks])
            masks = masks.astype(np.uint16)
        made.append(
            Event(
                device,
                seqs[device],
                name,
                20_000,
                rng.choice(items, size, replace=False).astype(np.uint64),
                reports.astype(np.uint8),
                masks=masks,
            )
        )
    return made


def log(records: list[Published], partitions: int = 4) -> list[list[Published]]:
    """Return the records of each partition in their order."""
    return [[r for r in records if r.partition == p] for p in range(partitions)]


def run_of(records: list[Published], start: int, stop: int, partition: int) -> Run:
    """Return records start .. stop-1 of one partition's log as a run."""
    part = records[start:stop]
    return Run(partition, range(start, stop), [r.key for r in part], [r.value for r in part])

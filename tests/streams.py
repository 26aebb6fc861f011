"""Small logs for tests: what a population of devices would have published, partition by
partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app import wire
from stream_app.wire import Event, Run

MECHANISMS = ("rr:5:2", "none:5:inf")


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
) -> list[Event]:
    """Return events of random devices with random reports, each device counting its `seq` up."""
    names = [rng.bytes(16) for _ in range(devices)]
    seqs = dict.fromkeys(names, 0)
    made = []
    for _ in range(count):
        name = names[int(rng.integers(devices))]
        seqs[name] += 1
        size = int(rng.integers(1, most + 1))
        made.append(
            Event(
                name,
                seqs[name],
                mechanism or MECHANISMS[int(rng.integers(2))],
                20_000,
                rng.choice(items, size, replace=False).astype(np.uint64),
                rng.integers(0, 5, size).astype(np.uint8),
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

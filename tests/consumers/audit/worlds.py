"""Crafted logs: what honest devices would send, or devices with a planted fault, as records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from consumers.audit import Finding, PublicConfiguration, audit_observed, observe
from consumers.audit.findings import Verdict
from consumers.audit.observed import Record, Source
from stream_app import wire
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from stream_app.wire.authenticity.sealed_replies import SealedQuery, reply_record
from tests.fixtures.streams import partition_of

RR, CELL, OPEN = registry.parse("rr:5:2"), registry.parse("cell:5:2"), registry.parse("none:5:inf")
EPOCH, DAY = 20_000, 86_400_000


@dataclass
class World:
    """A log under construction; its noise and its choices come from one seed."""

    seed: int
    records: list[Record] = field(default_factory=list)
    seqs: dict[bytes, int] = field(default_factory=dict)
    rng: np.random.Generator = field(init=False)
    noise: SeededSource = field(init=False)

    def __post_init__(self) -> None:
        self.rng, self.noise = np.random.default_rng(self.seed), SeededSource(self.seed)

    def device(self) -> bytes:
        """Return a new pseudonym."""
        return self.rng.bytes(16)

    def send(
        self,
        device: bytes,
        items: NDArray[np.uint64],
        inputs: NDArray[np.uint8],
        mechanism: Mechanism = RR,
        *,
        epoch: int = EPOCH,
        time: float = 0.0,
        drawn_by: Mechanism | None = None,
        seq: int | None = None,
        headers: int = 0,
    ) -> bytes:
        """Release these inputs and append the record; `drawn_by` draws in the mechanism's name."""
        reports = (drawn_by or mechanism).release(inputs, self.noise)
        if seq is None:
            seq = self.seqs[device] = self.seqs.get(device, 0) + 1
        event = wire.Event(device, seq, mechanism.id, epoch, items, reports)
        value = wire.encode(event)
        self.append(Source.RATINGS, event.key, value, epoch * DAY + int(time * 1000), headers)
        return value

    def reply(self, size: int, *, sealed: bool = False) -> None:
        """Append a reply whose method is padded to `size` letters."""
        length = wire.LIST_LENGTH
        message = wire.Recommendation(
            self.rng.bytes(8).hex(), wire.Status.OK, (1, *(None,) * (length - 1)),
            (4.0, *(None,) * (length - 1)), "x" * size, 1, "local",
        )  # fmt: skip
        value = wire.encode_message(message)
        if sealed:
            asked = SealedQuery(wire.Query(message.id, None, 1, 0)).query
            value = reply_record(asked, value)
        self.append(Source.REPLIES, message.id.encode(), value, 0)

    def append(self, source: Source, key: bytes, value: bytes, time: int, headers: int = 0) -> None:
        """Append a record as it is."""
        partition = partition_of(key) if source is Source.RATINGS else 0
        self.records.append(Record(source, partition, len(self.records), time, key, value, headers))

    def found(
        self, mechanisms: Sequence[Mechanism] = (RR, CELL), **public: object
    ) -> dict[str, Finding]:
        """Audit the log and return the findings by claim; without a budget no claim is about it."""
        public.setdefault("budget", 1e6)
        configuration = PublicConfiguration(tuple(mechanisms), **public)  # type: ignore[arg-type]
        return {
            finding.claim: finding
            for finding in audit_observed(observe(self.records, configuration), configuration)
        }


def violated(findings: dict[str, Finding]) -> set[str]:
    """Return the claims that are violated."""
    return {claim for claim, each in findings.items() if each.verdict is Verdict.VIOLATED}


def levels(rng: np.random.Generator, count: int) -> NDArray[np.uint8]:
    """Return levels 0 .. 4 distributed like stars, mostly high."""
    return rng.choice(5, count, p=(0.06, 0.11, 0.26, 0.35, 0.22)).astype(np.uint8)


def keys(items: Iterable[int]) -> NDArray[np.uint64]:
    """Return item keys."""
    return np.array(list(items), np.uint64)


Plant = Callable[[World], None]


def emission_share(device: bytes, epoch: int) -> float:
    """Return the public moment of a device in an epoch, by the devices' own function."""
    from producers.fleet.epoch_emission import emission_time

    return emission_time(device, epoch)


CATALOGUE = 300
TURNS = (keys(range(40)), keys(range(40, 80)))  # the public scope of two epochs
PUBLIC = {"scope": keys(range(CATALOGUE))}


def rated(world: World, most: int = 12) -> NDArray[np.uint64]:
    """Return the items that one person has rated, popular ones more often."""
    popular = 1 / np.arange(1, CATALOGUE + 1)
    count = int(world.rng.integers(4, most))
    picked = world.rng.choice(CATALOGUE, count, replace=False, p=popular / popular.sum())
    return picked.astype(np.uint64)


def emit(
    world: World,
    device: bytes,
    items: NDArray[np.uint64],
    epoch: int,
    *,
    mechanism: Mechanism = CELL,
    scope: NDArray[np.uint64] | None = None,
    order: Callable[[NDArray[np.uint64], NDArray[np.uint8]], NDArray[np.int64]] | None = None,
    time: float | None = None,
    drawn_by: Mechanism | None = None,
) -> None:
    """Send a device's cells of one epoch: the scope, shuffled, at the device's moment."""
    turn = TURNS[(epoch - EPOCH) % 2] if scope is None else scope
    inputs = np.where(np.isin(turn, items), levels(world.rng, len(turn)), mechanism.levels)
    inputs = inputs.astype(np.uint8)
    shuffled = world.rng.permutation(len(turn)) if order is None else order(turn, inputs)
    when = emission_share(device, epoch) * 1200 if time is None else time
    world.send(
        device, turn[shuffled], inputs[shuffled], mechanism, epoch=epoch, time=when,
        drawn_by=drawn_by,
    )  # fmt: skip


def rate(world: World, device: bytes, items: NDArray[np.uint64], epoch: int = EPOCH) -> None:
    """Send ratings at the moment of rating: two messages, items by key."""
    for part in np.array_split(items, 2):
        world.send(
            device, np.sort(part), levels(world.rng, len(part)), epoch=epoch,
            time=float(world.rng.uniform(0, 80_000)),
        )  # fmt: skip


def honest(seed: int, people: int = 60) -> tuple[World, list[bytes]]:
    """Return a log of honest devices: some rate at the moment, all emit."""
    world = World(seed)
    devices = [world.device() for _ in range(people)]
    tastes = [rated(world) for _ in devices]
    for device, items in zip(devices, tastes, strict=True):
        rate(world, device, items)
    for epoch in (EPOCH, EPOCH + 1):
        for device, items in zip(devices, tastes, strict=True):
            emit(world, device, items, epoch)
    for _ in devices:
        world.reply(4)
    return world, devices

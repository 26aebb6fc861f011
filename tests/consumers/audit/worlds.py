"""Crafted logs: what honest devices would send, or devices with a planted fault, as records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from consumers.audit import Finding, PublicConfiguration, Record, Source, Verdict, audit
from stream_app import wire
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.profiles.mechanism import ProfileMechanism
from stream_app.privacy.randomness import SeededSource
from tests.fixtures.streams import partition_of

RR, CELL, OPEN = registry.parse("rr:5:2"), registry.parse("cell:5:2"), registry.parse("none:5:inf")
EPOCH, DAY = 20_000, 86_400_000


@dataclass
class World:
    """A log under construction; its noise and its choices come from one seed."""

    seed: int
    records: list[Record] = field(default_factory=list)
    seqs: dict[tuple[Source, bytes], int] = field(default_factory=dict)
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
        seq = self._seq(Source.RATINGS, device, seq)
        event = wire.Event(device, seq, mechanism.id, epoch, items, reports)
        value = wire.encode(event)
        self.append(Source.RATINGS, event.key, value, epoch * DAY + int(time * 1000), headers)
        return value

    def send_profile(
        self,
        device: bytes,
        items: NDArray[np.uint64],
        mechanism: ProfileMechanism,
        *,
        epoch: int = EPOCH,
        drawn_by: ProfileMechanism | None = None,
    ) -> None:
        """Release a profile and append the record."""
        released = (drawn_by or mechanism).release(items, self.noise)
        seq = self._seq(Source.PROFILES, device, None)
        event = wire.ProfileEvent(device, seq, mechanism.id, epoch, released.tobytes())
        self.append(Source.PROFILES, event.key, wire.encode_profile(event), epoch * DAY)

    def reply(self, size: int) -> None:
        """Append a reply whose method is padded to `size` letters."""
        length = wire.LIST_LENGTH
        message = wire.Recommendation(
            self.rng.bytes(8).hex(), wire.Status.OK, (1, *(None,) * (length - 1)),
            (4.0, *(None,) * (length - 1)), "x" * size, 1, "local",
        )  # fmt: skip
        self.append(Source.REPLIES, message.id.encode(), wire.encode_message(message), 0)

    def append(self, source: Source, key: bytes, value: bytes, time: int, headers: int = 0) -> None:
        """Append a record as it is."""
        partition = partition_of(key) if source is Source.RATINGS else 0
        self.records.append(Record(source, partition, len(self.records), time, key, value, headers))

    def _seq(self, source: Source, device: bytes, given: int | None) -> int:
        if given is not None:
            return given
        self.seqs[source, device] = self.seqs.get((source, device), 0) + 1
        return self.seqs[source, device]

    def found(
        self, mechanisms: Sequence[Mechanism] = (RR, CELL), **public: object
    ) -> dict[str, Finding]:
        """Audit the log and return the findings by claim."""
        configuration = PublicConfiguration(tuple(mechanisms), **public)  # type: ignore[arg-type]
        return {finding.claim: finding for finding in audit(self.records, configuration)}


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

"""A small campaign in memory: its two topics as lists, devices and parties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.aggregation.collection import Record
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.aggregation.party import Party, RecordsGone
from stream_app.campaigns.rounds import Rounds, StageState
from stream_app.campaigns.sealing import open_box, seal
from stream_app.campaigns.verified.field import add, centered, encode
from stream_app.privacy.randomness import SeededSource
from stream_app.wire import partitions_of
from stream_app.wire.campaigns.contribution import Contribution, encode_contribution
from stream_app.wire.campaigns.plan import Campaign, Stage
from stream_app.wire.campaigns.round_log import (
    Close,
    Open,
    Planned,
    RoundEntry,
    decode_round,
    encode_round,
)

PARTITIONS = 3


@dataclass
class Kept:
    """Releases in memory, with a point before and after each is durable."""

    kept: dict[tuple[bytes, int], bytes] = field(default_factory=dict)

    def keep(self, plan: bytes, stage: int, released: bytes) -> bool:
        return self.kept.setdefault((plan, stage), released) == released


def keys_of(parties: int) -> tuple[PartyKeys, ...]:
    roles = (Role.CENTRAL,) if parties == 1 else (Role.A, Role.B)
    return tuple(PartyKeys.random(role) for role in roles)


def plan_of(keys: tuple[PartyKeys, ...], **changes: Any) -> Campaign:
    fields = {"kind": "together", "size": 5, "bound": 1000, "variance": 400}
    fields |= {"share": Fraction(1, 4), "least": 2, "deadline_cuts": 50} | changes
    public = tuple(each.public.hex() for each in keys)
    stages = (Stage(**fields), Stage(**fields))
    return Campaign(1, Fraction(1), Fraction(1, 10**6), len(keys), (1, 2), stages, public)  # type: ignore[arg-type]


@dataclass
class World:
    """The two topics, and what is written to them."""

    campaign: Campaign
    topic: list[list[Record]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    log: list[bytes] = field(default_factory=list)
    gone: bool = False
    partitions: int = PARTITIONS
    _applied: dict[Party, int] = field(default_factory=dict)

    def write(self, entry: RoundEntry) -> None:
        """Append an entry to the log of rounds."""
        self.log.append(encode_round(entry))

    def rounds(self) -> Rounds:
        """Return what the log of rounds states."""
        rounds = Rounds()
        for value in self.log:
            rounds.apply(decode_round(value))
        return rounds

    def send(self, contribution: Contribution, value: bytes | None = None) -> Record:
        """Append a contribution to its device's partition."""
        return self.put(contribution.key, value or encode_contribution(contribution))

    def put(self, key: bytes, value: bytes | None, partition: int | None = None) -> Record:
        """Append a record as it is."""
        if partition is None:
            row = np.frombuffer(key, np.uint8).reshape(1, 32)
            partition = int(partitions_of(row, PARTITIONS)[0])
        record = Record(partition, len(self.topic[partition]), key, value)
        self.topic[partition].append(record)
        return record

    def contribute(self, device: int, vector: NDArray[np.int64], stage: int = 0) -> Contribution:
        """Send a device's vector."""
        source = SeededSource(device)
        made = seal(self.campaign, stage, device_id(device), vector, source)
        self.send(made)
        return made

    @property
    def ends(self) -> tuple[int, ...]:
        """The end offsets of the topic of contributions."""
        return tuple(len(each) for each in self.topic)

    def plan(self) -> None:
        """Begin the campaign."""
        self.write(Planned(self.campaign))

    def open(self, stage: int = 0) -> None:
        """Open a stage at the end of the topic."""
        self.write(Open(self.campaign.digest, stage, self.ends))

    def close(self, stage: int = 0, forgotten: Iterable[int] = ()) -> None:
        """Close a stage at the end of the topic."""
        devices = tuple(device_id(each) for each in forgotten)
        self.write(Close(self.campaign.digest, stage, self.ends, devices))

    def read(self, stage: StageState) -> Iterator[Record]:
        """Yield the records of a stage in canonical order."""
        if self.gone:
            raise RecordsGone
        for partition, (begin, end) in enumerate(zip(stage.begins, stage.ends, strict=True)):
            yield from self.topic[partition][begin:end]

    def settle(self, parties: Iterable[Party]) -> Rounds:
        """Let the parties answer until none owes an answer."""
        parties = list(parties)
        while answers := [answer for each in parties if (answer := self.answered(each))]:
            for answer in answers:
                self.write(answer)
        return self.rounds()

    def answered(self, party: Party) -> RoundEntry | None:
        """Return what a party answers to the whole log."""
        done = self._applied.get(party, 0)
        if done > len(self.log):  # the log was taken back: a new process
            party.rounds, done = Rounds(), 0
        for value in self.log[done:]:
            party.rounds.apply(decode_round(value))
        self._applied[party] = len(self.log)
        return party.answer(self.read)


def read_by_all(
    campaign: Campaign, contribution: Contribution, keys: Sequence[PartyKeys]
) -> NDArray[np.int64]:
    """Return the vector (size,) that all parties read together."""
    shares = []
    for party, each in enumerate(keys):
        share = open_box(campaign, contribution, party, each.public, each.secret)
        assert share is not None
        shares.append(share)
    if campaign.parties == 1:
        return shares[0].view(np.int32).astype(np.int64)
    return centered(add(*shares))


def without_noise(total: NDArray[np.unsignedinteger]) -> bytes:
    """Return what a party that adds no noise publishes of its sum (size,)."""
    return encode(total) if total.dtype == np.uint64 else total.astype("<u4").tobytes()


def device_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def vectors(rng: np.random.Generator, devices: int, size: int = 5) -> NDArray[np.int64]:
    return rng.integers(-400, 401, (devices, size))


def split_world(**changes: Any) -> tuple[World, tuple[PartyKeys, ...]]:
    keys = keys_of(2)
    return World(plan_of(keys, **changes)), keys


def central_world(**changes: Any) -> tuple[World, tuple[PartyKeys, ...]]:
    keys = keys_of(1)
    return World(plan_of(keys, **changes)), keys

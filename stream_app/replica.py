"""One replica: the state that is a pure function of the log, and the one function that moves it on.

    records in canonical order --marks--> applied once --hold-out--> learner
                                               |                        |
                                               +--> seen, statistics    +--> ledger
                                               +--> presence rates, where presence is protected

Every worker holds a whole replica. At the same cut two replicas have the same `model_digest`
(everything that predicts, filters or counts) and the same `ledger_digest` (what happened to each
record), whatever the delivery interleaving, the batch sizes and the crashes in between. Records
that are set aside change the ledger and nothing else.

A held-out pair is never learned; it is seen and counted all the same.

Where a mechanism protects presence, every cell of a public scope is sent. A report that says
nothing teaches how often there is a rating at all and touches nothing else. A report that says
something is learned for what it is worth and counted, but its cell is not taken for seen: many are
fakes, and the device alone knows what it has rated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.holdout import held_out
from stream_app.kernels.ledger import enter
from stream_app.kernels.tally import tally
from stream_app.log.ledger import APPLIED, Ledger
from stream_app.models.cells import SILENCE, Cells, Silent
from stream_app.models.channels import NO_CHANNEL, Channels
from stream_app.models.directory import Directory
from stream_app.models.frequencies import Frequencies
from stream_app.models.learner import Learner, Lessons, build
from stream_app.models.marks import Marks
from stream_app.models.parameters import Parameters
from stream_app.models.presence import Presence
from stream_app.models.second_moment import SecondMoment
from stream_app.models.seen import SeenFilter
from stream_app.privacy.mechanism import Mechanism
from stream_app.wire import Batch, Intake

# Raised with every change of what the same log leads to, or of how it is laid out.
STATE_FORMAT = 2


@dataclass(frozen=True)
class Design:
    """What decides the state besides the log; two replicas agree only if they agree on this."""

    mechanisms: tuple[Mechanism, ...]
    partitions: int = 4
    accept_tests: bool = False
    model: str = "sketch"
    factors: int = 32
    depth: int = 4
    sketch_bytes: int = 16 << 20
    scalars_bytes: int = 8 << 20
    seen_bytes: int = 16 << 20
    presence_bytes: int = 4 << 20
    clip: float = float("inf")
    held_out: float = 0.05
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.mechanisms:
            raise ValueError("mechanisms: the allow-list is empty; allow at least one, e.g. rr:5:2")
        if len({m.id for m in self.mechanisms}) != len(self.mechanisms):
            raise ValueError("mechanisms: the allow-list names a mechanism twice")
        if not 0 <= self.held_out <= 0.5:
            raise ValueError(f"held_out {self.held_out}: the held-out share lies in 0 .. 0.5")

    @property
    def intake(self) -> Intake:
        """What a record must satisfy to be accepted."""
        alphabets = {m.id: m.alphabet for m in self.mechanisms}
        masked = {m.id: m.levels for m in self.mechanisms if m.masks}
        return Intake(alphabets, self.partitions, self.accept_tests, masked)

    @property
    def digest(self) -> str:
        """A fingerprint of the design itself: replicas of different designs are not comparable."""
        fields = {k: v for k, v in vars(self).items() if k != "mechanisms"}
        ids = [m.id for m in self.mechanisms]
        learning = Parameters(clip=self.clip)
        told = repr((STATE_FORMAT, ids, sorted(fields.items()), learning))
        return blake2b(told.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one batch did: outcome (n,) per record, gaps in `seq`, ratings that came again; per
    applied rating (m,) the columns, the prior that there is one, and the lessons; what was silent.
    """

    records: NDArray[np.uint8]
    gaps: int
    duplicates: int
    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    priors: NDArray[np.float32]
    held: NDArray[np.bool_]
    rows: NDArray[np.int64]
    lessons: Lessons
    silent: Silent


class Replica:
    """The state; `apply` moves it on by one batch and `end_round` closes a round."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.channels = Channels.of(design.mechanisms)
        self.learner: Learner = build(
            design.model,
            self.channels,
            factors=design.factors,
            depth=design.depth,
            sketch_bytes=design.sketch_bytes,
            scalars_bytes=design.scalars_bytes,
            parameters=Parameters(clip=design.clip),
            seed=design.seed,
        )
        self.presence = (
            Presence(self.channels, design.presence_bytes, seed=design.seed)
            if self.channels.presence.any()
            else None
        )
        self.seen = SeenFilter(design.seen_bytes, seed=design.seed)
        self.frequencies = Frequencies(seed=design.seed)
        self.second_moment = SecondMoment(seed=design.seed)
        self.marks = Marks()
        self.items = Directory()
        self.ledger = Ledger(design.partitions)
        self.cut = 0
        self.ends: tuple[int, ...] = (0,) * design.partitions
        self._threshold = np.uint64(min(int(design.held_out * 2.0**64), 2**64 - 1))
        self._tally = np.zeros(1024, np.int64)  # scratch, zero between two batches
        self._salt = np.uint64(design.seed + 0x4E1D)

    def apply(self, batch: Batch) -> Outcome:
        """Move the state on by a batch of one partition, the next in canonical order."""
        outcomes, gaps = self.marks.advance(batch.devices, batch.seqs, batch.reasons == 0)
        cells, applied = self._cells(batch), outcomes == APPLIED
        spoken = batch.ratings - int(cells.silent.sum())
        if not applied.all():
            cells = cells.at(np.repeat(applied, batch.counts))
        if self.presence is not None and self._protects(batch):
            told, rows, lessons, silent = self._apply_hidden(
                self.presence, cells, batch.counts[applied]
            )
        else:
            told, silent = cells, SILENCE
            lessons = self.learner.learn_many(*cells[:4], ~cells.held)
            self.seen.add_many(cells.users, cells.items)
            rows = self._count(cells.items)
        offset_sum, chain = enter(batch.offsets, outcomes, batch.partition, self.ledger.chain[0])
        held = int(told.held.sum())
        counts = {
            "learned": len(rows) - held,
            "held_out": held,
            "clipped": int((lessons.clipped & ~told.held).sum()),
            "duplicate": spoken - len(rows),
        }
        self.ledger.add(
            batch.partition, outcomes, batch.reasons, counts, int(gaps.sum()), offset_sum, chain
        )
        return Outcome(
            outcomes, int(gaps.sum()), counts["duplicate"], *told[:6], rows, lessons, silent
        )

    def _protects(self, batch: Batch) -> bool:
        """Return whether a mechanism of this batch protects presence."""
        first = self.channels.first[batch.mechanisms]
        return bool(self.channels.presence[first].any())

    def _cells(self, batch: Batch) -> Cells:
        """Return the cells of a batch as the kernels take them."""
        users = np.repeat(batch.devices[:, 0], batch.counts)
        channels = np.repeat(self.channels.numbers(batch.mechanisms), batch.counts)
        channels += batch.masks
        # Decoded columns are read-only views, for which every kernel would be compiled once more.
        items, reports = batch.items.copy(), batch.reports.copy()
        held, silent = np.zeros((2, len(users)), np.bool_)
        held_out(users, items, self._salt, self._threshold, held)
        if self._protects(batch):
            silent = reports == self.channels.missing[channels]
        priors = np.broadcast_to(np.float32(1), len(users))
        return Cells(users, items, reports, channels, priors, held, silent)

    def _apply_hidden(
        self, presence: Presence, cells: Cells, counts: NDArray[np.int64]
    ) -> tuple[Cells, NDArray[np.int64], Lessons, Silent]:
        """Learn records of `counts` cells; return what says something, its rows and lessons, and
        the rest."""
        priors = presence.priors(counts, *cells[:4])
        asked = np.where(cells.silent, np.uint16(NO_CHANNEL), cells.channels)
        lessons = self.learner.learn_many(*cells[:3], asked, ~cells.held, priors)
        says = ~cells.silent
        told, quiet = cells._replace(priors=priors).at(says), cells.at(cells.silent)
        public = ~self.channels.presence[told.channels]
        self.seen.add_many(told.users[public], told.items[public])
        rows = self._count(told.items)
        silent = Silent(
            self.items.rows(quiet.items), quiet.reports, quiet.channels,
            lessons.predicted[cells.silent],
        )  # fmt: skip
        return told, rows, Lessons._make(column[says] for column in lessons), silent

    def _count(self, items: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Count the items of a batch and return their rows in the directory."""
        rows = self.items.rows(items, add=True)
        if len(self.items) > len(self._tally):
            self._tally = np.zeros(2 * len(self.items), np.int64)
        distinct = np.empty(len(rows), np.int64)
        distinct = distinct[: tally(rows, self._tally, distinct)]
        keys, counts = self.items.keys[distinct], self._tally[distinct]
        self._tally[distinct] = 0
        self.frequencies.add_many(keys, counts)
        self.second_moment.add_many(keys, counts)
        return rows

    def end_round(self, number: int, ends: Sequence[int]) -> None:
        """Close the round that cut `number` ends."""
        self.cut, self.ends = number, tuple(ends)
        self.ledger.end_round(self.ends)

    def model_digest(self) -> str:
        """Return the digest of everything that predicts, filters or counts."""
        return digest(self.design.digest, self.model_arrays())

    def model_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what predicts, filters or counts: the arrays themselves, not copies."""
        parts: dict[str, Mapping[str, NDArray[Any]]] = {
            "learner": self.learner.arrays(),
            "presence": self.presence.arrays() if self.presence else {},
            "seen": self.seen.arrays(),
            "frequencies": self.frequencies.arrays(),
            "second_moment": self.second_moment.arrays(),
            "marks": self.marks.arrays(),
            "items": {"keys": self.items.keys},
        }
        return {
            f"{part}.{name}": array for part, held in parts.items() for name, array in held.items()
        }

    def ledger_digest(self) -> str:
        """Return the digest of what happened to each record."""
        return digest(self.design.digest, self.ledger.arrays())

    def memory(self) -> dict[str, int]:
        """Return the bytes that each part of the state holds."""
        return {
            "learner": self.learner.memory_bytes,
            "presence": self.presence.memory_bytes if self.presence else 0,
            "seen": self.seen.memory_bytes,
            "statistics": self.frequencies.memory_bytes + self.second_moment.memory_bytes,
            "marks": self.marks.memory_bytes,
            "items": self.items.memory_bytes,
        }


def digest(design: str, arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """Return the blake2b-128 of named arrays: names, types, shapes and little-endian bytes."""
    state = blake2b(design.encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        state.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        state.update(array.reshape(-1).view(np.uint8).data)
    return state.hexdigest()

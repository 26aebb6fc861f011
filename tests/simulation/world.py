"""A small state that is a function of a log: computed by the simulated workers.

    page  <- page * 31 + value + another page        (so no page can be restored alone)
    cuts  <- moves each of two partitions on by 0 to 3 offsets, some of which hold no record

A state is a tuple, an application of a round is looked up where it was done before. The reference
is the state that one uninterrupted application of every round leads to.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from stream_app.checkpoints.protocol.writer import Frozen, FrozenArray
from stream_app.wire.state_records import (
    Manifest,
    SmallArray,
    StateOrigin,
    ledger_root,
    model_root,
    page_digest,
)
from tests.simulation.pages import BytePages

DESIGN, TOPIC_ID = "d" * 32, "topic"
PARTITIONS = 2
BASE = StateOrigin(0, (0,) * PARTITIONS)
_MASK = 2**64 - 1
_MOST_KNOWN = 2000  # states of each kind that a world keeps
_U64 = struct.Struct("<Q")

Ends = tuple[int, ...]


class State(NamedTuple):
    """Pages, and the ledger: (applied, rejected) of each partition, absent, ends, chain."""

    pages: tuple[int, ...]
    records: tuple[int, ...]
    absent: tuple[int, ...]
    end_offsets: Ends
    chain: int


@dataclass(eq=False)
class World:
    """One log of `rounds` rounds and everything that can become of it."""

    seed: int
    rounds: int = 24
    pages: int = 3
    most: int = 3
    _applied: dict[tuple[State, Ends, int, int], State] = field(default_factory=dict, repr=False)
    _frozen: dict[tuple[State, int], Frozen] = field(default_factory=dict, repr=False)

    @cached_property
    def end_offsets(self) -> list[Ends]:
        """The end offsets at each cut; cut 0 is the beginning."""
        random_ = random.Random(self.seed)
        end_offsets = [(0,) * PARTITIONS]
        for _ in range(self.rounds):
            moved = [random_.randint(0, self.most) for _ in range(PARTITIONS)]
            moved[random_.randrange(PARTITIONS)] += not any(moved)
            end_offsets.append(tuple(e + m for e, m in zip(end_offsets[-1], moved, strict=True)))
        return end_offsets

    @cached_property
    def start(self) -> State:
        """A state that has seen nothing; its pages are not zero."""
        first = tuple(_mix(self.seed * 64 + page) for page in range(self.pages))
        zero = (0,) * PARTITIONS
        return State(first, zero * 2, zero, zero, 0)

    @cached_property
    def reference(self) -> list[State]:
        """The state at each cut."""
        states = [self.start]
        for number in range(1, self.rounds + 1):
            states.append(self.apply(states[-1], self.end_offsets[number - 1], number))
        return states

    def apply(self, state: State, begin: Ends, number: int, branch: int = 0) -> State:
        """Return the state after the round that cut `number` ends, read from the offsets `begin`
        on; in another `branch` the same offsets hold other records."""
        known = self._applied.get((state, begin, number, branch))
        if known is None:
            if len(self._applied) > _MOST_KNOWN:
                self._applied.clear()
            known = self._apply(state, begin, number, branch)
            self._applied[state, begin, number, branch] = known
        return known

    def _apply(self, state: State, begin: Ends, number: int, branch: int) -> State:
        pages, records, chain = list(state.pages), list(state.records), state.chain
        for partition, (first, end) in enumerate(zip(begin, self.end_offsets[number], strict=True)):
            for offset in range(first, end):
                value = _mix((branch << 56) + (self.seed << 32) + (partition << 24) + offset)
                if value % 7 == 0:
                    continue  # an offset without a record
                outcome = value % 5 == 0
                records[2 * partition + outcome] += 1
                chain = _mix(chain + 2 * value + outcome)
                if not outcome:
                    first_page, other_page = value % self.pages, (value >> 8) % self.pages
                    pages[first_page] = (pages[first_page] * 31 + value + pages[other_page]) & _MASK
        end_offsets = self.end_offsets[number]
        counted = (records[2 * p] + records[2 * p + 1] for p in range(PARTITIONS))
        absent = tuple(e - c for e, c in zip(end_offsets, counted, strict=True))
        return State(tuple(pages), tuple(records), absent, end_offsets, chain)

    def freeze(self, state: State, number: int) -> Frozen:
        """Return the state at cut `number` as the writer takes it."""
        known = self._frozen.get((state, number))
        if known is None:
            if len(self._frozen) > _MOST_KNOWN:
                self._frozen.clear()
            known = self._frozen[state, number] = self._freeze(state, number)
        return known

    def _freeze(self, state: State, number: int) -> Frozen:
        data = [_U64.pack(page) for page in state.pages]
        present = [
            bytes([page != first])
            for page, first in zip(state.pages, self.start.pages, strict=True)
        ]
        arrays = tuple(
            FrozenArray("abcdefgh"[i], "<u8", (1,), page_digest(data[i]), present[i])
            for i in range(self.pages)
        )
        ledger = (
            _small("absent", "<i8", (PARTITIONS,), state.absent),
            _small("chain", "<u8", (1,), (state.chain,)),
            _small("ends", "<i8", (PARTITIONS,), state.end_offsets),
            _small("records", "<i8", (PARTITIONS, 2), state.records),
        )
        return Frozen(
            DESIGN, TOPIC_ID, number, self.end_offsets[number], 2 * number, BASE,
            model_root(DESIGN, arrays), ledger_root(DESIGN, ledger), arrays, ledger,
            lambda array, page: data[array],
        )  # fmt: skip

    def store(self) -> BytePages:
        """Return a store whose pages are those of the start."""
        first = zip("abcdefgh", self.start.pages, strict=False)
        return BytePages({name: _U64.pack(page) for name, page in first})

    def load(self, manifest: Manifest, store: BytePages) -> State:
        """Return the state that a checkpoint holds; one without a ledger has counted nothing."""
        pages = tuple(_U64.unpack(array)[0] for array in store.arrays)
        if not manifest.ledger_arrays:
            return self.start._replace(pages=pages)
        absent, chain, end_offsets, records = (
            struct.unpack(f"<{len(a.data) // 8}{'Q' if a.name == 'chain' else 'q'}", a.data)
            for a in manifest.ledger_arrays
        )
        return State(pages, records, absent, end_offsets, chain[0])


def _small(name: str, dtype: str, shape: tuple[int, ...], numbers: tuple[int, ...]) -> SmallArray:
    code = "q" if dtype == "<i8" else "Q"
    return SmallArray(name, dtype, shape, struct.pack(f"<{len(numbers)}{code}", *numbers))


def _mix(number: int) -> int:
    """The finalizer of splitmix64."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)

"""Shards of two processes each that exchange changes: crashes, two owners, lost, late records.

    ratings of shard s  --round--> T                     T: own counts and merged foreign ones
    publish             D = T - B, the next number       B: what was merged of all shards
    merge               B += each change, T += foreign ones

The order of the log and of the exchange, and the time of merges, are the real ones. After every
schedule is healed, every shard must hold every rating once; two processes that reach the same cut
of a shard must hold the same state there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.log.canonical_order import LogStep, Rounds, Start
from stream_app.log.cut_clock import MergeClock
from stream_app.log.exchange_order import Exchange, Merged
from stream_app.wire import Cut, DesignEntry, Merge

SHARDS, ITEMS = 3, 4
OPENING = DesignEntry("", {}, {})
"""Begins the state anew before the first cut, as the design that opens a log does."""


class Delta(NamedTuple):
    """A change: what a shard adds to each item."""

    shard: int
    number: int
    counts: tuple[int, ...]


@dataclass
class Topics:
    """What is durable: ratings and the cut log of each shard, and the exchange."""

    ratings: list[list[int]] = field(default_factory=lambda: [[] for _ in range(SHARDS)])
    cuts: list[list[Cut | Merge | DesignEntry]] = field(
        default_factory=lambda: [[] for _ in range(SHARDS)]
    )
    exchange: list[list[Delta | None]] = field(default_factory=lambda: [[] for _ in range(SHARDS)])


class State(NamedTuple):
    """The state of a shard at a cut, and where its log goes on."""

    cut: int
    ends: tuple[int, ...]
    cut_offset: int
    counts: tuple[int, ...]
    base: tuple[int, ...]
    merged: Merged

    @classmethod
    def empty(cls) -> State:
        """Return the state before the first cut."""
        nothing = (0,) * ITEMS
        return cls(0, (0,) * SHARDS, 0, nothing, nothing, Merged.nothing(SHARDS))


class Process:
    """A worker of one shard, since its last start."""

    order: type[Exchange] = Exchange

    def __init__(self, shard: int, state: State, topics: Topics) -> None:
        self.shard, self.topics, self.state = shard, topics, state
        start = Start(state.cut, state.ends, state.cut_offset, merged=state.merged)
        self.rounds = Rounds(SHARDS, start, shards=SHARDS)
        assert self.rounds.exchange is not None
        self.rounds.exchange.__class__ = self.order
        self.exchange: Exchange = self.rounds.exchange
        self.read = state.ends[shard]
        self.read_cuts = state.cut_offset
        self.read_changes = list(state.merged.ends)
        self.clock = MergeClock()
        self.sent = 0
        self.counts, self.base, self.merged = list(state.counts), list(state.base), state.merged

    def deliver(self, rnd: random.Random) -> None:
        """Read some records of one topic."""
        topics, some = self.topics, rnd.randint(1, 3)
        if (which := rnd.randrange(2 + SHARDS)) == 0:
            for offset in range(self.read, min(self.read + some, len(topics.ratings[self.shard]))):
                self.rounds.deliver(self.shard, offset, b"", b"%d" % offset)
                self.read = offset + 1
        elif which == 1:
            log = topics.cuts[self.shard]
            for offset in range(self.read_cuts, min(self.read_cuts + some, len(log))):
                self.rounds.take(log[offset], offset)
                self.read_cuts = offset + 1
        else:
            shard = which - 2
            log = topics.exchange[shard]
            first = self.read_changes[shard]
            for offset in range(first, min(first + some, len(log))):
                self.exchange.deliver(shard, offset, log[offset], 1)  # type: ignore[arg-type]
                self.read_changes[shard] = offset + 1

    def follow(self, reference: dict[tuple[int, int], State]) -> None:
        """Apply what is complete; compare the state at each cut."""
        while (step := self.rounds.step()) is not None:
            self.apply(step)
            if step.cut is not None:
                ends, merged = step.cut.end_offsets, self.merged
                self.state = State(
                    step.cut.number, ends, step.cut_offset, tuple(self.counts), tuple(self.base),
                    merged,
                )  # fmt: skip
                known = reference.setdefault((self.shard, self.state.cut), self.state)
                assert known == self.state, f"shard {self.shard}: two states at one cut"

    def apply(self, step: LogStep) -> None:
        """Advance the state by a step."""
        if step.run is not None:
            for offset in step.run.offsets:
                self.counts[self.topics.ratings[self.shard][offset]] += 1
        if isinstance(step.entry, DesignEntry):
            empty = State.empty()
            self.counts, self.base, self.merged = (
                list(empty.counts),
                list(empty.base),
                empty.merged,
            )
        if isinstance(step.entry, Merge):
            numbers = list(self.merged.numbers)
            for change in step.changes:
                numbers[change.shard] = change.number
                self.merge(change)  # type: ignore[arg-type]
            self.merged = Merged(tuple(numbers), step.entry.ends)

    def merge(self, change: Delta) -> None:
        """Merge one change."""
        for item, count in enumerate(change.counts):
            self.base[item] += count
            if change.shard != self.shard:
                self.counts[item] += count

    def change(self) -> Delta | None:
        """Return what was not merged yet of this shard, unless it is on its way."""
        number = self.merged.numbers[self.shard] + 1
        left = tuple(t - b for t, b in zip(self.counts, self.base, strict=True))
        return Delta(self.shard, number, left) if any(left) else None

    def cut(self) -> Cut | None:
        """Return the next cut of the log, as far as this process has read."""
        number, ends = self.rounds.last_used
        moved = tuple(max(e, r) for e, r in zip(ends, self.rounds.received, strict=True))
        if moved == ends and not self.rounds.entry_waits:
            return None
        return Cut(number + 1, moved, 0)


class Schedule:
    """What happens under one seed."""

    def __init__(self, seed: int, process: type[Process] = Process) -> None:
        self.rnd, self.kind = random.Random(seed), process
        self.topics, self.now = Topics(), 0.0
        self.begins = self.rnd.choice((0.0, 60.0))  # when shard 0 opens its log
        self.reference: dict[tuple[int, int], State] = {}
        self.late: list[Delta] = []
        self.kept = [[State.empty()] for _ in range(SHARDS)]
        self.live = [process(s, State.empty(), self.topics) for s in range(SHARDS) for _ in "ab"]
        self.seen = dict.fromkeys(("crash", "late", "lost", "doubled", "foreign", "merge"), 0)

    def run(self, steps: int = 400) -> None:
        """Run the schedule, heal it, and check that nothing is lost or counted twice."""
        for _ in range(steps):
            self.step()
        self.heal()
        total = [0] * ITEMS
        for log in self.topics.ratings:
            for item in log:
                total[item] += 1
        for process in self.live:
            assert process.counts == process.base == total, f"{process.counts}, not {total}"

    def step(self) -> None:
        """Let one thing happen."""
        rnd, process = self.rnd, self.rnd.choice(self.live)
        self.now += rnd.random()
        match rnd.randrange(12):
            case 0 | 1:
                shard = rnd.randrange(SHARDS)
                self.topics.ratings[shard] += [rnd.randrange(ITEMS) for _ in range(3)]
            case 2 | 3:
                self.own(process)
            case 4:
                self.publish(process)
            case 5 if self.late and rnd.random() < 0.7:
                late = self.late.pop(rnd.randrange(len(self.late)))
                self.topics.exchange[late.shard].append(late)
                self.seen["late"] += 1
            case 5:
                shard = rnd.randrange(SHARDS)
                self.topics.exchange[shard].append(None)  # under a foreign seal
                self.seen["foreign"] += 1
            case 6 if rnd.random() < 0.3:
                at = self.live.index(process)
                state = rnd.choice(self.kept[process.shard][-3:])
                self.live[at] = self.kind(process.shard, state, self.topics)
                self.seen["crash"] += 1
            case 7:
                self.kept[process.shard].append(process.state)
            case _:
                process.deliver(rnd)
                process.follow(self.reference)

    def own(self, process: Process) -> None:
        """Write what the owner of a clock writes; there may be two."""
        log = self.topics.cuts[process.shard]
        late = process.shard == 0 and self.now < self.begins
        if late or not process.rounds.found_start:
            return
        ends = process.clock.due(self.now, process.exchange.ends, process.rounds.newest_merge)
        if ends is not None:
            log.append(Merge(ends))
            self.seen["merge"] += 1
        elif (cut := process.cut()) is not None:
            opens = not any(isinstance(entry, Cut | DesignEntry) for entry in log)
            log += [OPENING, cut] if opens else [cut]

    def publish(self, process: Process) -> None:
        """Publish a change: it arrives, late, twice or never."""
        if process.state.cut != process.rounds.number or process.rounds._partition:
            return
        change = process.change()
        if change is None or process.sent == change.number:
            return
        process.sent = change.number
        fate = self.rnd.random()
        if fate < 0.5:
            self.topics.exchange[process.shard].append(change)
        if 0.4 < fate < 0.8:
            self.late.append(change)
            self.seen["doubled"] += fate < 0.5
        self.seen["lost"] += fate >= 0.8

    def heal(self) -> None:
        """Let every process catch up, without faults, until nothing changes."""
        for shard in range(SHARDS):
            self.topics.exchange[shard] += [each for each in self.late if each.shard == shard]
        for _ in range(40):
            for process in self.live:
                self.now += 10.0
                self.own(process)
                for _ in range(60):
                    process.deliver(self.rnd)
                process.follow(self.reference)
                self.own(process)
            for process in self.live[::2]:
                change = process.change()
                if change is not None and process.state.cut == process.rounds.number:
                    self.topics.exchange[process.shard].append(change)

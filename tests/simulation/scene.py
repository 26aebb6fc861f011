"""The parts of a schedule, and the invariants that are checked at any moment.

A fresh recovery, followed by a replay of the log, gives the state and the ledger of one
uninterrupted run; the checkpoint lies within the log, and the log reaches back to it; a live
process holds the state of its cut.
"""

from __future__ import annotations

import random

from stream_app.checkpoints.protocol.recovery import Found
from stream_app.checkpoints.protocol.writer import Send
from stream_app.wire.state_records import Manifest
from tests.simulation.broker import FIRST_OFFSET, Topic
from tests.simulation.coverage import Coverage
from tests.simulation.process import Cut, Mail, Process, Reading, Variant
from tests.simulation.world import Ends, State, World

WORLDS = [World(seed) for seed in range(16)]
HINTS = (0, 4, 64)
"""How many records at the end of the topic a process looks for a manifest in."""
BOUNDS = (1, 66_000, 8 << 20)
"""Bytes in flight: one page at a time, two, all at once."""


class Violation(Exception):
    """An invariant does not hold."""


class Lost(Exception):
    """After damage there is neither checkpoint nor log: a worker refuses."""


class Scene:
    """Two processes, the state topic, the log, and requests of the dead; everything that is random
    comes from the seed."""

    def __init__(
        self,
        seed: int,
        variant: Variant,
        seen: Coverage,
        trace: list[str] | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.rnd = self.random.random
        self.variant, self.seen, self.trace = variant, seen, trace
        self.world = WORLDS[seed % len(WORLDS)]
        self.topic = Topic()
        self.cuts, self.branch, self.entries = [Cut(0, 0)], 0, 0
        self.superseded: set[int] = set()  # next offsets of the cuts that a truncation superseded
        self.kept_from = 0
        self.committed: tuple[int, Ends] = (0, self.world.end_offsets[0])
        self.late: list[tuple[int, Send]] = []
        self.fresh = self._reading()
        self.found: Found | None = None
        self.read_at = -1
        self.damaged = False
        self.assigned = 0
        self.claimed = -1
        seen.schedules += 1
        self.processes = [Process("a"), Process("b")]
        for process in self.processes:
            self._bear(process)
        self.processes[0].mail.append(Mail.OWN)

    def _bear(self, process: Process) -> None:
        bound = BOUNDS[int(self.rnd() * 3)]
        reading, topic = self._reading(), self.topic
        hints = HINTS[int(self.rnd() * 3)]
        reading.streamed.hint(topic.records[max(0, len(topic.records) - hints) :])
        process.bear(reading, self.variant.writer(bound), topic.end)

    def _reading(self) -> Reading:
        store, superseded = self.world.store(), self.superseded

        # Without a reference to this object: runs have no collector of circles.
        def is_superseded(manifest: Manifest) -> bool:
            return manifest.cut_offset in superseded

        return Reading(self.variant.recover(store, is_superseded), store)

    @property
    def published(self) -> int:
        """The newest cut of the log."""
        return len(self.cuts) - 1

    def publish(self) -> None:
        """Append the next cut to the cut log."""
        self.entries += 1
        self.cuts.append(Cut(self.entries, self.branch))

    def _reference(self, number: int) -> State:
        """Return the state at a cut of the log as it is now."""
        last = next((n for n in range(number, 0, -1) if not self.cuts[n].branch), 0)
        state = self.world.reference[last]
        for at in range(last + 1, number + 1):
            before = self.world.end_offsets[at - 1]
            state = self.world.apply(state, before, at, self.cuts[at].branch)
        return state

    def _log(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(what)

    def _check(self, _: Process) -> None:
        """Recover from the topic, replay and compare; compare the live processes too."""
        state, (start, end_offsets) = self._recovered(self._fresh(), self.found)
        for number in range(start + 1, self.published + 1):
            state = self.world.apply(state, end_offsets, number, self.cuts[number].branch)
            end_offsets = self.world.end_offsets[number]
        if state != self._reference(self.published):
            raise Violation(f"recovery at cut {start} leads to another state")
        for process in self.processes:
            if process.state is None or process.beyond:
                continue
            if process.state != self._reference(process.cut):
                raise Violation(f"{process.name} holds another state at cut {process.cut}")

    def _fresh(self) -> Reading:
        """Return the recovery of a process that reads the whole topic now."""
        if self.read_at != self.topic.version:
            self.fresh, self.read_at = self._reading(), self.topic.version
            streamed, start = self.fresh.streamed, FIRST_OFFSET
            streamed.hint(self.topic.records[-4:])
            while True:
                for record in self.topic.read(start, self.topic.end, 10**6):
                    streamed.read(*record)
                found = streamed.decide()
                if not isinstance(found, int):
                    break
                start = found
            self.found = found
        return self.fresh

    def _recovered(self, reading: Reading, found: Found | None) -> tuple[State, tuple[int, Ends]]:
        """Return the state that a recovery gives, and where the log is taken up."""
        state, cut, end_offsets = self.world.start, 0, self.world.end_offsets[0]
        self.seen.recovered += 1
        self.seen.fell_back += reading.streamed.rules.damaged > 0
        if found is None:
            self.seen.recovered_nothing += 1
        else:
            state, cut, end_offsets = (
                self.world.load(found.manifest, reading.store),
                found.manifest.cut,
                found.manifest.end_offsets,
            )
            newest = max(int.from_bytes(key[-8:]) for key in found.keys if key[0] == b"M"[0])
            self.seen.took_an_older_generation += found.manifest.generation < newest
        if self.variant.committed:
            cut, end_offsets = self.committed
        if cut > self.published:
            raise Violation(f"the checkpoint at cut {cut} is ahead of the log")
        if cut < self.kept_from:
            if not self.damaged:
                raise Violation(f"neither checkpoint nor log: cut {cut} is no longer kept")
            self.seen.lost_to_damage += 1
            raise Lost
        return state, (cut, end_offsets)

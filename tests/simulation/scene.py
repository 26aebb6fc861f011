"""The parts of a schedule, and the invariants that are checked at any moment.

A fresh recovery, followed by a replay of the log, gives the state and the ledger of one
uninterrupted run; the checkpoint lies within the log, and the log reaches back to it; a live
process holds the state of its cut.
"""

from __future__ import annotations

import random

from stream_app.checkpoints.protocol.recovery import Found, Recovery
from stream_app.checkpoints.protocol.writer import Send
from tests.simulation.broker import FIRST_OFFSET, Topic
from tests.simulation.coverage import Coverage
from tests.simulation.process import Mail, Process, Variant
from tests.simulation.world import Ends, State, World

WORLDS = [World(seed) for seed in range(16)]
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
        self.published = self.kept_from = 0
        self.committed: tuple[int, Ends] = (0, self.world.end_offsets[0])
        self.late: list[tuple[int, Send]] = []
        self.fresh = variant.recover()
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
        process.bear(self.variant.recover(), self.variant.writer(bound), self.topic.end)

    def _log(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(what)

    def _check(self, _: Process) -> None:
        """Recover from the topic, replay and compare; compare the live processes too."""
        state, (start, end_offsets) = self._recovered(self._fresh())
        for number in range(start + 1, self.published + 1):
            state = self.world.apply(state, end_offsets, number)
            end_offsets = self.world.end_offsets[number]
        if state != self.world.reference[self.published]:
            raise Violation(f"recovery at cut {start} leads to another state")
        for process in self.processes:
            if process.state is not None and process.state != self.world.reference[process.cut]:
                raise Violation(f"{process.name} holds another state at cut {process.cut}")

    def _fresh(self) -> Recovery:
        """Return the recovery of a process that reads the whole topic now."""
        if self.read_at != self.topic.version:
            self.fresh, self.read_at = self.variant.recover(), self.topic.version
            read = self.fresh.read
            for offset, key, value in self.topic.read(FIRST_OFFSET, self.topic.end, 10**6):
                read(offset, key, value)
            self.found = self.fresh.newest()
        return self.fresh

    def _recovered(self, recovery: Recovery) -> tuple[State, tuple[int, Ends]]:
        """Return the state that a recovery gives, and where the log is taken up."""
        found = self.found if recovery is self.fresh else recovery.newest()
        state, cut, end_offsets = self.world.start, 0, self.world.end_offsets[0]
        self.seen.recovered += 1
        self.seen.fell_back += recovery.damaged > 0
        if found is None:
            self.seen.recovered_nothing += 1
        else:
            state, cut, end_offsets = (
                self.world.load(found),
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

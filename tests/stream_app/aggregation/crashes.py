"""Crash plans of the parties of one stage: the product's own steps, ended at any points of them.

    point   before the log is read, before the first record of a stage is read, before and after
            what is released is durable, before and after an answer is in the log
    plan    the points, counted over both parties, at which the process that is there ends
    late    an answer that was under way when its process ended arrives after the next turn;
            otherwise it is lost
    bare    the party's disk is lost with its process; the keys are restored from a copy

A process that ended is replaced by a new one, which knows its keys, its disk and the log. `runs`
yields every plan of at most so many crashes: the points of a run are those at which the next plan
may crash once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from stream_app.aggregation.collection import Record
from stream_app.aggregation.keys import PartyKeys
from stream_app.aggregation.party import Party, Releases
from stream_app.aggregation.service import turn
from stream_app.campaigns.rounds import Rounds, StageState
from stream_app.wire.campaigns.round_log import NoisyShare, RoundEntry, decode_round
from tests.stream_app.aggregation.world import Kept, World

MakeParty = Callable[[PartyKeys, Releases], Party]
MOST_TURNS = 60


class Crash(Exception):
    """The process ends here."""


@dataclass
class Scene:
    """One run: a world whose stage is closed, the parties' keys, and the plan."""

    world: World
    keys: tuple[PartyKeys, ...]
    plan: tuple[int, ...]
    late: bool
    bare: bool
    make: MakeParty = Party
    points: int = 0
    sent: list[NoisyShare] = field(default_factory=list)
    under_way: list[RoundEntry] = field(default_factory=list)

    def point(self) -> None:
        """End the process, if the plan says so."""
        self.points += 1
        if self.points - 1 in self.plan:
            raise Crash

    def run(self) -> Rounds:
        """Let both parties take turns until neither owes an answer; return the state of the log."""
        disks = [Kept() for _ in self.keys]
        lines = [Line(self, keys, disk) for keys, disk in zip(self.keys, disks, strict=True)]
        quiet = 0
        for number in range(MOST_TURNS):
            place = number % len(lines)
            waiting, self.under_way = self.under_way, []
            try:
                quiet = 0 if lines[place].turn() else quiet + 1
            except Crash:
                quiet = 0
                if self.bare:
                    disks[place] = Kept()
                lines[place] = Line(self, self.keys[place], disks[place])
            for entry in waiting:
                self.world.write(entry)
                quiet = 0
            if quiet >= len(lines) and not self.under_way:
                return self.world.rounds()
        raise AssertionError(f"plan {self.plan}: the parties do not come to an end")


class Line:
    """A process of one party: its view of the log, and its disk with a point around each write."""

    def __init__(self, scene: Scene, keys: PartyKeys, disk: Kept) -> None:
        self.rounds = Rounds()
        self._scene, self._disk = scene, disk
        self._applied = 0
        self._party = scene.make(keys, self)

    def turn(self) -> bool:
        """Take a turn; return whether the party answered."""
        return turn(self._party, self, self._read) is not None

    def catch_up(self) -> Rounds:
        self._scene.point()
        for value in self._scene.world.log[self._applied :]:
            self.rounds.apply(decode_round(value))
        self._applied = len(self._scene.world.log)
        return self.rounds

    def append(self, entry: RoundEntry) -> None:
        if isinstance(entry, NoisyShare):
            self._scene.sent.append(entry)
        try:
            self._scene.point()
        except Crash:
            if self._scene.late:
                self._scene.under_way.append(entry)
            raise
        self._scene.world.write(entry)
        self._scene.point()

    def keep(self, plan: bytes, stage: int, released: bytes) -> bool:
        self._scene.point()
        kept = self._disk.keep(plan, stage, released)
        self._scene.point()
        return kept

    def _read(self, stage: StageState) -> Iterator[Record]:
        self._scene.point()
        yield from self._scene.world.read(stage)


def runs(
    make_scene: Callable[[tuple[int, ...]], Scene], crashes: int
) -> Iterator[tuple[Scene, Rounds]]:
    """Yield every plan of at most `crashes` crashes, run to its end."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        plan = waiting.pop()
        scene = make_scene(plan)
        yield scene, scene.run()
        if len(plan) < crashes:
            first = plan[-1] + 1 if plan else 0
            waiting += [(*plan, point) for point in range(first, scene.points)]

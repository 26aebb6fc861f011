"""One schedule: everything that happens, in an order that a seed decides, and what must hold.

    two processes     read the state topic in pieces, follow the log, freeze, write; die, pause, and
                      come back; each takes itself for the owner as long as nobody has told it
    coordinator       moves the ownership whenever it likes and tells both, each in its own time
    network           delivers requests in any order, those of the dead as well, or loses them
    broker            compacts at any time; now and then a bit flips or a stranger writes
    retention         removes the log before what a recovery would find, but not what an owner
                      has still under way (it takes longer than a checkpoint or a pause)

At any moment: a fresh recovery, followed by a replay of the log, gives the state and the ledger of
one uninterrupted run; the checkpoint lies within the log, and the log reaches back to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from stream_app.log.checkpoint import Acked, Disown, Durable, Freeze, Own, Send
from stream_app.log.recovery import CheckpointRefused, Found, Recovery
from tests.simulation.broker import FIRST_OFFSET, Topic
from tests.simulation.coverage import Coverage
from tests.simulation.process import Mail, Phase, Process, Variant
from tests.simulation.world import BASE, Ends, State, World

ACTIONS = 64
WORLDS = [World(seed) for seed in range(16)]
BURST = (1, 6)
BOUNDS = (1, 66_000, 8 << 20)
"""Bytes in flight: one page at a time, two, all at once."""

Action = Callable[[Process], None]


class Violation(Exception):  # noqa: N818 - it is a finding
    """What must hold does not."""


class Schedule:
    """A run of `actions` actions; `run` returns what was violated, None where nothing was."""

    def __init__(
        self,
        seed: int,
        variant: Variant,
        seen: Coverage,
        trace: list[str] | None = None,
        flips: bool = True,
    ) -> None:
        self.random = random.Random(seed)
        self.rnd = self.random.random
        self.variant, self.seen, self.trace, self.flips = variant, seen, trace, flips
        self.world = WORLDS[seed % len(WORLDS)]
        self.topic = Topic()
        self.published = self.kept_from = 0
        self.committed: tuple[int, Ends] = (0, self.world.ends[0])
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

    def run(self, actions: int = ACTIONS) -> str | None:
        """Run the schedule, then check what it has left behind."""
        table, rnd = self._table(), self.rnd
        size = len(table)
        a, b = self.processes
        try:
            self._begin(a, int(rnd() * 3))
            for _ in range(actions):
                table[int(rnd() * size)](a if rnd() < 0.5 else b)
            self._check(a)
        except Lost:
            return None
        except (Violation, CheckpointRefused) as found:
            self._say(f"VIOLATION: {found}")
            return str(found)
        return None

    def _begin(self, process: Process, checkpoints: int) -> None:
        """Let a process write a few checkpoints in peace, so that there is something to lose."""
        self._read(process)
        self._tell(process)
        while checkpoints and (process.cut < 3 * checkpoints):
            self._pump(process)

    def _table(self) -> Sequence[Action]:
        """Draw what this schedule is made of: every action as often as its weight says."""

        def draw(*weights: int) -> int:
            return weights[int(self.rnd() * len(weights))]

        weights: tuple[tuple[Action, int], ...] = (
            (self._read, 4),
            (self._deliver, draw(4, 8, 12)),
            (self._acknowledge, draw(4, 8, 12)),
            (self._pump, draw(1, 3, 6)),
            (self._follow, 4),
            (self._freeze, 6),
            (self._tell, 4),
            (self._crash, draw(0, 1, 1, 2, 4)),
            (self._move, draw(0, 1, 2, 4)),
            (self._tear, draw(0, 0, 1, 1)),
            (self._pause, draw(0, 0, 1, 2)),
            (self._resume, 2),
            (self._deliver_late, 2),
            (self._compact, draw(0, 1, 2, 4)),
            (self._trim, draw(0, 1, 2, 4)),
            (self._check, 1),
            (self._damage, draw(0, 0, 0, 0, 0, 1) * self.flips),
            (self._intrude, draw(0, 0, 0, 0, 0, 1)),
        )
        return [action for action, weight in weights for _ in range(weight)]

    def _say(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(what)

    # --- processes ------------------------------------------------------------------------

    def _bear(self, process: Process) -> None:
        bound = BOUNDS[int(self.rnd() * 3)]
        process.bear(self.variant.recover(), self.variant.writer(bound), self.topic.end)

    def _read(self, process: Process) -> None:
        """Read on in the state topic; at its end, start."""
        if process.phase is not Phase.READING or process.paused:
            return self._follow(process)
        stop = process.stop if self.variant.once else self.topic.end
        limit = 1000 if self.rnd() < 0.6 else 4
        for offset, key, value in self.topic.read(process.position, stop, limit):
            process.recovery.read(offset, key, value)
            process.position = offset + 1
        if limit == 1000 or process.position >= stop:
            found, state, (cut, ends) = self._recovered(process.recovery)
            process.start(state, cut, ends, [] if found is None else found.keys)
            if self.trace is not None:
                self._say(f"{process.name} starts at cut {cut}")
        return None

    def _follow(self, process: Process) -> None:
        """Apply the next round, which may have to be published first."""
        if process.phase is not Phase.LIVE or process.paused:
            return
        if process.cut < self.kept_from:
            self.seen.overtaken += 1
            self._end(process)
            return
        if process.cut >= self.published and self.published < self.world.rounds:
            self.published += 1
        if process.cut < self.published:
            process.follow(self.world)

    def _freeze(self, process: Process) -> None:
        """Begin a checkpoint at the cut where the process stands."""
        if process.phase is not Phase.LIVE or process.paused:
            return self._resume(process)
        if not process.writer.ready:
            return self._acknowledge(process)
        if self.rnd() < 0.8:
            self._follow(process)
            if process.phase is not Phase.LIVE:
                return None
        assert process.state is not None
        if self.trace is not None:
            self._say(f"{process.name} freezes at cut {process.cut}")
        if self.variant.early:
            self.committed = process.cut, process.ends
        process.frozen_cut = process.cut
        frozen = self.world.freeze(process.state, process.cut)
        self._take(process, process.writer.step(Freeze(frozen)))
        return None

    def _take(self, process: Process, outputs: Sequence[Send | Durable]) -> None:
        """Do what the writer says: hand records to the client; learn of a durable checkpoint."""
        for output in outputs:
            if isinstance(output, Send):
                process.on_the_way.append((process.written_cut, output))
                continue
            process.durable_cut = output.manifest.cut
            self.seen.durable += 1
            self.seen.zombie_durable += output.manifest.generation < self.claimed
            if not self.variant.early:
                self.committed = output.manifest.cut, output.manifest.ends
            if self.trace is not None:
                name = f"{output.manifest.generation}.{output.manifest.number}"
                self._say(f"{process.name}: {name} is durable, cut {output.manifest.cut}")

    def _crash(self, process: Process) -> None:
        """Kill a process; what it has sent may be lost, or arrive at any time later."""
        if process.phase is Phase.LIVE:
            self._count_death(process)
            self._end(process)

    def _end(self, process: Process) -> None:
        if self.trace is not None:
            self._say(f"{process.name} dies with {len(process.on_the_way)} requests on the way")
        self.late += [request for request in process.on_the_way if self.rnd() < 0.7]
        self._bear(process)
        if self.processes[self.assigned] is process:
            if self.rnd() < 0.5:
                self.assigned = 1 - self.assigned
            self.processes[self.assigned].mail.append(Mail.OWN)

    def _count_death(self, process: Process) -> None:
        first = [s.key[:1] if s.value else b"" for _, s in process.on_the_way]
        self.seen.died_with_pages_on_the_way += b"P" in first
        self.seen.died_with_a_manifest_on_the_way += b"M" in first
        self.seen.died_before_tombstones += b"" in first

    def _pause(self, process: Process) -> None:
        process.paused = True

    def _resume(self, process: Process) -> None:
        process.paused = False

    # --- coordinator ----------------------------------------------------------------------

    def _move(self, process: Process) -> None:
        """Give the ownership to a process; the other one hears of it in its own time."""
        other = self.processes[self.assigned]
        if process is other:
            return
        self.assigned = 1 - self.assigned
        process.mail.append(Mail.OWN)
        other.mail.append(Mail.DISOWN)

    def _tear(self, _: Process) -> None:
        """Tell both that they own the clock."""
        for process in self.processes:
            process.mail.append(Mail.OWN)
            self._tell(process)

    def _tell(self, process: Process) -> None:
        """Let a process hear what the coordinator has decided."""
        if process.phase is not Phase.LIVE or process.paused or not process.is_told:
            return self._read(process)
        if process.survey is not None:
            return self._claim(process)
        if process.mail.pop(0) is Mail.DISOWN:
            self._say(f"{process.name} no longer owns the clock")
            process.owns = False
            self._take(process, process.writer.step(Disown()))
            return None
        self._say(f"{process.name} owns the clock")
        a, b = self.processes
        self.seen.two_owners += a.owns and b.owns
        process.own(self._fresh())
        return self._claim(process) if self.rnd() < 0.5 else None

    def _claim(self, process: Process) -> None:
        """Claim a generation, some time after the topic was surveyed."""
        survey, process.survey = process.survey, None
        assert survey is not None
        owner = self.random.randbytes(16)
        event = Own(owner, process.name, survey.keys, survey.reach(BASE))
        self._take(process, process.writer.step(event))

    # --- network --------------------------------------------------------------------------

    def _deliver(self, process: Process) -> None:
        """Let a request of a process arrive, be it paused or not."""
        waiting = process.on_the_way
        if not waiting:
            return self._acknowledge(process)
        _, send = waiting.pop(int(self.rnd() * len(waiting)))
        process.acks.append((send.token, self._append(process.name, send)))
        return None

    def _append(self, name: str, send: Send) -> int:
        key = send.key
        offset = self.topic.append(key, send.value)
        if key[:1] == b"C":
            self.claimed = offset
        elif send.value is None:
            self.seen.tombstones += 1
        elif int.from_bytes(key[-8:]) < self.claimed:
            self.seen.zombie_wrote += 1
        a, b = self.processes
        self.seen.written_while_read += a.is_amid_reading or b.is_amid_reading
        if self.trace is not None:
            self._say(f"{offset}: {name} {told(key)}{'' if send.value else ' removed'}")
        return offset

    def _acknowledge(self, process: Process) -> None:
        """Let an acknowledgement arrive."""
        acks = process.acks
        if not acks or process.paused or process.phase is not Phase.LIVE:
            if process.on_the_way and not acks:
                self._deliver(process)
            return
        token, offset = acks.pop(int(self.rnd() * len(acks)))
        self._take(process, process.writer.step(Acked(token, offset)))

    def _pump(self, process: Process) -> None:
        """Let a process go on alone for a while: hear, freeze, send, be acknowledged."""
        process.paused = False
        for _ in range(BURST[0] + int(self.rnd() * BURST[1])):
            if process.phase is not Phase.LIVE:
                self._read(process)
            elif process.acks:
                token, offset = process.acks.pop(0)
                self._take(process, process.writer.step(Acked(token, offset)))
            elif process.on_the_way:
                self._deliver(process)
            elif process.is_told:
                self._tell(process)
            elif process.writer.ready:
                self._freeze(process)
            else:
                return self._follow(process)
        return None

    def _deliver_late(self, process: Process) -> None:
        """Let a request arrive whose process is dead, or lose it."""
        if not self.late:
            return self._freeze(process)
        _, send = self.late.pop(int(self.rnd() * len(self.late)))
        self._append("the late", send)
        self.seen.late_of_the_dead += 1
        return None

    # --- broker ---------------------------------------------------------------------------

    def _compact(self, _: Process) -> None:
        removed = self.topic.compact(self.random)
        if removed:
            a, b = self.processes
            self.seen.compacted_in_a_checkpoint += not (a.is_settled and b.is_settled)
            self.seen.compacted_while_read += a.is_amid_reading or b.is_amid_reading
            if self.trace is not None:
                self._say(f"compaction removes {removed} records")

    def _trim(self, _: Process) -> None:
        """Remove the log that neither a recovery would read nor anybody has under way."""
        covered = self._recovered(self._fresh())[2][0]
        a, b = self.processes
        owners = [p.oldest_cut for p in (a, b) if p.owns]
        requests = (*a.on_the_way, *b.on_the_way, *self.late)
        removals = [cut for cut, send in requests if send.value is None]
        cut = min([covered, *owners, *removals])
        if cut > self.kept_from:
            self.kept_from = cut
            self.seen.trimmed += 1
            if self.trace is not None:
                self._say(f"the log is kept from cut {cut}")

    def _damage(self, _: Process) -> None:
        if self.topic.flip(self.random):
            self.damaged = True
            self.seen.damaged += 1
            self._say("a bit flips")

    def _intrude(self, _: Process) -> None:
        """Let a stranger write: no key of ours, or one of a generation that never was."""
        key = self.random.choice(
            (b"", b"X", b"P", b"M\x07" + bytes(8), b"P" + bytes(7) + (10**9).to_bytes(8),
             b"M\1" + (10**9).to_bytes(8), b"C" + self.random.randbytes(16))
        )  # fmt: skip
        self.topic.append(key, self.random.choice((None, b"", b"\1", self.random.randbytes(40))))
        self.seen.intruded += 1

    # --- what must hold -------------------------------------------------------------------

    def _check(self, _: Process) -> None:
        """Recover from here, replay, and compare; and compare what lives."""
        state, (start, ends) = self._recovered(self._fresh())[1:]
        for number in range(start + 1, self.published + 1):
            state = self.world.apply(state, ends, number)
            ends = self.world.ends[number]
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

    def _recovered(self, recovery: Recovery) -> tuple[Found | None, State, tuple[int, Ends]]:
        """Return the checkpoint, its state, and where the log is taken up."""
        found = self.found if recovery is self.fresh else recovery.newest()
        state, cut, ends = self.world.start, 0, self.world.ends[0]
        self.seen.recovered += 1
        self.seen.fell_back += recovery.damaged > 0
        if found is None:
            self.seen.recovered_nothing += 1
        else:
            state, cut, ends = self.world.load(found), found.manifest.cut, found.manifest.ends
            newest = max(int.from_bytes(key[-8:]) for key in found.keys if key[0] == b"M"[0])
            self.seen.took_an_older_generation += found.manifest.generation < newest
        if self.variant.committed:
            cut, ends = self.committed
        if cut > self.published:
            raise Violation(f"the checkpoint at cut {cut} is ahead of the log")
        if cut < self.kept_from:
            if not self.damaged:
                raise Violation(f"neither checkpoint nor log: cut {cut} is no longer kept")
            self.seen.lost_to_damage += 1
            raise Lost
        return found, state, (cut, ends)


class Lost(Exception):  # noqa: N818 - it is an outcome
    """After damage there is neither checkpoint nor log: a worker refuses."""


def told(key: bytes) -> str:
    """Return a record key for people."""
    generation = int.from_bytes(key[-8:])
    match key[:1]:
        case b"P":
            return f"page {'abcdefgh'[key[2]]} slot {key[7]} of {generation}"
        case b"M":
            return f"manifest {key[1]} of {generation}"
    return "claim"

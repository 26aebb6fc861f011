"""One schedule: every event, in an order that a seed decides, and the invariants that are checked.

    two processes     read the state topic in pieces, follow the log, freeze, write; die, pause, and
                      come back; each is the owner in its own view until it is notified
    coordinator       moves the ownership whenever it likes and notifies both, each at its own time
    network           delivers requests in any order, those of the dead as well, or loses them
    log               loses its tail now and then, and goes on with other records
    broker            compacts at any time; now and then a bit flips or another program writes
    retention         removes the log before what a recovery would find, but not what an owner
                      has still under way (it takes longer than a checkpoint or a pause)

At any moment: a fresh recovery, followed by a replay of the log, gives the state and the ledger of
one uninterrupted run; the checkpoint lies within the log, and the log reaches back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_app.checkpoints.protocol.recovery import CheckpointRefused
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.scene import Lost, Violation

ACTIONS = 56

Action = Callable[[Process], None]


class Schedule(Cluster):
    """A run of `actions` actions; `run` returns the violated invariant, or None."""

    def run(self, actions: int = ACTIONS, flips: bool = True) -> str | None:
        """Run the schedule, then check what it has left behind; without `flips` nothing is ever
        damaged."""
        self.flips = flips
        table, rnd = self._table(), self.rnd
        size = len(table)
        a, b = self.processes
        try:
            self._begin(int(rnd() * 4))
            for _ in range(actions):
                table[int(rnd() * size)](a if rnd() < 0.5 else b)
            self._check(a)
        except Lost:
            return None
        except (Violation, CheckpointRefused) as found:
            self._log(f"VIOLATION: {found}")
            return str(found)
        return None

    def _begin(self, generations: int) -> None:
        """Let a few owners write a checkpoint each in peace, so that there is something to lose."""
        for turn in range(generations):
            owner, other = self.processes[turn % 2], self.processes[1 - turn % 2]
            for _ in range(20):
                self._pump(owner)
                if owner.durable_cut is not None and self.rnd() < 0.5:
                    break
            self._move(other)

    def _table(self) -> Sequence[Action]:
        """Draw the actions of this schedule, each as often as its weight."""

        def draw(*weights: int) -> int:
            return weights[int(self.rnd() * len(weights))]

        weights: tuple[tuple[Action, int], ...] = (
            (self._read, 4),
            (self._deliver, draw(4, 8, 12)),
            (self._acknowledge, draw(4, 8, 12)),
            (self._pump, draw(2, 4, 8)),
            (self._follow, 4),
            (self._freeze, 6),
            (self._notify, 8),
            (self._crash, draw(0, 1, 1, 2, 4)),
            (self._move, draw(0, 2, 4, 6)),
            (self._tear, draw(0, 0, 1, 1)),
            (self._pause, draw(0, 0, 1, 2)),
            (self._resume, 2),
            (self._deliver_late, 2),
            (self._compact, draw(0, 1, 2, 4)),
            (self._trim, draw(0, 1, 2, 4)),
            (self._truncate, draw(0, 0, 0, 0, 1)),
            (self._check, 1),
            (self._damage, draw(0, 0, 0, 0, 0, 1) * self.flips),
            (self._intrude, draw(0, 0, 0, 0, 0, 1)),
        )
        return [action for action, weight in weights for _ in range(weight)]

    # --- broker ---------------------------------------------------------------------------

    def _compact(self, _: Process) -> None:
        removed = self.topic.compact(self.random)
        if removed:
            a, b = self.processes
            self.seen.compacted_in_a_checkpoint += a.is_writing or b.is_writing
            self.seen.compacted_while_read += a.is_amid_reading or b.is_amid_reading
            if self.trace is not None:
                self._log(f"compaction removes {removed} records")

    def _trim(self, _: Process) -> None:
        """Remove the log that no recovery would read and no process has under way."""
        _state, (covered, _ends) = self._recovered(self._fresh(), self.found)
        a, b = self.processes
        owners = [p.oldest_cut for p in (a, b) if p.owns]
        requests = (*a.on_the_way, *b.on_the_way, *self.late)
        removals = [cut for cut, send in requests if send.value is None]
        cut = min([covered, *owners, *removals])
        if cut > self.kept_from:
            self.kept_from = cut
            self.seen.trimmed += 1
            if self.trace is not None:
                self._log(f"the log is kept from cut {cut}")

    def _truncate(self, _: Process) -> None:
        """Let the log lose its tail; an entry of the cut log supersedes the cuts after it, and
        other records follow.

        A process beyond the new end may write what it holds until it reads that entry. Owners may
        have removed what was from before the new end, so nothing may be left but a refusal.
        """
        number = self.kept_from + int(self.rnd() * (self.published + 1 - self.kept_from))
        if number == self.published:
            return
        self.superseded.update(cut.offset for cut in self.cuts[number + 1 :])
        del self.cuts[number + 1 :]
        self.entries, self.branch = self.entries + 1, self.branch + 1
        self.topic.version += 1
        self.damaged = True
        for process in self.processes:
            process.beyond |= process.cut > number
        self.seen.truncated += 1
        self._log(f"the log ends at cut {number}")

    def _damage(self, _: Process) -> None:
        if self.topic.flip(self.random):
            self.damaged = True
            self.seen.damaged += 1
            self._log("a bit flips")

    def _intrude(self, _: Process) -> None:
        """Let another program write: a foreign key, or one of a generation that does not exist."""
        key = self.random.choice(
            (b"", b"X", b"P", b"M\x07" + bytes(8), b"P" + bytes(7) + (10**9).to_bytes(8),
             b"M\1" + (10**9).to_bytes(8), b"C" + self.random.randbytes(16))
        )  # fmt: skip
        self.topic.append(key, self.random.choice((None, b"", b"\1", self.random.randbytes(40))))
        self.seen.intruded += 1

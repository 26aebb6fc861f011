"""Actions of the processes, the coordinator and the network.

Every action takes a process. An action that is impossible in the current phase is replaced by the
closest possible one, so that few actions of a schedule are without effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stream_app.checkpoints.protocol.recovery import Found, Recovery, greatest_cut
from stream_app.checkpoints.protocol.writer import (
    Acked,
    Durable,
    Freeze,
    LeaseAcquired,
    LeaseReleased,
    Send,
)
from tests.simulation.broker import FIRST_OFFSET
from tests.simulation.process import Mail, Phase, Process
from tests.simulation.scene import Scene
from tests.simulation.world import BASE

BURST = 6


class Cluster(Scene):
    """The actions of a cluster without faults, and a crash."""

    # --- processes ------------------------------------------------------------------------

    def _read(self, process: Process) -> None:
        """Read on in the state topic; at its end, start."""
        if process.phase is not Phase.READING or process.paused:
            return self._follow(process)
        stop = process.stop if self.variant.once else self.topic.end
        limit = 1000 if self.rnd() < 0.6 else 4
        if limit == 1000 and process.position == FIRST_OFFSET and stop == self.topic.end:
            process.reading = self._fresh()  # equal, and perhaps cached
            return self._start(process, self.found)
        for record in self.topic.read(process.position, stop, limit):
            process.reading.streamed.read(*record)
            process.position = record[0] + 1
        if limit == 1000 or process.position >= stop:
            found = process.reading.streamed.decide()
            if not isinstance(found, int):
                return self._start(process, found)
            self.seen.read_again += 1
            process.position, process.readings = found, process.readings + 1
        return None

    def _start(self, process: Process, found: Found | None) -> None:
        state, (cut, end_offsets) = self._recovered(process.reading, found)
        cut_offset = found.manifest.cut_offset if found else 0
        process.start(state, cut, cut_offset, end_offsets)
        if self.trace is not None:
            self._log(f"{process.name} starts at cut {cut}")

    def _follow(self, process: Process) -> None:
        """Apply the next round, which may have to be published first."""
        if process.phase is not Phase.LIVE or process.paused:
            return
        if process.beyond:
            self.seen.reloaded += 1
            self._end(process)
            return
        if process.cut < self.kept_from:
            self.seen.overtaken += 1
            self._end(process)
            return
        if process.cut >= self.published and self.published < self.world.rounds:
            self.publish()
        if process.cut < self.published:
            process.follow(self.world, self.cuts[process.cut + 1])

    def _freeze(self, process: Process) -> None:
        """Begin a checkpoint at the current cut of the process."""
        if process.phase is not Phase.LIVE or process.paused:
            return self._resume(process)
        if not process.writer.ready:
            return self._acknowledge(process)
        if self.rnd() < 0.6:
            self._follow(process)
            if process.phase is not Phase.LIVE:
                return None
        assert process.state is not None
        if self.trace is not None:
            self._log(f"{process.name} freezes at cut {process.cut}")
        if self.variant.early:
            self.committed = process.cut, process.end_offsets
        process.frozen_cut = process.cut
        frozen = self.world.freeze(process.state, process.cut)
        frozen = replace(frozen, cut_offset=process.cut_offset)
        self.seen.wrote_superseded += process.beyond
        self._take(process, process.writer.step(Freeze(frozen)))
        return None

    def _take(self, process: Process, outputs: Sequence[Send | Durable]) -> None:
        """Carry out the outputs of the writer: send records, note a durable checkpoint."""
        for output in outputs:
            if isinstance(output, Send):
                process.on_the_way.append((process.written_cut, output))
                continue
            process.durable_cut = output.manifest.cut
            self.seen.durable += 1
            self.seen.zombie_durable += output.manifest.generation < self.claimed
            if not self.variant.early:
                self.committed = output.manifest.cut, output.manifest.end_offsets
            if self.trace is not None:
                name = f"{output.manifest.generation}.{output.manifest.number}"
                self._log(f"{process.name}: {name} is durable, cut {output.manifest.cut}")

    def _crash(self, process: Process) -> None:
        """Kill a process, be it at its start; its requests may be lost, or arrive at any later
        time."""
        if process.phase is Phase.LIVE:
            self._count_death(process)
        else:
            self.seen.died_while_reading += process.is_amid_reading
            self.seen.died_between_readings += process.readings > 0
        self._end(process)

    def _end(self, process: Process) -> None:
        if self.trace is not None:
            self._log(f"{process.name} dies with {len(process.on_the_way)} requests on the way")
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
        """Assign the ownership to a process; the former owner is notified later."""
        other = self.processes[self.assigned]
        if process is other:
            return
        self.assigned = 1 - self.assigned
        process.mail.append(Mail.OWN)
        other.mail.append(Mail.DISOWN)

    def _tear(self, _: Process) -> None:
        """Notify both processes that they own the clock."""
        for process in self.processes:
            process.mail.append(Mail.OWN)
            self._notify(process)

    def _notify(self, process: Process) -> None:
        """Let a process read the assignment of the coordinator."""
        if process.phase is not Phase.LIVE or process.paused or not process.has_news:
            return self._read(process)
        if process.survey is not None:
            return self._claim(process)
        if process.mail.pop(0) is Mail.DISOWN:
            self._log(f"{process.name} no longer owns the clock")
            process.owns = False
            self._take(process, process.writer.step(LeaseReleased()))
            return None
        self._log(f"{process.name} owns the clock")
        a, b = self.processes
        self.seen.two_owners += a.owns and b.owns
        process.acquire(self._survey(process))
        return self._claim(process) if self.rnd() < 0.5 else None

    def _survey(self, process: Process) -> Recovery:
        """Return what the topic holds now: read again, or read on from where the start ended."""
        reading, (a, b) = process.reading, self.processes
        if a.reading is b.reading or self.rnd() < 0.5:
            return self._fresh().streamed.rules
        streamed = reading.streamed
        for record in self.topic.read(streamed.position, self.topic.end, 10**6):
            streamed.rules.read(*record)
            streamed.position = record[0] + 1
        self.seen.surveyed_on += 1
        return streamed.rules

    def _claim(self, process: Process) -> None:
        """Claim a generation, some time after the topic was surveyed."""
        survey = process.claim()
        owner = self.random.randbytes(16)
        line = survey.design, survey._topic_id, BASE
        reach = greatest_cut(survey.manifests, line)
        event = LeaseAcquired(owner, process.name, survey.keys, reach)
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
            self._log(f"{offset}: {name} {key_name(key)}{'' if send.value else ' removed'}")
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
        """Let a process run alone for a while: read its mail, freeze, send, be acknowledged."""
        process.paused = False
        for _ in range(1 + int(self.rnd() * BURST)):
            if process.phase is not Phase.LIVE:
                self._read(process)
            elif process.acks:
                token, offset = process.acks.pop(0)
                self._take(process, process.writer.step(Acked(token, offset)))
            elif process.on_the_way:
                self._deliver(process)
            elif process.has_news:
                self._notify(process)
            elif process.writer.ready:
                self._freeze(process)
            else:
                return self._follow(process)
        return None

    def _deliver_late(self, process: Process) -> None:
        """Deliver a request of a dead process, or lose it."""
        if not self.late:
            return self._freeze(process)
        _, send = self.late.pop(int(self.rnd() * len(self.late)))
        self._append("the late", send)
        self.seen.late_of_the_dead += 1
        return None


def key_name(key: bytes) -> str:
    """Return a record key as readable text."""
    generation = int.from_bytes(key[-8:])
    match key[:1]:
        case b"P":
            return f"page {'abcdefgh'[key[2]]} slot {key[7]} of {generation}"
        case b"M":
            return f"manifest {key[1]} of {generation}"
    return "claim"

"""Recomputes the state from the topics: the reference against which a worker is checked.

    state at cut r = f(first design, origin, log after the origin up to r)

It applies the same log in the same order to the same replica as a worker does, from the same origin
(`wire.state_records.StateOrigin`): an empty state or an adopted snapshot, without the devices that
were forgotten with a rebuild. If the log holds another such device, the replay restarts without it,
as a worker does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from stream_app.checkpoints.design_line import DesignLine, line_of
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.log.canonical_order import Start
from stream_app.replay.follower import Decoded, Follower
from stream_app.replay.lost_tail import LogLostItsEnd
from stream_app.state.replica import BatchOutcome, Replica, StateSpec
from stream_app.wire import Aborted, Batch, CampaignPlan, Contract, Forget, Merge, Released, Tail
from stream_app.wire.state_records import StateOrigin

if TYPE_CHECKING:
    from stream_app.checkpoints.snapshot_file import SnapshotFile

Progress = Callable[[int, int], None]
_STALL_SECONDS = 15.0
_ASK_SECONDS = 1.0


@dataclass(eq=False)
class Replayed:
    """A replica at a cut, the offset after that cut in the cut log, and the last records before it
    (`Manifest.tails`; empty: not known)."""

    replica: Replica
    cut_offset: int
    tails: tuple[Tail | None, ...] = ()

    @property
    def position(self) -> Start:
        """The position in the log after the cut."""
        r = self.replica
        return Start(r.cut, r.end_offsets, self.cut_offset, r.contract, merged=r.merged)


@dataclass(eq=False)
class Replay:
    """Replays one deployment, by the designs of its log or by `line`; `progress` is called with
    (records applied, records in the log), `each_cut` is called with the
    replica at every cut, `each_batch` with every batch and its outcome, also for those that a
    restart of the replay repeats."""

    deployment: Deployment
    progress: Progress | None = None
    snapshot: SnapshotFile | None = None
    line: DesignLine | None = None
    each_cut: Callable[[Replica], None] = field(default=lambda _: None)
    each_batch: Callable[[Batch, BatchOutcome], None] = field(default=lambda _batch, _outcome: None)

    def from_origin(
        self, origin: StateOrigin | None = None, at_cut: int | None = None, design: str = ""
    ) -> Replayed:
        """Return the state at a cut, or at the newest, computed from its origin; `design`: see
        `line_of`.

        Refuses a cut that the log does not hold, a log that lacks records its cuts name or records
        after the origin, and an origin whose snapshot is not given (`snapshot`).
        """
        origin = origin or StateOrigin(0, (0,) * self.deployment.partitions)
        if at_cut is not None and at_cut < origin.cut:
            raise UserError(f"cut {at_cut}: the state begins at cut {origin.cut}; give a later one")
        line = self.line or line_of(self.deployment, origin.cut, at_cut, design)
        begun = Replayed(begin(line.base, origin, self.snapshot), 0)
        start = Start(origin.cut, origin.end_offsets, contract=origin.contract)
        return self.go_on(begun, start, at_cut, line)

    def go_on(
        self,
        begun: Replayed,
        start: Start,
        at_cut: int | None = None,
        line: DesignLine | None = None,
    ) -> Replayed:
        """Return the state at a cut, following the log from `start`, the position of `begun`, whose
        designs are those of `line`, if given."""
        line = line or DesignLine(begun.replica.spec)
        start = replace(start, merged=begun.replica.merged)
        follower = Follower(self.deployment, start, line=line)
        try:
            devices = self._follow(follower, begun, at_cut)
        finally:
            follower.close()
        if devices:
            return self.from_origin(excluding(begun.replica.origin, devices), at_cut)
        return begun

    def _follow(self, follower: Follower, begun: Replayed, at_cut: int | None) -> set[str]:
        """Advance the replica to the cut; return the devices to exclude, if it must restart."""
        replica, stall = begun.replica, _StallCheck(follower, self.deployment.topics.ratings)
        first, total = sum(replica.end_offsets), sum(follower.log_end_offsets()[0])
        while at_cut is None or replica.cut < at_cut:
            for piece in follower.poll(0.05):
                if piece.takes_over:
                    raise UserError("another design took over during the replay: run it again")
                if isinstance(piece.entry, Forget) and piece.entry.rebuild:
                    ahead = [piece.entry, *follower.rounds.forgets_ahead(at_cut)]
                    devices = {forget.device for forget in ahead if forget.rebuild}
                    if devices - set(replica.origin.excluded):
                        return devices
                outcome = take(replica, piece)
                if piece.batch is not None and outcome is not None:
                    self.each_batch(piece.batch, outcome)
                if piece.cut is not None:
                    begun.cut_offset, begun.tails = piece.cut_offset, piece.tails
                    self.each_cut(replica)
                    if at_cut is not None and replica.cut > at_cut:
                        raise UserError(f"cut {at_cut} was superseded by a truncation of the log")
                    if replica.cut == at_cut:
                        return set()
            if follower.rounds.truncated:
                raise UserError("the log was truncated while it was replayed: run it again")
            newest = follower.rounds.newest_cut[0]
            if follower.cuts_at_end and follower.rounds.number == newest:
                if at_cut is not None:
                    raise UserError(
                        f"cut {at_cut}: the newest cut of {self.deployment.topics.cuts} is {newest}"
                    )
                return set()
            if self.progress is not None:
                self.progress(sum(replica.end_offsets) - first, total - first)
            stall.check(replica.cut, newest)
        return set()


def begin(design: StateSpec, origin: StateOrigin, snapshot: SnapshotFile | None = None) -> Replica:
    """Return the replica at an origin; refuses an origin whose snapshot is not given."""
    try:
        replica = Replica(design, origin)
    except ValueError as error:
        raise UserError(str(error)) from None
    if not origin.snapshot:
        if snapshot is not None:
            raise UserError(
                f"--snapshot {snapshot.path}: the state did not begin from a snapshot, so the file "
                "would not be used: leave the option out (to begin from it: murmurec worker "
                "--from-snapshot FILE)"
            )
        return replica
    if snapshot is None:
        raise UserError(
            f"the state began from a snapshot, {origin.snapshot}: give its file (--snapshot FILE)"
        )
    snapshot.adopt(replica, origin)
    # The snapshot may predate the forget entries; the origin rejects later records of the devices.
    for device in origin.excluded:
        replica.clear(bytes.fromhex(device))
    return replica


def take(replica: Replica, piece: Decoded) -> BatchOutcome | None:
    """Apply the next piece of the log to a replica; return the outcome of its records."""
    outcome = None if piece.batch is None else replica.apply(piece.batch)
    if piece.cut is not None:
        replica.end_round(piece.cut.number, piece.cut.end_offsets, piece.cut.accepted_days)
    if piece.design is not None:
        redesign(replica, piece.design)
    match piece.entry:
        case Contract(version=version):
            replica.set_contract(version)
        case CampaignPlan() | Released() | Aborted() as entry:
            replica.follow(entry)
        case Merge(ends=ends):
            replica.merge(piece.changes, ends)
        # With a rebuild, the origin excludes the device, as if it had never reported.
        case Forget(device=device, rebuild=False):
            replica.forget(bytes.fromhex(device))
    return outcome


def redesign(replica: Replica, spec: StateSpec) -> None:
    """Take up a design; before the first cut, when no record is in the state, as if it had been the
    one from the beginning: with all entries that came before it."""
    if spec == replica.spec:
        return
    if replica.cut or replica.origin.cut or replica.origin.snapshot:
        replica.redesign(spec)
        return
    contract, forgotten = replica.contract, replica.ledger.forgotten
    campaigns = replica.campaigns  # no design changes their parties
    replica.restart(replica.origin, spec)
    replica.set_contract(contract)
    replica.campaigns = campaigns
    for device in forgotten:
        replica.forgotten.add(device)


def excluding(origin: StateOrigin, devices: Iterable[str]) -> StateOrigin:
    """Return the origin that also excludes these devices."""
    return msgspec.structs.replace(origin, excluded=tuple(sorted({*origin.excluded, *devices})))


class _StallCheck:
    """Refuses a log that lacks records which its cuts name: that ends before one, after a second
    without a new record, or has a hole, after 15 s."""

    def __init__(self, follower: Follower, ratings: str) -> None:
        self._follower, self._ratings = follower, ratings
        self._before: tuple[list[int], int] = ([], -1)
        self._moved = time.monotonic()
        self._asked = False

    def check(self, cut: int, newest: int) -> None:
        rounds = self._follower.rounds
        position = [*rounds.received, *(rounds.exchange.received if rounds.exchange else ())], cut
        if position != self._before:
            self._before, self._moved = position, time.monotonic()
            self._asked = False
            return
        waited = time.monotonic() - self._moved
        if waited > _ASK_SECONDS and not self._asked:
            self._asked = True
            if beyond := self._follower.beyond_end():
                raise LogLostItsEnd(f"{self._ratings}: {beyond}")
        if waited > _STALL_SECONDS and self._follower.unanswered:
            raise UserError(f"{self._follower.unanswered}; try again")
        if waited > _STALL_SECONDS:
            raise UserError(
                f"{self._ratings} holds fewer records than cut {newest} names: records are "
                "missing, and the state cannot be recomputed; restore the topic"
            )

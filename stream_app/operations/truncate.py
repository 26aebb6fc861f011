"""Takes up a log that lost its end at an earlier cut: appends a truncation to the cut log.

The cuts after it are superseded (`log.cut_chain`), and so are the checkpoints and digest reports of
those cuts. What the log holds after the cut is applied again, in new rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.checkpoints import offline_writer
from stream_app.checkpoints.cut_log_scan import CutLogScan
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.log.cut_chain import LEAST_MARGIN, MOST_CUTS, Truncations
from stream_app.operations.session import Session
from stream_app.replay.cut_history import CutHistory, history
from stream_app.replay.log_bounds import RESTORE
from stream_app.replay.lost_tail import newest_whole_cut
from stream_app.wire import Truncate, encode_message

_MARGIN = 10 * LEAST_MARGIN
"""Includes the numbers that a clock may use before it reads the truncation."""


@dataclass(frozen=True)
class Truncation:
    """What a truncation to a cut does; offsets are of each rating partition.

    The rounds of the `superseded` cuts held the records from `kept_ends` to `read_ends`; the log
    ends at `log_ends` now, after records that it was filled with again, if it was.
    """

    entry: Truncate
    superseded: tuple[int, ...]
    checkpoints: tuple[int, ...]
    kept_ends: tuple[int, ...]
    read_ends: tuple[int, ...]
    log_ends: tuple[int, ...]
    refilled: bool

    @property
    def covered(self) -> int:
        """How many offsets the superseded rounds held."""
        return sum(self.read_ends) - sum(self.kept_ends)

    @property
    def missing(self) -> int:
        """How many of them the log does not hold at all."""
        pairs = zip(self.read_ends, self.log_ends, strict=True)
        return sum(max(0, read - end) for read, end in pairs)


def plan(session: Session, to_cut: int) -> Truncation:
    """Return what a truncation to a cut would do; refuses a cut whose records the log does not
    hold, and a truncation that supersedes nothing."""
    with session.display("reading the cut log") as progress:
        logged = history(session.deployment, progress)
    numbers = [0, *(cut.number for cut, _ in logged.cuts)]
    whole = newest_whole_cut(session.deployment, logged)
    if to_cut not in numbers:
        raise UserError(
            f"--to-cut {to_cut}: {session.names.cuts} has no such cut in force, its newest is "
            f"{numbers[-1]}; the newest cut whose records the log holds is {whole.number}"
        )
    if to_cut > whole.number:
        raise UserError(
            f"--to-cut {to_cut}: the log does not hold the records of this cut; the newest whole "
            f"one is {whole.number}"
        )
    scanned = CutLogScan(session.connection, session.names.cuts).after(0, 0)
    checkpoints = _checkpoints_after(session, to_cut, scanned)
    superseded = tuple(number for number in numbers if number > to_cut)
    if not superseded and not checkpoints:
        raise UserError(
            f"--to-cut {to_cut}: nothing to supersede: it is the newest cut, the log holds its "
            "records, and no checkpoint is ahead of it"
        )
    kept_ends = _ends_of(session, logged, to_cut)
    read_ends = _ends_of(session, logged, numbers[-1])
    newest = _newest(session, max(logged.next_number - 1, scanned.reached, *checkpoints))
    return Truncation(
        Truncate(to_cut, newest),
        superseded,
        checkpoints,
        kept_ends,
        read_ends,
        whole.log_ends,
        refilled=bool(superseded)
        and all(read <= end for read, end in zip(read_ends, whole.log_ends, strict=True)),
    )


def truncate(session: Session, planned: Truncation) -> None:
    """Append the entry; returns when the broker has acknowledged it."""
    entry = encode_message(planned.entry)
    offline_writer.append(session.connection, session.names.cuts, entry)


def _newest(session: Session, used: int) -> int:
    """Return the greatest number that a truncation supersedes where `used` is in use; refuses one
    after which no clock could go on."""
    if used + _MARGIN > MOST_CUTS:
        raise UserError(
            f"{session.names.cuts} holds cut {used}, and the greatest number of a cut is "
            f"{MOST_CUTS}: no numbers remain after a truncation; {RESTORE}"
        )
    return used + _MARGIN


def _ends_of(session: Session, logged: CutHistory, number: int) -> tuple[int, ...]:
    for cut, _ in logged.cuts:
        if cut.number == number:
            return cut.end_offsets
    return (0,) * session.deployment.partitions


def _checkpoints_after(session: Session, to_cut: int, scanned: Truncations) -> tuple[int, ...]:
    """Return the cuts after this one of which the state topic holds checkpoints; a number that no
    clock of the log reached is not that of a worker."""
    with session.display("reading the state topic") as progress:
        manifests = reader.manifests(
            session.connection, session.names, progress, session.deployment.seal
        )
    rating_topic = reader.topic_id(clients.admin(session.connection), session.names.ratings)
    cuts = {m.cut for m in manifests if m.topic_id == rating_topic and to_cut < m.cut}
    return tuple(sorted(cut for cut in cuts if not scanned.beyond_reach(cut)))

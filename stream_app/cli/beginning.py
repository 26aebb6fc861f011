"""What a worker may be told to begin from instead of the newest checkpoint.

    --from-snapshot FILE   a state from a file, at the newest cut: a new deployment, or an earlier
                           model; ratings before that cut are not applied
    --rebuild              the log alone
    --accept-gap           where neither checkpoint nor log is whole: what the log still holds,
                           from a place on; that records were given up is kept in the state

Each writes a checkpoint of a new generation before the worker starts, so that every worker of the
deployment begins from it; none may run meanwhile.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from stream_app import offsets, snapshot_file
from stream_app.changelog_writing import write_checkpoint
from stream_app.cli.state.rebuilding import rebuild, refuse_while_workers_run
from stream_app.cli.state.session import Session
from stream_app.errors import Refusal
from stream_app.follower import Follower
from stream_app.history import history
from stream_app.log.rounds import Start
from stream_app.recompute import begin
from stream_app.replica import Replica
from stream_app.wire import Topics
from stream_app.wire.checkpoints import Base

log = structlog.get_logger()


def from_snapshot(session: Session, path: Path) -> None:
    """Adopt the state in a file at the newest cut."""
    origin = snapshot_file.read(path, session.design)
    refuse_while_workers_run(session)
    past = history(*_place(session), session.settings.partitions)
    if past.cuts:
        cut, cut_offset = past.cuts[-1]
        number, ends = cut.number, cut.ends
    else:
        number, ends, cut_offset = 0, (0,) * session.settings.partitions, 0
    base = Base(number, ends, origin=origin.digest, without=past.forgotten(number + 1))
    _write(session, begin(session.design, base, origin), cut_offset)
    log.info("state.adopted", snapshot=str(path), cut=number, digest=origin.digest)


def over_a_gap(session: Session, place: str) -> None:
    """Begin at a place in the log, if neither a checkpoint nor the whole log is there; with a place
    that was named, in any case."""
    if not place and _whole(session):
        return
    refuse_while_workers_run(session)
    base, start = offsets.resolve_base(
        *_place(session), session.settings.partitions, place or "earliest", may_cut=True
    )
    _write(session, begin(session.design, base), start.cut_offset)
    log.warning("state.gap_accepted", cut=base.cut, positions=list(base.ends))


def from_the_log(session: Session) -> None:
    """Recompute the state from the log, whatever the checkpoints say."""
    rebuild(session, as_json=True)


def _whole(session: Session) -> bool:
    """Return whether a worker could begin as it is."""
    found = session.checkpoint()
    zero = Start(0, (0,) * session.settings.partitions, 0)
    m = found.manifest if found else None
    start = Start(m.cut, m.ends, m.cut_offset) if m else zero
    follower = Follower(*_place(session), session.design.intake, start=start)
    try:
        follower.log_ends()
    except Refusal:
        return False
    finally:
        follower.close()
    return True


def _write(session: Session, replica: Replica, cut_offset: int) -> None:
    write_checkpoint(*_place(session), replica, cut_offset, "murmurec worker, before its start")


def _place(session: Session) -> tuple[str, dict[str, str], Topics]:
    return session.servers, session.settings.kafka, session.names

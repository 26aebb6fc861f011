"""What a worker may be told to begin from instead of the newest checkpoint.

    --from-snapshot FILE   a state from a file, at the newest cut: a new deployment, or an earlier
                           model; ratings before that cut are not applied
    --rebuild              the log alone
    --accept-gap           where records are missing: what the log still holds, from a place on,
                           over the newest checkpoint if there is one; the state says so ever after

Each writes a checkpoint of a new generation before the worker starts, so that every worker of the
deployment begins from it; none may run meanwhile.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from stream_app import offsets, snapshot_file
from stream_app.changelog_writing import write_checkpoint
from stream_app.cli.state.rebuilding import rebuild, refuse_while_workers_run
from stream_app.cli.state.session import Session
from stream_app.errors import Refusal
from stream_app.follower import Follower
from stream_app.history import history
from stream_app.log.recovery import Found
from stream_app.log.rounds import Start
from stream_app.recompute import begin
from stream_app.replica import Replica
from stream_app.snapshot import load_found
from stream_app.snapshot_file import SnapshotFile
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
    """Begin at a place in the log, if a worker could not begin as it is; with a place that was
    named, in any case.

    A checkpoint that is there is not thrown away: its model goes on behind the gap, and a file of
    it is kept, without which nobody can recompute the state.
    """
    found = session.checkpoint()
    if not place and _whole(session, found):
        return
    refuse_while_workers_run(session)
    base, start = offsets.resolve_base(
        *_place(session), session.settings.partitions, place or "earliest", may_cut=True
    )
    origin = None
    if found is not None and not place:
        origin = _kept(session, found)
        base = msgspec.structs.replace(base, origin=origin.digest)
    _write(session, begin(session.design, base, origin), start.cut_offset)
    log.warning(
        "state.gap_accepted",
        cut=base.cut,
        positions=list(base.ends),
        snapshot=str(origin.path) if origin else None,
    )


def from_the_log(session: Session) -> None:
    """Recompute the state from the log, whatever the checkpoints say."""
    rebuild(session, as_json=True)


def _kept(session: Session, found: Found) -> SnapshotFile:
    """Write the state of a checkpoint to a file in the data directory and return it."""
    replica = Replica(session.design, found.manifest.base)
    load_found(replica, found)
    folder = session.settings.data_dir / "gaps"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session.names.prefix}-cut-{replica.cut}.npz"
    snapshot_file.write(path, replica)
    return snapshot_file.read(path, session.design)


def _whole(session: Session, found: Found | None) -> bool:
    """Return whether a worker could begin as it is."""
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

"""What a worker may start from instead of the newest checkpoint.

    --from-snapshot FILE   a state from a file, at the newest cut: a new deployment, or an earlier
                           model; ratings before that cut are given up
    --rebuild              the log alone
    --accept-gap           where records are missing: what the log still holds, from a place on,
                           over the newest checkpoint if there is one; the state says so ever after

Each writes a checkpoint of a new generation before the worker starts, so that every worker of the
deployment begins from it; none may run meanwhile. Records that are given up are not decoded, and
none of them is rejected.

A supervisor gives the same options at every restart. So a file that was adopted is not adopted
again, and a gap that was accepted is not widened: the state that came of it goes on. To go back to
the same file once more: `murmurec state rebuild --snapshot FILE --at-newest-cut`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.protocol.recovery import Found
from stream_app.checkpoints.reader import DamagedCheckpoint
from stream_app.checkpoints.snapshot_file import SnapshotFile
from stream_app.errors import UserError
from stream_app.log.canonical_order import Start
from stream_app.operations.rebuild import rebuild, refuse_while_workers_run, write
from stream_app.operations.replay import load_checkpoint
from stream_app.operations.session import Session
from stream_app.replay import positions
from stream_app.replay.cut_history import CutHistory, history, lost_origin
from stream_app.replay.follower import Follower, gone_before
from stream_app.replay.recompute import begin, excluding
from stream_app.state.replica import Replica
from stream_app.wire.state_records import Manifest, StateOrigin

log = structlog.get_logger()


def from_snapshot(session: Session, path: Path) -> None:
    """Adopt the state in a file at the newest cut, unless the state began from this file."""
    snapshot = snapshot_file.read(path, session.spec)
    before = session.recorded_origin()
    if before is not None and before.snapshot == snapshot.digest:
        log.info(
            "state.adopted_before",
            snapshot=str(path),
            cut=before.cut,
            again="murmurec state rebuild --snapshot FILE --at-newest-cut",
        )
        return
    adopt(session, snapshot)


def adopt(session: Session, snapshot: SnapshotFile) -> Manifest:
    """Adopt the state in a file at the newest cut, whatever it began from before."""
    snapshot.check(session.spec)
    refuse_while_workers_run(session)
    past = history(session.deployment)
    if past.cuts:
        cut, cut_offset = past.cuts[-1]
        number, ends = cut.number, cut.end_offsets
    else:
        number, ends, cut_offset = 0, (0,) * session.deployment.partitions, 0
    taught = set(past.forgotten(number + 1, rebuild_only=True)) - set(snapshot.meta.origin.excluded)
    if taught:
        raise UserError(
            f"{snapshot.path}: it holds what {len(taught)} devices taught that were forgotten with "
            "a rebuild since: take a snapshot from after that, or export one again from the log"
        )
    origin = StateOrigin(
        number, ends, snapshot=snapshot.digest, excluded=past.forgotten(number + 1)
    )
    manifest = _write(session, begin(session.spec, origin, snapshot), cut_offset)
    log.info("state.adopted", snapshot=str(snapshot.path), cut=number, digest=snapshot.digest)
    return manifest


def over_a_gap(session: Session, place: str) -> None:
    """Begin at a place in the log, if a worker could not begin as it is; with a place that was
    named also where it could, but for a state that has begun behind a gap before.

    A checkpoint that is there is not thrown away: its model goes on behind the gap, and a file of
    it is kept, without which the state cannot be recomputed. With a place other than `earliest` its
    model goes, though not the file, and a damaged one goes altogether.
    """
    positions.parse(place or "earliest")
    place = "" if place.strip() == "earliest" else place
    found, past = _found(session, place), history(session.deployment)
    if _whole(session, found, past) and (not place or (found and found.manifest.origin.truncated)):
        log.info("state.whole", cut=found.manifest.cut if found else 0, gap="nothing is given up")
        return
    refuse_while_workers_run(session)
    origin, start = _behind(session, found, place)
    # A device forgotten with a rebuild later on could not be left out any more: it is at once.
    past = history(session.deployment)
    origin = excluding(origin, past.forgotten(len(past.cuts) + 1, rebuild_only=True))
    snapshot = kept = _kept(session, found) if found is not None else None
    if place:
        snapshot = None
    if snapshot is not None:
        origin = msgspec.structs.replace(origin, snapshot=snapshot.digest)
    _write(session, begin(session.spec, origin, snapshot), start.cut_offset)
    log.warning(
        "state.gap_accepted",
        cut=origin.cut,
        positions=list(origin.end_offsets),
        model="goes on" if snapshot else "begins anew",
        snapshot=str(kept.path) if kept else None,
    )


def _found(session: Session, place: str) -> Found | None:
    try:
        return session.checkpoint()
    except DamagedCheckpoint:
        if not place:
            raise
        return None


def _behind(session: Session, found: Found | None, place: str) -> tuple[StateOrigin, Start]:
    """Return where to go on: at the checkpoint, if the log can be read on from it; else at the
    place, or at the first cut that the log reaches."""
    if found is not None and not place and _reads_on(session, found):
        m = found.manifest
        origin = StateOrigin(m.cut, m.end_offsets, truncated=True, excluded=m.origin.excluded)
        return origin, Start(m.cut, m.end_offsets, m.cut_offset)
    return positions.resolve_origin(session.deployment, place or "earliest", may_cut=True)


def from_the_log(session: Session) -> None:
    """Recompute the state from the log, whatever the checkpoints say."""
    rebuild(session)


def _kept(session: Session, found: Found) -> SnapshotFile:
    """Write the state of a checkpoint to a file in the data directory and return it."""
    replica = load_checkpoint(session, found)
    folder = session.settings.data_dir / "gaps"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session.names.prefix}-cut-{replica.cut}.npz"
    snapshot_file.write(path, replica)
    return snapshot_file.read(path, session.spec)


def _whole(session: Session, found: Found | None, past: CutHistory) -> bool:
    """Return whether a worker could begin as it is: the log holds what it will read, also where it
    must begin again without a device, and leads to the state that was."""
    partitions = session.deployment.partitions
    if found is None and lost_origin(past, partitions, session.spec.digest):
        return False
    if not _reads_on(session, found):
        return False
    origin = found.manifest.origin if found else StateOrigin(0, (0,) * partitions)
    later = set(past.forgotten(len(past.cuts) + 1, rebuild_only=True)) - set(origin.excluded)
    return not later or not gone_before(
        session.connection, session.names.ratings, origin.end_offsets
    )


def _reads_on(session: Session, found: Found | None) -> bool:
    """Return whether the log holds what comes after a checkpoint, or all of it without one."""
    m = found.manifest if found else None
    zero = Start(0, (0,) * session.deployment.partitions)
    start = Start(m.cut, m.end_offsets, m.cut_offset) if m else zero
    follower = Follower(session.deployment, start)
    try:
        follower.log_end_offsets()
    except UserError:
        return False
    finally:
        follower.close()
    return True


def _write(session: Session, replica: Replica, cut_offset: int) -> Manifest:
    return write(session, replica, cut_offset, "murmurec worker, before its start")

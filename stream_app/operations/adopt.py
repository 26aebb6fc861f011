"""Prepares a worker's start from something other than the newest checkpoint.

    --from-snapshot FILE   the state in a file, placed at the newest cut (a new deployment, or an
                           earlier model); ratings before that cut are skipped
    --rebuild              the log alone; with --accept-gap also where the settings reject records
                           that the state holds
    --accept-gap           if records are missing: the records that the log still holds, from a
                           position on, over the newest checkpoint if there is one; the state is
                           permanently marked as truncated
    --reseal               the newest checkpoint, whatever its seal, sealed by the present secret

Each option writes a checkpoint of a new generation before the worker starts, so that every worker
of the deployment starts from it; no worker may run meanwhile. Skipped records are neither decoded
nor rejected.

A supervisor passes the same options at every restart: so a file is adopted once, and an accepted
gap is not widened; the resulting state continues. To adopt the same file again, run
`murmurec state rebuild --snapshot FILE --at-newest-cut`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.checkpoint_reader import Checkpoint, DamagedCheckpoint
from stream_app.checkpoints.snapshot_file import SnapshotFile
from stream_app.errors import UserError
from stream_app.log.canonical_order import Start
from stream_app.operations.rebuild import refuse_while_workers_run, write
from stream_app.operations.session import Session
from stream_app.replay import positions
from stream_app.replay.cut_history import CutHistory, history, lost_origin
from stream_app.replay.follower import Follower
from stream_app.replay.log_bounds import gone_before
from stream_app.replay.recompute import begin, excluding
from stream_app.state.replica import Replica
from stream_app.wire.authenticity.seal import ANY
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
    """Adopt the state in a file at the newest cut, regardless of the current origin."""
    snapshot.check(session.spec)
    refuse_while_workers_run(session)
    logged = history(session.deployment)
    if logged.cuts:
        cut, cut_offset = logged.cuts[-1]
        number, ends = cut.number, cut.end_offsets
    else:
        number, ends, cut_offset = 0, (0,) * session.deployment.partitions, 0
    forgotten = set(logged.forgotten(logged.next_number, rebuild_only=True))
    contained = forgotten - set(snapshot.meta.origin.excluded)
    if contained:
        raise UserError(
            f"{snapshot.path}: the snapshot was learned from {len(contained)} devices that were "
            "forgotten with a rebuild since: use a later snapshot, or export one from the log"
        )
    origin = StateOrigin(
        number,
        ends,
        snapshot=snapshot.digest,
        excluded=logged.forgotten(logged.next_number),
        contract=logged.contract(number),
    )
    manifest = _write(session, begin(session.spec, origin, snapshot), cut_offset)
    log.info("state.adopted", snapshot=str(snapshot.path), cut=number, digest=snapshot.digest)
    return manifest


def over_a_gap(session: Session, place: str) -> None:
    """Start from a position in the log, if a worker could not start otherwise; a named position
    (other than `earliest`) is used even if it could, unless the state is already truncated.

    An existing checkpoint is kept as the starting model and exported to a file, because the state
    cannot be recomputed without it. With a position other than `earliest` the model is discarded
    but the file is still written. A damaged checkpoint is then discarded.
    """
    positions.parse(place or "earliest")
    place = "" if place.strip() == "earliest" else place
    found, logged = _found(session, place), history(session.deployment)
    if _can_start(session, found, logged) and (
        not place or (found and found.manifest.origin.truncated)
    ):
        log.info("state.whole", cut=found.manifest.cut if found else 0, gap="nothing is given up")
        return
    refuse_while_workers_run(session)
    origin, start = _after_gap(session, found, place)
    # A truncated log cannot be replayed later without a device, so pending rebuilds apply now.
    logged = history(session.deployment)
    origin = excluding(origin, logged.forgotten(logged.next_number, rebuild_only=True))
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
        model="continues" if snapshot else "empty",
        snapshot=str(kept.path) if kept else None,
    )


def _found(session: Session, place: str) -> Checkpoint | None:
    try:
        return session.checkpoint()
    except DamagedCheckpoint:
        if not place:
            raise
        return None


def _after_gap(session: Session, found: Checkpoint | None, place: str) -> tuple[StateOrigin, Start]:
    """Return the origin and start: at the checkpoint, if the log holds every record after it; else
    at the position, or at the first cut that the log reaches."""
    if found is not None and not place and _log_continues(session, found):
        m = found.manifest
        origin = StateOrigin(
            m.cut,
            m.end_offsets,
            truncated=True,
            excluded=m.origin.excluded,
            contract=m.contract,
        )
        return origin, Start.after(m)
    return positions.resolve_origin(session.deployment, place or "earliest", may_cut=True)


def reseal(session: Session) -> None:
    """Write the newest checkpoint again under the present `state_secret`, or without a seal, unless
    a worker starts from a checkpoint with that seal anyway.

    The checkpoint is trusted although nothing proves who wrote it.
    """
    deployment = session.deployment
    with session.display("reading the checkpoint") as progress:
        found = reader.read_checkpoint(deployment, progress, seal=ANY)
    own = reader.manifests(session.connection, session.names, seal=deployment.seal)
    if found is None or (own and (deployment.seal.keyed or found.manifest in own)):
        log.info("state.sealed_before", checkpoint=found is not None)
        return
    replica = found.replica
    _write(session, replica, found.manifest.cut_offset)
    log.warning(
        "state.resealed", cut=replica.cut, model=found.manifest.model, sealed=deployment.seal.keyed
    )


def _kept(session: Session, found: Checkpoint) -> SnapshotFile:
    """Write the state of a checkpoint to a file in the data directory and return it."""
    replica = found.replica
    folder = session.settings.data_dir / "gaps"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session.names.prefix}{session.settings.of_shard}-cut-{replica.cut}.npz"
    snapshot_file.write(path, replica)
    return snapshot_file.read(path, session.spec)


def _can_start(session: Session, found: Checkpoint | None, logged: CutHistory) -> bool:
    """Return whether a worker could start without the option: the log holds every record that it
    will read, including a restart without a device, and gives the recorded state."""
    partitions = session.deployment.partitions
    if found is None and lost_origin(logged, partitions, session.spec.digest):
        return False
    if not _log_continues(session, found):
        return False
    origin = found.manifest.origin if found else StateOrigin(0, (0,) * partitions)
    later = set(logged.forgotten(logged.next_number, rebuild_only=True)) - set(origin.excluded)
    return not later or not gone_before(session.deployment, origin.end_offsets)


def _log_continues(session: Session, found: Checkpoint | None) -> bool:
    """Return whether the log holds every record after the checkpoint (None: from offset 0 on)."""
    m = found.manifest if found else None
    zero = Start(0, (0,) * session.deployment.partitions)
    start = Start.after(m) if m else zero
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

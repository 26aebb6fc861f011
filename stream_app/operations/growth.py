"""`murmurec state migrate`: a snapshot of other sizes, for this spec.

For a deployment whose log no longer reaches back: where it does, `worker --rebuild` computes the
state of the new spec from the log, which is exact. The result is adopted at the newest cut with
`worker --from-snapshot`; its origin names the digest of the old file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.snapshot_file import Meta, SnapshotFile
from stream_app.deployment import new_replica
from stream_app.errors import UserError
from stream_app.state.migration import Fate, Migration, PartReport, arrived
from stream_app.state.replica import Replica, StateSpec
from stream_app.state.spec import STATE_FORMAT
from stream_app.wire.state_records import StateOrigin


@dataclass(frozen=True, eq=False)
class Migrated:
    """The new snapshot's description, and what became of each part."""

    meta: Meta
    parts: tuple[PartReport, ...]


def migrate(source: Path, target: Path, spec: StateSpec) -> Migrated:
    """Convert a snapshot file to the spec and write it; refuses another state format."""
    old = snapshot_file.read(source)
    found = old.meta.settings.get("state_format", "")
    if found != str(STATE_FORMAT):
        raise UserError(
            f"{source}: state format {found or 'unknown'}; this release reads format "
            f"{STATE_FORMAT}: install the release that wrote it"
        )
    try:
        replica, parts = converted(old, spec)
    except ValueError as error:
        raise UserError(f"{source}: {error}") from None
    meta = snapshot_file.write(target, replica, {"migrated_from": old.digest})
    return Migrated(meta, parts)


def converted(old: SnapshotFile, spec: StateSpec) -> tuple[Replica, tuple[PartReport, ...]]:
    """Return a replica of the spec with what the snapshot holds, and what became of each part.

    Raises ValueError for a snapshot whose ledger is none.
    """
    draft = new_replica(spec)
    migration = Migration(old.model, old.meta.settings, draft)
    migration.run()
    meta, same = old.meta, len(old.meta.end_offsets) == spec.partitions
    origin = StateOrigin(
        meta.cut if same else 0,
        meta.end_offsets if same else (0,) * spec.partitions,
        snapshot=old.digest,
        excluded=meta.origin.excluded,
        contract=meta.origin.contract,
    )
    replica = new_replica(spec, origin)
    counted = {"mechanisms": arrived(old.ledger, old.meta.settings, replica)}
    replica.adopt(draft.model_arrays(), {**old.ledger, **counted}, origin)
    ledger = PartReport(
        "ledger",
        Fate.CONVERTED,
        "counts start at 0; forgotten devices and reports by mechanism are kept",
    )
    return replica, (*migration.reports, ledger)

"""The session of an operation: a deployment with checked topics, and a progress display."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.cut_log_scan import CutLogScan
from stream_app.checkpoints.design_in_force import with_design
from stream_app.checkpoints.snapshot_file import SnapshotFile
from stream_app.deployment import Deployment, settings_in_force
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_checks, topic_follower
from stream_app.kafka.clients import Connection
from stream_app.replay.cut_history import check_origin
from stream_app.replay.lost_tail import lost
from stream_app.replay.recompute import Replay
from stream_app.settings import Settings
from stream_app.state.spec import StateSpec
from stream_app.wire import Topics
from stream_app.wire.ids import partition_of
from stream_app.wire.state_records import Manifest, StateOrigin

if TYPE_CHECKING:
    from stream_app.checkpoints.checkpoint_reader import Checkpoint

Progress = Callable[[int, int], None]
ProgressDisplay = Callable[[str], AbstractContextManager[Progress]]


@contextmanager
def no_progress(_: str) -> Iterator[Progress]:
    """Show nothing."""
    yield lambda _done, _total: None


def each_shard(settings: Settings) -> tuple[Settings, ...]:
    """Return the settings of each shard on which a command acts: of the one that `shard` names,
    else of all."""
    if settings.shards == 1 or settings.shard is not None:
        return (settings,)
    each = range(settings.shards)
    return tuple(settings.model_copy(update={"shard": shard}) for shard in each)


def of_device(settings: Settings, pseudonym: str) -> Settings:
    """Return the settings of the shard that holds a device, whichever `shard` names."""
    if settings.shards == 1:
        return settings
    shard = partition_of(pseudonym.encode(), settings.partitions) % settings.shards
    return settings.model_copy(update={"shard": shard})


@dataclass(frozen=True, eq=False)
class Session:
    """The deployment of one operation; `display(label)` shows the progress (done, total) of a long
    step."""

    settings: Settings
    deployment: Deployment
    snapshot: SnapshotFile | None
    display: ProgressDisplay = no_progress

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        snapshot: Path | None = None,
        display: ProgressDisplay = no_progress,
    ) -> Session:
        """Return the deployment with the design in force; refuses an absent broker, topics that
        differ from the table, and several shards of which `shard` names none."""
        if settings.shards > 1 and settings.shard is None:
            raise UserError(
                f"shards = {settings.shards}: each shard has a log and a state of its own; name "
                "one (env MURMUREC_SHARD)"
            )
        loaded = snapshot_file.read(snapshot) if snapshot else None
        return cls._begun(settings, loaded, display)

    @classmethod
    def each(
        cls,
        settings: Settings,
        snapshot: Path | None = None,
        display: ProgressDisplay = no_progress,
    ) -> tuple[Session, ...]:
        """Return a session for each shard on which a command acts (`each_shard`)."""
        loaded = snapshot_file.read(snapshot) if snapshot else None
        return tuple(cls._begun(each, loaded, display) for each in each_shard(settings))

    @classmethod
    def _begun(
        cls, settings: Settings, loaded: SnapshotFile | None, display: ProgressDisplay
    ) -> Session:
        own = Deployment.from_settings(settings)
        clients.describe_cluster(own.connection)
        topic_checks.check_deployment(
            own.connection,
            own.topics,
            own.partitions,
            settings.ratings_retention_seconds,
            stated=settings.partitions_stated,
        )
        deployment = with_design(own)
        in_force = settings_in_force(settings, deployment.spec)
        return cls(in_force, deployment, loaded, display)

    @property
    def connection(self) -> Connection:
        """The connection to the cluster."""
        return self.deployment.connection

    @property
    def names(self) -> Topics:
        """The names of the topics."""
        return self.deployment.topics

    @property
    def spec(self) -> StateSpec:
        """The spec that, with the log, determines the state."""
        return self.deployment.spec

    @property
    def label(self) -> dict[str, int]:
        """Which of several shards it is, for what a command prints."""
        return {"shard": self.spec.shard} if self.spec.shards > 1 else {}

    @property
    def group(self) -> str:
        """The consumer group of the workers."""
        return self.settings.worker_group

    def checkpoint(self) -> Checkpoint | None:
        """Return the newest checkpoint with its replica, None where there is none."""
        with self.display("reading the checkpoint") as progress:
            return reader.read_checkpoint(self.deployment, progress)

    def manifest(self) -> Manifest | None:
        """Return the manifest of the newest checkpoint, None where there is none."""
        with self.display("reading the checkpoint") as progress:
            return reader.read_manifest(self.deployment, progress)

    def recorded_origin(self) -> StateOrigin | None:
        """Return the origin in the newest readable manifest over this rating topic, of any spec;
        None if there is none."""
        with self.display("reading the state topic") as progress:
            manifests = reader.manifests(
                self.connection, self.names, progress, self.deployment.seal
            )
        rating_topic = reader.topic_id(clients.admin(self.connection), self.names.ratings)
        manifests = [
            manifest
            for manifest in manifests
            if manifest.topic_id == rating_topic
            and len(manifest.end_offsets) == self.deployment.partitions
        ]
        if not manifests:
            return None
        truncations = CutLogScan(self.connection, self.names.cuts).after(0, 0)
        manifests = [m for m in manifests if not truncations.beyond_reach(m.cut)]
        self._refuse_to_be_behind([m for m in manifests if not truncations.supersede(m.cut)])
        origins = [m.origin for m in manifests if not truncations.supersede(m.origin.cut)]
        return origins[-1] if origins else None

    def _refuse_to_be_behind(self, manifests: list[Manifest]) -> None:
        """Refuse a cut log that ends before the cut of a checkpoint."""
        end = topic_follower.end_offset(self.connection, self.names.cuts) or 0
        for manifest in manifests:
            if manifest.cut_offset > end:
                raise lost(
                    self.deployment,
                    f"{self.names.cuts} ends at offset {end}, and {self.names.state} holds a "
                    f"checkpoint of cut {manifest.cut}, at offset {manifest.cut_offset - 1} of it",
                    manifest.cut,
                )

    def origin(self) -> StateOrigin:
        """Return the origin of the state: the recorded one, or the log alone; refuses the log alone
        if the cut log reports another origin."""
        origin = self.recorded_origin()
        if origin is None:
            check_origin(self.deployment)
            origin = StateOrigin(0, (0,) * self.deployment.partitions)
        return origin

    @contextmanager
    def replay(self, label: str = "replaying the log") -> Iterator[Replay]:
        """Give a replay of this deployment that shows its progress."""
        with self.display(label) as progress:
            yield Replay(self.deployment, progress, self.snapshot)

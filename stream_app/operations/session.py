"""What every sub-command needs: the deployment, its design, and a bar while one waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from stream_app.checkpoints import reader as changelog
from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.snapshot_file import SnapshotFile
from stream_app.cli.options import servers_of
from stream_app.deployment import spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka import topic_admin as topics
from stream_app.replay.cut_history import check_origin
from stream_app.replay.recompute import Replay
from stream_app.settings import Settings
from stream_app.state.replica import StateSpec
from stream_app.wire import Topics
from stream_app.wire.state_records import StateOrigin

if TYPE_CHECKING:
    from stream_app.checkpoints.protocol.recovery import Found


@dataclass(frozen=True, eq=False)
class Session:
    """One deployment as a command sees it."""

    settings: Settings
    servers: str
    names: Topics
    design: StateSpec
    snapshot: SnapshotFile | None

    @classmethod
    def of(cls, settings: Settings, snapshot: Path | None = None) -> Session:
        """Return the deployment; refuses a broker that is absent and topics that are not as they
        should be."""
        servers = servers_of(settings)
        design = spec_from_settings(settings)
        loaded = snapshot_file.read(snapshot) if snapshot else None
        clients.reach(servers, settings.kafka)
        names = Topics(settings.topic_prefix)
        topics.check_deployment(
            servers,
            settings.kafka,
            names,
            settings.partitions,
            settings.ratings_retention_seconds,
        )
        return cls(settings, servers, names, design, loaded)

    @property
    def group(self) -> str:
        """The consumer group of the workers."""
        return self.settings.group or f"{self.settings.topic_prefix}-worker"

    def checkpoint(self) -> Found | None:
        """Return the newest checkpoint, None where there is none."""
        with bar("reading the checkpoint") as progress:
            return changelog.read_checkpoint(
                self.servers,
                self.settings.kafka,
                self.names,
                self.design.digest,
                self.settings.partitions,
                progress,
            )

    def known_origin(self) -> StateOrigin | None:
        """Return what the state of this rating topic starts from, as the newest manifest that can
        be read tells it, of whatever design; None where none does."""
        with bar("reading the state topic") as progress:
            held = changelog.manifests(self.servers, self.settings.kafka, self.names, progress)
        admin = clients.admin(self.servers, self.settings.kafka)
        rating_topic = changelog.topic_id(admin, self.names.ratings)
        ours = [
            manifest.origin
            for manifest in held
            if manifest.topic_id == rating_topic
            and len(manifest.end_offsets) == self.settings.partitions
        ]
        return ours[-1] if ours else None

    def begins_at(self) -> StateOrigin:
        """Return what the state starts from: as told, or the log alone where nothing is told;
        refuses that where the cut log tells of something else."""
        origin = self.known_origin()
        if origin is None:
            partitions = self.settings.partitions
            check_origin(
                self.servers, self.settings.kafka, self.names, partitions, self.design.digest
            )
            origin = StateOrigin(0, (0,) * partitions)
        return origin

    @contextmanager
    def replay(self, what: str = "replaying the log") -> Iterator[Replay]:
        """Give a replay of this deployment, with a bar."""
        with bar(what) as progress:
            yield Replay(
                self.servers, self.settings.kafka, self.names, self.design, progress, self.snapshot
            )


class Bar:
    """A progress bar on stderr, gone when it is done."""

    def __init__(self, shown: Progress, what: str) -> None:
        self._shown = shown
        self._task = shown.add_task(what, total=None)

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is."""
        self._shown.update(self._task, completed=done, total=total)


@contextmanager
def bar(what: str) -> Iterator[Bar]:
    """Give a bar that takes (done, total)."""
    with Progress(console=Console(stderr=True), transient=True) as shown:
        yield Bar(shown, what)

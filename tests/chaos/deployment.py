"""The deployment under test: its own topics, workers on them, and their settings."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from stream_app.kafka import clients
from stream_app.kafka import topic_admin as broker_topics
from stream_app.kafka.clients import Connection
from stream_app.settings import load as settings_of
from stream_app.state.replica import StateSpec
from stream_app.wire import Topics
from tests.chaos.processes import Life, environment
from tests.fixtures.small_worker import opened
from tests.fixtures.streams import MECHANISMS

SPEC = {
    "MURMUREC_TUNING_FACTORS": "8",
    "MURMUREC_TUNING_SKETCH_BYTES": "262144",
    "MURMUREC_TUNING_SCALARS_BYTES": "65536",
    "MURMUREC_TUNING_SEEN_BYTES": "65536",
    "MURMUREC_MECHANISMS": ",".join(MECHANISMS),
}
SPEED = {
    "MURMUREC_TUNING_CUT_SECONDS": "0.1",
    "MURMUREC_TUNING_CHECKPOINT_SECONDS": "0.2",
    "MURMUREC_TUNING_LOG_FORMAT": "json",
    # One page a request, so that a kill finds some of them on their way.
    "MURMUREC_KAFKA": "batch.size=70000",
}
_HURRIED = {
    "segment.bytes": "4194304",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}


@dataclass(frozen=True)
class Setup:
    """A deployment: how many workers, whether they keep their names, how eager compaction is,
    and the learner; with an index other than auto it counts no pairs."""

    workers: int = 1
    static: bool = True
    hurried_compaction: bool = False
    model: str = "hybrid"
    index: str = "auto"

    def __str__(self) -> str:
        how = "static" if self.static else "dynamic"
        more = f", {self.model}" * (self.model != "hybrid")
        return f"{self.workers} {how} worker{'s' * (self.workers > 1)}{more}"


class Deployment:
    """Its own topics and workers not yet started; `stack` deletes and ends them."""

    def __init__(
        self,
        setup: Setup,
        bootstrap: str,
        folder: Path,
        stack: ExitStack,
        more: Mapping[str, str],
    ) -> None:
        self.bootstrap = bootstrap
        self.topics = Topics(f"chaos-{secrets.token_hex(6)}")
        self._make_topics(setup, stack)
        self._where = ["--bootstrap", bootstrap, "--prefix", self.topics.prefix]
        self._spec = {
            **SPEC,
            "MURMUREC_MODEL": setup.model,
            "MURMUREC_TUNING_INDEX": setup.index,
        }
        if setup.index != "auto":
            self._spec["MURMUREC_TUNING_HEAD_ITEMS"] = "0"
        self._environment = environment(
            {**self._spec, **SPEED, "MURMUREC_DATA_DIR": str(folder / "data")}
        )
        self.lives = []
        for name in "ab"[: setup.workers]:
            own = {"MURMUREC_INSTANCE": name} if setup.static else {}
            life = Life(name, self._where, {**self._environment, **own, **more}, folder)
            stack.callback(life.end)
            self.lives.append(life)

    @property
    def spec(self) -> StateSpec:
        """The specification of the workers' state."""
        flags: dict[str, Any] = {
            name.removeprefix("MURMUREC_").removeprefix("TUNING_").lower(): text
            for name, text in self._spec.items()
        }
        return opened(settings_of(bootstrap_servers=self.bootstrap, **flags))

    def _make_topics(self, setup: Setup, stack: ExitStack) -> None:
        admin = clients.admin(Connection(self.bootstrap))
        table = self.topics.table()
        broker_topics.create(admin, table)
        stack.callback(broker_topics.delete, admin, [topic.name for topic in table])
        if setup.hurried_compaction:
            entries = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in _HURRIED.items()
            ]
            resource = ConfigResource(
                ResourceType.TOPIC, self.topics.state, incremental_configs=entries
            )
            for future in admin.incremental_alter_configs([resource]).values():
                future.result(timeout=30)

    def command(self, *words: str) -> tuple[int, str, str]:
        """Run a command on this deployment; return its exit code and what it wrote to stdout and
        stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "stream_app.cli", *words, *self._where],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr.strip()

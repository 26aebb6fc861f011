"""Broker, worker and gateway of one's own beside an edge: one command is enough for a start.

    FOLDER/kafka       the log, which a restart finds again: what was reported was paid
    FOLDER/*.log       what the processes write

Every process ends with the block, and with this process even if it is killed. Lists are made from
the site's own events until the worker has compiled its kernels, about a minute at the first start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stream_app.broker import resolve
from stream_app.broker.local import free_ports
from stream_app.cli.demo import demo_processes as beside
from stream_app.cli.output import say
from stream_app.errors import UserError
from stream_app.settings import Settings

_PROBE_SECONDS = 0.5


@dataclass(frozen=True)
class Standalone:
    """What runs beside an edge, and the settings that reach it."""

    settings: Settings
    worker: beside.WorkerProcess
    gateway: beside.GatewayProcess

    def check(self) -> None:
        """Raise UserError if a process has ended."""
        self.worker.check()
        self.gateway.check()

    def problem(self) -> str | None:
        """Return what the worker waits for; None when it is ready."""
        waits = self.worker.waits_for(_PROBE_SECONDS)
        return f"the worker: {waits}" if waits else None


@contextmanager
def running(settings: Settings, folder: Path, mechanism: str) -> Iterator[Standalone]:
    """Run broker, worker and gateway, which allow a mechanism, for the length of the block."""
    if settings.bootstrap_servers is not None:
        raise UserError("--standalone starts a Kafka of its own: unset MURMUREC_BOOTSTRAP_SERVERS")
    folder.mkdir(mode=0o700, exist_ok=True)
    with resolve.running(folder / "kafka", settings.cache_dir, notify=say) as broker:
        settings = settings.model_copy(update={"mechanisms": (mechanism,)})
        settings = beside.with_topics(settings, broker)
        arguments = ["--bootstrap", settings.servers, "--prefix", settings.topic_prefix]
        arguments += ["--allow", mechanism]
        local = {"MURMUREC_PRIVACY_MODE": "local", "MURMUREC_CAMPAIGN_KEYS": ""}
        token, port = settings.admin_token, free_ports(1)[0]
        with (
            beside.running(arguments, port, folder, token, local) as worker,
            beside.gateway_running(settings, worker.url, folder) as gateway,
        ):
            say(f"Kafka at {broker.bootstrap}; what the recommender sees: {gateway.url}")
            yield Standalone(settings, worker, gateway)

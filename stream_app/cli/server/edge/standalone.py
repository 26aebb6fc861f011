"""Broker, worker and gateway of one's own beside an edge: one command is enough for a start.

    FOLDER/kafka       the log, which a restart finds again: what was reported was paid
    FOLDER/*.log       what the processes write

Every process ends with the block, and with this process even if it is killed. Lists are made from
the site's own events until the worker has compiled its kernels, about a minute at the first start.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_processes import last_lines, started
from stream_app.cli.output import say
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.clients import Connection
from stream_app.settings import Settings
from stream_app.wire import Topics

_PROBE_SECONDS = 0.5


@dataclass(frozen=True)
class Standalone:
    """What runs beside an edge: the settings that reach it, the page of the gateway, and each
    process with its name and its log."""

    settings: Settings
    page: str
    worker: str
    processes: Sequence[tuple[str, object, Path]]

    def failure(self) -> str | None:
        """Return a sentence if a process has ended."""
        for name, process, log in self.processes:
            code = process.poll()  # type: ignore[attr-defined]
            if code is not None:
                return f"the {name} ended with exit code {code}: {last_lines(log)}"
        return None

    def problem(self) -> str | None:
        """Return what the worker waits for; None when it is ready."""
        try:
            with urllib.request.urlopen(f"{self.worker}/readyz", timeout=_PROBE_SECONDS):
                return None
        except urllib.error.HTTPError as error:
            with error:
                found = json.loads(error.read() or b"{}").get("waiting_for")
            return f"the worker: {found or 'is starting'}"
        except (OSError, ValueError):
            return "the worker is starting"


@contextmanager
def running(settings: Settings, folder: Path, mechanism: str) -> Iterator[Standalone]:
    """Run broker, worker and gateway, which allow a mechanism, for the length of the block."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if settings.bootstrap_servers is not None:
        raise UserError("--standalone starts a Kafka of its own: unset MURMUREC_BOOTSTRAP_SERVERS")
    with ExitStack() as stack:
        broker = stack.enter_context(
            broker_running(folder / "kafka", settings.cache_dir, notify=say)
        )
        changed = {"bootstrap_servers": broker.bootstrap, "mechanisms": (mechanism,)}
        settings = settings.model_copy(update=changed)
        table = Topics(settings.topic_prefix).table(
            settings.partitions,
            settings.ratings_retention_seconds,
            settings.query_partitions,
            settings.features,
        )
        topic_admin.create(clients.admin(Connection(settings.servers, settings.kafka)), table)
        admin, page = free_ports(2)
        shared = ["--bootstrap", settings.servers, "--prefix", settings.topic_prefix]
        shared += ["--allow", mechanism]
        local = {"MURMUREC_PRIVACY_MODE": "local", "MURMUREC_CAMPAIGN_KEYS": ""}
        worker, gateway = f"http://127.0.0.1:{admin}", f"http://127.0.0.1:{page}"
        commands = {
            "worker": (["worker", *shared, "--admin-port", str(admin)], local),
            "gateway": (
                ["gateway", *shared, "--host", "127.0.0.1", "--port", str(page)],
                {**local, "MURMUREC_GATEWAY_WORKER": worker},
            ),
        }
        processes = []
        for name, (arguments, environment) in commands.items():
            log = folder / f"{name}.log"
            process = stack.enter_context(started(arguments, log, environment))
            processes.append((name, process, log))
        say(f"Kafka at {broker.bootstrap}; what the recommender sees: {gateway}/")
        yield Standalone(settings, gateway, worker, processes)

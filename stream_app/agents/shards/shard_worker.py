"""A worker of several shards: what its processes are called with, and its end.

    worker --shards 4 --admin-port 8470
        worker --shards 4 --admin-port 8470 --shard 2 --admin-port 8473       the last one counts

Each process has the admin port of the worker and 1 + its shard, or any free one.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

import structlog

from stream_app.agents.shards.children import Children
from stream_app.agents.shards.readiness_pages import Pages
from stream_app.agents.shards.shard_group import ShardGroup
from stream_app.broker.local import free_ports
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.settings import Settings, check_memory, machine_bytes
from stream_app.wire import Topics

log = structlog.get_logger()
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class ShardWorker:
    """A worker with these settings and `arguments`, the words of its command."""

    def __init__(
        self, settings: Settings, connection: Connection, arguments: Sequence[str]
    ) -> None:
        self._settings, self._arguments = settings, arguments
        self._held: tuple[int, ...] | None = None
        self._ports: dict[int, int] = {}
        self._pages = Pages(settings, self.urls)
        self._group = ShardGroup(
            connection,
            f"{settings.worker_group}-shards",
            Topics(settings.topic_prefix).exchange,
            Children(self.command),
            self._hold,
        )

    def run(self) -> int:
        """Hold shards until SIGTERM or SIGINT, or until a process is refused; return the exit
        code."""
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        address = self._pages.start()
        log.info("worker.started", admin=address, shards=self._settings.shards)
        try:
            return self._group.run(ended.is_set)
        finally:
            self._pages.stop()

    def command(self, shard: int) -> list[str]:
        """Return the command of a shard's process."""
        port = self._settings.admin_port
        port = self._ports[shard] = port + 1 + shard if port else free_ports(1)[0]
        own = ["--shard", str(shard), "--admin-port", str(port)]
        return [sys.executable, "-m", "stream_app.cli", *self._arguments, *own]

    def urls(self) -> dict[int, str] | None:
        """Return the admin address of each process, None before the worker is a member."""
        host = _ANY.get(self._settings.admin_host, self._settings.admin_host)
        host = f"[{host}]" if ":" in host else host
        held = self._held
        return None if held is None else {s: f"http://{host}:{self._ports[s]}" for s in held}

    def _hold(self, shards: Sequence[int]) -> None:
        self._held = tuple(shards)
        log.info("shards.held", shards=list(shards))
        try:
            check_memory(self._settings, machine_bytes(), max(1, len(shards)))
        except UserError as error:
            # Refused, they would go to another worker, and from there to the next.
            log.warning("shards.memory", reason=f"{error}, or run a worker on another machine")

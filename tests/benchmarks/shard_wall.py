"""Two shards in two processes against one worker, on a real broker: a backlog, and its wall time.

The backlog lies in Kafka before the workers start. The time runs from when each worker has applied
some of it to when all is applied; the broker runs on the same cores.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from stream_app.agents.warmup import warm_up
from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_processes import WorkerProcess, running
from stream_app.deployment import spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.monitoring.exposition import Exposition
from stream_app.settings import Settings, load
from stream_app.wire import Topics
from tests.benchmarks.figure import Figure
from tests.benchmarks.pipeline import Load, messages, publish

LOADS = (
    Load(200, 24_000_000, "none:5:inf", ">= 1.7"),
    Load(1, 1_000_000, "none:5:inf", ">= 1.7", json=True),
)
_OUTCOMES = "learned", "held_out"
_PAUSE_SECONDS = 0.02


def measure() -> list[Figure]:
    """Return the rates, and two shards' over one worker's."""
    settings, figures = load(), list[Figure]()
    with broker_running(None, settings.cache_dir) as broker:
        for number, burden in enumerate(LOADS):
            prefix = f"wall-{os.getpid()}-{number}"
            rates = [_rate(settings, broker.bootstrap, f"{prefix}-{n}", burden, n) for n in (1, 2)]
            what = burden.name.removeprefix("worker end to end, ")
            figures += [
                Figure(f"{what}, {n} shards", rate / 1e6, "M ratings/s")
                for n, rate in enumerate(rates, 1)
            ]
            figures.append(
                Figure(f"{what}, two shards over one", rates[1] / rates[0], "x", burden.target)
            )
    return figures


def _rate(settings: Settings, bootstrap: str, prefix: str, burden: Load, shards: int) -> float:
    """Return how many ratings a second of wall time so many shards apply."""
    topics = Topics(prefix, shards)
    create(clients.admin(Connection(bootstrap)), topics.table())
    publish(bootstrap, topics.ratings, messages(burden, topics.ratings))
    chosen = settings.model_copy(update={"mechanisms": (burden.mechanism,), "shards": shards})
    warm_up(spec_from_settings(chosen))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        config = Path(folder) / "murmurec.toml"
        config.write_text(f"[topics]\nshards = {shards}\n", encoding="utf-8")
        words = ["--bootstrap", bootstrap, "--prefix", prefix, "--allow", burden.mechanism]
        workers = []
        for shard in range(shards):
            own = Path(folder) / str(shard)
            own.mkdir()
            more = ["--config", str(config), "--shard", str(shard)]
            started = running([*words, *more], free_ports(1)[0], own)
            workers.append(stack.enter_context(started))
        return _watched(workers, burden.ratings)


def _watched(workers: list[WorkerProcess], ratings: int) -> float:
    """Return the rate from when each worker has applied some ratings to the last one."""
    first: tuple[float, float] | None = None
    while True:
        each = [_applied(worker) for worker in workers]
        counted, now = sum(each), time.perf_counter()
        if first is None and all(each):
            first = now, counted
        if first is not None and counted >= ratings:
            return (counted - first[1]) / (now - first[0])
        time.sleep(_PAUSE_SECONDS)


def _applied(worker: WorkerProcess) -> float:
    try:
        page = Exposition(worker.get("/metrics").decode(), {"murmurec_ratings_total"})
        learned, held = (page.by("ratings_total", "outcome")[each] for each in _OUTCOMES)
    except (OSError, ValueError, KeyError):
        worker.check()
        return 0.0
    return learned + held

"""What outsiders can cost a worker with every feature on, beside ordinary input.

    features  head of 4,096, campaigns; `devices = open` (signatures have a benchmark of their own)
    ordinary  new devices that rate 200 items each, 50 a message
    cost      CPU seconds of the worker until everything is applied, less what it uses when idle:
              the least of three windows, so that a cost is never too small
    growth    resident bytes of the worker afterwards, less those before; the first time includes
              tables of a fixed size that are written at last, the second time does not
    ratio     cost a byte sent of the crafted records / that of the ordinary ones

Bytes sent are those that the client transmitted, so a bomb that the broker refuses counts as sent;
but for bombs they are not compressed, as in the log. Each figure is of a worker of its own, on
topics of its own, which has learned 200,000 ratings before. Queries by the thousand follow the
made-up items: these make them dearest.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.settings import Settings, load
from stream_app.wire import Query, Topics, encode_message
from tests.benchmarks.figure import Figure
from tests.benchmarks.pipeline import worker_on
from tests.benchmarks.requests import outcomes
from tests.fixtures.attacked import Probe, applied, cpu, launch, resident
from tests.fixtures.attacks import FULL, MECHANISM, Size, every, many_items, ordinary
from tests.fixtures.streams import Published
from tests.fixtures.waiting import PATIENCE_SECONDS

_IDLE_SECONDS, _IDLE_WINDOWS = 2.0, 3
_POLL_SECONDS = 0.5  # /state is a request that costs as well
_DERIVE_SECONDS = 12.0  # the ranking thread derives once more 10 s after the last rating
PLAIN = {"compression_type": "none"}
_QUERIES = 3000
_RATIO, _SILENT, _GROWN = "<= 3", "<= 1", "<= 3"


@dataclass(frozen=True)
class Cost:
    """What records cost a worker; infinite where they ended it."""

    seconds: float
    grown_bytes: float
    grown_again_bytes: float
    sent_bytes: int
    silent: float
    alone: float

    @property
    def a_byte(self) -> float:
        """CPU nanoseconds a byte sent."""
        return self.seconds * 1e9 / self.sent_bytes


def measure(size: Size = FULL, names: Sequence[str] = ()) -> list[Figure]:
    """Return the figures of every attack, or of those of `names`."""
    figures: list[Figure] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings, text = _configured(folder)
        configured = settings.bootstrap_servers and Connection(settings.servers, settings.kafka)
        broker = stack.enter_context(
            broker_running(None, settings.cache_dir, configured=configured)
        )
        bench = _Bench(settings, text, broker.bootstrap)
        plain = bench.cost(*(ordinary(np.random.default_rng(seed)) for seed in (1, 2)))
        figures += _figures("ordinary", plain, plain)
        first, second = (every(np.random.default_rng(seed), size) for seed in (1, 2))
        for attack, again in zip(first, second, strict=True):
            if not names or attack.name in names:
                crafted = bench.cost(attack.crafted, again.crafted, attack.properties)
                figures += _figures(attack.name, crafted, plain)
        return figures + bench.queries(size)


def _configured(folder: Path) -> tuple[Settings, str]:
    """Return settings with every feature that goes together, and the text of their file."""
    file = folder / "murmurec.toml"
    text = """[privacy]
mode = "central"
[tuning]
head_items = 4096
"""
    file.write_text(text, encoding="utf-8")
    return load(file), text


def _figures(name: str, crafted: Cost, plain: Cost) -> list[Figure]:
    again = [each.grown_again_bytes / (each.sent_bytes / 2) for each in (crafted, plain)]
    return [
        Figure(f"{name}: sent twice", crafted.sent_bytes / 2e6, "MB"),
        Figure(f"{name}: worker's CPU, both times", crafted.seconds, "s"),
        Figure(f"{name}: the same", crafted.a_byte, "ns a byte sent"),
        Figure(f"{name}: CPU a byte / ordinary", crafted.a_byte / plain.a_byte, "", _RATIO),
        Figure(f"{name}: worker's memory, first time", crafted.grown_bytes / 1e6, "MB"),
        Figure(f"{name}: memory, second time", again[0], "bytes a byte sent"),
        Figure(f"{name}: memory a byte / ordinary", again[0] / max(again[1], 1e-9), "", _GROWN),
        *_silence(f"{name}: loop silent at most", crafted.silent, crafted.alone),
    ]


def _silence(title: str, longest: float, alone: float) -> list[Figure]:
    """Return the longest time without an answer, and that without the waits for a processor."""
    return [
        Figure(title, longest, "s"),
        Figure(f"{title}, less waits for a processor", alone, "s", _SILENT),
    ]


def _settled(process: int) -> int:
    """Return the resident bytes of a worker without those of a derivation, which come and go."""
    found, until_then = resident(process), time.monotonic() + _DERIVE_SECONDS
    while time.monotonic() < until_then:
        time.sleep(_POLL_SECONDS)
        found = min(found, resident(process))
    return found


def _share(process: int) -> float:
    """Return the share of a core that a process uses now."""
    began, used = time.monotonic(), cpu(process)
    time.sleep(_IDLE_SECONDS)
    return (cpu(process) - used) / (time.monotonic() - began)


class _Bench:
    """Starts a worker on topics of its own for each set of records."""

    def __init__(self, settings: Settings, text: str, bootstrap: str) -> None:
        self._settings, self._text, self._bootstrap = settings, text, bootstrap
        self._number = 0
        self._population = ordinary(np.random.default_rng(3))

    def cost(
        self,
        records: Sequence[Published],
        again: Sequence[Published],
        properties: Mapping[str, object] | None = None,
    ) -> Cost:
        """Return what these records, one set after the other, cost a worker that is ready."""
        with self._worker() as (worker, topic):
            process, connection = worker.process.pid, Connection(self._bootstrap)
            with Probe(worker):
                idle = min(_share(process) for _ in range(_IDLE_WINDOWS))
            sizes, sent, seconds = [_settled(process)], 0, 0.0
            with Probe(worker) as probe:
                for part in (records, again):
                    used, began = cpu(process), time.monotonic()
                    launched = launch(connection, topic.ratings, part, properties or PLAIN)
                    sent += launched.wire_bytes
                    try:
                        applied(worker, launched.ends, pause=_POLL_SECONDS)
                    except UserError as error:
                        print(f"{topic.prefix}: {error}", file=sys.stderr)
                        return Cost(math.inf, math.inf, math.inf, sent, math.inf, math.inf)
                    seconds += cpu(process) - used - idle * (time.monotonic() - began)
                    sizes.append(_settled(process))
        first, second = (max(0, b - a) for a, b in pairwise(sizes))
        return Cost(max(0.0, seconds), first, second, sent, probe.longest, probe.alone)

    def queries(self, size: Size) -> list[Figure]:
        """Return how long the loop is silent during 3,000 queries at once, by a worker that knows
        as many made-up items as it can."""
        with self._worker() as (worker, topic):
            connection = Connection(self._bootstrap)
            flood = many_items(np.random.default_rng(5), size).crafted
            applied(worker, launch(connection, topic.ratings, flood).ends, pause=_POLL_SECONDS)
            asker = self._population[0].key.decode()
            with Probe(worker) as probe:
                self._ask(worker, connection, topic, asker)
        title = f"{_QUERIES:,} queries for lists: loop silent at most"
        return _silence(title, probe.longest, probe.alone)

    @contextmanager
    def _worker(self) -> Iterator[tuple[WorkerProcess, Topics]]:
        """Run a worker that has learned the population."""
        self._number += 1
        topic, connection = Topics(f"bench-attack-{os.getpid()}-{self._number}"), self._bootstrap
        create(clients.admin(Connection(connection)), topic.table())
        text = self._settings, connection, topic.prefix, MECHANISM, self._text
        with worker_on(*text) as worker:
            worker.wait_until_ready()
            launched = launch(Connection(connection), topic.ratings, self._population)
            applied(worker, launched.ends)
            yield worker, topic

    def _ask(
        self,
        worker: WorkerProcess,
        connection: Connection,
        topic: Topics,
        user: str,
    ) -> None:
        """Send queries that may wait for a minute, and return when each has its outcome."""
        producer, deadline = clients.producer(connection, linger_ms=20), time.time() + 60
        before = sum(outcomes(worker).values())
        for _ in range(_QUERIES):
            query = Query(secrets.token_hex(8), user, 10, int(deadline * 1000))
            producer.produce(topic.queries, key=query.id.encode(), value=encode_message(query))
        assert producer.flush(PATIENCE_SECONDS) == 0
        while sum(outcomes(worker).values()) < before + _QUERIES and time.time() < deadline + 30:
            time.sleep(_POLL_SECONDS)

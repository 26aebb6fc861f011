"""What a client that may only write ratings can cost a worker, beside random input.

    cost      CPU seconds of the worker until everything is applied, less what it uses when idle
    growth    resident bytes of the worker afterwards, less those before
    ratio     cost a byte sent of the crafted records / that of the random ones

Bytes sent are those that the attacker's own client transmitted, so a bomb that the broker refuses
counts as sent. A bomb has no random form: it is compared with ordinary events (the random input of
`junk`). Each figure is of a worker of its own with default settings, on topics of its own, which
has learned 200,000 ratings before.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from stream_app.broker.resolve import running as broker_running
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.settings import Settings, load
from stream_app.wire import Topics
from tests.benchmarks.figure import Figure
from tests.benchmarks.pipeline import worker_on
from tests.fixtures.attacked import Probe, applied, cpu, launch, resident
from tests.fixtures.attacks import FULL, MECHANISM, every, population
from tests.fixtures.streams import Published

_IDLE_SECONDS = 3.0
_DERIVE_SECONDS = 12.0  # the ranking thread derives once more 10 s after the last rating
_RATIO, _SILENT, _GROWN = "<= 3", "<= 1", "<= 3"


@dataclass(frozen=True)
class Cost:
    """What records cost a worker; infinite where they ended it."""

    seconds: float
    grown_bytes: float
    sent_bytes: int
    silent: float

    @property
    def a_byte(self) -> float:
        """CPU nanoseconds a byte sent."""
        return self.seconds * 1e9 / self.sent_bytes


def measure() -> list[Figure]:
    """Return the figures of every attack."""
    settings, figures = load(), []
    configured = settings.bootstrap_servers and Connection(settings.servers, settings.kafka)
    with ExitStack() as stack:
        broker = stack.enter_context(
            broker_running(None, settings.cache_dir, configured=configured)
        )
        bench = _Bench(settings, broker.bootstrap)
        costs = {}
        for attack in every(np.random.default_rng(1), FULL):
            random = bench.cost(attack.random) if attack.random else None
            costs[attack.name] = bench.cost(attack.crafted, attack.properties), random
    plain = costs["junk"][1]
    for name, (crafted, random) in costs.items():
        figures += _figures(name, crafted, random or plain)
    return figures


def _figures(name: str, crafted: Cost, random: Cost | None) -> list[Figure]:
    assert random is not None, "junk is measured with every run"
    ratio = crafted.a_byte / max(random.a_byte, 1e-9)
    grown = crafted.grown_bytes / crafted.sent_bytes
    return [
        Figure(f"{name}: worker's CPU, crafted", crafted.a_byte, "ns a byte sent"),
        Figure(f"{name}: worker's CPU, random", random.a_byte, "ns a byte sent"),
        Figure(f"{name}: CPU, crafted / random", ratio, "", _RATIO),
        Figure(f"{name}: worker's memory, crafted", grown, "bytes a byte sent", _GROWN),
        Figure(f"{name}: loop silent at most", crafted.silent, "s", _SILENT),
    ]


class _Bench:
    """Starts a worker on topics of its own for each set of records."""

    def __init__(self, settings: Settings, bootstrap: str) -> None:
        self._settings, self._bootstrap = settings, bootstrap
        self._number = 0
        self._population = population(np.random.default_rng(2))

    def cost(
        self, records: Sequence[Published], properties: Mapping[str, object] | None = None
    ) -> Cost:
        """Return what these records cost a worker that is ready."""
        self._number += 1
        topics = Topics(f"bench-attack-{os.getpid()}-{self._number}")
        connection = Connection(self._bootstrap)
        create(clients.admin(connection), topics.table())
        with worker_on(self._settings, self._bootstrap, topics.prefix, MECHANISM) as worker:
            worker.wait_until_ready()
            # Tables of a fixed size are resident once they were written.
            applied(worker, launch(connection, topics.ratings, self._population).ends)
            time.sleep(_DERIVE_SECONDS)
            process = worker.process.pid
            began, used = time.monotonic(), cpu(process)
            time.sleep(_IDLE_SECONDS)
            idle = (cpu(process) - used) / (time.monotonic() - began)
            before, began, used = resident(process), time.monotonic(), cpu(process)
            with Probe(worker) as probe:
                sent = launch(connection, topics.ratings, records, properties)
                try:
                    applied(worker, sent.ends)
                except UserError as error:
                    print(f"{topics.prefix}: {error}", file=sys.stderr)
                    return Cost(math.inf, math.inf, sent.wire_bytes, math.inf)
            seconds = cpu(process) - used - idle * (time.monotonic() - began)
            grown = resident(process) - before
            return Cost(max(0.0, seconds), max(0, grown), sent.wire_bytes, probe.longest)

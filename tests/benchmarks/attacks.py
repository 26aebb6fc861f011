"""What a client that may only write ratings can cost a worker, beside random input.

    cost      CPU seconds of the worker until everything is applied, less what it uses when idle:
              the least of three windows, so that a cost is never too small
    growth    resident bytes of the worker afterwards, less those before; the first time includes
              tables of a fixed size that are written at last, the second time does not
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
from itertools import pairwise

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

_IDLE_SECONDS, _IDLE_WINDOWS = 2.0, 3
_POLL_SECONDS = 0.5  # /state is a request that costs as well
_DERIVE_SECONDS = 12.0  # the ranking thread derives once more 10 s after the last rating
_RATIO, _SILENT, _GROWN = "<= 3", "<= 1", "<= 3"


@dataclass(frozen=True)
class Cost:
    """What records cost a worker; infinite where they ended it."""

    seconds: float
    grown_bytes: float
    grown_again_bytes: float
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
        first, second = (every(np.random.default_rng(seed), FULL) for seed in (1, 2))
        for attack, again in zip(first, second, strict=True):
            random = bench.cost(attack.random, again.random) if attack.random else None
            crafted = bench.cost(attack.crafted, again.crafted, attack.properties)
            costs[attack.name] = crafted, random
    plain = costs["junk"][1]
    for name, (crafted, random) in costs.items():
        figures += _figures(name, crafted, random or plain)
    return figures


def _figures(name: str, crafted: Cost, random: Cost | None) -> list[Figure]:
    assert random is not None, "junk is measured with every run"
    ratio = crafted.a_byte / max(random.a_byte, 1e-9)
    again = crafted.grown_again_bytes / (crafted.sent_bytes / 2)
    return [
        Figure(f"{name}: sent twice", crafted.sent_bytes / 2e6, "MB"),
        Figure(f"{name}: worker's CPU, both times", crafted.seconds, "s"),
        Figure(f"{name}: the same, crafted", crafted.a_byte, "ns a byte sent"),
        Figure(f"{name}: the same, random", random.a_byte, "ns a byte sent"),
        Figure(f"{name}: CPU, crafted / random", ratio, "", _RATIO),
        Figure(f"{name}: worker's memory, first time, crafted", crafted.grown_bytes / 1e6, "MB"),
        Figure(f"{name}: the same, random", random.grown_bytes / 1e6, "MB"),
        Figure(f"{name}: memory, second time, crafted", again, "bytes a byte sent", _GROWN),
        Figure(f"{name}: loop silent at most", crafted.silent, "s", _SILENT),
    ]


def _share(process: int) -> float:
    """Return the share of a core that a process uses now."""
    began, used = time.monotonic(), cpu(process)
    time.sleep(_IDLE_SECONDS)
    return (cpu(process) - used) / (time.monotonic() - began)


class _Bench:
    """Starts a worker on topics of its own for each set of records."""

    def __init__(self, settings: Settings, bootstrap: str) -> None:
        self._settings, self._bootstrap = settings, bootstrap
        self._number = 0
        self._population = population(np.random.default_rng(2))

    def cost(
        self,
        records: Sequence[Published],
        again: Sequence[Published],
        properties: Mapping[str, object] | None = None,
    ) -> Cost:
        """Return what these records, one set after the other, cost a worker that is ready."""
        self._number += 1
        topic = Topics(f"bench-attack-{os.getpid()}-{self._number}")
        connection = Connection(self._bootstrap)
        create(clients.admin(connection), topic.table())
        with worker_on(self._settings, self._bootstrap, topic.prefix, MECHANISM) as worker:
            worker.wait_until_ready()
            # Tables of a fixed size are resident once they were written.
            applied(worker, launch(connection, topic.ratings, self._population).ends)
            time.sleep(_DERIVE_SECONDS)
            process = worker.process.pid
            with Probe(worker):
                idle = min(_share(process) for _ in range(_IDLE_WINDOWS))
            sizes, sent, used, began = [resident(process)], 0, cpu(process), time.monotonic()
            with Probe(worker) as probe:
                for part in (records, again):
                    launched = launch(connection, topic.ratings, part, properties)
                    sent += launched.wire_bytes
                    try:
                        applied(worker, launched.ends, pause=_POLL_SECONDS)
                    except UserError as error:
                        print(f"{topic.prefix}: {error}", file=sys.stderr)
                        return Cost(math.inf, math.inf, math.inf, sent, math.inf)
                    sizes.append(resident(process))
            seconds = cpu(process) - used - idle * (time.monotonic() - began)
        first, second = (max(0, b - a) for a, b in pairwise(sizes))
        return Cost(max(0.0, seconds), first, second, sent, probe.longest)

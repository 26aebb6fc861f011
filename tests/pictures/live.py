"""A short real run with its metrics in a real Prometheus: Kafka, worker, devices, queries, audit.

Devices of a generated population report their ratings in the order of time, a tenth of them on each
of ten days, so that a device comes again and lists can be measured on its later visits. Queries for
lists arrive beside them, and some people are visitors of a site (`shop.py`). `murmurec audit
canary` runs once, and a server of files publishes what it has found.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from producers.datasets import synthetic
from producers.datasets.load import Dataset
from producers.device.requests import ReportSettings
from producers.fleet.population import Population, populate
from producers.fleet.replay import Pace, ReplayOptions, replay
from producers.identities import Identities
from producers.journal import Journal
from producers.person.enrolment import NO_LIMIT
from producers.publishing import OutboxRelay, Publisher
from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_processes import running as worker_running
from stream_app.cli.demo.demo_processes import with_topics
from stream_app.cli.device.mechanism_options import today
from stream_app.cli.device.simulated_population import enrolled_population
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.privacy import registry
from stream_app.settings import Settings
from stream_app.wire import Topics
from tests.fixtures.query_load import QueryLoad
from tests.fixtures.scraped import Recorded, scraping
from tests.pictures.shop import MECHANISM as SITES
from tests.pictures.shop import open_shop

RATINGS, A_SECOND, DAYS = 150_000, 1500.0, 10
MECHANISM = "rr:5:2"
AUDIT = "metrics"  # the file, under the path that Prometheus asks for


@contextmanager
def recorded(tool: str, ratings: int = RATINGS) -> Iterator[Recorded]:
    """Run everything; yield while the Prometheus (`tool`: its program) still answers."""
    settings = Settings(mechanisms=(MECHANISM, SITES))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="murmurec-boards-")))
        _audit(folder)
        broker = stack.enter_context(broker_running(None, settings.cache_dir))
        settings, port = with_topics(settings, broker), free_ports(1)[0]
        arguments = ["--bootstrap", settings.servers, "--allow", MECHANISM, "--allow", SITES]
        worker = stack.enter_context(worker_running(arguments, port, folder))
        worker.wait_until_ready()
        world = synthetic.generate(seed=1, ratings=ratings, users=1000, items=1000, factors=3)
        population, visitors = _parted(world.dataset.in_time_order())
        shop = stack.enter_context(open_shop(settings.servers, folder, visitors))
        files = stack.enter_context(_served(folder))
        targets = {"worker-1": f"127.0.0.1:{port}", "audit": files, "edge-1": shop}
        address = stack.enter_context(scraping(tool, folder, targets))
        start = time.time()
        _stream(settings, folder, population)
        yield Recorded(address, start, time.time())


def _audit(folder: Path) -> None:
    command = [sys.executable, "-m", "stream_app.cli", "audit", "canary", "--allow", MECHANISM]
    command += ["--allow", SITES, "--reports", "100000", "--metrics", str(folder / AUDIT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def guess_type(self, path: object) -> str:
        return "text/plain; version=0.0.4"


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder; yield the address."""
    handler = partial(_Silent, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def _parted(dataset: Dataset) -> tuple[Dataset, Dataset]:
    """Return the ratings of nine users in ten, and those of the others."""
    visits = dataset.users % 10 == 0
    return _rows(dataset, np.flatnonzero(~visits)), _rows(dataset, np.flatnonzero(visits))


def _stream(settings: Settings, folder: Path, dataset: Dataset) -> None:
    """Replay the population, a part a day, while queries arrive."""
    topics, connection = Topics(settings.topic_prefix), Connection(settings.servers)
    line = Publisher(clients.producer(connection, linger_ms=20), topics.ratings)
    with Journal.open(folder / "device.journal") as journal, line:
        identities, first = Identities(journal.key), today() - DAYS + 1
        everyone = populate(dataset, journal.key, identities)
        enrolled_population(journal, everyone.devices, NO_LIMIT, first)
        users = [device.hex() for device in everyone.devices[::7]]
        reporting = ReportSettings(topics.ratings, registry.parse(MECHANISM), identities=identities)
        with QueryLoad(connection, topics.prefix, users=users):
            for day, part in enumerate(_parts(dataset)):
                population = populate(part, journal.key, identities)
                _report(population, reporting, journal, line, first + day)


def _report(
    population: Population, reporting: ReportSettings, journal: Journal, line: Publisher, day: int
) -> None:
    relay = OutboxRelay(journal, line)
    for _ in replay(
        population,
        reporting,
        journal=journal,
        send=relay.send,
        epoch=day,
        options=ReplayOptions(pace=Pace(A_SECOND)),
        make_room=relay.make_room,
    ):
        pass


def _parts(dataset: Dataset) -> Iterator[Dataset]:
    """Yield the rows of each day, equally many."""
    for number, rows in enumerate(np.array_split(np.arange(len(dataset)), DAYS), start=1):
        yield replace(_rows(dataset, rows), name=f"{dataset.name}, day {number}")


def _rows(dataset: Dataset, rows: NDArray[np.int64]) -> Dataset:
    return replace(
        dataset,
        users=dataset.users[rows],
        items=dataset.items[rows],
        ratings=dataset.ratings[rows],
        levels=dataset.levels[rows],
        timestamps=None if dataset.timestamps is None else dataset.timestamps[rows],
    )

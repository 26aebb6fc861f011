"""What clients of the admin port and writers of queries can cost a worker.

    slow connections    1,000 that never finish their headers, opened again as they are closed
    state               /state asked without pause on as many connections as the port holds
    queries             expired ones, and more than can be answered, in microseconds each

The process of the worker is measured; so is the longest time without an answer of /livez meanwhile.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.settings import load
from stream_app.wire import Query, Topics, encode_message
from tests.benchmarks.figure import Figure
from tests.benchmarks.pipeline import worker_on
from tests.fixtures.attacked import Probe, cpu
from tests.fixtures.attacks import MECHANISM

_CONNECTIONS = 1000
_ASKING = 64
_SECONDS = 10.0
_QUERIES = 50_000


def measure() -> list[Figure]:
    """Return every figure."""
    settings = load()
    configured = settings.bootstrap_servers and Connection(settings.servers, settings.kafka)
    with ExitStack() as stack:
        broker = stack.enter_context(
            broker_running(None, settings.cache_dir, configured=configured)
        )
        topics = Topics(f"bench-requests-{os.getpid()}")
        create(clients.admin(Connection(broker.bootstrap)), topics.table())
        worker = stack.enter_context(
            worker_on(settings, broker.bootstrap, topics.prefix, MECHANISM)
        )
        worker.wait_until_ready()
        return [
            *_loaded(f"{_CONNECTIONS:,} slow connections", worker, _hold),
            *_loaded(f"/state on {_ASKING} connections", worker, _ask),
            *_queries(worker, Connection(broker.bootstrap), topics, "expired", -1),
            *_queries(worker, Connection(broker.bootstrap), topics, "busy", 60),
        ]


def _loaded(
    name: str, worker: WorkerProcess, load: Callable[[WorkerProcess, threading.Event], None]
) -> list[Figure]:
    """Return the worker's share of a core, its descriptors and its silence under a load."""
    stop = threading.Event()
    thread = threading.Thread(target=load, args=(worker, stop))
    process, most = worker.process.pid, 0
    began, used = time.monotonic(), cpu(process)
    with Probe(worker) as probe:
        thread.start()
        while time.monotonic() < began + _SECONDS:
            most = max(most, len(list(Path(f"/proc/{process}/fd").iterdir())))
            time.sleep(0.05)
        share = (cpu(process) - used) / (time.monotonic() - began)
        stop.set()
        thread.join()
    return [
        Figure(f"{name}: worker's CPU", 100 * share, "% of a core"),
        Figure(f"{name}: descriptors of the worker", most, ""),
        Figure(f"{name}: loop silent at most", probe.longest, "s", "<= 1"),
        Figure(f"{name}: probes without an answer", probe.unanswered, "", "<= 0"),
    ]


def _hold(worker: WorkerProcess, stop: threading.Event) -> None:
    """Hold connections that send one byte a second, and open those again that were closed."""
    address = urlsplit(worker.url)
    held: list[socket.socket] = []
    while not stop.is_set():
        open_now = []
        for slow in held:
            try:
                slow.send(b"x")
                open_now.append(slow)
            except OSError:
                slow.close()
        held = open_now
        while len(held) < _CONNECTIONS and not stop.is_set():
            with suppress(OSError):
                slow = socket.create_connection((address.hostname, address.port), 1.0)
                slow.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
                held.append(slow)
        stop.wait(1.0)
    for slow in held:
        slow.close()


def _ask(worker: WorkerProcess, stop: threading.Event) -> None:
    """Ask for /state on many connections, each again as soon as it is answered."""

    def asking() -> None:
        while not stop.is_set():
            with suppress(OSError):
                worker.get("/state", 5.0)

    threads = [threading.Thread(target=asking) for _ in range(_ASKING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _queries(
    worker: WorkerProcess, connection: Connection, topics: Topics, name: str, seconds: float
) -> list[Figure]:
    """Send queries with a deadline so many seconds from now; return what each costs."""
    producer = clients.producer(connection, linger_ms=20)
    deadline = int((time.time() + seconds) * 1000)
    before, used, began = outcomes(worker), cpu(worker.process.pid), time.monotonic()
    with Probe(worker) as probe:
        for n in range(_QUERIES):
            query = Query(f"{n:016x}", "0" * 32, 10, deadline)
            producer.produce(topics.queries, key=query.id.encode(), value=encode_message(query))
            producer.poll(0)
        producer.flush(60)
        while sum(outcomes(worker).values()) < sum(before.values()) + _QUERIES:
            time.sleep(0.1)
    each = (cpu(worker.process.pid) - used) / _QUERIES * 1e6
    taken = time.monotonic() - began
    return [
        Figure(f"{_QUERIES:,} queries, {name}: worker's CPU", each, "us each"),
        Figure(f"{_QUERIES:,} queries, {name}: until all are read", taken, "s"),
        Figure(f"{_QUERIES:,} queries, {name}: loop silent at most", probe.longest, "s", "<= 1"),
    ]


def outcomes(worker: WorkerProcess) -> dict[str, float]:
    found = worker.metrics()
    return {name: value for name, value in found.items() if name.startswith("queries_total")}

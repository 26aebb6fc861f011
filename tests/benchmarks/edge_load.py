"""An edge under load over HTTP: durable events a second, and lists beside events.

One edge process with a real Kafka behind it, to which it reports; its store is a new SQLite file or
a new PostgreSQL. Events are of 2,000 users and 4,096 items, each of them new. Lists are asked for
users with 20 events each, at their times and not at those of the replies before, while another
load sends 500 events a second; a time is from when a request was due. The naive peer is one
transaction an event on the same file system, with SQLite as the edge sets it.

    python -m tests.benchmarks.edge_load KIND PORT CONNECTIONS SECONDS RATE    one load; RATE 0: all
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stream_app.broker.local import free_ports, leashed
from stream_app.broker.resolve import running as broker_running
from stream_app.settings import load
from tests.benchmarks.figure import Figure
from tests.fixtures.postgres import cluster

USERS, ITEMS, HISTORY = 2_000, 4_096, 20
BATCH, SECONDS, WARM_SECONDS = 100, 4.0, 1.0
EVENTS_BESIDE, LISTS = 500.0, 500.0
_TYPES = ("purchase", "view")
_PATIENCE_SECONDS = 120.0


class Loaded(NamedTuple):
    """Replies a second, and the median and 99th percentile of their milliseconds."""

    rate: float
    p50: float
    p99: float


def measure() -> list[Figure]:
    """Return the rates of both stores, and the times of lists beside events."""
    found = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = load()
        broker = stack.enter_context(broker_running(folder / "kafka", settings.cache_dir))
        subprocess.run(
            [sys.executable, "-m", "stream_app.cli", "topics", "apply", "--bootstrap",
             broker.bootstrap], check=True, capture_output=True,
        )  # fmt: skip
        database = stack.enter_context(cluster()).database()
        stores = {"SQLite": (f"sqlite:///{folder}/edge.db", 1.0), "PostgreSQL": (database, 0.5)}
        for name, (store, part) in stores.items():
            with _edge(store, broker.bootstrap, folder / name) as port:
                found += _figures(name, port, part)
        found.append(
            Figure("one transaction an event, events a second", _naive(folder) / 1e3, "k/s")
        )
    return found


def _figures(name: str, port: int, part: float) -> list[Figure]:
    _filled(port)
    single, batched = _loaded("events:1", port, 64), _loaded(f"events:{BATCH}", port, 16)
    beside = subprocess.Popen(
        _command("events:1", port, 16, SECONDS + 4, EVENTS_BESIDE), stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(WARM_SECONDS)
        paced = _loaded("lists", port, 32, LISTS)
        most = _loaded("lists", port, 16, seconds=2.0)
    finally:
        beside.wait()
    return [
        Figure(f"{name}, events a second", single.rate / 1e3, "k/s", f">= {1 * part:g}"),
        Figure(f"{name}, slowest 1 % of events", single.p99, "ms"),
        Figure(
            f"{name}, batches of {BATCH}, events a second",
            batched.rate * BATCH / 1e3, "k/s", f">= {20 * part:g}",
        ),
        Figure(f"{name}, lists beside {EVENTS_BESIDE:g} events/s", paced.rate, "/s", ">= 490"),
        Figure(f"{name}, slowest 1 % of them", paced.p99, "ms", "<= 15"),
        Figure(f"{name}, median of them", paced.p50, "ms"),
        Figure(f"{name}, lists a second at most, beside them", most.rate, "/s", ">= 500"),
    ]  # fmt: skip


def _loaded(
    kind: str, port: int, connections: int, rate: float = 0.0, seconds: float = SECONDS
) -> Loaded:
    command = _command(kind, port, connections, seconds, rate)
    done = subprocess.run(command, check=True, capture_output=True)
    return Loaded(*json.loads(done.stdout))


def _command(kind: str, port: int, connections: int, seconds: float, rate: float) -> list[str]:
    words = [kind, str(port), str(connections), str(seconds), str(rate)]
    return [sys.executable, "-m", "tests.benchmarks.edge_load", *words]


@contextmanager
def _edge(store: str, bootstrap: str, log: Path) -> Iterator[int]:
    port = free_ports(1)[0]
    command = ["-m", "stream_app.cli", "edge", "--port", str(port), "--bootstrap", bootstrap]
    with log.open("wb") as output:
        process = subprocess.Popen(
            leashed([sys.executable, *command]), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, env=os.environ | {"MURMUREC_EDGE_STORE": store},
        )  # fmt: skip
        try:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not _lives(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"no edge at {port}: {log.read_text()}")
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait(30.0)


def _lives(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=1.0):
            return True
    except OSError:
        return False


def _filled(port: int) -> None:
    """Write the catalogue, and the events that histories are made of."""
    rng = np.random.default_rng(1)
    items = [
        {"item": f"SKU-{n}", "title": f"Thing {n}", "categories": [f"c{n % 20}"], "price": n % 90}
        for n in range(ITEMS)
    ]
    _post(port, "/items", items)
    popular = 1 / np.arange(1, ITEMS + 1) ** 0.8
    for user in range(0, USERS, 50):
        _post(port, "/events", [
            {"user": f"user-{user + n}", "item": f"SKU-{item}", "type": "purchase"}
            for n in range(50)
            for item in rng.choice(ITEMS, HISTORY, False, popular / popular.sum()).tolist()
        ])  # fmt: skip
    time.sleep(10.0)  # until the statistics of the likes are renewed


def _post(port: int, path: str, rows: list[dict[str, object]]) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(rows).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        reply.read()


def _naive(folder: Path) -> float:
    """Return how many events a second one transaction each gives."""
    with sqlite3.connect(folder / "naive.db", isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE e (user, item, type, at, PRIMARY KEY (user, item, type))")
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < 2.0:
            row = f"user-{done % USERS}", f"SKU-{done}", "purchase", done
            connection.execute("INSERT INTO e VALUES (?, ?, ?, ?)", row)
            done += 1
        return done / (time.perf_counter() - began)


# --- the load, a process of its own --------------------------------------------------------------


class _Requests:
    """The bytes of requests of one kind, each of a new event, or of the next user's list."""

    def __init__(self, kind: str) -> None:
        self._kind, self._numbers = kind, count()
        self._rng = np.random.default_rng(int.from_bytes(os.urandom(8)))
        self._origin = 1_000 * int(time.time() - 86_400) + os.getpid() % 1_000
        name, _, size = kind.partition(":")
        self._size = int(size or 0)
        self.status = b"202" if name == "events" else b"200"

    def next(self) -> bytes:
        if not self._size:
            user = int(self._rng.integers(USERS))
            return b"GET /recommendations/user-%d?n=10 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % user
        rows = b",".join(self._event() for _ in range(self._size))
        body = b"[%s]" % rows
        return (
            b"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )

    def _event(self) -> bytes:
        n = next(self._numbers)
        return b'{"user":"user-%d","item":"SKU-%d","type":"%s","time":%d.%03d}' % (
            n * 7 % USERS, n * 31 % ITEMS, _TYPES[n % 2].encode(), *divmod(self._origin + n, 1_000)
        )  # fmt: skip


class _Load:
    def __init__(self, kind: str, seconds: float) -> None:
        self.requests, self.times, self.in_time = _Requests(kind), list[float](), 0
        self._began = time.perf_counter()
        self._from, self.end = self._began + WARM_SECONDS, self._began + WARM_SECONDS + seconds

    def replied(self, status: bytes, due: float) -> None:
        if status != self.requests.status:
            raise SystemExit(f"status {status.decode()}")
        now = time.perf_counter()
        self.in_time += self._from <= now < self.end
        if self._from <= due < self.end:
            self.times.append(now - due)

    async def connection(self, port: int, first: float, step: float) -> None:
        """Send one request after another, each when it is due: at once, or every `step` seconds."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        due = self._began + first
        while due < self.end:
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            writer.write(self.requests.next())
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r")[0]
            await reader.readexactly(int(length))
            self.replied(head[9:12], due)
            due = due + step if step else time.perf_counter()
        writer.close()


async def _run(kind: str, port: int, connections: int, seconds: float, rate: float) -> None:
    load = _Load(kind, seconds)
    step = connections / rate if rate else 0.0
    async with asyncio.TaskGroup() as group:
        for n in range(connections):
            group.create_task(load.connection(port, n * step / connections, step))
    p50, p99 = (1e3 * float(np.quantile(load.times, q)) for q in (0.5, 0.99))
    print(json.dumps((load.in_time / seconds, p50, p99)))


if __name__ == "__main__":
    kind, *numbers = sys.argv[1:]
    port, connections = map(int, numbers[:2])
    asyncio.run(_run(kind, port, connections, float(numbers[2]), float(numbers[3])))

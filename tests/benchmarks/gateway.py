"""POST /reports on a real broker: events a second and the time of a reply, one gateway process.

The gateway has one core where the system allows it; the load and the broker have the others. The
peer is the same server with the obvious handler, which sends an event and waits until librdkafka's
queue is empty: same decoder, same broker, the same run. A reply is sent when the broker has
confirmed the event, so its time has the producer's linger in it.

The load is wrk where it is installed, else a process in Python, which is slower than the gateway on
two cores: then the rate by the gateway's own processor time says more.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from stream_app.broker.local import free_ports, leashed
from stream_app.broker.resolve import running as broker_running
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.clients import Connection
from stream_app.settings import load
from stream_app.wire import Intake, Topics
from stream_app.wire.decoding import decode_unaddressed
from tests.benchmarks.figure import Figure

MECHANISM = "rr:5:2"
CONNECTIONS, SECONDS, ROUNDS = 32, 4.0, 5
SILENT = 400  # connections that send nothing, beside the load
_PATIENCE_SECONDS = 60.0


class Server(NamedTuple):
    """A process that serves, and its port."""

    pid: int
    port: int


class Loaded(NamedTuple):
    """One load: events a second that were confirmed, the 99th percentile of their time, and events
    by the processor time of the server."""

    rate: float
    p99_seconds: float
    core_rate: float


def measure() -> list[Figure]:
    """Return rate and times of the gateway, alone and beside silent connections, and the peer's."""
    with ExitStack() as stack:
        settings = load()
        configured = settings.bootstrap_servers and Connection(settings.servers, settings.kafka)
        broker = stack.enter_context(
            broker_running(None, settings.cache_dir, configured=configured or None)
        )
        prefix = f"bench-{os.getpid()}"
        _topics(stack, broker.bootstrap, prefix)
        target = ["--bootstrap", broker.bootstrap, "--prefix", prefix]
        command = ["-m", "stream_app.cli", "gateway", "--rate", "0", "--allow", MECHANISM, *target]
        gateway = stack.enter_context(_process([*command, "--port"]))
        peer = stack.enter_context(
            _process(["-m", "tests.benchmarks.gateway", broker.bootstrap, prefix])
        )
        alone, plain, beside = [], [], []
        for _ in range(ROUNDS):  # in turns, so that what else the machine does meets all of them
            alone.append(_loaded(gateway))
            plain.append(_loaded(peer))
            with _silent(gateway.port):
                beside.append(_loaded(gateway))
        of_gateway, of_peer = _median(alone), _median(plain)
        return [
            Figure("gateway, events a second", of_gateway.rate / 1e3, "k/s", ">= 5"),
            Figure("the same by its processor time", of_gateway.core_rate / 1e3, "k/s"),
            Figure("gateway, slowest 1 % of replies", of_gateway.p99_seconds * 1e3, "ms", "<= 20"),
            *_beside(_median(beside)),
            Figure("one flush an event, events a second", of_peer.rate / 1e3, "k/s"),
            Figure("one flush an event, slowest 1 %", of_peer.p99_seconds * 1e3, "ms"),
            Figure("gateway / one flush an event", of_gateway.rate / of_peer.rate, "x"),
        ]


def _beside(found: Loaded) -> list[Figure]:
    name = f"gateway beside {SILENT} silent connections"
    return [
        Figure(f"{name}, events a second", found.rate / 1e3, "k/s"),
        Figure(f"{name}, slowest 1 %", found.p99_seconds * 1e3, "ms"),
    ]


def _median(rows: Sequence[Loaded]) -> Loaded:
    return Loaded(*(statistics.median(column) for column in zip(*rows, strict=True)))


def _topics(stack: ExitStack, bootstrap: str, prefix: str) -> None:
    admin = clients.admin(Connection(bootstrap))
    table = Topics(prefix).table()
    topic_admin.create(admin, table)
    stack.callback(topic_admin.delete, admin, [topic.name for topic in table])


def _loaded(server: Server) -> Loaded:
    """Load a server for some seconds; RuntimeError where a reply was not 202."""
    before, began = _processor_seconds(server.pid), time.perf_counter()
    output = subprocess.run(_load(server.port), check=True, capture_output=True).stdout
    used = _processor_seconds(server.pid) - before
    found = json.loads(output.splitlines()[-1])
    refused = {status: n for status, n in found["statuses"].items() if status != "202" and n}
    if refused:
        raise RuntimeError(f"replies other than 202: {refused}")
    rate, whole = found["statuses"]["202"] / found["seconds"], time.perf_counter() - began
    # The load of Python does not count the replies of its first half second.
    share = min(1.0, used / whole) if used else 1.0
    return Loaded(rate, found["p99_seconds"], rate / share)


def _load(port: int) -> list[str]:
    wrk = shutil.which("wrk")
    if wrk is None:
        words = ["127.0.0.1", str(port), "/reports", str(CONNECTIONS), str(SECONDS), MECHANISM]
        return [sys.executable, "-m", "tests.benchmarks.http_load", *words]
    script = str(Path(__file__).with_name("http_load.lua"))
    return [
        *(wrk, "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS:.0f}s", "-s", script),
        *(f"http://127.0.0.1:{port}/reports", "--", MECHANISM, secrets.token_hex(8)[:15]),
    ]


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process so far, 0 where the system does not say."""
    found = Path(f"/proc/{process}/stat")
    if not found.exists():
        return 0.0
    fields = found.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _process(arguments: list[str]) -> Iterator[Server]:
    """Run a server on the first core for the length of the block."""
    port = free_ports(1)[0]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            leashed([sys.executable, *arguments, str(port)]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_ready(process, port)
            _pin(process.pid)
            yield Server(process.pid, port)
        finally:
            process.terminate()
            process.wait(10.0)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1.0):
                return
        except (OSError, urllib.error.HTTPError):
            time.sleep(0.05)
    raise RuntimeError(f"no server became ready at port {port}")


def _pin(process: int) -> None:
    """Give all threads of a process the first core, where there are several and it can be done."""
    tasks = Path(f"/proc/{process}/task")
    if not tasks.is_dir() or (os.cpu_count() or 1) < 2:
        return
    for task in tasks.iterdir():
        os.sched_setaffinity(int(task.name), {min(os.sched_getaffinity(0))})


@contextmanager
def _silent(port: int) -> Iterator[None]:
    """Hold connections that send nothing for the length of the block."""
    with ExitStack() as stack:
        for _ in range(SILENT):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield


def serve_plainly(bootstrap: str, prefix: str, port: int) -> None:
    """Serve the peer: each request sends its event and waits for the flush, in a thread."""
    intake = Intake({MECHANISM: 5})
    producer, topic = clients.producer(Connection(bootstrap), linger_ms=0), Topics(prefix).ratings

    async def ready(_: web.Request) -> web.Response:
        return web.Response()

    async def post(request: web.Request) -> web.Response:
        body = await request.read()
        event, partition = decode_unaddressed(body, intake)
        places: list[int] = []

        def sent() -> None:
            producer.produce(
                topic,
                key=event.key,
                value=body,
                partition=partition,
                on_delivery=lambda _, message: places.append(message.offset()),
            )
            producer.flush()

        await asyncio.to_thread(sent)
        return web.json_response({"partition": partition, "offset": places[0]}, status=202)

    application = web.Application()
    application.router.add_get("/readyz", ready)
    application.router.add_post("/reports", post)
    web.run_app(application, host="127.0.0.1", port=port, access_log=None, print=None)


if __name__ == "__main__":
    serve_plainly(sys.argv[1], sys.argv[2], int(sys.argv[3]))

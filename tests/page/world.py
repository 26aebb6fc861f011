"""A deployment that a page is opened on: topics, a catalogue, a crowd, a worker and a gateway.

The worker and the gateway are processes of their own, started as an operator starts them. The crowd
reports before the gateway starts, so the worker has an item side to publish. A gateway keeps its
port over a restart: to a browser it is the same site.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from producers import catalogue_reader as catalogue
from producers.datasets import synthetic
from producers.publishing import Publisher
from stream_app.broker.local import free_ports
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.clients import Connection, TopicPartition
from stream_app.wire import Event, Topics, encode, partitions_of
from tests.fixtures import forks
from tests.fixtures.small_worker import SMALL
from tests.fixtures.waiting import until

FILMS = 1200  # more than a device rates in these tests
PEOPLE, RATINGS = 130, 6000
ALLOWED = ("rr:5:2", "rr:5:1", "rr:5:4")


@dataclass
class GatewayProcess:
    """`murmurec gateway` on a port of its own; not running at first."""

    bootstrap: str
    prefix: str
    worker_url: str
    log: Path
    options: tuple[str, ...] = ()
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: forks.Forked | None = None

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return when it answers; it may still wait for Kafka."""
        command = ["gateway", "--port", str(self.port)]
        command += ["--bootstrap", self.bootstrap, "--prefix", self.prefix, "--rate", "0"]
        command += [word for name in ALLOWED for word in ("--allow", name)]
        environment = {"MURMUREC_GATEWAY_WORKER": self.worker_url}
        self.process = forks.start([*command, *self.options], self.log, environment=environment)
        until(lambda: self.answers("/livez") == 200, f"{self.url} answers")

    def answers(self, path: str) -> int:
        """Return the status of a page; OSError without an answer."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code

    def get(self, path: str) -> bytes:
        """Return the body of a page that is there."""
        with urllib.request.urlopen(self.url + path, timeout=30) as reply:
            return bytes(reply.read())

    def stop(self) -> None:
        """End it as a service manager does."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(8.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@dataclass(frozen=True)
class World:
    """A deployment; `gateway` may be ended and started again by a test."""

    connection: Connection
    topics: Topics
    gateway: GatewayProcess
    worker: WorkerProcess | None

    def stored(self, device: str) -> list[tuple[int, int, bytes]]:
        """Return partition, offset and value of every record of a device, in its order."""
        key = device.encode()
        partition = _partition(key)
        consumer = clients.consumer(self.connection, partition_eof=True)
        consumer.assign([TopicPartition(self.topics.ratings, partition, 0)])
        found, ended = [], False
        while not ended:
            for message in consumer.consume(500, 1.0):
                if message.error() is not None:
                    ended = True
                elif message.key() == key:
                    found.append((partition, message.offset(), message.value()))
        consumer.close()
        return found


@contextmanager
def world(
    connection: Connection,
    prefix: str,
    folder: Path,
    *,
    worker: bool = True,
    demo: bool = False,
) -> Iterator[World]:
    """Run a deployment for the length of the block; its topics are deleted afterwards."""
    topics, admin = Topics(prefix), clients.admin(connection)
    topic_admin.create(admin, topics.table())
    ports = free_ports(1)
    gateway = GatewayProcess(
        connection.bootstrap, prefix, f"http://127.0.0.1:{ports[0]}", folder / "gateway.log"
    )
    try:
        ends = populate(connection, topics)
        if not worker:
            gateway.start()
            yield World(connection, topics, gateway, None)
            return
        with forks.worker(
            ["--bootstrap", connection.bootstrap, "--prefix", prefix, "--group", prefix],
            ports[0],
            folder,
            environment=ENVIRONMENT,
        ) as process:
            process.wait_until_ready()
            process.wait_for(ends)
            gateway.start()
            made = World(connection, topics, gateway, process)
            until(lambda: gateway.answers("/item-links") == 200, "an item side")
            if demo:
                _become_demo(gateway, folder)
            yield made
    finally:
        gateway.stop()
        names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
        topic_admin.delete(admin, names)


ENVIRONMENT: Mapping[str, str] = {
    **SMALL,
    "MURMUREC_MECHANISMS": ",".join((*ALLOWED, "none:5:inf")),
    "MURMUREC_TUNING_ITEM_LINKS_SECONDS": "1",
    "MURMUREC_TUNING_SEEN_BYTES": "65536",
}


def _become_demo(gateway: GatewayProcess, folder: Path) -> None:
    """Restart the gateway as that of a demo, which has measured nothing yet."""
    gateway.stop()
    gateway.options = ("--demo", str(folder / "demo.json"))
    gateway.start()
    until(lambda: gateway.answers("/readyz") == 200, "Kafka behind the gateway")


def populate(connection: Connection, topics: Topics) -> list[int]:
    """Publish the catalogue and one event of each simulated person; return the end offsets."""
    made = synthetic.generate(1, users=PEOPLE, items=FILMS, ratings=RATINGS, factors=3).dataset
    producer = clients.producer(connection, linger_ms=20)
    catalogue.publish(
        Publisher(producer, topics.items), catalogue.entries(range(1, FILMS + 1), made.described)
    )
    ends = [0] * 4
    with Publisher(producer, topics.ratings) as line:
        for user in range(1, PEOPLE + 1):
            rows = np.flatnonzero(made.users == user)
            for seq, part in enumerate(np.array_split(rows, -(-len(rows) // 100)), start=1):
                event = Event(
                    user.to_bytes(16, "big"),
                    seq,
                    "none:5:inf",
                    20_000,
                    made.items[part].astype(np.uint64),
                    made.levels[part].astype(np.uint8),
                )
                line.send(event.key, encode(event))
                ends[_partition(event.key)] += 1
    assert not line.failed, line.first_error
    return ends


def _partition(key: bytes) -> int:
    return int(partitions_of(np.frombuffer(key, np.uint8).reshape(1, 32), 4)[0])


def counts_of(gateway: GatewayProcess, mechanism: str) -> list[list[int]]:
    """Return the table that browsers draw from, as the gateway hands it out."""
    offered = json.loads(gateway.get("/mechanisms"))["allowed"]
    (found,) = [each["counts"] for each in offered if each["id"] == mechanism]
    return [[int(count) for count in row] for row in found]

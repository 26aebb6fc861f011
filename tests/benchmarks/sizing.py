"""What to give a worker: ratings and queries for a second of one core, memory by size and number of
devices, and the broker's disk for a rating.

    state     each of `size` = small, medium, large, over DEVICES devices and one log
    rate      ratings of a backlog applied, without what a start on an empty log takes, and queries
              answered, for a second of the worker's own CPU time: a busy machine changes it less
              than a rate by the clock
    memory    resident, before the log and with every device of it; of the default size also with
              MORE_DEVICES more, of one message each
    disk      of the log of ratings by messages of 1, 20 and 200

Ratings are `rr:5:2`, 20 to a message, of 4,000 items by popularity (Zipf, 1.3).
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from consumers.recommendations import Recommendations
from stream_app import wire
from stream_app.broker import local
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.settings import load
from stream_app.wire import Event, Topics
from tests.benchmarks.durability import environment
from tests.benchmarks.figure import Figure
from tests.benchmarks.pipeline import applied, publish, worker_on

MECHANISM = "rr:5:2"
SIZES = ("small", "medium", "large")
DEVICES, MORE_DEVICES, EACH, MESSAGES = 20_000, 100_000, 20, 100_000
READERS, SECONDS = 4, 5.0


def messages(each: int, count: int, devices: int, seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of so many messages, the devices in turn."""
    rng = np.random.default_rng(seed)
    names = [rng.bytes(16) for _ in range(devices)]
    for number in range(count):
        items = (rng.zipf(1.3, each) % 4000).astype(np.uint64)
        levels = rng.integers(0, 5, each).astype(np.uint8)
        seq = number // devices + 1
        event = Event(names[number % devices], seq, MECHANISM, 20_000, items, levels)
        yield event.key, wire.encode(event)


def measure() -> list[Figure]:
    """Return every figure of a deployment's size."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        home, cache = Path(folder), load().cache_dir
        with local.run(home, cache) as broker:
            for each in (1, 20, 200):
                figures.append(disk(home, broker.bootstrap, each))
            for size in SIZES:
                figures += of_size(size, broker.bootstrap)
    return figures


def filled(bootstrap: str, prefix: str, each: int, count: int, devices: int) -> Topics:
    """Create topics and write a log of ratings."""
    topics = Topics(prefix)
    create(clients.admin(Connection(bootstrap)), topics.table())
    publish(bootstrap, topics.ratings, messages(each, count, devices))
    return topics


def disk(home: Path, bootstrap: str, each: int) -> Figure:
    """Measure what the broker keeps of a rating, indexes left out: they are allocated ahead."""
    ratings = 200_000 if each > 1 else 20_000
    topics = filled(bootstrap, f"disk-{os.getpid()}-{each}", each, ratings // each, 1000)
    kept = sum(file.stat().st_size for file in home.glob(f"log/{topics.ratings}-*/*.log"))
    return Figure(f"broker's disk for a rating, {each} in a message", kept / ratings, "bytes")


def of_size(size: str, bootstrap: str) -> Iterator[Figure]:
    """Measure one size: applying the log, then answering."""
    prefix = f"sizing-{os.getpid()}-{size}"
    with environment(MURMUREC_SIZE=size, MURMUREC_MECHANISMS=MECHANISM):
        topics = Topics(prefix)
        create(clients.admin(Connection(bootstrap)), topics.table())
        with worker_on(load(), bootstrap, prefix, MECHANISM) as worker:
            worker.wait_until_ready()
            yield Figure(f"{size}: resident before the first rating", resident(worker), "MiB")
            start = cpu_seconds(worker)
        publish(bootstrap, topics.ratings, messages(EACH, MESSAGES, DEVICES))
        with worker_on(load(), bootstrap, prefix, MECHANISM) as worker:
            worker.wait_until_ready()
            wait_for(worker, EACH * MESSAGES)
            spent = cpu_seconds(worker) - start
            name = f"{size}: ratings applied for a second of CPU"
            yield Figure(name, EACH * MESSAGES / spent / 1e6, "M ratings")
            yield queries(size, bootstrap, prefix, worker)
            held = resident(worker)
            yield Figure(f"{size}: resident with {DEVICES:,} devices", held, "MiB")
            if size == "medium":
                more = messages(EACH, MORE_DEVICES, MORE_DEVICES, seed=2)
                publish(bootstrap, topics.ratings, more)
                wait_for(worker, EACH * (MESSAGES + MORE_DEVICES))
                each = (resident(worker) - held) * 2**20 / MORE_DEVICES
                yield Figure(f"{size}: a device with {EACH} ratings", each, "bytes")


def wait_for(worker: WorkerProcess, ratings: int) -> None:
    """Wait until so many are applied; each look costs the worker some milliseconds."""
    deadline = time.monotonic() + 300
    while applied(worker) < ratings:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{applied(worker):,.0f} of {ratings:,} ratings within 300 s")
        time.sleep(1.0)


def queries(size: str, bootstrap: str, prefix: str, worker: WorkerProcess) -> Figure:
    """Ask for lists of ten from some readers at once."""
    devices = [key.hex()[:32] for key, _ in messages(1, 500, DEVICES)]
    ended = threading.Event()

    def reader(number: int) -> int:
        count = 0
        with Recommendations(bootstrap, prefix) as ask:
            while not ended.is_set():
                ask.best(devices[(count * READERS + number) % len(devices)], 10, seconds=30.0)
                count += 1
        return count

    with ThreadPoolExecutor(READERS) as pool:
        before = cpu_seconds(worker)
        asked = [pool.submit(reader, number) for number in range(READERS)]
        time.sleep(SECONDS)
        ended.set()
        count = sum(each.result() for each in asked)
    spent = cpu_seconds(worker) - before
    return Figure(f"{size}: queries answered for a second of CPU", count / spent, "queries")


def cpu_seconds(worker: WorkerProcess) -> float:
    """Return the CPU time that a worker has taken."""
    return worker.metrics()["process_cpu_seconds_total"]


def resident(worker: WorkerProcess) -> float:
    """Return the resident memory of a worker in MiB."""
    return worker.metrics()["process_resident_memory_bytes"] / 2**20

"""A worker with a large state on a real broker: what it writes, how long it freezes, its memory,
and the time until it is ready again after it was killed.

    state     MURMUREC_STATE_GIB GiB (default 1), full of random numbers, written by the offline
              writer; the worker starts from it
    load      RATE ratings a second, one to a message, by random devices of random items
    kill      SIGKILL after SECONDS under load; a new process starts at once, under the same load
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from stream_app import wire
from stream_app.agents.warmup import warm_up
from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli.demo.demo_processes import WorkerProcess, running
from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.settings import Settings, load
from stream_app.state.replica import Replica
from stream_app.wire import Event, Topics
from tests.benchmarks.durability import buckets, environment
from tests.benchmarks.figure import Figure

RATE, SECONDS = 1000, 300.0
MECHANISM = "none:5:inf"
_GIB = 1 << 30


def measure() -> list[Figure]:
    """Return every figure of a large state, and of the default one."""
    large = float(os.environ.get("MURMUREC_STATE_GIB", "1"))
    figures = whole_worker(f"{large:g} GiB state", large, RATE, strict=True)
    return [*figures, *whole_worker("default state", 0.0, 1500, strict=False)]


def whole_worker(name: str, gib: float, rate: int, *, strict: bool) -> list[Figure]:
    """Measure a worker with a state of so many GiB (0: the default sizes)."""
    sizes = {}
    if gib:
        sizes = {
            "MURMUREC_TUNING_SKETCH_BYTES": str(int(gib * _GIB / 2)),
            "MURMUREC_TUNING_SEEN_BYTES": str(int(gib * _GIB / 4)),
            "MURMUREC_TUNING_SCALARS_BYTES": str(int(gib * _GIB * 7 / 32)),
        }
    with environment(**sizes, MURMUREC_MECHANISMS=MECHANISM), ExitStack() as stack:
        settings = load()
        broker = stack.enter_context(broker_running(None, settings.cache_dir))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        prefix = f"bench-{os.getpid()}-{'large' if gib else 'small'}"
        topics = Topics(prefix)
        create(clients.admin(Connection(broker.bootstrap)), topics.table())
        size = _filled(settings, broker.bootstrap, topics)
        warm_up(spec_from_settings(settings))
        stack.enter_context(ratings_at(broker.bootstrap, topics.ratings, rate))
        place = ["--bootstrap", broker.bootstrap, "--prefix", prefix]
        with environment(MURMUREC_INSTANCE="large", MURMUREC_DATA_DIR=str(folder)):
            return list(_figures(name, size, place, folder, strict))


def _figures(
    name: str, size: int, place: list[str], folder: Path, strict: bool
) -> Iterator[Figure]:
    with running(place, free_ports(1)[0], folder) as worker:
        worker.wait_until_ready()
        yield Figure(f"{name}, recovery peak", _peak(worker) / size, "x", "<= 1.8" * strict)
        first, began = worker.metrics(), time.monotonic()
        time.sleep(SECONDS)
        last, seconds = worker.metrics(), time.monotonic() - began
        written = last["checkpoint_bytes_total"] - first["checkpoint_bytes_total"]
        applied = last["ratings_total{outcome=learned}"] - first["ratings_total{outcome=learned}"]
        target = "<= 20" if strict else "<= 1"
        yield Figure(f"{name}, written", written / seconds / 1e6, "MB/s", target)
        yield Figure(f"{name}, applied", applied / seconds, "ratings/s")
        yield Figure(f"{name}, freeze p99, at most", 1e3 * _p99(last), "ms", "<= 10" * strict)
        resident = last["process_resident_memory_bytes"]
        yield Figure(f"{name}, resident", resident / size, "x", "<= 1.5" * strict)
        yield Figure(f"{name}, resident", resident / 1e6, "MB")
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
    began = time.monotonic()
    with running(place, free_ports(1)[0], folder) as worker:
        worker.wait_until_ready()
        ready = time.monotonic() - began
        yield Figure(f"{name}, ready after a kill", ready, "s", "<= 8" * strict)
        yield Figure(f"{name}, peak after a kill", _peak(worker) / size, "x", "<= 1.8" * strict)


def _filled(settings: Settings, bootstrap: str, topics: Topics) -> int:
    """Write a checkpoint whose pages all differ from those of an empty state; return its bytes."""
    spec = spec_from_settings(settings)
    replica, rng = Replica(spec), np.random.default_rng(1)
    arrays = replica.model_arrays()
    vectors = arrays["learner.vectors"]
    for at in range(0, len(vectors), 1 << 24):
        part = vectors[at : at + (1 << 24)]
        part[:] = rng.standard_normal(len(part), np.float32) * 0.1
    arrays["learner.scalars"][:, 0] = rng.standard_normal(len(arrays["learner.scalars"])) * 0.1
    bits = arrays["seen.blocks"].reshape(-1).view(np.uint8)
    for at in range(0, len(bits), 1 << 26):
        part = bits[at : at + (1 << 26)]
        part[:] = rng.integers(0, 16, len(part), np.uint8)
    size = sum(array.nbytes for array in arrays.values())
    for touched in replica.dirty_pages().values():
        touched[:] = 1
    write_checkpoint(Deployment(Connection(bootstrap), topics, spec), replica, 0, "benchmark")
    return size


@contextmanager
def ratings_at(bootstrap: str, topic: str, rate: int) -> Iterator[None]:
    """Publish so many ratings a second, one to a message, from a thread."""
    producer = clients.producer(Connection(bootstrap), linger_ms=5)
    ended, rng = threading.Event(), np.random.default_rng(2)
    devices, seqs = [rng.bytes(16) for _ in range(20_000)], [0] * 20_000

    def publish() -> None:
        began, sent = time.monotonic(), 0
        while not ended.wait(0.01):
            while sent < (time.monotonic() - began) * rate:
                user = int(rng.integers(len(devices)))
                seqs[user] += 1
                item = np.array([rng.zipf(1.2) % 50_000], np.uint64)
                level = np.array([rng.integers(5)], np.uint8)
                event = Event(devices[user], seqs[user], MECHANISM, 20_000, item, level)
                producer.produce(topic, key=event.key, value=wire.encode(event))
                sent += 1
            producer.poll(0)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush(10)


def _p99(found: dict[str, float]) -> float:
    """Return the upper bound of the bucket that holds the 99th percentile of the freezes."""
    counts = buckets(found, "freeze_duration_seconds")
    total, seen = sum(counts.values()), 0.0
    for upper, count in sorted(counts.items()):
        seen += count
        if seen >= 0.99 * total:
            return upper
    return 0.0


def _peak(worker: WorkerProcess) -> float:
    """Return the most memory that the process has held."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return 1024.0 * next(int(r.split()[1]) for r in status.splitlines() if r.startswith("VmHWM"))

"""The cost of durability on a real broker: the pause and the throughput of checkpoints, a recovery,
and the time until a killed worker applies again.

The stream is a backlog of packed ratings drawn from ML-1M's users and items (or a synthetic
population), under the default sketch of 16 MiB, of which every page changes within a second.
Throughput is compared with a worker that checkpoints once an hour, in the same run, in alternating
order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from stream_app.broker.resolve import running as broker_running
from stream_app.checkpoints import checkpoint_reader as changelog
from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.settings import Settings, load
from stream_app.state.replica import Replica
from stream_app.wire import Topics
from tests.benchmarks import checkpoint
from tests.benchmarks.figure import Figure
from tests.benchmarks.pipeline import Load, messages, publish, watch, worker_on

BURDEN = Load(200, 12_000_000, "none:5:inf", "")
ROUNDS = 2


def measure() -> list[Figure]:
    """Return every figure of durability."""
    settings = load()
    with broker_running(
        None,
        settings.cache_dir,
        configured=settings.bootstrap_servers and Connection(settings.servers, settings.kafka),
    ) as broker:
        return [
            *stream_figures(settings, broker.bootstrap),
            *recovery_figures(settings, broker.bootstrap),
        ]


def stream_figures(settings: Settings, bootstrap: str) -> Iterator[Figure]:
    """Yield the throughput with and without checkpoints, and the pauses of the stream."""
    rates: dict[str, list[float]] = {"1": [], "3600": []}
    pauses: dict[float, float] = {}
    seconds, sizes, cores = [], [], []
    for turn in range(ROUNDS):
        for every in sorted(rates, reverse=bool(turn % 2)):
            prefix = f"bench-{os.getpid()}-checkpoint-{every}-{turn}"
            topics = Topics(prefix)
            create(clients.admin(Connection(bootstrap)), topics.table())
            publish(bootstrap, topics.ratings, messages(BURDEN))
            with (
                environment(MURMUREC_TUNING_CHECKPOINT_SECONDS=every),
                worker_on(settings, bootstrap, prefix, BURDEN.mechanism) as worker,
            ):
                before = first_cpu(worker)
                (t0, n0), *_, (t1, n1) = watch(worker, BURDEN.ratings)
                rates[every].append((n1 - n0) / (t1 - t0) / 1e6)
                if every == "1":
                    found = worker.metrics()
                    cores.append((found["process_cpu_seconds_total"] - before) / (t1 - t0))
                    for upper, count in buckets(found, "freeze_duration_seconds").items():
                        pauses[upper] = pauses.get(upper, 0) + count
                    count = found["checkpoint_duration_seconds_count"]
                    seconds.append(found["checkpoint_duration_seconds_sum"] / max(count, 1))
                    sizes.append(found["checkpoint_bytes_total"] / max(count, 1) / 1e6)
    best = {every: max(found) for every, found in rates.items()}
    yield Figure("stream with a checkpoint a second", best["1"], "M ratings/s")
    yield Figure("stream without", best["3600"], "M ratings/s")
    cost = 100 * (1 - best["1"] / best["3600"])
    yield Figure("throughput that a checkpoint a second costs", cost, "%", "<= 10")
    yield Figure("changed pages, mean of a checkpoint", float(np.mean(sizes)), "MB")
    yield Figure("until durable, mean", float(np.mean(seconds)) * 1e3, "ms")
    longest = max((upper for upper, count in pauses.items() if count), default=0.0)
    yield Figure("longest pause of the stream, at most", longest * 1e3, "ms", "<= 3")
    yield digest_cost(best["1"] * 1e6, float(np.mean(sizes)), float(np.mean(cores)))
    over = sum(count for upper, count in pauses.items() if upper > 0.003)
    yield Figure("pauses above 3 ms", over, f"of {sum(pauses.values()):.0f}", "<= 0")


def first_cpu(worker: WorkerProcess) -> float:
    """Return the CPU seconds of a worker as soon as it answers, which is before the backlog."""
    while True:
        worker.check()
        try:
            return worker.metrics()["process_cpu_seconds_total"]
        except OSError:
            time.sleep(0.02)


def digest_cost(rate: float, size: float, cores: float) -> Figure:
    """Return the share of the worker's CPU taken by ledger and digests, computed from their cost
    alone, at this rate and with checkpoints of this many MB a second."""
    stream = checkpoint.Stream(np.random.default_rng(1))
    state = Replica(checkpoint.DESIGN)
    for _ in range(60):
        state.apply(stream.batch())
    alone, ledger, digests, _ = (figure.value for figure in checkpoint.share(state, stream))
    entering = ledger / (alone * 1e6) * rate
    share = (entering + digests * size / 16.8) / cores
    return Figure("ledger and digests, of the worker's CPU", share, "%", "<= 1")


def buckets(found: Mapping[str, float], name: str) -> dict[float, float]:
    """Return upper bound -> observations of a histogram's buckets, not cumulative."""
    cumulative = {
        float(series.split("le=")[1].rstrip("}")): count
        for series, count in found.items()
        if series.startswith(f"{name}_bucket")
    }
    counts, before = {}, 0.0
    for upper in sorted(cumulative):
        counts[upper], before = cumulative[upper] - before, cumulative[upper]
    return counts


def recovery_figures(settings: Settings, bootstrap: str) -> Iterator[Figure]:
    """Yield the time to recover a replica from a topic that holds a state of 64 MB."""
    chosen = settings.model_copy(
        update={"mechanisms": ("none:5:inf",), "sketch_bytes": 32 << 20, "seen_bytes": 20 << 20}
    )
    spec, topics = spec_from_settings(chosen), Topics(f"bench-{os.getpid()}-recovery")
    create(clients.admin(Connection(bootstrap)), topics.table())
    replica, rng = Replica(spec), np.random.default_rng(1)
    for array in replica.model_arrays().values():
        array.reshape(-1).view(np.uint8)[:] = rng.integers(0, 256, array.nbytes, np.uint8)
    for touched in replica.dirty_pages().values():
        touched[:] = 1
    size = sum(array.nbytes for array in replica.model_arrays().values()) / 1e6
    began = time.monotonic()
    write_checkpoint(Deployment(Connection(bootstrap), topics, spec), replica, 0, "benchmark")
    written = time.monotonic() - began
    taken, digest = [], replica.model_digest()
    for _ in range(3):
        began = time.monotonic()
        found = changelog.read_checkpoint(Deployment(Connection(bootstrap), topics, spec))
        assert found is not None
        taken.append(time.monotonic() - began)
        assert found.replica.model_digest() == digest
    yield Figure("state of the recovery", size, "MB")
    yield Figure("writing all of it, hashing included", written, "s")
    yield Figure("recovery of it, median of three", sorted(taken)[1], "s", "<= 1.5")


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables for the length of the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

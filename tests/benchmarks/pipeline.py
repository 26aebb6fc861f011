"""The worker end to end on a real broker: a backlog, a rebuild, queries, memory, and the start
of the command line.

The backlog is published first; the worker starts on it, owns the clock, and its rate is taken from
its own counters, between the first cut that it applied and the last. Ratings are drawn from ML-1M's
users and items where the data is at hand (MURMUREC_DATA, default ../shared/data), else from a
population of the same size.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from consumers.recommendations import Recommendations
from stream_app import wire
from stream_app.agents.warmup import warm_up
from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_processes import WorkerProcess, running
from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.replay.recompute import Replay
from stream_app.settings import Settings, load
from stream_app.wire import Event, Topics, decode_many
from stream_app.wire.signatures import SigningKey
from tests.benchmarks.echo import Echo, echoing
from tests.benchmarks.figure import Figure

DATA = Path(os.environ.get("MURMUREC_DATA", Path(__file__).parents[3] / "shared" / "data"))


@dataclass(frozen=True)
class Load:
    """A backlog: ratings per message, number of ratings, and encoding."""

    each: int
    ratings: int
    mechanism: str
    target: str
    json: bool = False
    signed: bool = False

    @property
    def name(self) -> str:
        form = "JSON" if self.json else "packed"
        form = f"signed {form}" if self.signed else form
        return f"worker end to end, {self.each} ratings per {form} message, {self.mechanism}"


LOADS = (
    Load(200, 12_000_000, "none:5:inf", ">= 4"),
    Load(20, 6_000_000, "none:5:inf", ">= 2"),
    Load(1, 400_000, "none:5:inf", ">= 0.1", json=True),
    Load(200, 6_000_000, "rr:5:2", ">= 1.5"),
    Load(200, 4_000_000, "rr:5:2", "", signed=True),
    Load(1, 200_000, "none:5:inf", ">= 0.02", json=True, signed=True),
)


def measure() -> list[Figure]:
    """Return every figure of the pipeline."""
    figures = list(decode_figures())
    with ExitStack() as stack:
        settings = load()
        broker = stack.enter_context(
            broker_running(
                None,
                settings.cache_dir,
                configured=settings.bootstrap_servers
                and Connection(settings.servers, settings.kafka),
            )
        )
        for number, burden in enumerate(LOADS):
            figures += backlog(settings, broker.bootstrap, f"bench-{os.getpid()}-{number}", burden)
        with echoing(broker.bootstrap, f"bench-{os.getpid()}-echo") as echo:
            figures += beside_ingest(settings, broker.bootstrap, f"bench-{os.getpid()}-busy", echo)
            figures += movielens(settings, broker.bootstrap, f"bench-{os.getpid()}-ml", echo)
    return [*figures, *start_figures()]


def population() -> tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.int64]]:
    """Return items, levels and users of ML-1M, or of a synthetic population of its size."""
    path = DATA / "ml-1m" / "ml-1m.npz"
    if path.exists():
        with np.load(path) as found:
            levels = (found["rating"] - 1).astype(np.uint8)
            return found["item"].astype(np.uint64), levels, found["user"].astype(np.int64)
    rng = np.random.default_rng(1)
    items = (rng.zipf(1.3, 1_000_000) % 3706).astype(np.uint64)
    return items, rng.integers(0, 5, 1_000_000).astype(np.uint8), rng.integers(0, 6040, 1_000_000)


def messages(burden: Load, topic: str = "", seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of every message of a backlog: each of one device, items as they are
    rated; signed for the topic where the backlog is."""
    items, levels, users = population()
    rng = np.random.default_rng(seed)
    pairs = [SigningKey.from_seed(rng.bytes(32)) for _ in range(int(users.max()) + 1)]
    devices = [pair.pseudonym for pair in pairs]
    seqs = [0] * len(devices)
    encode = wire.encode_json if burden.json else wire.encode
    for _ in range(burden.ratings // burden.each):
        at = int(rng.integers(0, len(items) - burden.each))
        user = int(users[at])
        seqs[user] += 1
        part = slice(at, at + burden.each)
        event = Event(
            devices[user], seqs[user], burden.mechanism, 20_000, items[part], levels[part]
        )
        value = encode(event)
        yield event.key, pairs[user].seal(topic, value) if burden.signed else value


def publish(bootstrap: str, topic: str, stream: Iterator[tuple[bytes, bytes]]) -> int:
    """Write a backlog and return the number of messages."""
    producer = clients.producer(Connection(bootstrap), linger_ms=20)
    failed: list[object] = []
    count = 0

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for key, value in stream:
        while True:
            try:
                producer.produce(topic, key=key, value=value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        count += 1
    if producer.flush(120) or failed:
        raise RuntimeError(f"the backlog was not accepted: {failed[:1]}")
    return count


@contextmanager
def worker_on(
    settings: Settings, bootstrap: str, prefix: str, mechanism: str, config_text: str = ""
) -> Iterator[WorkerProcess]:
    """Run a worker with default settings, or those of a configuration that `settings` are of, on a
    prefix; its kernels are compiled beforehand."""
    chosen = settings.model_copy(update={"mechanisms": (mechanism,)})
    warm_up(spec_from_settings(chosen))
    arguments = ["--bootstrap", bootstrap, "--prefix", prefix, "--group", prefix]
    arguments += ["--allow", mechanism]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "murmurec.toml"
        plain = f'[privacy]\ndevices = "{settings.devices}"\n'
        config.write_text(config_text or plain, encoding="utf-8")
        arguments += ["--config", str(config)]
        with running(arguments, free_ports(1)[0], Path(folder)) as worker:
            yield worker


def backlog(settings: Settings, bootstrap: str, prefix: str, burden: Load) -> list[Figure]:
    """Publish a backlog, start a worker on it and return its rate."""
    topics = Topics(prefix)
    create(clients.admin(Connection(bootstrap)), topics.table())
    publish(bootstrap, topics.ratings, messages(burden, topics.ratings))
    settings = settings.model_copy(update={"devices": "signed" if burden.signed else "open"})
    with worker_on(settings, bootstrap, prefix, burden.mechanism) as worker:
        samples = watch(worker, burden.ratings)
        shares = list(learning_shares(worker, burden))
    (t0, n0), (t1, n1) = samples[0], samples[-1]
    rate = Figure(burden.name, (n1 - n0) / (t1 - t0) / 1e6, "M ratings/s", burden.target)
    return [rate, *shares]


def learning_shares(worker: WorkerProcess, burden: Load) -> Iterator[Figure]:
    """Yield what the learning thread does with its time, and the share of compiled kernels in what
    it does while it does not wait; the time before the first piece counts as waiting."""
    begin = "learning_thread_seconds_total{activity="
    spent = {k[len(begin) : -1]: v for k, v in worker.metrics().items() if k.startswith(begin)}
    busy = sum(spent.values()) or 1.0
    for activity, seconds in spent.items():
        name = f"learning thread, {activity.replace('_', ' ')}: {burden.name}"
        yield Figure(name, seconds / busy, "of its time")
    working = busy - spent.get("waiting", 0.0) or 1.0
    name = f"learning thread, compiled kernels: {burden.name}"
    target = ">= 0.6" if burden is LOADS[0] else ""
    yield Figure(name, spent.get("kernels", 0.0) / working, "of its time without waiting", target)


def beside_ingest(
    settings: Settings, bootstrap: str, prefix: str, echo: Echo, ratings: int = 8_000_000
) -> list[Figure]:
    """Ask for lists while a backlog is learned, in turns with an echo through the same broker."""
    burden, topics = Load(200, ratings, "none:5:inf", ""), Topics(prefix)
    create(clients.admin(Connection(bootstrap)), topics.table())
    sent = list(messages(burden))
    publish(bootstrap, topics.ratings, iter(sent))
    devices = [key.hex()[:32] for key, _ in sent[:1000]]
    lists, echoes = [], []
    with worker_on(settings, bootstrap, prefix, burden.mechanism) as worker:
        worker_began(worker)
        with Recommendations(bootstrap, prefix) as ask:
            ask.best(devices[0], 10, seconds=30.0)
            before = applied(worker)
            for device in devices:
                lists.append(ask.best(device, 10, seconds=30.0).seconds * 1e3)
                echoes.append(echo.seconds() * 1e3)
                if len(lists) % 50 == 0 and applied(worker) >= ratings:
                    break
            learned = applied(worker) - before
    if learned <= 0:
        raise RuntimeError("the backlog was learned before the first query: make it longer")
    return against_echo("beside full ingest", lists, echoes, "<= 4")


def applied(worker: WorkerProcess) -> float:
    """Return how many ratings a worker has applied."""
    found = worker.metrics()
    return found["ratings_total{outcome=learned}"] + found["ratings_total{outcome=held_out}"]


def worker_began(worker: WorkerProcess, seconds: float = 60.0) -> None:
    """Wait until a worker has applied its first ratings."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        worker.check()
        try:
            if applied(worker):
                return
        except OSError:
            pass
        time.sleep(0.02)
    raise RuntimeError(f"no rating was applied within {seconds} s")


def against_echo(
    when: str, lists: Sequence[float], echoes: Sequence[float], target: str
) -> list[Figure]:
    """Return the quantiles of queries and echoes (ms), and how many echoes a query takes."""
    figures = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        query, plain = quantile(lists, share), quantile(echoes, share)
        figures += [
            Figure(f"query {when}, {name}", query, "ms"),
            Figure(f"plain Kafka echo {when}, {name}", plain, "ms"),
            Figure(f"query {when} against the echo, {name}", query / plain, "x", target),
        ]
    return figures


def watch(worker: WorkerProcess, ratings: int, seconds: float = 300.0) -> list[tuple[float, float]]:
    """Return (time, ratings applied) from the first applied to the last."""
    samples: list[tuple[float, float]] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        worker.check()
        try:
            found = worker.metrics()
        except OSError:
            time.sleep(0.02)
            continue
        done = found["ratings_total{outcome=learned}"] + found["ratings_total{outcome=held_out}"]
        if done and (not samples or done > samples[-1][1]):
            samples.append((time.monotonic(), done))
        if done >= ratings:
            return samples
        time.sleep(0.02)
    raise RuntimeError(f"{samples[-1:]} of {ratings} ratings within {seconds} s")


def movielens(settings: Settings, bootstrap: str, prefix: str, echo: Echo) -> list[Figure]:
    """Publish ML-1M (or a synthetic substitute) once; measure queries, memory and a rebuild."""
    topics = Topics(prefix)
    create(clients.admin(Connection(bootstrap)), topics.table())
    items, levels, users = population()
    rng = np.random.default_rng(2)
    devices = [rng.bytes(16) for _ in range(int(users.max()) + 1)]

    def stream() -> Iterator[tuple[bytes, bytes]]:
        cuts = np.flatnonzero(np.diff(users)) + 1
        seqs = [0] * len(devices)
        for part in np.split(np.arange(len(users)), cuts):
            for at in range(0, len(part), 50):
                rows, user = part[at : at + 50], int(users[part[0]])
                seqs[user] += 1
                event = Event(
                    devices[user], seqs[user], "rr:5:2", 20_000, items[rows], levels[rows]
                )
                yield event.key, wire.encode(event)

    publish(bootstrap, topics.ratings, stream())
    with worker_on(settings, bootstrap, prefix, "rr:5:2") as worker:
        watch(worker, len(items))
        worker.wait_until_ready()
        state = worker.state()
        with Recommendations(bootstrap, prefix) as ask:
            for device in devices[1:51]:
                ask.best(device.hex(), 10)
            beside = [ask.best(d.hex(), 10).seconds * 1e3 for d in devices[51:1051]]
            time.sleep(20)  # the thread derives once more 10 s after the last rating, then rests
            pairs = [(ask.best(d.hex(), 10).seconds, echo.seconds()) for d in devices[51:1051]]
            seconds, echoes = (
                [1e3 * value for value in column] for column in zip(*pairs, strict=True)
            )
        resident = worker.metrics()["process_resident_memory_bytes"] / 1e6
        recall = [v for k, v in worker.metrics().items() if k.startswith("query_recall")]
    chosen = settings.model_copy(update={"mechanisms": ("rr:5:2",)})
    began = time.monotonic()
    deployment = Deployment(Connection(bootstrap), topics, spec_from_settings(chosen))
    replica = Replay(deployment).from_origin(None, state["cut"]).replica
    rebuilt = time.monotonic() - began
    same = replica.model_digest() == state["model_digest"]
    return [
        *against_echo("of an idle worker", seconds, echoes, "<= 2.5"),
        Figure("query over Kafka, idle worker, p50", quantile(seconds, 0.5), "ms", "<= 4"),
        Figure("query over Kafka, idle worker, p99", quantile(seconds, 0.99), "ms", "<= 10"),
        Figure("query over Kafka beside a derivation, p50", quantile(beside, 0.5), "ms"),
        Figure("query over Kafka beside a derivation, p99", quantile(beside, 0.99), "ms"),
        Figure("recall@10 of qoLSH, sampled", recall[0] if recall else 0.0, "", ">= 0.9"),
        Figure("worker resident memory with ML-1M", resident, "MB", "<= 400"),
        Figure("rebuild of ML-1M from the log", rebuilt, "s", "<= 5"),
        Figure("the rebuilt digest equals the worker's", float(same), "", ">= 1"),
    ]


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of measured values."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def decode_figures() -> Iterator[Figure]:
    """Yield the cost of decoding, in process CPU time, the best of fifty.

    The garbage collector is set as in a worker.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    targets = ((200, False, "<= 12"), (20, False, ""), (1, True, "<= 350"))
    for each, as_json, target in targets:
        burden = Load(each, 512 * 8 * each, "none:5:inf", "", as_json)
        per_partition: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, value in messages(burden):
            column = np.frombuffer(key, np.uint8).reshape(1, 32)
            per_partition.setdefault(int(wire.partitions_of(column, 4)[0]), []).append((key, value))
        part = per_partition[0][:512]
        run = wire.RecordRun(0, range(len(part)), [k for k, _ in part], [v for _, v in part])
        intake = wire.Intake({"none:5:inf": 5})
        best = min(once(run, intake) for _ in range(50))
        form = "JSON" if as_json else "packed"
        name = f"decode, {each} rating{'s' if each > 1 else ''} per {form} message"
        yield Figure(name, best / len(part) / each * 1e9, "ns/rating", target)


def once(run: wire.RecordRun, intake: wire.Intake) -> float:
    """Return the CPU seconds of decoding a run."""
    began = time.process_time()
    batch = decode_many(run, intake)
    taken = time.process_time() - began
    assert not batch.reasons.any()
    return taken


def start_figures() -> Iterator[Figure]:
    """Yield the time of `murmurec --help`, the best of five."""
    command = [sys.executable, "-m", "stream_app.cli", "--help"]

    def once() -> float:
        began = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - began

    yield Figure("murmurec --help", min(once() for _ in range(5)), "s", "<= 0.5")

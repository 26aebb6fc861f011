"""A state of 1 GiB at 1,000 ratings a second: what checkpoints write, how long they hold the
stream, and the memory that they take.

The state has the sizes of a deployment with millions of devices, and is filled by records of one
million of them, without files or a broker. The stream then has single ratings of random devices,
five rounds a second. Between two checkpoints the rounds follow each other at once; while one is
written they come in real time, against a broker that takes `BROKER_BYTES` a second.

    stall      the event loop's part of a checkpoint: freeze and release, by wall clock
    written    bytes of records over the time that the stream stands for
    resident   the largest resident size while the stream runs, interpreter included, over the state
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stream_app.agents.checkpointing.checkpoint_service import ReplayCost
from stream_app.checkpoints.driver import CheckpointDriver
from stream_app.checkpoints.protocol.writer import OWNER_BYTES, Freeze, LeaseAcquired
from stream_app.checkpoints.state_image import StateImage
from stream_app.kafka.acknowledged_writer import OnAcknowledged
from stream_app.models.frozen_arrays import Room
from stream_app.privacy.ratings.identity import Identity
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Batch
from tests.benchmarks.figure import Figure

_MB = 1 << 20
DESIGN = StateSpec(
    (Identity(5),), sketch_bytes=640 * _MB, scalars_bytes=160 * _MB, seen_bytes=128 * _MB
)
DEVICES, ITEMS, EACH = 1_000_000, 50_000, 2
RATE, ROUND_SECONDS, BROKER_BYTES = 1000, 0.2, 100e6
# A worker's round costs several times what its kernels do: a fourth of the default.
CHECKPOINTS, REPLAY_SECONDS = 3, 0.5


class Stream:
    """Batches of records of random devices with increasing numbers."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(1)
        self._devices = self._rng.integers(0, 2**64, (DEVICES, 2), dtype=np.uint64)
        self._seqs = np.zeros(DEVICES, np.int64)
        self._offset = 0

    def batch(self, devices: np.ndarray, each: int) -> Batch:
        """Return a batch with one record of `each` ratings for each of some devices."""
        rng, n = self._rng, len(devices)
        m = n * each
        self._seqs[devices] += 1
        offsets = np.arange(self._offset, self._offset + n)
        self._offset += n
        items = (rng.zipf(1.2, m) % ITEMS).astype(np.uint64)
        zeros = np.zeros(n, np.uint8)
        return Batch(
            0, offsets, np.full(n, 100), self._devices[devices], self._seqs[devices], zeros,
            np.full(n, each), zeros, np.zeros(n, np.int64), items,
            rng.integers(0, 5, m).astype(np.uint8), np.zeros(m, np.uint16),
        )  # fmt: skip

    def filling(self) -> Iterator[Batch]:
        """Yield one record of every device."""
        for part in np.array_split(np.arange(DEVICES), DEVICES // 20_000):
            yield self.batch(part, EACH)

    def round(self) -> Batch:
        """Return the ratings of one round."""
        many = int(RATE * ROUND_SECONDS)
        return self.batch(self._rng.choice(DEVICES, many, replace=False), 1)


class Broker:
    """Acknowledges every record, at most so many bytes a second."""

    def __init__(self) -> None:
        self.bytes, self._offset, self._free = 0, 0, time.monotonic()
        self._waiting: list[OnAcknowledged] = []

    def produce(self, key: bytes, value: bytes | None, on_acknowledged: OnAcknowledged) -> None:
        """Take a record."""
        size = len(key) + len(value or b"")
        self.bytes += size
        self._free = max(self._free, time.monotonic()) + size / BROKER_BYTES
        self._waiting.append(on_acknowledged)

    def poll(self, _: float) -> None:
        """Acknowledge what was taken, after the time that it takes."""
        time.sleep(max(0.0, self._free - time.monotonic()))
        waiting, self._waiting = self._waiting, []
        for on_acknowledged in waiting:
            self._offset += 1
            on_acknowledged(self._offset)


@dataclass
class Run:
    """What was measured: seconds of stalls and of rounds, resident bytes, and of each checkpoint
    its bytes and the seconds that the stream stands for since the one before."""

    stalls: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    intervals: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)


def measure() -> list[Figure]:
    """Return the figures of a state of 1 GiB."""
    stream, state = Stream(), Replica(DESIGN)
    for batch in stream.filling():
        state.apply(batch)
    size = sum(array.nbytes for array in state.model_arrays().values())
    run = _run(stream, state)
    stalls = sorted(run.stalls)
    rate = sum(run.written[1:]) / sum(run.intervals[1:])
    p99 = stalls[min(len(stalls) - 1, int(0.99 * len(stalls)))]
    return [
        Figure("frozen state", size / 1e6, "MB"),
        Figure("frozen state, seconds between two checkpoints", run.intervals[-1], "s"),
        Figure("frozen state, a checkpoint", run.written[-1] / 1e6, "MB"),
        Figure("frozen state, a checkpoint takes", run.taken[-1], "s"),
        Figure("frozen state, kept of a cut, at most", max(run.kept) / 1e6, "MB"),
        Figure("frozen state, written", rate / 1e6, "MB/s", "<= 20"),
        Figure("frozen state, stall p50", stalls[len(stalls) // 2] * 1e3, "ms"),
        Figure("frozen state, stall p99", p99 * 1e3, "ms", "<= 10"),
        Figure("frozen state, stall longest", stalls[-1] * 1e3, "ms"),
        Figure("frozen state, round p50", sorted(run.rounds)[len(run.rounds) // 2] * 1e3, "ms"),
        Figure("frozen state, resident", max(run.resident) / size, "x", "<= 1.5"),
    ]


def _run(stream: Stream, state: Replica) -> Run:
    """Run the stream until enough checkpoints are durable."""
    run, image, broker, cost = Run(), StateImage(state), Broker(), ReplayCost(REPLAY_SECONDS)
    driver = CheckpointDriver(broker.produce, broker.poll, lambda: True)
    driver.drive(LeaseAcquired(bytes(OWNER_BYTES), "benchmark"))
    cut, since, now = 0, 0.0, 0.0
    cost.start(now)
    while len(run.written) < CHECKPOINTS + 1:
        cut, now = cut + 1, now + ROUND_SECONDS
        cost.applied(_round(stream, state, cut, run), now)
        if run.written and not cost.due(now):
            continue
        before = broker.bytes
        run.intervals.append(now - since)
        since, began = now, time.perf_counter()
        cost.frozen(now)
        image.freeze(write=True, full=driver.writer.full)
        run.stalls.append(time.perf_counter() - began)
        thread = threading.Thread(target=_write, args=(image, driver, cut))
        thread.start()
        started = time.monotonic()
        while thread.is_alive():
            cut, now = cut + 1, now + ROUND_SECONDS
            cost.applied(_round(stream, state, cut, run), now)
            thread.join(max(0.0, started + now - since - time.monotonic()))
        run.kept.append(image.kept_bytes)
        _release(image, run)
        cost.durable(now)
        run.taken.append(now - since)
        run.written.append(broker.bytes - before)
    return run


def _round(stream: Stream, state: Replica, cut: int, run: Run) -> float:
    batch, began = stream.round(), time.perf_counter()
    state.apply(batch)
    state.end_round(cut, state.end_offsets)
    seconds = time.perf_counter() - began
    run.rounds.append(seconds)
    run.resident.append(resident())
    return seconds


def _write(image: StateImage, driver: CheckpointDriver, cut: int) -> None:
    image.hash()
    driver.drive(Freeze(image.frozen("topic", cut)))


def _release(image: StateImage, run: Run) -> None:
    """Release the image, and give its memory back, which a worker does on another thread."""
    began = time.perf_counter()
    room: Room = image.release(durable=True)
    run.stalls.append(time.perf_counter() - began)
    while room.give_back():
        time.sleep(0.0005)


def resident() -> int:
    """Return the resident size of this process in bytes; Linux."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024

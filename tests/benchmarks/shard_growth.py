"""`murmurec state shards --to 4` of a state of 1 GiB on a real broker: its time, its memory, and
what is lost.

    state     3 M devices with four ratings each (`shard_memory.py`), 1 GiB in arrays, written as
              the checkpoint of a worker that has ended
    command   a process of its own; CPU seconds are those of its processes and, apart, of the broker
    lost      devices whose marks, visits, vector or scalars differ in the checkpoint of their
              shard, or are in another; lists of some; sums of items that differ in any shard
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.broker.resolve import running as broker_running
from stream_app.checkpoints.checkpoint_reader import read_checkpoint
from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli.demo.demo_processes import started
from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.settings import Settings, load
from stream_app.state.exchange.division import shards_of
from stream_app.state.replica import Replica
from stream_app.wire import Topics
from stream_app.wire.state_records import StateOrigin
from tests.benchmarks.durability import environment
from tests.benchmarks.figure import Figure
from tests.benchmarks.shard_memory import SIZES, crowd, fill
from tests.stream_app.state.test_exchange import exact

DEVICES, SHARDS, SAMPLE = 3_000_000, 4, 2_000
_MIB, _CHUNK = 1 << 20, 100_000
_TICKS = os.sysconf("SC_CLK_TCK")
_BY_DEVICE = "marks.devices", "marks.marks", "marks.days", "marks.digests"
_OF_LISTS = "rated_lists.visits", "rated_lists.likes"


@dataclass
class Used:
    """What a command took: seconds by the clock, of its processors and of the broker's; bytes of
    memory of its processes at their most, shared pages once."""

    wall: float = 0.0
    cpu: float = 0.0
    broker: float = 0.0
    peak: int = 0


def measure() -> list[Figure]:
    """Return what the division takes, and what it loses."""
    sizes = {f"MURMUREC_TUNING_{name.upper()}": str(size) for name, size in SIZES.items()}
    with (
        tempfile.TemporaryDirectory() as folder,
        environment(
            **sizes,
            MURMUREC_MECHANISMS="none:5:inf",
            MURMUREC_PARTITIONS="8",
            MURMUREC_DATA_DIR=folder,
        ),
    ):
        settings = load()
        with broker_running(None, settings.cache_dir) as broker:
            assert broker.pid is not None
            prefix = f"growth-{os.getpid()}"
            settings = settings.model_copy(
                update={"bootstrap_servers": broker.bootstrap, "topic_prefix": prefix}
            )
            topics = Topics(prefix).table(settings.partitions, features=())
            create(clients.admin(Connection(broker.bootstrap)), topics)
            whole = _written(settings)
            used = _divide(settings, broker.pid, Path(folder) / "command.log")
            lost, differing = _compared(settings, whole)
    size = sum(array.nbytes for array in whole.model_arrays().values())
    name = f"growth 1 -> {SHARDS} shards"
    return [
        Figure(f"{name}, state", size / _MIB, "MiB"),
        Figure(f"{name}, wall", used.wall, "s", "<= 30"),
        Figure(f"{name}, CPU", used.cpu, "s"),
        Figure(f"{name}, CPU of the broker", used.broker, "s"),
        Figure(f"{name}, peak memory", used.peak / _MIB, "MiB"),
        Figure(f"{name}, devices lost", lost, "", "<= 0"),
        Figure(f"{name}, sums that differ", differing, "", "<= 0"),
    ]


def _written(settings: Settings) -> Replica:
    """Write the checkpoint of a worker; return its state."""
    replica = Replica(spec_from_settings(settings))
    fill(replica, crowd(DEVICES, np.random.default_rng(1)), DEVICES)
    # The log is empty: the state is that of its beginning.
    origin = StateOrigin(0, (0,) * 8)
    replica.adopt(replica.model_arrays(), replica.ledger.arrays(), origin)
    write_checkpoint(Deployment.from_settings(settings), replica, 0, "benchmark")
    return replica


def _divide(settings: Settings, broker: int, log: Path) -> Used:
    """Run the command, and return what it took."""
    place = ["--bootstrap", settings.servers, "--prefix", settings.topic_prefix]
    used, began, before = Used(), time.monotonic(), _cpu(broker)
    command = ["state", "shards", "--to", str(SHARDS), *place]
    with started(command, log) as process, _watched(process.pid, used):
        code = process.wait()
    used.wall, used.broker = time.monotonic() - began, _cpu(broker) - before
    if code:
        raise RuntimeError(log.read_text(encoding="utf-8"))
    sys.stderr.write(log.read_text(encoding="utf-8"))
    return used


@contextmanager
def _watched(pid: int, used: Used) -> Iterator[None]:
    """Note CPU and memory of a process and of its children while the block runs."""
    ended = threading.Event()
    cpu: dict[int, float] = {}

    def watch() -> None:
        while not ended.wait(1.0):  # to look at memory takes a part of a core
            family = _family(pid)
            cpu.update((each, max(_cpu(each), cpu.get(each, 0.0))) for each in family)
            used.peak = max(used.peak, sum(map(_proportional, family)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        used.cpu = sum(cpu.values())


def _family(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [pid, *(each for child in text.split() for each in _family(int(child)))]


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a process that runs, 0 of one that has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def _proportional(pid: int) -> int:
    """Return the memory of a process, of shared pages its share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _compared(settings: Settings, whole: Replica) -> tuple[int, int]:
    """Return how many devices, and how many sums of items, are not in the shards as in the whole
    state."""
    expected, arrays = exact(whole), whole.model_arrays()
    homes = shards_of(arrays["marks.devices"], replace(whole.spec, shards=SHARDS))
    lost = differing = 0
    for shard in range(SHARDS):
        named = settings.model_copy(update={"shards": SHARDS, "shard": shard})
        checkpoint = read_checkpoint(Deployment.from_settings(named))
        assert checkpoint is not None
        own = checkpoint.replica
        lost += _lost(whole, own, np.flatnonzero(homes == shard))
        differing += sum(int((expected[name] != sums).sum()) for name, sums in exact(own).items())
        differing += own.change(1, pairs=True) is not None  # nothing is left to publish
    return lost, differing


def _lost(whole: Replica, own: Replica, rows: NDArray[np.int64]) -> int:
    """Return how many devices of the whole state (rows,) are not the same in their shard."""
    arrays, held = whole.model_arrays(), own.model_arrays()
    if len(held["marks.devices"]) != len(rows):
        return abs(len(held["marks.devices"]) - len(rows))
    same = np.ones(len(rows), np.bool_)
    for name in (*_BY_DEVICE, *_OF_LISTS):
        equal = held[name] == arrays[name][rows]
        same &= equal.reshape(len(rows), -1).all(axis=1)
    for first in range(0, len(rows), _CHUNK):
        users = arrays["marks.devices"][rows[first : first + _CHUNK], 0].copy()
        pairs = zip(own.learner.users(users), whole.learner.users(users), strict=True)
        for one, other in pairs:
            same[first : first + _CHUNK] &= (one == other).reshape(len(users), -1).all(axis=1)
    for place in range(0, len(rows), max(len(rows) // SAMPLE, 1)):
        device = arrays["marks.devices"][rows[place]].astype("<u8").tobytes()
        pairs = zip(own.history(device), whole.history(device), strict=True)
        same[place] &= all(np.array_equal(one, other) for one, other in pairs)
    return int((~same).sum())

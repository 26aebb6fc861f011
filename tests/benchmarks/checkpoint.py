"""The cost of a checkpoint: the pause of the stream, hashing beside it, recovery, and the ledger.

The state has 64 MB, like that of a deployment with tens of millions of ratings: 32 MB of vectors,
8 MB of scalars, 16 MB of pairs seen, 4 MB of presence rates, 2 MB of counts, and the marks of
devices. It is filled with synthetic ratings, without files or a broker.

    pause      StateImage.freeze after 16 MB of pages were written to: p50 and longest of 100, by
               wall clock and by CPU time, which is independent of other processes
    hash       StateImage.hash of these 16 MB, on one thread, of all 64 MB the first time
    recovery   from the records of the state topic, in memory, to a running replica
    ledger     CPU of entering every record into the ledger, against that of applying at full speed,
               and of hashing 16 MB of pages, one checkpoint a second
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from stream_app.checkpoints.protocol.writer import (
    Acked,
    Durable,
    Freeze,
    Frozen,
    LeaseAcquired,
    Writer,
)
from stream_app.checkpoints.state_image import StateImage
from stream_app.models.paged_arrays import mark_dirty
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.state import replica
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Batch
from stream_app.wire.state_records import PAGE_BYTES
from tests.benchmarks.figure import Figure
from tests.fixtures.state_topic import recovered

_MB = 1 << 20
DESIGN = StateSpec(
    (
        Identity(5),
        RandomizedResponse(5, Fraction(2)),
        RandomizedResponseWithMissing(5, Fraction(4)),
    ),
    sketch_bytes=32 * _MB,
    scalars_bytes=8 * _MB,
    seen_bytes=16 * _MB,
    presence_bytes=4 * _MB,
)
_RECORDS, _EACH = 512, 200  # of a batch: what a worker takes at once from a packed backlog
_DEVICES, _ITEMS = 60_000, 20_000
_FREEZES, _FROZEN_BYTES = 100, 16 * _MB


def measure() -> list[Figure]:
    """Return every figure of checkpoints that needs no broker."""
    stream = Stream(np.random.default_rng(1))
    state = Replica(DESIGN)
    for _ in range(60):
        state.apply(stream.batch())
    size = sum(array.nbytes for array in state.model_arrays().values())
    figures = [Figure("state of the checkpoint figures", size / _MB, "MB")]
    figures += share(state, stream)
    image = StateImage(state)
    image.freeze()
    first = seconds(image.hash)
    image.release().close()
    figures.append(Figure("hash of the whole state, one thread", first * 1e3, "ms"))
    figures += pauses(state, image)
    return [*figures, *recovery(state, image)]


class Stream:
    """Batches of records of 200 clean ratings each, with increasing sequence numbers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._devices = rng.integers(0, 2**64, (_DEVICES, 2), dtype=np.uint64)
        self._seqs = np.zeros(_DEVICES, np.int64)
        self.offset = 0

    def batch(self) -> Batch:
        """Return the next batch."""
        rng, n, m = self._rng, _RECORDS, _RECORDS * _EACH
        devices = rng.choice(_DEVICES, n, replace=False)
        self._seqs[devices] += 1
        offsets = np.arange(self.offset, self.offset + n)
        self.offset += n
        items = (rng.zipf(1.3, m) % _ITEMS).astype(np.uint64)
        zeros = np.zeros(n, np.uint8)
        return Batch(
            0, offsets, np.full(n, 1000), self._devices[devices], self._seqs[devices], zeros,
            np.full(n, _EACH), zeros, np.zeros(n, np.int64), items,
            rng.integers(0, 5, m).astype(np.uint8), np.zeros(m, np.uint16),
        )  # fmt: skip


def pauses(state: Replica, image: StateImage) -> list[Figure]:
    """Return the pauses of the stream and the work of the hashing thread."""
    rng, stops, busy, hashes = np.random.default_rng(2), [], [], []
    names = [n for n, array in state.model_arrays().items() if array.nbytes >= _MB]
    for _ in range(_FREEZES):
        _write(state, names, rng)
        began, cpu = time.perf_counter(), time.thread_time()
        image.freeze()
        busy.append(time.thread_time() - cpu)
        stops.append(time.perf_counter() - began)
        hashes.append(seconds(image.hash))
        image.release().close()
    figures = [Figure("hash of 16 MB, one thread, best", min(hashes) * 1e3, "ms")]
    for name, taken in (("wall", sorted(stops)), ("CPU", sorted(busy))):
        name_of_pause = f"pause of a checkpoint of 16 MB, {name},"
        figures.append(Figure(f"{name_of_pause} p50", taken[_FREEZES // 2] * 1e3, "ms", "<= 2"))
        figures.append(Figure(f"{name_of_pause} longest of 100", taken[-1] * 1e3, "ms", "<= 3"))
    return figures


def _write(state: Replica, names: list[str], rng: np.random.Generator) -> None:
    """Change one byte of 256 whole pages, anywhere in the large arrays, and mark them."""
    arrays, touched = state.model_arrays(), state.dirty_pages()
    places = [(name, page) for name in names for page in range(arrays[name].nbytes // PAGE_BYTES)]
    for at in rng.choice(len(places), _FROZEN_BYTES // PAGE_BYTES, replace=False):
        name, page = places[at]
        mark_dirty(touched[name], page * PAGE_BYTES, page * PAGE_BYTES + 1)
        arrays[name].reshape(-1).view(np.uint8)[page * PAGE_BYTES] ^= 1


def recovery(state: Replica, image: StateImage) -> list[Figure]:
    """Return the time from the records of a topic to a usable state."""
    image.freeze(write=True, full=True)
    image.hash()
    records = written(image.frozen("topic", 0))
    image.release().close()
    found: list[Replica] = []
    taken = seconds(lambda: found.append(_read(records)))
    assert found[0].model_digest() == state.model_digest()
    return [Figure("recovery of the state, in memory", taken, "s", "<= 1.5")]


def written(frozen: Frozen) -> list[tuple[int, bytes, bytes | None]]:
    """Return the records of a checkpoint, through the real protocol."""
    writer, records = Writer(), []
    outputs = writer.step(LeaseAcquired(bytes(16), "benchmark"))
    for event in (None, Freeze(frozen)):
        outputs += writer.step(event) if event else []
        while outputs:
            output = outputs.pop(0)
            if not isinstance(output, Durable):
                records.append((len(records), output.key, output.value))
                outputs += writer.step(Acked(output.token, len(records) - 1))
    return records


def _read(records: list[tuple[int, bytes, bytes | None]]) -> Replica:
    found = recovered(records, DESIGN, "topic")
    assert found is not None
    return found[1]


def share(state: Replica, stream: Stream) -> list[Figure]:
    """Return the share of the stream's CPU taken by ledger and digests, one checkpoint a second."""
    batches, inside, ledger = [stream.batch() for _ in range(40)], _Clock(), state.ledger
    enter, ledger.add = replica.extend_chain, inside.around(ledger.add)  # type: ignore[method-assign]
    replica.extend_chain = inside.around(enter)
    try:
        began = time.process_time()
        for batch in batches:
            state.apply(batch)
        applied = time.process_time() - began
    finally:
        replica.extend_chain = enter
        del ledger.add
    state.end_round(1, (stream.offset, 0, 0, 0))
    rate = len(batches) * _RECORDS * _EACH / applied
    entering, hashing = 100 * inside.taken / applied, 100 * min(_cpu(state) for _ in range(5))
    return [
        Figure("applied per CPU second, clean, 200 ratings a record", rate / 1e6, "M ratings/s"),
        Figure("ledger, of the CPU of applying", entering, "%"),
        Figure("digests of 16 MB a second, of one CPU", hashing, "%"),
        Figure("ledger and digests of 16 MB a second, of one CPU", entering + hashing, "%"),
    ]


class _Clock:
    """CPU seconds spent inside some functions."""

    def __init__(self) -> None:
        self.taken = 0.0

    def around(self, function: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object) -> object:
            began = time.process_time()
            try:
                return function(*arguments)
            finally:
                self.taken += time.process_time() - began

        return timed


def _cpu(state: Replica) -> float:
    """Return the CPU seconds of hashing 16 MB of pages."""
    image = StateImage(state)
    image.digest()
    _write(state, ["learner.vectors"], np.random.default_rng(3))
    image.freeze()
    began = time.process_time()
    image.hash()
    taken = time.process_time() - began
    image.release().close()
    return taken


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began

"""One bit flipped in the memory of a running replica: the others hold another state, and it finds
out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from stream_app.state.replica import Replica
from stream_app.wire import Topics
from tests.faults.conftest import (
    Command,
    Flow,
    Oracle,
    digests,
    durable_cut,
    only_digest_reports_differ,
)
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import until
from tests.kafka.conftest import Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
_BYTES = 32


def flip(process: int, needles: Sequence[bytes]) -> int:
    """Flip a bit of the first needle that is in the memory of a process, in every place (the state
    and its copy); return the number of places."""
    with Path(f"/proc/{process}/mem").open("r+b", 0) as memory:
        regions = list(writable(process, memory))
        for needle in needles:
            places = [first + at for first, held in regions for at in found(held, needle)]
            for place in places:
                memory.seek(place)
                memory.write(bytes([needle[0] ^ 16]))
            if places:
                return len(places)
    return 0


def writable(process: int, memory: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Give start and bytes of the memory that belongs to no file."""
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        span, rights, _, _, inode, *_ = line.split()
        first, last = (int(end, 16) for end in span.split("-"))
        if rights.startswith("rw") and inode == "0":
            with suppress(OSError, ValueError):  # a region of the kernel's own
                memory.seek(first)
                yield first, memory.read(last - first)


def found(held: bytes, needle: bytes) -> Iterator[int]:
    """Give every place of the needle."""
    at = held.find(needle)
    while at >= 0:
        yield at
        at = held.find(needle, at + 1)


def pieces(replica: Replica) -> list[bytes]:
    """Return pieces of the seen filter that occur nowhere else."""
    page = replica.model_arrays()["seen.blocks"].tobytes()
    cut = (page[i : i + _BYTES] for i in range(0, len(page), _BYTES))
    return [piece for piece in cut if len(set(piece)) > 8]


@pytest.mark.parametrize("of_the_owner", [False, True], ids=["of another", "of the owner"])
def test_a_replica_with_one_wrong_bit_raises_the_alarm_keeps_the_evidence_and_reloads(
    start: Start,
    flow: Flow,
    oracle: Oracle,
    command: Command,
    rng: np.random.Generator,
    names: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    of_the_owner: bool,
) -> None:
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "data"))
    records = [publish(event) for event in events(rng, 1200, devices=200)]
    workers = [start(), start()]
    with flow(records[:400]):
        until(lambda: max(map(durable_cut, workers)) > 0, "a checkpoint")
    states = [worker.wait_for(ends_of(records[:400])) for worker in workers]
    owners, others = (
        [w for w, s in zip(workers, states, strict=True) if s["clock"] is c] for c in (True, False)
    )
    (wrong,) = owners if of_the_owner else others
    assert flip(wrong.process.pid, pieces(oracle())) >= 1
    with flow(records[400:]):
        until(lambda: wrong.metrics()["replicas_differ_total"] >= 1, "the alarm")
    for worker in workers:
        worker.wait_until_ready()
        state = worker.wait_for(ends_of(records))
        assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
    kept = list((tmp_path / "data" / "evidence" / names.prefix).glob("*.npz"))
    assert kept
    assert "replica.differs" in wrong.log.read_text()
    until(lambda: max(map(durable_cut, workers)) >= state["cut"], "a right checkpoint")
    only_digest_reports_differ(command, wrong)

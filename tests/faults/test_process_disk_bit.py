"""One bit of the state topic flipped on the broker's disk, under whatever Kafka and its client
check."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Kafka
from tests.faults.brokers import node, until
from tests.faults.conftest import Flow, Proof, durable_cut, stop
from tests.kafka.conftest import Send, Start, ends_of
from tests.streams import events, publish

pytestmark = pytest.mark.kafka
_BATCH_HEAD = 61
_MANY = 4000  # bytes, compressed, of a batch that holds pages


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give the folder of the broker."""
    return tmp_path / "broker"


@pytest.fixture
def kafka(home: Path) -> Iterator[Kafka]:
    """Give a broker of this test alone."""
    with node(home) as mine:
        yield Kafka(mine.bootstrap)


def flip(home: Path, topic: str, rng: np.random.Generator) -> None:
    """Flip a bit in the pages of the newest batch that holds some, as a disk does that lies."""
    (segment,) = (home / "log" / f"{topic}-0").glob("*.log")
    raw, start, places = segment.read_bytes(), 0, []
    while start < len(raw):
        end = start + 12 + int.from_bytes(raw[start + 8 : start + 12], "big")
        if end - start > _MANY:
            places.append(int(rng.integers(start + _BATCH_HEAD, end)))
        start = end
    with segment.open("r+b") as file:
        file.seek(places[-1])
        file.write(bytes([raw[places[-1]] ^ 1 << int(rng.integers(8))]))


def test_a_bit_that_the_brokers_disk_flips_is_found_and_costs_nothing_but_time(
    start: Start,
    send: Send,
    flow: Flow,
    proof: Proof,
    rng: np.random.Generator,
    home: Path,
    topics: str,
) -> None:
    records = [publish(event) for event in events(rng, 400)]
    first = start()
    with flow(records[:300]):
        until(lambda: durable_cut(first) > 0, 20, "a checkpoint")
    first.wait_for(ends_of(records[:300]))
    stop(first)
    flip(home, f"{topics}.state.v1", rng)
    second = start()
    send(records[300:])
    proof(second.wait_for(ends_of(records)))

"""A change is under way once at a time; where a shard learns no more, the rest of it follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from confluent_kafka import KafkaError
from prometheus_client import CollectorRegistry

from stream_app.agents.exchange_writer import ExchangeWriter
from stream_app.monitoring.metrics import Metrics
from stream_app.state.replica import Replica
from stream_app.wire import Topics
from stream_app.wire.authenticity.seal import OPEN
from stream_app.wire.exchange import FITS, Change, decode_change
from tests.fixtures.shards import Numbered
from tests.stream_app.state.test_exchange import CLEAN, USERS, exact, stream

TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


class Producer:
    """Holds what is written until it is `answered`."""

    def __init__(self) -> None:
        self.written: list[Change] = []
        self._waiting: list[Callable[[KafkaError | None, Any], None]] = []

    def produce(self, _: str, *, partition: int, value: bytes, on_delivery: Any) -> None:
        self.written.append(decode_change(value))
        assert self.written[-1].shard == partition
        self._waiting.append(on_delivery)

    def poll(self, _: float) -> int:
        return 0

    def answered(self, error: KafkaError | None = None) -> None:
        while self._waiting:
            self._waiting.pop()(error, None)


class Derived(NamedTuple):
    """What devices say of the weights of lists."""

    fits: np.ndarray


class Served(NamedTuple):
    """An item side."""

    derived: Derived


class Recommender:
    """As much of one as the writer asks for."""

    served: Served | None = None


class Status(NamedTuple):
    """That of the owner of the clock."""

    clock_owned: bool = True


@dataclass
class OwnerOfAShard:
    """As much of a runtime as the writer asks for."""

    replica: Replica
    topics: Topics = Topics("p", 2)  # noqa: RUF009 - a frozen value
    seal = OPEN
    status: Status = Status()  # noqa: RUF009 - a frozen value
    recommender: Recommender = field(default_factory=Recommender)
    metrics: Metrics = field(default_factory=lambda: Metrics(CollectorRegistry()))

    def state_reason(self) -> str:
        return ""


@dataclass
class Member:
    """A shard with its writer."""

    replica: Replica
    producer: Producer = field(default_factory=Producer)

    def __post_init__(self) -> None:
        self.runtime = OwnerOfAShard(self.replica)
        self.writer = ExchangeWriter(self.runtime, self.producer)  # type: ignore[arg-type]

    def written_after(self, seconds: float) -> list[Change]:
        """Return what the writer has written in all, so many seconds after the last change."""
        self.writer._sent_time = time.monotonic() - seconds
        self.writer.at_cut()
        return self.producer.written


def members() -> list[Member]:
    """Return two shards, each of which has learned its part of a stream."""
    spec, data = replace(CLEAN, shards=2), stream(3_000)
    found = [Member(Replica(replace(spec, shard=shard))) for shard in range(2)]
    numbered = Numbered(USERS)
    for shard, member in enumerate(found):
        own = data.at(np.flatnonzero(data.users % np.uint64(2) == np.uint64(shard)))
        member.replica.apply(numbered.batch(shard, own))
        ends = [0, 0, 0, 0]
        ends[shard] = 10**6
        member.replica.end_round(1, ends)
    return found


def test_one_change_is_under_way_however_long_the_broker_is_away() -> None:
    member = members()[0]
    assert [each.number for each in member.written_after(60)] == [1]
    for _ in range(5):
        assert len(member.written_after(3600)) == 1
    member.producer.answered()
    assert len(member.written_after(1)) == 1  # it may be merged any moment
    assert [each.number for each in member.written_after(60)] == [1, 1]


def test_a_change_that_was_not_written_is_made_again() -> None:
    member = members()[0]
    member.written_after(60)
    member.producer.answered(TIMED_OUT)
    assert [each.number for each in member.written_after(1)] == [1, 1]


@pytest.mark.thorough
def test_where_no_more_is_learned_every_shard_comes_to_hold_all_and_is_silent() -> None:
    both = members()
    merged = [0, 0]
    for _ in range(20):
        for shard, member in enumerate(both):
            new = member.written_after(15)[merged[shard] :]
            member.producer.answered()
            merged[shard] += len(new)
            for change in new:
                for each in both:
                    each.replica.merge([change])
    assert [member.replica.unshared for member in both] == [0, 0]
    assert max(merged) < 12, "a shard has no end of changes"
    fits = np.ones(FITS, np.float32)
    both[0].runtime.recommender.served = Served(Derived(fits))
    assert len(both[0].written_after(5)) == merged[0]
    (change,) = both[0].written_after(15)[merged[0] :]
    both[0].producer.answered()
    for member in both:
        member.replica.merge([change])
    assert (both[1].replica.shared.others_fits() == fits).all()
    assert len(both[0].written_after(15)) == merged[0] + 1
    first, second = (exact(member.replica) for member in both)
    assert first.keys() == second.keys()
    for name, found in first.items():
        assert np.array_equal(found, second[name]), name

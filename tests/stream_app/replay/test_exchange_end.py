"""A merge of changes that the exchange has lost is named, not waited for in silence."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from confluent_kafka import TopicPartition

from stream_app.deployment import Deployment
from stream_app.kafka.clients import Connection
from stream_app.log.canonical_order import Start
from stream_app.replay.follower import Follower
from stream_app.wire import Cut, Merge, Topics
from stream_app.wire.authenticity.seal import Seal
from stream_app.wire.exchange import Change, encode_change
from tests.fixtures.replicas import SMALL

SHARDS = replace(SMALL, shards=2)


class Broker:
    """A consumer of an exchange whose partitions end at `ends`."""

    def __init__(self, *ends: int) -> None:
        self.ends, self.asked = ends, 0

    def get_watermark_offsets(
        self, place: TopicPartition, timeout: float, cached: bool
    ) -> tuple[int, int]:
        self.asked += 1
        return 0, self.ends[place.partition]

    def close(self) -> None:
        return


def test_a_merge_beyond_the_end_of_the_exchange_is_named() -> None:
    start = Start(1, (0,) * SHARDS.partitions, 1)
    follower = Follower(Deployment(Connection("127.0.0.1:1"), Topics("x", 2), SHARDS), start)
    follower._consumer.close()
    follower._consumer = follower.bounds._consumer = broker = Broker(5, 2)  # type: ignore[assignment]
    rounds = follower.rounds
    with closing(follower):
        rounds.take(Merge((5, 3)))
        assert rounds.step() is None
        assert (follower.beyond_end(), broker.asked) == ("", 0), "no cut has come"
        rounds.take(Cut(2, (0,) * SHARDS.partitions, 0))
        assert rounds.step() is None
        assert "x.exchange.v1 partition 1 ends at offset 2" in follower.beyond_end()
        broker.ends = 5, 3
        assert follower.beyond_end() == ""
        assert rounds.exchange is not None
        rounds.exchange.reached(0, 5)
        rounds.exchange.reached(1, 3)
        step, asked = rounds.step(), broker.asked
        assert step is not None
        assert step.entry == Merge((5, 3))
        assert (follower.beyond_end(), broker.asked) == ("", asked), "it waits for nothing"


class Record:
    """A record of a partition of the exchange."""

    def __init__(self, shard: int, offset: int, value: bytes) -> None:
        self.shard, self.place, self.held = shard, offset, value

    def partition(self) -> int:
        return self.shard

    def offset(self) -> int:
        return self.place

    def value(self) -> bytes:
        return self.held


def test_a_record_counts_if_it_is_a_sealed_change_of_its_shard_that_fits() -> None:
    seal, factors = Seal("s" * 32), SHARDS.factors
    own = Deployment(Connection("127.0.0.1:1"), Topics("x", 2), SHARDS, seal)
    values = [
        encode_change(Change(0, 1, 1, 5, factors, {}), Seal("t" * 32)),  # of another secret
        encode_change(Change(1, 1, 1, 5, factors, {}), seal),  # of another shard
        encode_change(Change(0, 1, 1, 5, factors + 1, {}), seal),  # of another learner
        b"junk",
        encode_change(Change(0, 1, 1, 5, factors, {}), seal),
        encode_change(Change(0, 1, 1, 5, factors, {}), seal),  # once more
    ]
    with closing(Follower(own)) as follower:
        for offset, value in enumerate(values):
            follower._change(Record(0, offset, value))  # type: ignore[arg-type]
        assert follower.rounds.exchange is not None
        assert follower.rounds.exchange.ends == (5, 0)
        assert [c.number for c in follower.rounds.exchange.take((6, 0))] == [1]
        assert follower.unsealed == 1

"""A broker that does not answer in the middle of the log: nothing is skipped, and it is asked
again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import KafkaError, TopicPartition

from stream_app.deployment import Deployment
from stream_app.errors import Unanswered, UserError
from stream_app.kafka.clients import Connection
from stream_app.replay import follower as following
from stream_app.replay.follower import Follower
from stream_app.wire import Tail, Topics
from tests.fixtures.replicas import SMALL

TOPICS = Topics("x")


class Record:
    """A consumed message of a rating partition; with `error` it has no value."""

    def __init__(self, offset: int, error: KafkaError | None = None) -> None:
        self._offset, self._error = offset, error

    def topic(self) -> str:
        return TOPICS.ratings

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def leader_epoch(self) -> int:
        return 0

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"


class Quiet:
    """A consumer to which nothing more comes."""

    def consume(self, count: int, seconds: float) -> list[Record]:
        return []

    def close(self) -> None:
        return


class Bounds:
    """Bounds of a log whose broker is away at the first question."""

    def __init__(self, lost: bool) -> None:
        self._lost, self.asked = lost, 0

    def is_lost(self, topic: str, partition: int, offset: int) -> bool:
        self.asked += 1
        if self.asked == 1:
            raise Unanswered("the broker is away")
        return self._lost


@pytest.fixture
def follower() -> Iterator[Follower]:
    made = Follower(Deployment(Connection("127.0.0.1:1"), TOPICS, SMALL))
    made._consumer.close()
    made._consumer = Quiet()  # type: ignore[assignment]
    made._places = [TopicPartition(TOPICS.ratings, 1, 0)]
    with closing(made):
        yield made


def test_a_record_stays_until_it_is_known_what_came_before_it(follower: Follower) -> None:
    """The record before the start was deleted, which only the broker can say."""
    follower.bounds = bounds = Bounds(lost=False)  # type: ignore[assignment]
    place = TOPICS.ratings, 1
    follower._unproven[place] = Tail(4, "ab" * 8)
    follower.rounds.received[1] = 5
    follower._arrived.append(Record(5))  # type: ignore[arg-type]
    with pytest.raises(Unanswered):
        [*follower.poll(0)]
    assert place in follower._unproven
    assert follower.rounds.received[1] == 5
    assert not [*follower.poll(0)], "there is no cut"
    assert bounds.asked == 2
    assert not follower._unproven
    assert follower.rounds.received[1] == 6


def test_a_lost_end_is_refused_when_the_broker_is_back(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.bounds = Bounds(lost=True)  # type: ignore[assignment]
    monkeypatch.setattr(following, "lost", lambda _, what, cut: UserError(what))
    out_of_range = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)
    follower._arrived.append(Record(0, out_of_range))  # type: ignore[arg-type]
    with pytest.raises(Unanswered):
        [*follower.poll(0)]
    with pytest.raises(UserError, match="does not hold the record before offset 0"):
        [*follower.poll(0)]


def test_the_log_is_not_behind_before_it_is_read(follower: Follower) -> None:
    """What the consumer knows of a partition that it is not assigned to is an error."""
    follower._places = []
    assert follower.lag() == 0

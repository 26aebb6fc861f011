"""Following a log from where a state goes on: what it must still hold, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import NewPartitions

from stream_app.checkpoints import checkpoint_reader as changelog
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.log.canonical_order import Start
from stream_app.replay.follower import Follower
from stream_app.replay.recompute import Replay, Replayed, begin, take
from stream_app.settings import Settings
from stream_app.state.replica import Replica
from stream_app.wire import DigestReport, Topics
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka


@pytest.fixture
def log(settings: Settings, send: Send, rng: np.random.Generator) -> Log:
    """Give a log of four rounds, with a digest report in between."""
    made = Log(settings, send)
    records = [publish(event) for event in events(rng, 160)]
    for first in range(0, 160, 40):
        made.round(records[first : first + 40])
        made.entry(DigestReport(made.number, "0" * 32, "0" * 32, "", "0" * 32))
    return made


@pytest.fixture
def replay(log: Log) -> Replay:
    """Give a replay of it."""
    return Replay(log.deployment)


def test_a_log_taken_up_after_a_cut_leads_to_the_same_state(log: Log, replay: Replay) -> None:
    half = replay.from_origin(None, 2)
    assert half.cut_offset == 3
    start = Start(2, log.cuts[1].end_offsets, half.cut_offset)
    on = replay.go_on(half, start).replica
    whole = replay.from_origin().replica
    assert on.cut == whole.cut == 4
    assert on.model_digest() == whole.model_digest()
    assert on.ledger_digest() == whole.ledger_digest()


def test_what_a_checkpoint_covers_may_be_gone(log: Log, replay: Replay) -> None:
    half, whole = replay.from_origin(None, 2), replay.from_origin().replica
    remove(log, log.cuts[1].end_offsets)
    start = Start(2, log.cuts[1].end_offsets, half.cut_offset)
    assert replay.go_on(half, start).replica.model_digest() == whole.model_digest()
    with pytest.raises(
        UserError, match=r"begins at offset \d+, the state continues from offset 0.*gap"
    ):
        replay.from_origin()


def test_more_than_a_checkpoint_covers_must_not_be_gone(log: Log, replay: Replay) -> None:
    half = replay.from_origin(None, 2)
    one_more = tuple(end + 1 for end in log.cuts[1].end_offsets)
    remove(log, one_more)
    first = log.cuts[1].end_offsets[0]
    with pytest.raises(UserError) as refused:
        replay.go_on(half, Start(2, log.cuts[1].end_offsets, half.cut_offset))
    assert str(refused.value) == (
        f"{log.names.ratings} partition 0 begins at offset {first + 1}, the state continues from "
        f"offset {first}: the records between were deleted; restore the topic, continue without "
        "them (murmurec worker --accept-gap, which records it), or start a new deployment "
        "(--prefix)"
    )


def remove(log: Log, end_offsets: tuple[int, ...]) -> None:
    """Let Kafka remove the ratings before these offsets, as retention does."""
    admin = clients.admin(log.connection)
    places = [TopicPartition(log.names.ratings, p, end) for p, end in enumerate(end_offsets)]
    for future in admin.delete_records(places).values():
        future.result(10)


def read_to_the_end(follower: Follower, replica: Replica) -> None:
    """Apply what a follower reads to a replica, up to the newest cut."""

    def done() -> bool:
        for piece in follower.poll():
            take(replica, piece)
        return follower.cuts_at_end and replica.cut == follower.rounds.newest_cut[0]

    until(done, "the log is read to its end")


@pytest.mark.parametrize("more", [0, 1], ids=["up to the start", "beyond it"])
def test_a_record_before_the_start_that_is_deleted_is_no_lost_end(
    log: Log, replay: Replay, more: int
) -> None:
    """Retention deletes it after the bounds were checked: what follows is read, if it is held."""
    whole = replay.from_origin().replica.model_digest()
    half = replay.from_origin(None, 2)
    assert all(half.tails), "each names the record before the start"
    start = Start(2, log.cuts[1].end_offsets, half.cut_offset, tails=half.tails)
    with closing(Follower(log.deployment, start)) as follower:
        follower.log_end_offsets()
        remove(log, tuple(end + more for end in start.end_offsets))
        if more:
            with pytest.raises(UserError, match=r"not read yet were deleted.*--accept-gap"):
                read_to_the_end(follower, half.replica)
        else:
            read_to_the_end(follower, half.replica)
            assert half.replica.model_digest() == whole


class StopsAPartition:
    """A consumer that stops a partition for the answer to an older fetch, once no assignment asks
    for a deleted record any more, as librdkafka now and then does."""

    def __init__(self, consumer: Consumer, deleted: TopicPartition, ends: Sequence[int]) -> None:
        self._consumer, self._deleted, self._ends = consumer, deleted, ends
        self.stops = self.stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def assign(self, places: list[TopicPartition]) -> None:
        self._consumer.assign(places)
        ratings = zip(places, self._ends, strict=False)
        self.stops = not self.stopped and all(p.offset >= end for p, end in ratings)
        if self.stops:
            self.stopped = True
            self._consumer.incremental_unassign([self._deleted])

    def consume(self, count: int, seconds: float) -> list[Any]:
        if self.stops:
            return [Stopped(self._deleted)]
        return self._consumer.consume(count, seconds)


class Stopped:
    """The error message with which a partition stops."""

    def __init__(self, place: TopicPartition) -> None:
        self.topic, self.partition = (lambda: place.topic), (lambda: place.partition)
        self.offset = lambda: place.offset
        self.error = lambda: KafkaError(KafkaError._AUTO_OFFSET_RESET)


def test_a_partition_that_an_older_fetch_stops_is_read_on(log: Log, replay: Replay) -> None:
    """It stopped for good, and the start waited for its records."""
    whole = replay.from_origin().replica.model_digest()
    half = replay.from_origin(None, 2)
    start = Start(2, log.cuts[1].end_offsets, half.cut_offset, tails=half.tails)
    with closing(Follower(log.deployment, start)) as follower:
        follower.log_end_offsets()
        remove(log, start.end_offsets)
        deleted = TopicPartition(log.names.ratings, 1, start.end_offsets[1] - 1)
        stops = StopsAPartition(follower._consumer, deleted, start.end_offsets)
        follower._consumer = stops  # type: ignore[assignment]
        read_to_the_end(follower, half.replica)
        assert stops.stopped, "and assigned again"
        assert not stops.stops
        assert half.replica.model_digest() == whole


@pytest.fixture
def follower(log: Log) -> Iterator[Follower]:
    """Give one that reads the log from its beginning."""
    with closing(Follower(log.deployment)) as reading:
        yield reading


def test_a_log_that_ends_before_the_state_is_refused(log: Log, replay: Replay) -> None:
    beyond = tuple(end + 5 for end in log.end_offsets)
    begun = Replayed(begin(replay.deployment.spec, StateOrigin(9, beyond)), 3)
    with pytest.raises(UserError, match=r"ends at offset \d+, the state has read it up to offset"):
        replay.go_on(begun, Start(9, beyond, 3))


@pytest.mark.parametrize(
    ("cut", "moved", "sentence"),
    [
        (9, 0, "ends with cut 4, the state begins after cut 9"),
        (3, -1, "cut 3 of the cut log ends at"),
    ],
    ids=["too short", "of other rounds"],
)
def test_a_cut_log_that_is_not_that_of_the_state_is_refused(
    log: Log, replay: Replay, cut: int, moved: int, sentence: str
) -> None:
    end_offsets = tuple(end + moved for end in log.cuts[2].end_offsets)
    with pytest.raises(UserError, match=sentence):
        replay.from_origin(StateOrigin(cut, end_offsets))


def test_a_cut_before_the_base_is_refused(log: Log, replay: Replay) -> None:
    with pytest.raises(UserError, match=r"cut 1: the state begins at cut 3"):
        replay.from_origin(StateOrigin(3, log.cuts[2].end_offsets), 1)


def test_records_in_partitions_that_came_later_are_counted(log: Log, follower: Follower) -> None:
    follower.log_end_offsets()
    assert follower.bounds.answers()
    assert follower.bounds.unread is None
    admin = clients.admin(log.connection)
    for future in admin.create_partitions([NewPartitions(log.names.ratings, 5)]).values():
        future.result(10)
    until(lambda: follower.bounds.answers() and follower.bounds.unread == 0, "they are seen")
    producer = clients.producer(log.connection)
    producer.produce(log.names.ratings, b"{}", partition=4)
    assert producer.flush(PATIENCE_SECONDS) == 0
    until(lambda: follower.bounds.answers() and follower.bounds.unread == 1, "it is counted")


def poll_until_refused(follower: Follower) -> None:
    """Poll for half a minute at most: a change reaches the client a little later."""
    for _ in range(300):
        follower.bounds.answers(0.1)


@pytest.mark.nightly
def test_a_rating_topic_that_is_deleted_while_reading_is_refused(
    log: Log, follower: Follower
) -> None:
    list(follower.poll(0.5))
    admin = clients.admin(log.connection)
    for future in admin.delete_topics([log.names.ratings]).values():
        future.result(10)
    with pytest.raises(
        UserError, match=rf"topic {log.names.ratings} does not exist: restore the topic"
    ):
        poll_until_refused(follower)


def test_a_commit_is_a_hint_that_tools_can_read(log: Log, follower: Follower) -> None:
    follower.commit(log.end_offsets)
    group = f"{log.names.prefix}-follower"
    tool = clients.consumer(log.connection, group=group)
    places = [TopicPartition(log.names.ratings, p) for p in range(4)]
    try:
        for _ in range(300):
            committed = tuple(place.offset for place in tool.committed(places, 10))
            if committed == log.end_offsets:
                break
        assert committed == log.end_offsets
    finally:
        tool.close()


def test_a_recreated_topic_has_another_identity(log: Log) -> None:
    admin = clients.admin(log.connection)
    first = changelog.topic_id(admin, log.names.ratings)
    assert first == changelog.topic_id(admin, log.names.ratings)
    assert first != changelog.topic_id(admin, log.names.cuts)
    with pytest.raises(UserError, match="does not exist: create it with murmurec topics apply"):
        changelog.topic_id(admin, f"{log.names.prefix}.absent")


def test_a_state_topic_that_is_absent_is_refused(log: Log) -> None:
    names = Topics(f"{log.names.prefix}-absent")
    with pytest.raises(UserError, match="does not exist: create it with murmurec topics apply"):
        changelog.live_keys(log.connection, names)


def test_live_keys_are_those_that_have_a_value(log: Log) -> None:
    producer = clients.producer(log.connection)
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", None), (b"c", b"1"), (b"c", b"2")):
        producer.produce(log.names.state, value, key)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert sorted(changelog.live_keys(log.connection, log.names)) == [b"b", b"c"]

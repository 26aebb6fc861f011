"""The topics of campaigns where offsets have no records, and where records are gone."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest
from confluent_kafka import TopicPartition

from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.aggregation.round_topics import ContributionTopic, LogChanged, RoundTopic
from stream_app.campaigns.rounds import Phase
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_follower
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create, delete
from stream_app.wire import Topics
from stream_app.wire.campaigns.round_log import Planned, encode_round
from tests.conftest import Kafka
from tests.fixtures.waiting import until
from tests.stream_app.aggregation.world import plan_of

pytestmark = pytest.mark.kafka


def in_transactions(kafka: Kafka, topics: str) -> None:
    """Write a record to both topics in a transaction that commits, and in one that is aborted."""
    names = Topics(topics)
    producer = clients.producer(kafka.connection, transactional_id=topics)
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for name in (names.rounds, names.contributions):
            producer.produce(name, value=b"no entry", partition=0)
        assert producer.flush(30) == 0
        end(30)


def written(kafka: Kafka, topic: str, count: int) -> None:
    producer = clients.producer(kafka.connection)
    for _ in range(count):
        clients.send(producer, topic, value=b"no entry", partition=0)
    assert producer.flush(30) == 0


def test_transactions_hold_up_neither_topic(kafka, topics):
    """Each ends in a marker, which no consumer gets; what was aborted is read as well."""
    names = Topics(topics)
    log = RoundTopic(kafka.connection, names.rounds)
    contributions = ContributionTopic(kafka.connection, names.contributions)
    with closing(log), closing(contributions):
        coordinator = Coordinator(log, contributions)
        coordinator.begin(plan_of((PartyKeys.random(Role.A), PartyKeys.random(Role.B))))
        coordinator.open_stage()
        in_transactions(kafka, topics)
        # The broker writes a marker after it has answered the producer.
        until(lambda: contributions.ends[0] == 4, "both markers are there")
        stage = coordinator.close_stage()
        assert log.unreadable.total() == 2
        assert stage.ends[0] == 4
        for _ in range(2):
            found = [(each.partition, each.offset) for each in contributions.read(stage)]
            assert found == [(0, 0), (0, 2)]
        written(kafka, names.rounds, 1)
        log.catch_up()
        assert log.unreadable.total() == 3


def test_rounds_that_were_made_again_are_one_sentence(kafka, topics):
    names = Topics(topics)
    written(kafka, names.rounds, 3)
    log = RoundTopic(kafka.connection, names.rounds)
    with closing(log):
        log.catch_up()
        admin = clients.admin(kafka.connection)
        delete(admin, [names.rounds])
        create(admin, names.table())
        written(kafka, names.rounds, 1)
        with pytest.raises(UserError, match=r"shorter than what was read.*start again"):
            log.catch_up()


def test_a_broker_that_is_away_is_one_sentence(monkeypatch):
    monkeypatch.setattr(topic_follower, "TOPIC_SECONDS", 0.2)
    topic = ContributionTopic(Connection("127.0.0.1:1"), "absent")
    with closing(topic), pytest.raises(UserError, match="did not list its topics"):
        topic.ends  # noqa: B018


def plans(kafka: Kafka, topics: str, numbers: list[int]) -> None:
    """Write plans of these numbers, and 20 records that are no entries after each."""
    parties = (PartyKeys.random(Role.A), PartyKeys.random(Role.B))
    producer = clients.producer(kafka.connection)
    for number in numbers:
        campaign = msgspec.structs.replace(plan_of(parties), number=number)
        entries = [encode_round(Planned(campaign))] + [b"no entry"] * 20
        for value in entries:
            clients.send(producer, Topics(topics).rounds, value=value, partition=0)
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    "numbers", [[], [3], [1, 2, 3, 4, 5], [1, 4, 5, 5], [4, 6, 5], [1, 2, 2**62], [6, 5, 7]]
)
def test_a_device_reads_from_the_newest_plan_to_the_state_of_the_whole_log(kafka, topics, numbers):
    in_transactions(kafka, topics)
    plans(kafka, topics, numbers)
    in_transactions(kafka, topics)
    names = Topics(topics)
    whole = RoundTopic(kafka.connection, names.rounds)
    newest = RoundTopic(kafka.connection, names.rounds, newest=True)
    with closing(whole), closing(newest):
        expected, found = whole.catch_up(), newest.catch_up()
        assert found.campaign == expected.campaign
        if len(numbers) == 5:
            assert newest.unreadable.total() < whole.unreadable.total() / 2
        with closing(ContributionTopic(kafka.connection, names.contributions)) as contributions:
            coordinator = Coordinator(whole, contributions)
            number = whole.rounds.newest + 1
            parties = (PartyKeys.random(Role.A), PartyKeys.random(Role.B))
            coordinator.begin(msgspec.structs.replace(plan_of(parties), number=number))
            coordinator.open_stage()
        stage = newest.catch_up().current
        assert stage is not None
        assert stage.phase is Phase.OPEN


def test_rounds_that_are_deleted_while_they_are_read_are_one_sentence(kafka, topics, monkeypatch):
    """They are deleted after the ends were looked up, so the broker refuses the offset."""
    names = Topics(topics)
    written(kafka, names.rounds, 6)
    admin = clients.admin(kafka.connection)
    place = TopicPartition(names.rounds, 0, 4)
    admin.delete_records([place])[place].result(30)
    monkeypatch.setattr(clients, "offsets", lambda *_: (0, 6))
    log = RoundTopic(kafka.connection, names.rounds)
    gone = r"does not hold offset 0 any more.*start again"
    with closing(log), pytest.raises(LogChanged, match=gone):
        log.catch_up()

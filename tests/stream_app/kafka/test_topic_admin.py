"""The table of topics against a real broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import (
    Replication,
    TopicPlanStep,
    apply,
    create,
    delete,
    partition_counts,
    plan,
    replication,
)
from stream_app.kafka.topic_checks import (
    check_campaigns,
    check_cut_log,
    check_deployment,
    check_outsiders,
    check_ratings,
    check_state_topic,
    outsiders_fault,
)
from stream_app.wire import Topics
from stream_app.wire.topics import FEATURES

pytestmark = pytest.mark.kafka


def ratings(prefix, **config):
    """Return the table's rating topic alone, with some of its configuration replaced."""
    return row(Topics(prefix).ratings, Topics(prefix), **config)


def row(name, topics, **config):
    """Return one topic of the table, with some of its configuration replaced."""
    topic = next(topic for topic in topics.table() if topic.name == name)
    return replace(topic, config={**topic.config, **config})


@pytest.fixture
def admin(kafka):
    return clients.admin(kafka.connection)


@pytest.fixture
def made(admin, prefix):
    """Create one topic with a configuration of the test's own; it is deleted afterwards."""
    names = []

    def make(topic):
        names.append(topic.name)
        create(admin, [topic])
        return topic

    yield make
    delete(admin, names)


def test_on_an_empty_broker_everything_is_to_be_created_and_planning_creates_nothing(admin, prefix):
    table = Topics(prefix).table()
    assert [step.action for step in plan(admin, table)] == ["create"] * len(table)
    assert set(partition_counts(admin, [t.name for t in table]).values()) == {None}


def test_after_apply_nothing_is_left_to_do(admin, topics):
    table = Topics(topics).table(features=FEATURES.keys() - {"shards"})
    assert {step.action for step in plan(admin, table)} == {"ok"}


def test_apply_twice_changes_nothing_and_a_topic_made_in_between_is_no_error(admin, prefix, made):
    topic = ratings(prefix)
    steps = plan(admin, [topic])
    made(topic)
    apply(admin, steps)
    apply(admin, plan(admin, [topic]))
    assert plan(admin, [topic])[0].action == "ok"


def test_a_wrong_partition_count_is_refused_before_anything_is_changed(admin, prefix, made):
    made(replace(ratings(prefix), partitions=3))
    steps = plan(admin, Topics(prefix).table())
    assert steps[0].action == "refuse"
    assert steps[0].difference == "3 partitions, not 4"
    with pytest.raises(UserError, match=r"has 3 partitions, not 4: .* set partitions to 3"):
        apply(admin, steps)
    others = [topic.name for topic in Topics(prefix).table()[1:]]
    assert set(partition_counts(admin, others).values()) == {None}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ratings", "cannot be changed; set partitions to 3 or start a new deployment"),
        ("queries", "cannot be changed; set query_partitions to 3 or start a new deployment"),
        ("cuts", "cannot be changed; start a new deployment"),
    ],
)
def test_a_wrong_partition_count_names_the_setting_that_decides_it(name, words):
    names = Topics("test")
    topic = next(each for each in names.table() if each.name == getattr(names, name))
    with pytest.raises(UserError, match=words):
        apply(None, [TopicPlanStep(topic, 3)])  # refused before the broker is asked


def test_a_retention_that_would_lose_ratings_is_shown_and_altered(admin, prefix, made):
    made(ratings(prefix, **{"retention.ms": "3600000"}))
    step = plan(admin, [ratings(prefix)])[0]
    assert (step.action, step.difference) == ("alter", "retention.ms is 3600000, not -1")
    apply(admin, [step])
    assert plan(admin, [ratings(prefix)])[0].action == "ok"


@pytest.mark.parametrize(
    "config", [{"cleanup.policy": "compact"}, {"retention.ms": "3600000"}], ids=str
)
def test_a_change_that_deletes_records_needs_a_word_of_its_own(admin, prefix, made, config):
    made(ratings(prefix))
    steps = plan(admin, [ratings(prefix, **config)])
    with pytest.raises(UserError, match=r"deletes records .* --delete-records"):
        apply(admin, steps)
    assert plan(admin, [ratings(prefix)])[0].action == "ok"
    apply(admin, steps, delete_records=True)
    assert plan(admin, [ratings(prefix, **config)])[0].action == "ok"


def test_topics_as_the_table_has_them_are_accepted(kafka, topics):
    check_deployment(kafka.connection, Topics(topics), 4)


@pytest.mark.parametrize("check", [check_cut_log, check_state_topic], ids=["cuts", "state"])
def test_an_absent_topic_is_refused(admin, prefix, check):
    with pytest.raises(UserError, match=r"does not exist: create it with murmurec topics apply"):
        check(admin, f"{prefix}.absent")
    with pytest.raises(UserError, match=r"does not exist: create it with murmurec topics apply"):
        check_ratings(admin, Topics(prefix).ratings, 4)


def test_a_rating_topic_with_another_number_of_partitions_is_refused(admin, topics):
    with pytest.raises(UserError, match=r"has 4 partitions, not 8: set partitions to 4"):
        check_ratings(admin, Topics(topics).ratings, 8)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_rating_topic_that_is_compacted_is_refused(admin, prefix, made, policy):
    topic = made(ratings(prefix, **{"cleanup.policy": policy}))
    with pytest.raises(UserError, match=r"has cleanup.policy .*murmurec topics apply"):
        check_ratings(admin, topic.name, 4)


def test_a_rating_topic_may_lose_what_a_checkpoint_covers(admin, prefix, made):
    table = Topics(prefix).table(ratings_retention_seconds=7 * 86400)
    assert table[0].config["retention.ms"] == "604800000"
    topic = made(table[0])
    check_ratings(admin, topic.name, 4, 7 * 86400)
    check_ratings(admin, topic.name, 4, 3600)  # more is kept than is needed
    with pytest.raises(
        UserError, match=r"retention.ms 604800000: .* ratings_retention_seconds allows"
    ):
        check_ratings(admin, topic.name, 4)
    assert plan(admin, table)[0].action == "ok"
    step = plan(admin, [ratings(prefix)])[0]
    assert step.difference == "retention.ms is 604800000, not -1"
    assert not step.deletes


def test_a_rating_topic_that_keeps_everything_is_long_enough_for_any_retention(admin, topics):
    check_ratings(admin, Topics(topics).ratings, 4, 3600)


def test_a_retention_of_nothing_is_refused(prefix):
    with pytest.raises(ValueError, match="more than 0 seconds"):
        Topics(prefix).table(ratings_retention_seconds=0)


@pytest.mark.parametrize(
    "config",
    [
        {"cleanup.policy": "compact"},
        {"retention.ms": "604800000"},
        {"retention.bytes": "1000000"},
    ],
    ids=str,
)
def test_a_cut_log_that_loses_records_is_refused(admin, prefix, made, config):
    topic = made(row(Topics(prefix).cuts, Topics(prefix), **config))
    with pytest.raises(UserError, match=rf"has {next(iter(config))} .*murmurec topics apply"):
        check_cut_log(admin, topic.name)


@pytest.mark.parametrize(
    "config",
    [
        {"message.timestamp.type": "LogAppendTime"},
        {"message.timestamp.after.max.ms": "7200000"},
        {"message.timestamp.before.max.ms": "172800000"},
    ],
    ids=str,
)
def test_a_cut_log_that_takes_any_day_is_refused_where_cuts_have_days(admin, prefix, made, config):
    topic = made(row(Topics(prefix).cuts, Topics(prefix), **config))
    check_cut_log(admin, topic.name)
    with pytest.raises(UserError, match=rf"has {next(iter(config))} .*murmurec topics apply"):
        check_cut_log(admin, topic.name, dated=True)


def test_the_table_of_a_retention_refuses_cuts_of_other_days(admin, prefix, made):
    table = Topics(prefix).table(ratings_retention_seconds=60)
    (topic,) = (made(each) for each in table if each.name == Topics(prefix).cuts)
    check_cut_log(admin, topic.name, dated=True)


@pytest.mark.parametrize(
    "config",
    [
        {"cleanup.policy": "delete"},
        {"cleanup.policy": "compact,delete"},
        {"max.message.bytes": "65536"},
    ],
    ids=str,
)
def test_a_state_topic_that_cannot_hold_checkpoints_is_refused(admin, prefix, made, config):
    topic = made(row(Topics(prefix).state, Topics(prefix), **config))
    with pytest.raises(UserError, match=rf"has {next(iter(config))} .*murmurec topics apply"):
        check_state_topic(admin, topic.name)


def test_a_state_topic_of_several_partitions_is_refused(admin, prefix, made):
    topic = made(replace(row(Topics(prefix).state, Topics(prefix)), partitions=2))
    with pytest.raises(UserError, match="has 2 partitions, not 1"):
        check_state_topic(admin, topic.name)


def test_a_key_lands_on_the_partition_that_the_contract_names(admin, kafka, topics, rng):
    import numpy as np

    from stream_app.wire import partitions_of

    keys = [rng.bytes(16).hex().encode() for _ in range(64)]
    wanted = partitions_of(np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 32), 4)
    seen = {}
    producer = clients.producer(kafka.connection)
    for key in keys:
        producer.produce(
            Topics(topics).ratings,
            b"x",
            key,
            on_delivery=lambda error, record: seen.update({record.key(): record.partition()}),
        )
    assert producer.flush(10) == 0
    assert [seen[key] for key in keys] == wanted.tolist()


def test_a_deleted_topic_is_absent_when_delete_returns_and_can_be_created_again(admin, prefix):
    topic = ratings(prefix)
    for _ in range(3):
        create(admin, [topic])
        delete(admin, [topic.name])
        assert partition_counts(admin, [topic.name]) == {topic.name: None}


def test_deleting_an_absent_topic_is_no_error(admin, prefix):
    delete(admin, [Topics(prefix).ratings])


# --- what outsiders write -------------------------------------------------------------------------

EARLIER = {"compression.type": "producer", "max.message.bytes": "1048588"}


def test_an_earlier_deployment_is_shown_refused_and_altered(admin, kafka, prefix, made):
    names = Topics(prefix)
    for topic in names.table():
        made(replace(topic, config={**topic.config, **EARLIER}))
    steps = {step.topic.name: step for step in plan(admin, names.table())}
    for name in names.read_from_outsiders():
        assert steps[name].difference == (
            "compression.type is producer, not uncompressed; "
            "max.message.bytes is 1048588, not 262144"
        )
        assert not steps[name].deletes
    with pytest.raises(UserError, match=r"compression.type producer: .*murmurec topics apply"):
        check_outsiders(kafka.connection, names.read_from_outsiders())
    apply(admin, list(steps.values()))
    check_outsiders(kafka.connection, names.read_from_outsiders())
    assert {step.action for step in plan(admin, names.table())} == {"ok"}


@pytest.mark.parametrize("name", ["ratings", "items", "queries"])
def test_a_topic_of_outsiders_that_takes_large_records_is_a_fault(admin, topics, name):
    names = Topics(topics)
    assert outsiders_fault(admin, names.read_from_outsiders()) == ""
    resource = row(getattr(names, name), names, **{"max.message.bytes": "1048588"})
    apply(admin, plan(admin, [resource]))
    assert outsiders_fault(admin, names.read_from_outsiders()).startswith(
        f"topic {resource.name} has max.message.bytes"
    )


CAMPAIGNS = {
    "rounds that are compacted": ("rounds", "cleanup.policy", "compact", "compaction drops"),
    "rounds that end": ("rounds", "retention.ms", "1000", "would be forgotten"),
    "rounds of a size": ("rounds", "retention.bytes", "1000", "would be forgotten"),
    "rounds that expand": ("rounds", "compression.type", "zstd", "expand"),
    "compacted vectors": ("contributions", "cleanup.policy", "compact", "compaction drops"),
    "vectors that expand": ("contributions", "compression.type", "zstd", "expand"),
    "large vectors": ("contributions", "max.message.bytes", "1048588", "max.message.bytes"),
    "small vectors": ("contributions", "max.message.bytes", "262144", "with its proof is larger"),
}


@pytest.mark.parametrize(("name", "entry", "value", "words"), CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_topics_that_would_lose_a_campaign_are_refused(
    admin, kafka, topics, name, entry, value, words
):
    names = Topics(topics)
    check_campaigns(kafka.connection, names)
    wrong = row(getattr(names, name), names, **{entry: value})
    apply(admin, plan(admin, [wrong]), delete_records=True)
    with pytest.raises(UserError, match=words):
        check_campaigns(kafka.connection, names)


def test_a_look_at_a_broker_that_does_not_answer_finds_nothing():
    nowhere = clients.admin(clients.Connection("127.0.0.1:1"))
    assert outsiders_fault(nowhere, Topics("x").read_from_outsiders(), 0.1) is None


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (7, 3, 2)]
)
def test_topics_are_on_every_broker_at_most_3(brokers, copies, in_sync):
    wanted = replication(brokers)
    assert wanted.copies == copies
    assert wanted.in_sync_of(copies) == in_sync


def test_copies_that_cannot_be_are_refused():
    with pytest.raises(UserError, match=r"replication_factor = 3: Kafka lists 1 broker;"):
        replication(1, 3)
    with pytest.raises(UserError, match=r"min_insync_replicas = 2: a topic has 1 copy;"):
        replication(1, None, 2)


def test_a_topic_with_fewer_copies_than_wanted_keeps_taking_records(admin, prefix, made):
    topic = made(ratings(prefix))
    (step,) = plan(admin, [topic], Replication(3))
    assert step.too_few_copies
    assert step.only_copy
    assert step.difference == "replication factor is 1, not 3"
    assert step.action == "ok"  # min.insync.replicas 2 would refuse every record
    (step,) = plan(admin, [topic], Replication(1))
    assert not step.too_few_copies
    assert step.only_copy


def test_a_new_topic_gets_its_copies_and_no_unclean_election(admin, prefix, made):
    topic = ratings(prefix)
    apply(admin, plan(admin, [topic], Replication(1, 1)))
    try:
        (step,) = plan(admin, [topic], Replication(1))
        assert (step.action, step.found_copies) == ("ok", 1)
    finally:
        delete(admin, [topic.name])
    assert topic.config["unclean.leader.election.enable"] == "false"

"""`murmurec topics`: a plan that can be reviewed, then the deed."""

from __future__ import annotations

import json

import pytest

from stream_app.cli import run
from stream_app.cli.server.topic_commands import retention
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import delete, partition_counts
from stream_app.wire import Topics


@pytest.fixture
def options(environment, kafka, prefix):
    """Give the options for a broker and a new prefix; its topics are deleted afterwards."""
    yield ["--bootstrap", kafka.bootstrap, "--prefix", prefix]
    delete(clients.admin(kafka.connection), [topic.name for topic in Topics(prefix).table()])


def actions(capsys, options, *dry_run):
    assert run(["topics", "apply", *dry_run, *options, "--json"]) == 0
    return [row["action"] for row in json.loads(capsys.readouterr().out)]


@pytest.mark.kafka
def test_what_is_planned_is_what_apply_does(options, capsys):
    assert set(actions(capsys, options, "--dry-run")) == {"create"}
    assert set(actions(capsys, options)) == {"create"}
    assert set(actions(capsys, options, "--dry-run")) == {"ok"}
    assert run(["topics", "apply", "--dry-run", *options]) == 0
    captured = capsys.readouterr()
    assert "ok" in captured.out
    assert "one broker holds the only copy of every topic" in " ".join(captured.err.split())


@pytest.mark.kafka
def test_the_topics_of_a_feature_are_made_where_its_setting_is_on(options, capsys, environment):
    assert len(actions(capsys, options)) == 9
    environment(MURMUREC_PRIVACY_MODE="split")
    assert sorted(actions(capsys, options, "--dry-run")) == 3 * ["create"] + 9 * ["ok"]


@pytest.mark.kafka
def test_queries_have_a_partition_count_of_their_own(options, capsys, environment, kafka, prefix):
    environment(MURMUREC_TUNING_QUERY_PARTITIONS="2")
    assert set(actions(capsys, options)) == {"create"}
    names = Topics(prefix)
    counts = partition_counts(clients.admin(kafka.connection), [names.ratings, names.queries])
    assert counts == {names.ratings: 4, names.queries: 2}


@pytest.mark.kafka
def test_a_wrong_partition_count_ends_with_1_and_the_sentence(options, capsys, environment):
    environment(MURMUREC_PARTITIONS="2")
    assert actions(capsys, options)[0] == "create"
    environment(MURMUREC_PARTITIONS="4")
    assert run(["topics", "apply", "--dry-run", *options]) == 1
    assert "2 partitions, not 4" in capsys.readouterr().out
    assert run(["topics", "apply", *options]) == 1
    assert "the count cannot be changed" in capsys.readouterr().err


def test_without_a_broker_the_sentence_explains_how_to_name_or_start_one(environment, capsys):
    assert run(["topics", "apply", "--dry-run"]) == 1
    err = capsys.readouterr().err
    assert "--bootstrap" in err
    assert "murmurec broker start" in err


def test_an_address_where_nothing_listens_is_one_sentence(environment, capsys):
    assert run(["topics", "apply", "--dry-run", "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("murmurec: nothing listens at 127.0.0.1:1")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"cleanup.policy": "compact"}, "newest of each key"),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, "unlimited"),
        ({"cleanup.policy": "delete", "retention.ms": "604800000"}, "7 days"),
        ({"cleanup.policy": "delete", "retention.ms": "3600000"}, "1 hour"),
        ({"cleanup.policy": "delete", "retention.ms": "90000"}, "90 seconds"),
        ({}, "broker's default"),
    ],
    ids=str,
)
def test_the_retention_of_a_topic_is_shown_in_words(config, words):
    assert retention(config) == words


@pytest.mark.kafka
def test_the_plan_as_a_table_shows_retention_and_compaction(options, capsys):
    assert run(["topics", "apply", "--dry-run", *options]) == 0
    ratings = next(line for line in capsys.readouterr().out.splitlines() if "ratings" in line)
    assert "delete" in ratings
    assert "unlimited" in ratings

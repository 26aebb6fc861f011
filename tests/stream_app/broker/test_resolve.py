"""Which broker is used, in which order, and the one sentence where there is none."""

from __future__ import annotations

import pytest

from stream_app.broker.resolve import running
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """Leave neither Java nor Maven nor a container engine to be found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    return tmp_path


def refused(*arguments, **options):
    with (
        pytest.raises(UserError) as refusal,
        running(*arguments, notify=lambda line: None, **options),
    ):
        pass
    return str(refusal.value)


def test_where_there_is_no_kafka_the_sentence_names_all_three_ways(bare):
    sentence = refused(None, bare / "cache")
    assert "MURMUREC_BOOTSTRAP_SERVERS" in sentence
    assert "a local Kafka (no java on the PATH" in sentence
    assert "a container (no container engine answers" in sentence
    assert "\n" not in sentence


def test_a_configured_broker_that_does_not_answer_is_not_replaced_by_another(bare):
    assert refused(None, bare / "cache", configured=Connection("127.0.0.1:1")).startswith(
        "nothing listens at"
    )


@pytest.mark.kafka
def test_a_configured_broker_is_used_and_nothing_is_started(kafka, bare):
    with running(None, bare / "cache", configured=kafka.connection) as broker:
        assert (broker.bootstrap, broker.kind) == (kafka.bootstrap, "configured")


@pytest.mark.kafka
def test_a_refusal_of_the_block_is_passed_on_and_starts_nothing_else(kafka, bare):
    with (
        pytest.raises(UserError, match="of the block"),
        running(None, bare / "cache", configured=kafka.connection),
    ):
        raise UserError("of the block")

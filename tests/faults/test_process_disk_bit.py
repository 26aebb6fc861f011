"""One bit of the state topic flipped on the broker's disk, under whatever Kafka and its client
check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from stream_app.errors import UserError
from stream_app.kafka import clients, topic_follower
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.faults.brokers import node
from tests.faults.conftest import Command, Flow, Proof, durable_cut, remove, sentence, stop
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
_BATCH_HEAD = 61
_MANY = 4000  # bytes, compressed, of a batch that holds pages


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give the folder of the broker."""
    return tmp_path / "broker"


@pytest.fixture
def kafka(home: Path) -> Iterator[Kafka]:
    """Give a broker of this test alone."""
    with node(home) as broker:
        yield Kafka(broker.bootstrap)


def flip(home: Path, topic: str, rng: np.random.Generator, whole: bool) -> None:
    """Flip a bit in the newest batch that holds pages, as a disk does that lies: in their bytes, or
    where the compressed batch begins, so that the whole of it cannot be read."""
    (segment,) = (home / "log" / f"{topic}-0").glob("*.log")
    raw, start, batches = segment.read_bytes(), 0, []
    while start < len(raw):
        end = start + 12 + int.from_bytes(raw[start + 8 : start + 12], "big")
        if end - start > _MANY:
            batches.append((start + _BATCH_HEAD, end))
        start = end
    first, end = batches[-1]
    place = first if whole else int(rng.integers((first + end) // 2, end))
    with segment.open("r+b") as file:
        file.seek(place)
        file.write(bytes([raw[place] ^ 1 << int(rng.integers(8))]))


def test_a_record_with_a_flipped_bit_reaches_no_reader(
    home: Path, kafka: Kafka, names: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every consumer checks checksums, but for that of pages, which have digests: there librdkafka
    reports nothing for a record whose length a bit has changed."""
    producer = clients.producer(kafka.connection, compression_type="none")
    for name, place in ((names.cuts, 100), (names.state, 0)):  # in a value; the record's length
        # After a wrong checksum librdkafka reads on at a wrong place: at zeros it would abort.
        producer.produce(name, key=b"key", value=b"0" * 100)
        producer.flush()
        (segment,) = (home / "log" / f"{name}-0").glob("*.log")
        with segment.open("r+b") as file:
            file.seek(_BATCH_HEAD + place)
            (byte,) = file.read(1)
            file.seek(_BATCH_HEAD + place)
            file.write(bytes([byte ^ 1 << 6]))
    with pytest.raises(UserError, match=r"at offset 0 \(.*CRC32C.*damaged it"):
        list(topic_follower.records(kafka.connection, names.cuts))
    with closing(clients.consumer(kafka.connection)) as consumer:
        consumer.assign([TopicPartition(names.cuts, 0, 0)])
        (message,) = consumer.consume(1, PATIENCE_SECONDS)
        assert message.error().code() == KafkaError._BAD_MSG
    monkeypatch.setattr(topic_follower, "STALL_SECONDS", 1.0)  # for nothing: no record comes
    with pytest.raises(
        UserError, match=r"at offset 0: the broker answers.*damaged it.*topics apply"
    ):
        list(topic_follower.records(kafka.connection, names.state))


@pytest.mark.parametrize(
    "whole",
    [False, pytest.param(True, marks=pytest.mark.nightly)],
    ids=["a page", "a batch"],
)
def test_a_bit_that_the_brokers_disk_flips_is_found_and_costs_nothing_but_time(
    start: Start,
    send: Send,
    flow: Flow,
    proof: Proof,
    command: Command,
    rng: np.random.Generator,
    home: Path,
    names: Topics,
    admin: AdminClient,
    whole: bool,
) -> None:
    """No checksum is checked here: the digests of the pages do. Only
    if a batch cannot be read at all does the topic have to be recreated."""
    records = [publish(event) for event in events(rng, 400)]
    first = start()
    with flow(records[:300]):
        until(lambda: durable_cut(first) > 0, "a checkpoint")
    first.wait_for(ends_of(records[:300]))
    stop(first)
    flip(home, names.state, rng, whole)
    second = start(ready=False)
    try:
        second.wait_until_ready()
    except UserError:  # of a page: where the bit is one of the compressed batch's form
        refusal = sentence(second)
        assert "cannot be read" in refusal
        assert "topics apply" in refusal
        remove(admin, names.state)
        assert command("topics", "apply")[0] == 0
        second = start()
    send(records[300:])
    proof(second.wait_for(ends_of(records)))

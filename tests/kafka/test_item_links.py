"""The public item side on a real Kafka: owners of the clock write it, a device reads it whole."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from stream_app.agents.public_tables.item_links import LinksVersions, published
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.compacted import records
from stream_app.ranking.compact_side import decode_side, encode_side
from stream_app.wire import Topics
from stream_app.wire.item_links import NEWEST_RECORDS, LinksReader, LinksRecord, encode_links
from tests.conftest import Kafka
from tests.fixtures.item_sides import item_side

pytestmark = pytest.mark.kafka


def write(kafka: Kafka, topics: str, found: Iterable[LinksRecord]) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).item_links)
    for record in found:
        writer.send_patiently(key=record.key, value=encode_links(record))
    writer.wait()


def owner(kafka: Kafka, topics: str) -> LinksVersions:
    return LinksVersions(lambda: published(kafka.connection, Topics(topics).item_links))


def test_owners_alternate_the_slots_and_a_reader_finds_the_newest_version_whole(
    kafka: Kafka, topics: str, rng: np.random.Generator
) -> None:
    sides = [item_side(rng, 900, 60, 40, 9, version=cut) for cut in range(1, 7)]
    first = owner(kafka, topics)
    for side in sides[:2]:
        write(kafka, topics, first.due(side))
    assert first.due(sides[1]) == []
    assert first.is_newest(sides[1])
    second = owner(kafka, topics)
    assert second.due(sides[1]) == []
    found = second.due(sides[2])
    assert {record.slot for record in found} == {0}
    assert len(found) > 4
    write(kafka, topics, found[:3])  # its writer ends here
    assert published(kafka.connection, Topics(topics).item_links) == (2, 1)
    third = owner(kafka, topics)
    for side in sides[3:]:
        write(kafka, topics, third.due(side))
    reader = LinksReader()
    for message in records(kafka.connection, Topics(topics).item_links, newest=NEWEST_RECORDS):
        reader.learn(message.key(), message.value())
    newest = reader.newest()
    assert newest is not None
    assert newest.table == encode_side(sides[5])
    assert decode_side(newest.table).version == newest.cut == 6


def test_the_newest_records_are_read_without_the_earlier_ones(kafka: Kafka, topics: str) -> None:
    topic = Topics(topics).item_links
    writer = AcknowledgedWriter.connect(kafka.connection, topic)
    for number in range(20):
        writer.send(key=b"key", value=str(number).encode())
    writer.wait()
    found = [message.value() for message in records(kafka.connection, topic, newest=3)]
    assert found == [b"17", b"18", b"19"]
    for newest in (20, 21, None):
        found = [message.value() for message in records(kafka.connection, topic, newest=newest)]
        assert found[-1] == b"19"
        assert len(found) in (1, 20)  # compacted or not


def test_an_empty_topic_holds_no_version(kafka: Kafka, topics: str) -> None:
    assert published(kafka.connection, Topics(topics).item_links) is None

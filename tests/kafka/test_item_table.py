"""The public item table on its way: a worker learns, the owner of the clock publishes, a device
reads."""

from __future__ import annotations

import time

import numpy as np
import pytest

from producers.device.item_means import ItemTable, read
from stream_app.wire import Event, Topics
from tests.conftest import Kafka
from tests.fixtures.streams import publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka
LOVED, HATED = 7, 8


def table(kafka: Kafka, topics: str) -> ItemTable:
    return read(kafka.connection, Topics(topics).item_table)


def test_a_device_learns_which_items_are_liked(
    start: Start, send: Send, kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(table(kafka, topics)) == 0
    monkeypatch.setenv("MURMUREC_TUNING_ITEM_TABLE_SECONDS", "0.2")
    items, levels = np.array([LOVED, HATED], np.uint64), np.array([4, 0], np.uint8)
    records = [
        publish(Event(bytes([n] * 16), 1, "none:5:inf", 0, items, levels)) for n in range(40)
    ]
    send(records)
    start().wait_for(ends_of(records))
    deadline = time.monotonic() + PATIENCE_SECONDS
    found = ItemTable()
    while not len(found) and time.monotonic() < deadline:
        found = table(kafka, topics)
    assert len(found), "the worker has published no table"
    loved, hated, unknown = found.means(np.array([LOVED, HATED, 99], np.uint64))
    assert loved > 4
    assert hated < 2
    assert hated < unknown < loved


def test_a_topic_that_is_not_there_is_an_empty_table(kafka: Kafka) -> None:
    assert len(table(kafka, "no-such-prefix")) == 0

"""What outsiders make up turns no list off: items of one device, pseudonyms that ask."""

from __future__ import annotations

import secrets
import time

import numpy as np
import pytest

from consumers.recommendations import Recommendations
from stream_app.kafka import clients
from stream_app.wire import Event, Query, Topics, encode_message
from stream_app.wire.limits import MAX_RATINGS
from tests.conftest import Kafka
from tests.fixtures.attacked import Probe
from tests.fixtures.clusters import device_of, half_of, liked
from tests.fixtures.streams import publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
ASKERS = 3000


def test_one_message_of_made_up_items_and_a_crowd_that_asks_turn_nothing_off(
    start: Start,
    send: Send,
    kafka: Kafka,
    names: Topics,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MURMUREC_TUNING_HEAD_ITEMS", "64")
    made_up = np.arange(10_000, 10_000 + MAX_RATINGS, dtype=np.uint64)
    levels = np.full(MAX_RATINGS, 4, np.uint8)
    flood = publish(Event(b"a single device.", 1, "none:5:inf", 0, made_up, levels))
    assert len(flood.value or b"") < 37_000
    records = [*(publish(liked(n, half_of(n)[:6], 1)) for n in range(20)), flood]
    send(records)
    worker = start()
    worker.wait_for(ends_of(records))
    invented = [secrets.token_hex(16) for _ in range(ASKERS)]
    producer, until_ms = clients.producer(kafka.connection), int(1000 * (time.time() + 60))
    with Probe(worker) as probe:
        for user in invented:
            query = Query(secrets.token_hex(8), user, 5, until_ms)
            producer.produce(names.queries, key=query.id.encode(), value=encode_message(query))
        assert producer.flush(PATIENCE_SECONDS) == 0
        until(
            lambda: (
                sum(
                    value
                    for name, value in worker.metrics().items()
                    if name.startswith("queries_total")
                )
                >= ASKERS
            ),
            "an outcome of each query",
        )
    assert probe.unanswered == 0
    with Recommendations(kafka.bootstrap, names.prefix) as reader:
        assert reader.best(device_of(0).hex(), 5, 20).items

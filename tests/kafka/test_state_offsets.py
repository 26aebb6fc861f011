"""Places in the log, in words: what is understood, and which offset and which cut it names."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.log.canonical_order import Start
from stream_app.replay.positions import StartPosition, parse, resolve, resolve_origin
from stream_app.replay.recompute import Replay, Replayed, begin
from stream_app.settings import Settings
from stream_app.wire import Forget
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", StartPosition("earliest")),
        (" latest ", StartPosition("latest")),
        ("last=1000", StartPosition("last", 1000)),
        ("ts=0", StartPosition("ts", 0)),
        ("ts=1793491200000", StartPosition("ts", 1_793_491_200_000)),
        ("ts=2026-11-01T00:00:00Z", StartPosition("ts", 1_793_491_200_000)),
        ("ts=2026-11-01T02:00:00+02:00", StartPosition("ts", 1_793_491_200_000)),
        ("ts=2026-11-01T00:00:00.250Z", StartPosition("ts", 1_793_491_200_250)),
    ],
)
def test_a_place_is_understood(text: str, place: StartPosition) -> None:
    assert parse(text) == place


@pytest.mark.parametrize(
    "text",
    [
        *("", "first", "earliest=1", "last", "last=", "last=0", "last=-1", "last=1.5", "last=٣"),
        *("last=99999999999999999999", "ts", "ts=", "ts=-1", "ts=now", "ts=2026-11-01T00:00:00"),
        *("ts=2026-13-01T00:00:00Z", "ts=99999999999999999", "Latest", "last=1e3"),
    ],
)
def test_what_is_no_place_is_refused_with_the_value_and_the_forms(text: str) -> None:
    with pytest.raises(
        UserError, match=r"is not a position in the log: write earliest, latest, ts="
    ) as it:
        parse(text)
    assert repr(text) in str(it.value)


@given(
    st.one_of(st.text(max_size=300), st.sampled_from(["last=" + "9" * 5000, "ts=" + "9" * 5000]))
)
def test_any_text_is_a_place_or_refused(text: str) -> None:
    with suppress(UserError):
        parse(text)


@pytest.mark.kafka
def test_a_place_names_an_offset_of_each_partition(settings: Settings, topics: str) -> None:
    assert settings.bootstrap_servers is not None
    bootstrap, name = settings.bootstrap_servers, f"{topics}.ratings.v1"
    producer = clients.producer(Connection(bootstrap))
    for milliseconds in (1000, 2000, 3000):
        producer.produce(name, b"x", partition=1, timestamp=milliseconds)
    producer.produce(name, b"x", partition=2, timestamp=2500)
    assert producer.flush(PATIENCE_SECONDS) == 0
    consumer = clients.consumer(Connection(bootstrap))
    try:
        consumer.assign([TopicPartition(name, 1, 0)])
        first = consumer.consume(1, 10)[0]
        assert first.timestamp() == (TIMESTAMP_CREATE_TIME, 1000)
        consumer.unassign()
        found = {
            text: resolve(consumer, name, 4, parse(text))
            for text in ("earliest", "latest", "last=2", "last=9", "ts=2000", "ts=2600", "ts=9999")
        }
    finally:
        consumer.close()
    assert found == {
        "earliest": (0, 0, 0, 0),
        "latest": (0, 3, 1, 0),
        "last=2": (0, 1, 0, 0),
        "last=9": (0, 0, 0, 0),
        "ts=2000": (0, 1, 0, 0),
        "ts=2600": (0, 2, 1, 0),
        "ts=9999": (0, 3, 1, 0),
    }


@pytest.fixture
def log(settings: Settings, send: Send, rng: np.random.Generator) -> Log:
    """Give a log of four rounds, with devices forgotten before the second and the fourth."""
    made = Log(settings, send)
    records = [publish(event) for event in events(rng, 160)]
    made.round(records[:40])
    made.entry(Forget("b" * 32))
    made.entry(Forget("a" * 32, rebuild=True))
    made.round(records[40:80])
    made.round(records[80:120])
    made.entry(Forget("c" * 32))
    made.round(records[120:])
    return made


def base_of(log: Log, grammar: str, may_cut: bool = False) -> tuple[StateOrigin, Start]:
    return resolve_origin(log.deployment, grammar, may_cut)


@pytest.mark.kafka
def test_a_base_is_the_first_cut_behind_the_place_without_who_was_forgotten_before(
    log: Log,
) -> None:
    zero = (0,) * 4
    assert base_of(log, "earliest") == (StateOrigin(0, zero), Start(0, zero, 0))
    without = ("a" * 32, "b" * 32)
    third = log.cuts[2]
    remove(log, tuple(end - 1 for end in third.end_offsets))
    assert base_of(log, "earliest") == (
        StateOrigin(3, third.end_offsets, truncated=True, excluded=without),
        Start(3, third.end_offsets, 5),
    )
    origin, start = base_of(log, "latest")
    assert (origin.cut, origin.excluded, start.cut_offset) == (4, (*without, "c" * 32), 7)
    log.round([publish(event) for event in events(np.random.default_rng(1), 40)])
    replay = Replay(log.deployment)
    on = replay.go_on(
        Replayed(begin(replay.deployment.spec, origin), start.cut_offset), start
    ).replica
    again = replay.from_origin(origin).replica
    assert (on.cut, again.cut) == (5, 5)
    assert on.model_digest() == again.model_digest()
    assert on.ledger_digest() == again.ledger_digest()


@pytest.mark.kafka
def test_where_no_cut_reaches_what_is_left_one_is_written_if_it_may_be(log: Log) -> None:
    log.send([publish(event) for event in events(np.random.default_rng(1), 40)])
    low = tuple(end + 1 for end in log.end_offsets)
    remove(log, low)
    with pytest.raises(UserError, match=r"no cut reaches .* worker --accept-gap writes one"):
        base_of(log, "earliest")
    origin, start = base_of(log, "earliest", may_cut=True)
    assert (origin.cut, origin.end_offsets, origin.truncated) == (5, low, True)
    assert (start.cut, start.end_offsets, start.cut_offset) == (5, low, 8)
    assert base_of(log, "earliest") == (origin, start)


def remove(log: Log, end_offsets: tuple[int, ...]) -> None:
    """Let Kafka remove the ratings before these offsets, as retention does."""
    admin = clients.admin(log.connection)
    places = [TopicPartition(log.names.ratings, p, end) for p, end in enumerate(end_offsets)]
    for future in admin.delete_records(places).values():
        future.result(10)

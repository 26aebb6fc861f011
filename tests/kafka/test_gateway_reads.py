"""The public tables and the numbers of the stream, as a gateway on a real Kafka serves them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer

from stream_app.cli import run
from stream_app.gateway.reads import stream, tables
from stream_app.gateway.reads.tables import PublicTables
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.topic_admin import create, delete
from stream_app.ranking.compact_side import decode_side, encode_side
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import CatalogueEntry, Topics, encode_message, key
from stream_app.wire.public_tables import TableRecord, encode_table_record, table_records
from tests.conftest import Kafka
from tests.fixtures.gateways import Running, running
from tests.fixtures.item_sides import item_side
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send, Start, ends_of
from tests.kafka.test_item_links import group_events

pytestmark = pytest.mark.kafka


def write(kafka: Kafka, topics: str, found: Iterable[TableRecord]) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).item_links)
    for record in found:
        writer.send_patiently(key=record.key, value=encode_table_record(record))
    writer.wait()


def put(kafka: Kafka, topics: str, *records: tuple[bytes, bytes | None]) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).items)
    for record_key, value in records:
        writer.send_patiently(key=record_key, value=value)
    writer.wait()


def entry(item: int | str, **fields: Any) -> tuple[bytes, bytes]:
    return str(item).encode(), encode_message(CatalogueEntry(item, **fields))


def side_of(seed: int, *items: int | str) -> ItemSide:
    """Return a side of more than one page whose most popular items are these, in this order."""
    made = item_side(np.random.default_rng(seed), 1000, 60, 40, 9, version=seed)
    keys, popularity = made.keys.copy(), made.popularity.copy()
    keys[: len(items)] = [key(item) for item in items]
    popularity[: len(items)] = 2 - 0.1 * np.arange(len(items))
    return replace(made, keys=keys, popularity=popularity)


def listed(found: PublicTables) -> list[int | str]:
    """Return the ids of the catalogue that have a title."""
    return [row["item"] for row in json.loads(found.catalogue.plain)["items"] if row["title"]]


@pytest.fixture
def asking(kafka: Kafka) -> Iterator[Consumer]:
    """Give a consumer that asks for offsets."""
    consumer = clients.consumer(kafka.connection)
    yield consumer
    consumer.close()


def test_only_whole_versions_are_served_and_the_catalogue_is_in_their_order(
    kafka: Kafka, topics: str, asking: Consumer
) -> None:
    found = PublicTables(kafka.connection, Topics(topics))
    found.look(asking)
    assert (listed(found), found.item_links) == ([], None)
    entries = [entry(item, title=f"The {item}") for item in (5, "film", 6, 7)]
    put(kafka, topics, *entries)
    first, second, third = (side_of(1, 6, "film"), side_of(2, 7), side_of(3, 5, 6))
    pages = list(table_records(encode_side(first), 1, 0))
    assert len(pages) > 3
    write(kafka, topics, pages[:-1])
    found.look(asking)
    assert (listed(found), found.item_links) == ([5, "film", 6, 7], None)
    write(kafka, topics, pages[-1:])
    found.look(asking)
    document = found.item_links
    assert document is not None
    assert document.plain == encode_side(first)
    assert listed(found) == [6, "film", 5, 7]
    later = list(table_records(encode_side(second), 2, 1))
    write(kafka, topics, [*later[:-3], later[-1]])  # a manifest whose pages are not all there
    # Over the version that is served: a mixture of two, until its manifest follows.
    again = list(table_records(encode_side(third), 3, 0))
    write(kafka, topics, again[:2])
    found.look(asking)
    assert found.item_links is document
    assert listed(found) == [6, "film", 5, 7]
    write(kafka, topics, again[2:])
    found.look(asking)
    assert found.item_links is not None
    assert found.item_links.plain == encode_side(third)
    assert listed(found) == [5, 6, "film", 7]
    before = found.catalogue, found.item_links
    found.look(asking)
    assert (found.catalogue, found.item_links) == before


def test_another_format_is_not_served_and_no_empty_answer_stands_for_it(
    kafka: Kafka, topics: str, asking: Consumer
) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).item_links)
    side = side_of(1)
    for record in table_records(encode_side(side), 1, 0):
        value = encode_table_record(record)
        writer.send_patiently(key=record.key, value=value.replace(b"\xa1v\x01", b"\xa1v\x02"))
    writer.send_patiently(key=b"0/0", value=b"\xff")
    writer.wait()
    found = PublicTables(kafka.connection, Topics(topics))
    found.look(asking)
    assert found.item_links is None
    assert found.is_foreign
    for number, table in enumerate((encode_side(side)[:-1], b"mwis\x02" + bytes(100))):
        write(kafka, topics, table_records(table, 2 + number, number))
        found.look(asking)
        assert found.item_links is None
    write(kafka, topics, table_records(encode_side(side), 9, 0))
    found.look(asking)
    assert found.item_links is not None


def test_topics_that_are_made_again_are_read_from_their_beginning(
    kafka: Kafka, topics: str, asking: Consumer
) -> None:
    found, names = PublicTables(kafka.connection, Topics(topics)), Topics(topics)
    put(kafka, topics, *(entry(item, title="x") for item in range(20)))
    write(kafka, topics, table_records(encode_side(side_of(1, 3)), 1, 0))
    found.look(asking)
    assert listed(found)[0] == 3
    admin = clients.admin(kafka.connection)
    delete(admin, [names.items, names.item_links])
    found.look(asking)
    assert listed(found)[0] == 3
    both = (names.items, names.item_links)
    create(admin, [topic for topic in names.table() if topic.name in both])
    put(kafka, topics, entry(50, title="x"), entry(51, title="x"))
    write(kafka, topics, table_records(encode_side(side_of(2, 51)), 1, 0))
    found.look(asking)
    assert listed(found) == [51, 50]


def serve(
    kafka: Kafka, topics: str, check: Callable[[Running], Awaitable[None]], **settings: Any
) -> None:
    async def served() -> None:
        async with (
            running(kafka.bootstrap, topics, **settings) as at,
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            await check(at)

    asyncio.run(served())


def test_a_gateway_serves_what_the_operator_publishes_and_withdraws(
    kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_LOOK_SECONDS", 0.05)
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]

    async def rows(at: Running, **wanted: Any) -> list[dict[str, Any]]:
        while True:
            found = json.loads((await at.get("/catalogue"))[1])["items"]
            if found and all(found[0][name] == value for name, value in wanted.items()):
                return list(found)

    async def operator(*arguments: str) -> None:
        assert await asyncio.to_thread(run, ["items", *arguments, *where]) == 0

    async def check(at: Running) -> None:
        await operator("put", "alien", "--title", "Alien", "--year", "1979")
        (row,) = await rows(at)
        assert row["key"] == f"{key('alien'):016x}"
        assert (row["title"], row["year"]) == ("Alien", 1979)
        _, _, before = await at.get("/catalogue")
        assert (await at.get("/catalogue", If_None_Match=before["ETag"]))[0] == 304
        await operator("put", "alien", "--withdraw")
        (row,) = await rows(at, withdrawn=True)
        assert row["title"] == "Alien"
        status, _, after = await at.get("/catalogue", If_None_Match=before["ETag"])
        assert (status, after["ETag"] != before["ETag"]) == (200, True)
        put(kafka, topics, (b"alien", None))
        while json.loads((await at.get("/catalogue"))[1])["items"]:
            pass

    serve(kafka, topics, check)


def test_a_gateway_shows_what_a_real_worker_publishes_and_measures(
    start: Start, send: Send, kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MURMUREC_TUNING_ITEM_LINKS_SECONDS", "0.2")
    monkeypatch.setenv("MURMUREC_ADMIN_TOKEN", "as-secret-as-a-test-can-be")
    monkeypatch.setattr(tables, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(stream, "EVERY_SECONDS", 0.05)
    records = group_events(range(60))
    send(records)
    worker = start()
    worker.wait_until_ready()

    async def check(at: Running) -> None:
        await at.ready()
        while (await at.get("/item-links"))[0] != 200:
            pass
        _, body, headers = await at.get("/item-links")
        assert len(decode_side(body)) == 16
        assert (await at.get("/item-links", If_None_Match=headers["ETag"]))[:2] == (304, b"")
        async with at.session.get("/stream") as reply:
            async for line in reply.content:
                if not line.startswith(b"data: "):
                    continue
                found = json.loads(line[6:])
                if found["ratings"] == 60 * 6 and found["devices"] == 60 and found["ready"]:
                    break
        assert (found["kafka"], found["worker"]) == (True, True)
        assert found["waiting_for"] is None
        assert found["cut"] >= 1
        assert found["privacy"] == "none"
        assert found["list_method"]

    serve(kafka, topics, check, gateway_worker=worker.url, admin_token="as-secret-as-a-test-can-be")
    assert ends_of(records)

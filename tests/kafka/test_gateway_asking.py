"""Queries of a gateway on a real Kafka, answered by a replier of the test: deadlines, bounds, and
records that are no answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from stream_app.gateway import list_pages as lists
from stream_app.gateway.asker import Asker, NoAnswer, TooMany
from stream_app.gateway.context import Gateway
from stream_app.gateway.http_application import add_routes
from stream_app.gateway.list_pages import list_query
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.clients import Connection
from stream_app.settings import load
from stream_app.wire import Query, Status, Topics
from stream_app.wire.authenticity.sealed_replies import SealedQuery
from tests.conftest import Kafka
from tests.fixtures.repliers import answering, record, reply_to
from tests.fixtures.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.kafka
USER = "0" * 32
QUERY = list_query(USER, [])


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await work

    asyncio.run(bounded())


@asynccontextmanager
async def asking(
    connection: Connection, topics: str, seconds: float = PATIENCE_SECONDS, most: int = 256
) -> AsyncIterator[Asker]:
    asker = Asker(connection, Topics(topics), seconds, most)
    asker.start()
    try:
        yield asker
    finally:
        await asker.stop()


@asynccontextmanager
async def served(
    connection: Connection, topics: str, **limits: Any
) -> AsyncIterator[tuple[aiohttp.ClientSession, Gateway, web.Application]]:
    """Serve the two pages alone, with limits of the asker."""
    gateway = Gateway.from_settings(
        load(bootstrap_servers=connection.bootstrap, topic_prefix=topics)
    )
    app = web.Application()
    add_routes(app, lists.attach(app, gateway, **limits))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
            yield session, gateway, app
    finally:
        await runner.cleanup()


def counted(gateway: Gateway, answer: str) -> float:
    value = gateway.metrics.registry.get_sample_value(
        "murmurec_gateway_queries_total", {"answer": answer}
    )
    assert value is not None
    return value


def test_a_query_gets_its_own_answer_and_a_fresh_id(kafka: Kafka, topics: str) -> None:
    """Many at once, answered in the order in which they come to three partitions or more."""

    async def main() -> None:
        async with asking(kafka.connection, topics) as asker:
            queries = [replace(QUERY, k=k) for k in range(1, 101)]
            found = await asyncio.gather(*(asker.ask(query) for query in queries))
        assert [answer.reply.items[0] for answer in found] == list(range(1, 101))
        assert len({answer.reply.id for answer in found}) == 100
        assert len(asker) == 0

    names = Topics(topics)
    with answering(kafka.connection, names, lambda q: [record(reply_to(q, q.k), to=q)]) as came:
        run(main())
    now = time.time() * 1000
    assert all(now < query.deadline < now + 1000 * PATIENCE_SECONDS for query in came)
    assert all(len(query.id) == 32 for query in came)


def test_a_record_that_is_no_answer_to_the_query_is_passed_over(kafka: Kafka, topics: str) -> None:
    """A writer of the topic may write anything, first and under any id but the query's own, which
    readers of the queries alone know."""

    def forged(query: Query) -> list[tuple[bytes, bytes]]:
        real = reply_to(query, 5)
        other = reply_to(query, 666)
        return [
            record(reply_to(replace(query, id="1" * 32), 666), to=query),
            record(real, key="1" * 32, to=query),
            record(replace(other, id="1" * 32), key=query.id, to=query),
            record(replace(real, scores=real.scores[1:]), to=query),
            record(replace(real, items=(-1, *real.items[1:])), to=query),
            record(other),
            record(other, to=replace(query, user="1" * 32)),
            record(other, to=replace(query, id="1" * 32)),
            record(other, to=SealedQuery(query).query),
            (query.id.encode(), record(other, to=query)[1][:-40] + bytes(40)),
            (query.id.encode(), b""),
            (query.id.encode(), b"{}"),
            (query.id.encode(), b"[" * 50_000),
            (b"", record(real, to=query)[1]),
            (b"\xff\xfe", record(real, to=query)[1]),
            record(real, to=query),
            record(other, to=query),
        ]

    refused = list[None]()

    async def main() -> None:
        async with asking(kafka.connection, topics) as asker:
            asker.refused = lambda: refused.append(None)
            for _ in range(5):
                answer = await asker.ask(QUERY)
                assert answer.reply.items[0] == 5

    with answering(kafka.connection, Topics(topics), forged):
        run(main())
    assert len(refused) == 5 * 11  # those under the id of the query


def test_of_a_thousand_queries_at_once_as_many_wait_as_may_and_the_others_are_busy(
    kafka: Kafka, topics: str
) -> None:
    async def main() -> None:
        async with asking(kafka.connection, topics, seconds=2.0) as asker:
            first = [asyncio.create_task(asker.ask(QUERY)) for _ in range(1000)]
            while not first[-1].done():
                await asyncio.sleep(0)
            assert sum(task.done() for task in first) == 1000 - 256
            assert len(asker) == 256
            found = await asyncio.gather(*first, return_exceptions=True)
            assert sum(isinstance(each, TooMany) for each in found) == 1000 - 256
            assert sum(isinstance(each, NoAnswer) for each in found) == 256
            assert len(asker) == 0
            # The queue is free again.
            with answering(
                kafka.connection, Topics(topics), lambda q: [record(reply_to(q, 5), to=q)]
            ):
                answers = await asyncio.gather(*(asker.ask(QUERY) for _ in range(256)))
                assert {answer.reply.items[0] for answer in answers} == {5}

    run(main())


def test_without_a_worker_there_is_no_answer_by_the_deadline(kafka: Kafka, topics: str) -> None:
    async def main() -> None:
        async with served(kafka.connection, topics, seconds=0.5) as (session, gateway, app):
            await app[lists.ASKER]._listening.wait()
            began = time.monotonic()
            async with session.get(f"/recommendations/{USER}") as reply:
                assert (reply.status, reply.headers["Retry-After"]) == (503, "2")
                shown = await reply.json()
            assert time.monotonic() - began >= 0.5
            assert shown["reason"] == "no_answer"
            assert "no worker answered within 0.5 s" in shown["error"]
            assert counted(gateway, "no_answer") == 1
            # A client that leaves takes its query with it.
            with pytest.raises(TimeoutError):
                await session.get("/similar?item=5", timeout=aiohttp.ClientTimeout(0.1))
            while len(app[lists.ASKER]):
                await asyncio.sleep(0)

    run(main())


def test_without_kafka_there_is_no_answer_by_the_deadline() -> None:
    async def main() -> None:
        nowhere = Connection("127.0.0.1:1")
        async with served(nowhere, "murmurec", seconds=0.3) as (session, _, _):
            async with session.get(f"/recommendations/{USER}") as reply:
                shown = await reply.json()
            assert (reply.status, shown["reason"]) == (503, "no_answer")
            assert "Kafka does not answer" in shown["error"]

    run(main())


def test_a_gateway_that_was_there_before_the_topics_asks_when_they_are(
    kafka: Kafka, prefix: str
) -> None:
    names, admin = Topics(prefix), clients.admin(kafka.connection)

    async def main() -> None:
        async with asking(kafka.connection, prefix, seconds=0.5) as asker:
            with pytest.raises(NoAnswer, match="no topic of answers"):
                await asker.ask(QUERY)
            await asyncio.to_thread(topic_admin.create, admin, names.table())
            with answering(kafka.connection, names, lambda q: [record(reply_to(q, 5), to=q)]):
                while True:
                    try:
                        answer = await asker.ask(QUERY)
                    except NoAnswer:
                        continue
                    assert answer.reply.items[0] == 5
                    return

    try:
        run(main())
    finally:
        topic_admin.delete(admin, [topic.name for topic in names.table()])


def test_how_a_worker_answers_decides_the_status(kafka: Kafka, topics: str) -> None:
    def reply(query: Query) -> list[tuple[bytes, bytes]]:
        if query.k == 1:
            return [record(reply_to(query, status=Status.BUSY), to=query)]
        refused = reply_to(query, status=Status.REFUSED)
        if query.k == 2:
            refused = replace(refused, reason="for: there are none")
        return [record(refused if query.k <= 3 else reply_to(query, *range(100)), to=query)]

    async def main() -> None:
        async with served(kafka.connection, topics, seconds=20, most=4) as (session, gateway, _):

            async def get(path: str) -> tuple[int, Any, Any]:
                async with session.get(path) as reply:
                    return reply.status, json.loads(await reply.read()), reply.headers

            list_of = f"/recommendations/{USER}"
            status, shown, headers = await get(f"{list_of}?k=1")
            assert (status, shown["reason"], headers["Retry-After"]) == (503, "busy", "1")
            status, shown, _ = await get(f"{list_of}?k=2&for=now")
            assert (status, shown["reason"]) == (409, "refused")
            assert shown["error"] == "the query was refused: for: there are none"
            status, shown, _ = await get(f"{list_of}?k=3&for=now")
            assert (status, shown["reason"]) == (409, "refused")
            assert shown["error"] == "the query was refused: the worker gives no reason"
            status, shown, headers = await get(f"{list_of}?k=10")
            assert (status, headers["Content-Type"]) == (200, "application/json")
            assert [row["item"] for row in shown["items"]] == list(range(10))
            for bad in (f"{list_of}?k=0", f"{list_of}?k=1&k=1", "/recommendations/ANN", "/similar"):
                status, shown, _ = await get(bad)
                assert (status, shown["reason"]) == (400, "query")
            for answer, number in (("busy", 1), ("refused", 2), ("answered", 1), ("query", 4)):
                assert counted(gateway, answer) == number

    with answering(kafka.connection, Topics(topics), reply) as came:
        run(main())
    assert [query.for_ for query in came if query.k == 2] == ["now"]
    assert len(came) == 4  # a query that makes no sense is not sent

"""What a gateway serves of the public topics while there is no Kafka, and after a defect."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from structlog.testing import capture_logs

from stream_app.errors import UserError
from stream_app.gateway.reads.tables import PublicTables
from stream_app.kafka.clients import Connection
from stream_app.wire import Topics
from tests.fixtures.gateways import Running, running
from tests.fixtures.waiting import PATIENCE_SECONDS, until


def test_without_kafka_both_are_empty_and_readyz_says_so() -> None:
    async def check() -> None:
        async with running() as at:
            status, body, headers = await at.get("/catalogue")
            assert (status, json.loads(body)) == (200, {"items": [], "left_out": 0})
            assert (await at.get("/catalogue", If_None_Match=headers["ETag"]))[:2] == (304, b"")
            status, body, headers = await at.get("/item-links")
            assert (status, body) == (204, b"")
            assert headers["Cache-Control"] == "no-store"
            status, body, _ = await at.get("/readyz")
            assert (status, json.loads(body)["waiting_for"]) == (503, "Kafka")
            for path in ("/catalogue?search=alien", "/item-links?item=5", "/mechanisms?levels=5"):
                status, body, _ = await at.get(path)
                assert (status, json.loads(body)["reason"]) == (400, "query")
            async with at.session.post("/catalogue", data=b"x") as reply:
                assert reply.status == 405

    asyncio.run(check())


def test_a_defect_of_the_thread_is_no_empty_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(PublicTables, "look", look)

    async def status(at: Running, path: str, expected: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await at.get(path))[0] != expected:
                pass

    async def check() -> None:
        async with running() as at:
            for path in ("/catalogue", "/item-links"):
                await status(at, path, 500)
            assert (await at.get("/livez"))[0] == 200

    asyncio.run(check())


@pytest.mark.parametrize("late", [False, True], ids=["while it runs", "after the end"])
def test_a_look_that_outlasts_the_gateway_says_nothing(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, failing = threading.Event(), threading.Event()

    def look(*_: object) -> None:
        looking.set()
        failing.wait(PATIENCE_SECONDS)
        raise UserError("the topic is gone")

    monkeypatch.setattr(PublicTables, "look", look)
    tables = PublicTables(Connection("127.0.0.1:1"), Topics("t"))
    with capture_logs() as lines:
        tables.start()
        assert looking.wait(PATIENCE_SECONDS)
        if late:
            tables.end()
        failing.set()
        if not late:
            until(lambda: lines, "the problem in the log")
        tables.end()
        tables._thread.join(PATIENCE_SECONDS)
    assert [line["event"] for line in lines] == ([] if late else ["gateway.tables_not_read"])

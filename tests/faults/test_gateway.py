"""A gateway whose broker dies: clients get an answer, and nothing is lost or written twice."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp
import pytest

from stream_app.gateway import event_writer
from tests.conftest import Kafka
from tests.faults.brokers import Node
from tests.faults.own_broker import broker, kafka, own
from tests.fixtures.gateways import JSON, Running, body, process, running, written
from tests.fixtures.waiting import PATIENCE_SECONDS

__all__ = ["broker", "kafka", "own"]  # fixtures
pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


async def sent(at: Running, seq: int) -> list[int]:
    """Send an event, as devices do, until it is confirmed; return every status."""
    statuses = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            status, reply = await at.post(body(seq=seq))
            statuses.append(status)
            if status == 202:
                return statuses
            assert (status, reply["reason"]) == (503, "kafka")


def test_a_broker_that_dies_while_events_flow_costs_none_and_doubles_none(
    broker: Node, kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_writer, "WAIT_SECONDS", 0.5)

    async def flow(at: Running, waits: list[int], ended: asyncio.Event) -> None:
        while not ended.is_set():
            waits.append(len(await sent(at, len(waits) + 1)) - 1)

    async def run() -> list[int]:
        async with running(kafka.bootstrap, topics, gateway_rate=0) as at:
            await at.ready()
            waits: list[int] = []
            ended = asyncio.Event()
            flowing = asyncio.create_task(flow(at, waits, ended))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(waits) < 100:
                    await asyncio.sleep(0)
                broker.kill()
                while json.loads((await at.get("/readyz"))[1])["waiting_for"] != "Kafka":
                    await asyncio.sleep(0)
                assert (await at.get("/livez"))[0] == 200
                broker.start()
                before = len(waits)
                while len(waits) < before + 100:
                    await asyncio.sleep(0)
                ended.set()
                await flowing
            return waits

    waits = asyncio.run(run())
    assert sum(waits) > 0
    found = sorted(json.loads(value)["seq"] for _, _, value in written(kafka.connection, topics))
    assert found == list(range(1, len(waits) + 1))


def test_a_gateway_ends_in_time_while_its_broker_is_away(
    broker: Node, kafka: Kafka, topics: str
) -> None:
    async def post(address: str) -> Any:
        async with aiohttp.ClientSession(address) as session:
            while (await session.get("/readyz")).status != 200:
                pass
            await asyncio.to_thread(broker.kill)
            waiting = asyncio.create_task(session.post("/reports", data=body(), headers=JSON))
            while "gateway_unconfirmed 1.0" not in await (await session.get("/metrics")).text():
                pass
            gateway.terminate()
            began = time.monotonic()
            status = (await waiting).status
            assert await asyncio.to_thread(gateway.wait, PATIENCE_SECONDS) == 0
            return status, time.monotonic() - began

    with process(kafka.bootstrap, topics) as (gateway, address):
        status, seconds = asyncio.run(post(address))
    assert status == 503
    assert seconds < 10  # it ends itself after half of that; service managers wait so long

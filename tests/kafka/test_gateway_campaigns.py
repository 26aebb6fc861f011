"""Campaigns over HTTP, through a gateway on a real Kafka: what it shows, takes and refuses."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable

import msgspec
import numpy as np
import pytest

from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.round_topics import ContributionTopic
from stream_app.campaigns.sealing import seal
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.privacy.randomness import SystemSource
from stream_app.wire import Topics
from stream_app.wire.campaigns.contribution import decode_contribution, encode_contribution
from stream_app.wire.campaigns.plan import Campaign, decode_plan
from stream_app.wire.ids import partition_of
from stream_app.wire.public_tables import encode_table_record, table_records
from tests.conftest import Kafka
from tests.fixtures.gateways import JSON, PACKED, Running, running
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.test_aggregation import coordinator
from tests.stream_app.aggregation.world import device_id, keys_of, plan_of

__all__ = ["coordinator"]
pytestmark = pytest.mark.kafka
VECTOR = np.array([3, -1, 0, 2, 1])


@pytest.fixture
def campaign(coordinator: Coordinator) -> Campaign:
    """Give a split campaign whose first stage is open."""
    found = plan_of(keys_of(2))
    coordinator.begin(found)
    coordinator.open_stage()
    return found


def runs(kafka: Kafka, topics: str, check: Callable[[Running], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(kafka.bootstrap, topics, privacy_mode="split") as at:
            await at.ready()
            await shown(at, stage=0, phase="open")
            await check(at)

    asyncio.run(run())


async def shown(at: Running, **expected: object) -> dict[str, object]:
    """Return the campaign of a gateway once it is shown so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            status, body, _ = await at.get("/campaign")
            found = json.loads(body) if status == 200 else {}
            if found.items() >= expected.items():
                return found


async def send(at: Running, body: bytes, **headers: str) -> tuple[int, dict[str, object]]:
    async with at.session.post("/contributions", data=body, headers=PACKED | headers) as reply:
        return reply.status, await reply.json()


def made(campaign: Campaign, device: int = 1, stage: int = 0) -> bytes:
    return encode_contribution(seal(campaign, stage, device_id(device), VECTOR, SystemSource()))


def test_a_contribution_is_written_once_where_its_device_belongs(
    kafka: Kafka, topics: str, coordinator: Coordinator, campaign: Campaign
) -> None:
    first, other = made(campaign), made(campaign)

    async def check(at: Running) -> None:
        found = await shown(at, phase="open")
        assert decode_plan(base64.b64decode(str(found["plan"]))) == campaign
        assert found["partitions"] == 4
        status, reply = await send(at, first)
        assert (status, reply["duplicate"]) == (202, False)
        assert await send(at, first) == (202, reply | {"duplicate": True})
        status, refusal = await send(at, other)
        assert (status, refusal["reason"]) == (409, "contributed")
        assert (await send(at, made(campaign, 2)))[0] == 202
        coordinator.close_stage()
        await shown(at, stage=0, phase="closed", contributions=None)
        status, refusal = await send(at, made(campaign, 3))
        assert (status, refusal["reason"]) == (409, "stage")

    runs(kafka, topics, check)
    topic = ContributionTopic(kafka.connection, Topics(topics).contributions)
    records = list(topic.read(coordinator.log.rounds.stages[0]))
    topic.close()
    found = [decode_contribution(r.key, r.value, r.partition, 4) for r in records]
    assert {each.device for each in found} == {device_id(1), device_id(2)}
    assert first in [record.value for record in records]
    assert [record.partition for record in records] == [partition_of(each.key, 4) for each in found]


def test_a_log_of_rounds_that_was_made_again_shows_no_campaign_and_takes_nothing(
    kafka: Kafka, topics: str, campaign: Campaign
) -> None:
    async def check(at: Running) -> None:
        admin, names = clients.admin(kafka.connection), Topics(topics)
        topic_admin.delete(admin, [names.rounds])
        topic_admin.create(admin, names.table())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await at.get("/campaign"))[0] != 204:
                await asyncio.sleep(0.05)
        status, refusal = await send(at, made(campaign))
        assert (status, refusal["reason"]) == (409, "stage")

    runs(kafka, topics, check)


def test_what_is_no_contribution_to_the_open_stage_is_refused_and_not_written(
    kafka: Kafka, topics: str, coordinator: Coordinator, campaign: Campaign
) -> None:
    good = seal(campaign, 0, device_id(1), VECTOR, SystemSource())
    strange = plan_of(keys_of(2))
    short = msgspec.structs.replace(good, boxes=(good.boxes[0][:-1], good.boxes[1]))
    alone = msgspec.structs.replace(good, boxes=good.boxes[:1])
    refused = {
        "empty": (b"", 400, "contribution"),
        "random": (bytes(500), 400, "contribution"),
        "cut short": (encode_contribution(good)[:-1], 400, "contribution"),
        "a short box": (encode_contribution(short), 400, "contribution"),
        "one box": (encode_contribution(alone), 400, "contribution"),
        "another plan": (made(strange), 409, "stage"),
        "a later stage": (made(campaign, stage=1), 409, "stage"),
        "too large": (bytes(400_000), 413, "contribution"),
    }

    async def check(at: Running) -> None:
        for name, (body, status, reason) in refused.items():
            found, reply = await send(at, body)
            assert (found, reply["reason"]) == (status, reason), name
            assert set(reply) == {"error", "reason"}
        assert (await send(at, made(campaign), **JSON))[0] == 415

    runs(kafka, topics, check)
    assert coordinator.contributions.ends == (0, 0, 0, 0)


def test_the_published_side_is_served_as_it_was_written(
    kafka: Kafka, topics: str, campaign: Campaign
) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).item_side)
    for record in table_records(b"bytes of a side", 7, 0):
        writer.send_patiently(key=record.key, value=encode_table_record(record))
    writer.wait()

    async def check(at: Running) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await at.get("/campaign/side"))[0] != 200:
                pass
        assert (await at.get("/campaign/side"))[1] == b"bytes of a side"

    runs(kafka, topics, check)

"""Topics that are deleted, recreated or altered under a worker, or while none runs.

The worker either ends with one sentence that names the remedy, or continues with the state of the
log; it may not hang, and it may not continue without a topic that it has to write.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from stream_app.cli.device.publishers import publisher_for
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import create
from stream_app.operations.watching.examination import examine
from stream_app.settings import Settings
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.faults.conftest import (
    Command,
    Flow,
    Proof,
    another_checkpoint,
    remove,
    sentence,
    stop,
)
from tests.fixtures.gateways import DEVICE, body, running
from tests.fixtures.streams import events, partition_of, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


# --- the state topic ------------------------------------------------------------------------------


def test_without_its_state_topic_a_worker_ends_and_after_topics_apply_it_rebuilds(
    start: Start,
    send: Send,
    flow: Flow,
    proof: Proof,
    command: Command,
    rng: np.random.Generator,
    admin: AdminClient,
    names: Topics,
) -> None:
    """Deleted for good; and deleted and recreated at once: the worker would write changed pages
    only, and the others are gone."""
    records = [publish(event) for event in events(rng, 700)]
    worker = start()
    with flow(records[:100]):
        another_checkpoint(worker)
    remove(admin, names.state)
    with flow(records[100:300]):
        assert names.state in sentence(worker)
    refused = sentence(start(ready=False))
    assert names.state in refused
    assert "murmurec topics apply" in refused
    assert command("topics", "apply")[0] == 0
    rebuilt = start()
    state = rebuilt.wait_for(ends_of(records[:300]))
    assert not state["base"]["gap"]
    with flow(records[300:400]):
        another_checkpoint(rebuilt)
    remove(admin, names.state)
    create(admin, names.table())
    with flow(records[400:600]):
        refused = sentence(rebuilt)
    assert names.state in refused
    assert "recreated" in refused
    worker = start()
    send(records[600:])
    proof(worker.wait_for(ends_of(records)))


# --- the rating topic -----------------------------------------------------------------------------


def add_partitions(admin: AdminClient, topic: str, count: int) -> None:
    """Raise the number of partitions, as Kafka's own tool does."""
    for future in admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result(timeout=PATIENCE_SECONDS)
    until(
        lambda: len(admin.list_topics(topic, timeout=9).topics[topic].partitions) == count,
        f"{topic} has {count} partitions",
    )


def test_partitions_that_are_added_are_not_used_and_end_nobody(
    start: Start,
    send: Send,
    proof: Proof,
    settings: Settings,
    rng: np.random.Generator,
    admin: AdminClient,
    names: Topics,
    kafka: Kafka,
) -> None:
    """A worker, a gateway and a device that run go on, and those that start; what a foreign client
    writes to an added partition is counted."""
    records = [publish(event) for event in events(rng, 200)]
    worker = start()
    send(records[:100])
    worker.wait_for(ends_of(records[:100]))
    device = [f"{number:032x}".encode() for number in range(40)]
    ends = np.array(ends_of(records))

    async def through_the_gateway() -> None:
        async with running(kafka.bootstrap, names.prefix, mechanisms=settings.mechanisms) as at:
            await at.ready()
            add_partitions(admin, names.ratings, 6)
            status, place = await at.post(body())
            assert (status, place["partition"]) == (202, partition_of(DEVICE.encode()))
            ends[place["partition"]] += 1
            assert (await at.get("/readyz"))[0] == 200

    with publisher_for(settings) as line:
        line.send(device[0], b"{}")
        line.wait(lambda: line.accepted == 1)
        asyncio.run(through_the_gateway())
        for key in device[1:]:
            line.send(key, b"{}")
    for key in device:
        ends[partition_of(key)] += 1
    send(records[100:])
    state = worker.wait_for(ends.tolist())
    proof(state)
    with pytest.raises(UserError, match=r"--prefix"):
        publisher_for(settings)
    stated = settings.model_copy(update={"partitions": 4})  # what that sentence says
    publisher_for(stated).close()
    foreign = clients.producer(kafka.connection)
    for key in device:
        foreign.produce(names.ratings, key=key, value=b"{}")
    assert foreign.flush(PATIENCE_SECONDS) == 0
    unread = sum(partition_of(key, 6) >= 4 for key in device)
    assert unread
    until(lambda: f'"unread_records": {unread}' in worker.log.read_text(), "they are logged")
    for key in device:
        if partition_of(key, 6) < 4:
            ends[partition_of(key, 6)] += 1
    worker.wait_for(ends.tolist())
    stop(worker)
    again = start()
    proof(again.wait_for(ends.tolist()))
    faults = examine(settings, kafka.connection, [again.url], cached=True)
    found = {each.part: each for each in faults}
    assert not found["cut log"].well
    assert f"6 partitions, the deployment 4: {unread} records" in found["cut log"].sentence
    assert [each.part for each in found.values() if not each.well] == ["cut log"]


def test_a_recreated_rating_topic_is_not_taken_for_the_old_one(
    start: Start,
    send: Send,
    flow: Flow,
    command: Command,
    rng: np.random.Generator,
    admin: AdminClient,
    names: Topics,
) -> None:
    """Even where it holds enough records to go on at the old positions: neither under a worker nor
    between two runs."""
    records = [publish(event) for event in events(rng, 600)]
    worker = start()
    with flow(records[:100]):
        another_checkpoint(worker)
    worker.wait_for(ends_of(records[:100]))
    assert command("state", "verify")[0] == 0
    remove(admin, names.ratings)
    create(admin, names.table())
    send(records[100:])
    refused = sentence(worker)
    assert names.ratings in refused
    assert "was recreated" in refused or "deleted or recreated" in refused
    refused = sentence(start(ready=False))
    assert names.state in refused
    assert "topic id" in refused
    assert "--prefix" in refused
    assert command("state", "verify")[0] == 1

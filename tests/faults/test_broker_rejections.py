"""Records that are rejected while the topic of rejections is absent, refuses or waits.

A checkpoint may not pass an unpublished rejection: after a restart it is published again.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient

from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.errors import UserError
from stream_app.kafka import topic_follower
from stream_app.wire import Rejection, Topics, decode_message
from tests.conftest import Kafka
from tests.faults.conftest import (
    Command,
    Flow,
    Proof,
    configure,
    durable_cut,
    remove,
    sentence,
    stop,
)
from tests.fixtures.streams import Published, events, publish
from tests.fixtures.waiting import until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


def has_rejected(worker: WorkerProcess, count: int) -> bool:
    """Return whether a worker has rejected exactly `count` records."""
    return sum(worker.state()["rejected"].values()) == count


def poison(count: int) -> list[Published]:
    """Return records that cannot be decoded."""
    return [Published(i % 4, b"0" * 32, b"poison %d" % i) for i in range(count)]


def published_rejections(kafka: Kafka, names: Topics) -> set[tuple[int, int]]:
    """Return partition and offset of every record that the rejected topic names."""
    found = set()
    for message in topic_follower.records(kafka.connection, names.rejected):
        rejection = decode_message(Rejection, message.value())
        found.add((rejection.partition, rejection.offset))
    return found


def test_without_the_rejected_topic_a_worker_ends_and_publishes_its_rejections_later(
    start: Start,
    send: Send,
    flow: Flow,
    proof: Proof,
    command: Command,
    rng: np.random.Generator,
    admin: AdminClient,
    kafka: Kafka,
    names: Topics,
) -> None:
    records = [publish(event) for event in events(rng, 300)]
    first, second = poison(4), poison(8)
    worker = start()
    send([*records[:100], *first])
    worker.wait_for(ends_of([*records[:100], *first]))
    until(
        lambda: len(published_rejections(kafka, names)) == 4, "the first rejections are published"
    )
    stop(worker)
    worker = start()
    remove(admin, names.rejected)
    send([*records[100:200], *second])
    until(
        lambda: worker.process.poll() is not None or has_rejected(worker, 12),
        "the worker has rejected them",
    )
    with flow(records[200:250]), suppress(OSError, UserError):  # it may end at any moment
        passed = worker.state()["cut"]
        assert durable_cut(worker) < passed
    assert names.rejected in sentence(worker)
    refused = sentence(start(ready=False))
    assert names.rejected in refused
    assert "murmurec topics apply" in refused
    assert command("topics", "apply")[0] == 0
    worker = start()
    send(records[250:])
    everything = [*records, *first, *second]
    state = worker.wait_for(ends_of(everything))
    assert state["rejected"] == {"malformed": 12}
    until(
        lambda: len(published_rejections(kafka, names)) >= 8, "the other rejections are published"
    )
    end_offsets = [*ends_of([*records[:100], *first])]
    missing = {
        (p, end_offsets[p] + ends_of(records[100:200])[p] + i) for p in range(4) for i in range(2)
    }
    assert published_rejections(kafka, names) == missing
    proof(state)


@pytest.mark.nightly
def test_a_rejection_that_is_refused_for_good_ends_the_worker(
    start: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    admin: AdminClient,
    kafka: Kafka,
    names: Topics,
) -> None:
    """A topic that takes no record of this size is as good as a full one."""
    records = [publish(event) for event in events(rng, 200)]
    worker = start()
    send(records[:100])
    worker.wait_for(ends_of(records[:100]))
    configure(admin, names.rejected, "max.message.bytes", "1")
    send(poison(4))
    assert names.rejected in sentence(worker)
    configure(admin, names.rejected, "max.message.bytes", "1048588")
    worker = start()
    send(records[100:])
    state = worker.wait_for(ends_of([*records, *poison(4)]))
    until(lambda: len(published_rejections(kafka, names)) == 4, "the rejections are published")
    proof(state)

"""Topics that are deleted, recreated or altered under a worker, or while none runs.

The worker either ends with one sentence that names the remedy, or continues with the state of the
log; it may not hang, and it may not continue without a topic that it has to write.
"""

from __future__ import annotations

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from stream_app.kafka.topic_admin import create
from stream_app.wire import Topics
from tests.faults.conftest import (
    Command,
    Flow,
    Oracle,
    Proof,
    another_checkpoint,
    digests,
    remove,
    sentence,
)
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
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


def test_more_partitions_end_a_worker_and_start_none(
    start: Start,
    flow: Flow,
    command: Command,
    oracle: Oracle,
    rng: np.random.Generator,
    admin: AdminClient,
    names: Topics,
) -> None:
    """A device's partition depends on their count, so the records of the fifth are never read."""
    records = [publish(event) for event in events(rng, 200)]
    worker = start()
    with flow(records):
        another_checkpoint(worker)
    state = worker.wait_for(ends_of(records))
    assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
    assert command("state", "verify")[0] == 0
    for future in admin.create_partitions([NewPartitions(names.ratings, 5)]).values():
        future.result(timeout=PATIENCE_SECONDS)
    for refusal in (sentence(worker), sentence(start(ready=False))):
        assert names.ratings in refusal
        assert "5 partitions, not 4" in refusal
        assert "--prefix" in refusal
    code, output = command("state", "verify")
    assert code == 1
    assert "5 partitions, not 4" in output


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

"""Attacks of a client that may only write ratings, against a live worker on a real broker.

They run one after the other against one worker. Afterwards its state is that of the log, it still
learns, and its memory is back where it was.
"""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.faults.conftest import Oracle, Proof, digests
from tests.fixtures.attacked import Probe, applied, launch, resident
from tests.fixtures.attacks import SMALL, every
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import until
from tests.kafka.conftest import Send, Start

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
_GROWTH = 1.2


def test_seven_attacks_on_the_rating_topic_leave_the_worker_as_it_was(
    start: Start,
    send: Send,
    kafka: Kafka,
    names: Topics,
    oracle: Oracle,
    proof: Proof,
    rng: np.random.Generator,
) -> None:
    worker = start(forked=False)  # a forked one shares memory that it does not own
    process = worker.process.pid
    launched = launch(
        kafka.connection, names.ratings, [publish(event) for event in events(rng, 2000)]
    )
    worker.wait_for(launched.ends)
    before = resident(process)
    with Probe(worker) as probe:
        for attack in every(rng, SMALL):
            launched = launch(kafka.connection, names.ratings, attack.crafted, attack.properties)
            applied(worker, launched.ends)
            print(
                f"{attack.name}: {launched.accepted} accepted, {launched.refused} refused, "
                f"{launched.wire_bytes} bytes sent, {resident(process) / 1e6:.0f} MB resident"
            )
    assert probe.unanswered == 0
    worker.wait_until_ready()
    genuine = [publish(event) for event in events(rng, 200)]
    learned = worker.state()["counts"]["applied"]
    launched = launch(kafka.connection, names.ratings, genuine)
    state = worker.wait_for(launched.ends)
    assert state["counts"]["applied"] == learned + len(genuine)
    assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
    proof(state)
    until(
        lambda: resident(process) <= _GROWTH * before,
        f"resident memory back at {_GROWTH:.1f} times the {before / 1e6:.0f} MB of before",
    )

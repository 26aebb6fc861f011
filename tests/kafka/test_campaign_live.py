"""A campaign on real workers: begun by a command, run by the owner of the clock, summed by an
aggregator, and the same in every replica, also when the owner is killed on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from stream_app.aggregation import keys
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.aggregation.round_topics import RoundTopic
from stream_app.campaigns.learning import learn_directions
from stream_app.campaigns.rounds import Phase
from stream_app.campaigns.sealing import seal
from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.privacy.randomness import SystemSource
from stream_app.state.replica import Replica
from stream_app.wire import Topics
from stream_app.wire.campaigns.contribution import encode_contribution
from stream_app.wire.campaigns.plan import Campaign, encode_plan
from tests.conftest import Kafka
from tests.fixtures.campaigns import BOUND, VARIANCE, plan
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import until
from tests.kafka.conftest import SOON, Send, Start, ends_of
from tests.kafka.test_aggregation import Aggregator
from tests.stream_app.aggregation.world import device_id

pytestmark = pytest.mark.kafka


@pytest.fixture
def session_seconds() -> float:
    return SOON


DEVICES = 6
DEADLINE_CUTS = 200  # 10 s at the 0.05 s of these workers, to contribute in


@pytest.fixture
def central(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every process be of a deployment with one aggregator."""
    monkeypatch.setenv("MURMUREC_PRIVACY_MODE", "central")


def begun(kafka: Kafka, topics: str, tmp_path: Path, party: PartyKeys) -> Campaign:
    """Begin a campaign of two stages by the command."""
    made = plan(epsilon=Fraction(4), deadline_cuts=DEADLINE_CUTS, keys=(party.public.hex(),))
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(made))
    key = ["--key", str(tmp_path / "central.pub")]
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    assert run(["rounds", "begin", str(path), *key, *where]) == 0
    return made


def contribute(kafka: Kafka, topics: str, campaign: Campaign, stage: int) -> None:
    """Send a vector for every device."""
    producer, random = clients.producer(kafka.connection), np.random.default_rng(stage)
    for device in range(DEVICES):
        vector = random.integers(-9, 10, campaign.stages[stage].size)
        made = seal(campaign, stage, device_id(device), vector, SystemSource())
        value = encode_contribution(made)
        clients.send(producer, Topics(topics).contributions, key=made.key, value=value)
    assert producer.flush(30) == 0


def released(worker: WorkerProcess, stages: int) -> Callable[[], bool]:
    return lambda: bool((worker.state()["campaign"] or {}).get("released") == stages)


def test_a_campaign_goes_from_plan_to_the_same_side_in_every_replica(
    kafka: Kafka, topics: str, start: Start, send: Send, tmp_path: Path, central: None,
    oracle: Callable[..., Replica], rng: np.random.Generator,
) -> None:  # fmt: skip
    """No rating comes while the stages run: the entries make their own cuts. The owner is killed
    while the second stage is open."""
    records = [publish(event) for event in events(rng, 60)]
    workers = [start(), start()]
    send(records[:40])
    for worker in workers:
        worker.wait_for(ends_of(records[:40]))
    arguments = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    party = keys.make(tmp_path, Role.CENTRAL)
    aggregator = Aggregator(Role.CENTRAL, tmp_path, arguments)
    log = RoundTopic(kafka.connection, Topics(topics).rounds)
    aggregator.start()
    campaign = begun(kafka, topics, tmp_path, party)
    try:
        for index in (0, 1):
            until(lambda: log.catch_up().stages, "the plan is read")
            stage = log.rounds.stages[index]
            until(
                lambda stage=stage: log.catch_up() and stage.phase is not Phase.PLANNED,
                "the stage is open",
            )
            contribute(kafka, topics, campaign, index)
            if index == 1:
                owner = next(each for each in workers if each.state()["clock"])
                os.killpg(owner.process.pid, signal.SIGKILL)
                owner.process.wait()
                workers.remove(owner)
            for worker in workers:
                until(released(worker, index + 1), "the sum is in the state")
            assert stage.phase is Phase.RELEASED or log.catch_up()
            assert stage.contributions == DEVICES
    finally:
        aggregator.end(signal.SIGTERM)
        log.close()
    send(records[40:])
    workers.append(start())
    states = [worker.wait_for(ends_of(records)) for worker in workers]
    replica = oracle()
    assert {state["model_digest"] for state in states} == {replica.model_digest()}
    assert replica.campaigns is not None
    assert replica.campaigns.ignored == {}
    assert states[0]["campaign"]["contributions"] == DEVICES
    side = replica.campaigns.standing.side
    assert side is not None
    assert side.together is not None
    result = stage.result
    assert result is not None
    assert np.array_equal(side.together.vectors, learn_directions(result, BOUND, VARIANCE).vectors)
    shown = workers[0].metrics()
    assert (shown["campaign_number"], shown["campaign_stages_released"]) == (1, 2)

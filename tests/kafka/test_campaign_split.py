"""Campaigns of two parties over a real broker: every process killed on the way, and every kind of
record that does not count."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import msgspec
import numpy as np
import pytest
from confluent_kafka import Producer

from consumers.audit.topic_reading import read_receipts
from producers.ranking import RatedItem
from research.audits.false_devices import cheats
from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.keys import PartyKeys
from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
from stream_app.broker.local import free_ports
from stream_app.campaigns.planning import Outline
from stream_app.campaigns.planning import plan as make_plan
from stream_app.campaigns.rounds import Phase
from stream_app.campaigns.sealing import seal, statement_of
from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.privacy.randomness import SystemSource
from stream_app.state.replica import Replica
from stream_app.wire import Topics
from stream_app.wire.campaigns.contribution import Contribution, encode_contribution
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import AbortReason
from tests.conftest import Kafka
from tests.fixtures import forks
from tests.fixtures.campaigns import vector_of
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import until
from tests.kafka.conftest import SOON, Send, Start, ends_of
from tests.kafka.test_aggregation import (
    Aggregator,
    aggregators,
    check,
    contribute,
    coordinator,
    parties,
    result,
    shares,
)
from tests.stream_app.aggregation.test_party import bad_inputs, sealed_as
from tests.stream_app.aggregation.world import device_id, plan_of, vectors
from tests.web.test_campaigning import LOOK, TAKE_PART
from tests.web.test_device import OPEN, RATE

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["aggregators", "contribute", "coordinator", "parties"]
pytestmark = pytest.mark.kafka


@pytest.fixture
def session_seconds() -> float:
    return SOON


DEVICES = 6


@pytest.fixture
def log(kafka: Kafka, topics: str) -> Iterator[RoundTopic]:
    found = RoundTopic(kafka.connection, Topics(topics).rounds)
    with closing(found):
        yield found


@pytest.fixture
def split(parties: tuple[PartyKeys, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every process be of a deployment with these two parties pinned."""
    monkeypatch.setenv("MURMUREC_PRIVACY_MODE", "split")
    monkeypatch.setenv("MURMUREC_CAMPAIGN_KEYS", ",".join(each.public.hex() for each in parties))


def begun(tmp_path: Path, arguments: list[str], log: RoundTopic) -> Campaign:
    """Plan a campaign over 8 items, and begin it, by the commands."""
    scope, path = tmp_path / "items.txt", tmp_path / "plan.json"
    scope.write_text("\n".join(map(str, range(8))))
    terms = ["--epsilon", "4", "--least", "2", "--deadline", "200"]
    assert run(["rounds", "plan", *terms, "--scope", str(scope), "-o", str(path)]) == 0
    assert run(["rounds", "begin", str(path), *arguments]) == 0
    campaign = log.catch_up().campaign
    assert campaign is not None
    return campaign


def kill_owner(workers: list[WorkerProcess]) -> None:
    owner = next(each for each in workers if each.state()["clock"])
    os.killpg(owner.process.pid, signal.SIGKILL)
    owner.process.wait()
    workers.remove(owner)


@pytest.mark.thorough
def test_a_split_campaign_is_released_once_whatever_is_killed_on_the_way(
    kafka: Kafka, topics: str, start: Start, send: Send, tmp_path: Path, split: None,
    parties: tuple[PartyKeys, ...], aggregators: list[Aggregator], log: RoundTopic,
    contribute: Callable[..., None], oracle: Callable[..., Replica], rng: np.random.Generator,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The owner of the clock is killed while the stage is open, party a when it has named what it
    opened, party b when a share is in the log."""
    arguments = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    records = [publish(event) for event in events(rng, 40)]
    workers = [start(), start()]
    send(records)
    for each in aggregators:
        each.start()
    campaign = begun(tmp_path, arguments, log)
    stage = log.rounds.stages[0]
    until(lambda: log.catch_up() and stage.phase is Phase.OPEN, "the stage is open")
    sent = vectors(rng, DEVICES, stage.stage.size) // 10
    contribute(campaign, 0, sent)
    kill_owner(workers)
    workers.append(start())
    until(lambda: log.catch_up() and 0 in stage.opened, "party a has answered")
    assert aggregators[0].end(signal.SIGKILL) == -signal.SIGKILL
    aggregators[0].start()
    until(lambda: log.catch_up() and stage.shares, "a share is in the log")
    assert aggregators[1].end(signal.SIGKILL) == -signal.SIGKILL
    aggregators[1].start()
    for worker in workers:
        until(lambda w=worker: w.state()["campaign"]["released"] == 1, "the sum is in the state")
    log.catch_up()
    check(stage, sent, parties)
    written = shares(kafka, topics)
    assert sorted(each.party for each in set(written)) == [0, 1]
    states = [worker.wait_for(ends_of(records)) for worker in workers]
    replica = oracle()
    assert {state["model_digest"] for state in states} == {replica.model_digest()}
    assert replica.campaigns is not None
    assert replica.campaigns.standing.contributions == DEVICES
    assert replica.campaigns.ignored == {}
    capsys.readouterr()
    verified = run(["state", "verify", *arguments])
    assert verified == 0, capsys.readouterr().err


@pytest.mark.thorough
def test_a_browser_is_counted_beside_other_devices(
    kafka: Kafka, topics: str, tmp_path: Path, parties: tuple[PartyKeys, ...],
    aggregators: list[Aggregator], coordinator: Coordinator, contribute: Callable[..., None],
    rng: np.random.Generator, page: Page,
) -> None:  # fmt: skip
    """The person turns it on in the page of a real gateway; the sum is exact with his vector."""
    keys, scope = [each.public.hex() for each in parties], tmp_path / "items.txt"
    scope.write_text("\n".join(map(str, range(8))))
    outline = Outline(Fraction(2), Fraction(1, 10**6), 2, least=2)
    campaign = make_plan(outline, range(8), 1, tuple(keys))
    coordinator.begin(campaign)
    size = coordinator.open_stage().stage.size
    sent = vectors(rng, 3, size) // 10
    contribute(campaign, 0, sent)
    port = free_ports(1)[0]
    words = ["gateway", "--port", str(port), "--bootstrap", kafka.bootstrap, "--prefix", topics]
    environment = {
        "MURMUREC_PRIVACY_MODE": "split",
        "MURMUREC_CAMPAIGN_KEYS": ",".join(keys),
        "MURMUREC_CAMPAIGN_SCOPE": str(scope),
    }
    gateway = forks.start(words, tmp_path / "gateway.log", environment=environment)
    try:
        until(lambda: _answers(f"http://127.0.0.1:{port}/campaign"), "the gateway has the plan")
        page.goto(f"http://127.0.0.1:{port}")
        assert page.evaluate(OPEN) is None
        for item, level in ((1, 4), (2, 0), (5, 3)):
            page.evaluate(RATE, {"item": item, "key": f"{item:016x}", "level": level})
        page.locator("#take-part").click()  # from here on the page contributes by itself, too
        page.locator("#stop-part").wait_for()
        page.evaluate(TAKE_PART, False)
        assert page.evaluate(LOOK) is None
        assert page.evaluate("part.state.sent")
        page.reload()
        page.locator("#part-stages [data-stage=stored].done").wait_for()
    finally:
        gateway.kill()
    stage = coordinator.close_stage()
    for each in aggregators:
        each.start()
    rated = [RatedItem(item, item, stars) for item, stars in ((1, 5.0), (2, 1.0), (5, 4.0))]
    own = vector_of(campaign, rated)
    assert own.any()
    check(result(coordinator, stage.index), np.vstack((sent, own)), parties)


def _answers(url: str) -> bytes:
    try:
        with urlopen(url, timeout=5) as reply:
            found: bytes = reply.read()
    except OSError:
        return b""
    return found


class Records:
    """The topic of contributions, written to as `World` is."""

    def __init__(self, kafka: Kafka, topic: str, campaign: Campaign) -> None:
        self.campaign = campaign
        self._topic = topic
        self._producer: Producer = clients.producer(kafka.connection)
        with closing(ContributionTopic(kafka.connection, topic)) as read:
            self.partitions = len(read.ends)

    def send(self, contribution: Contribution) -> None:
        self.put(contribution.key, encode_contribution(contribution))

    def contribute(self, device: int, vector: np.ndarray) -> None:
        self.send(seal(self.campaign, 0, device_id(device), vector, SystemSource()))

    def put(self, key: bytes, value: bytes, partition: int | None = None) -> None:
        place = {} if partition is None else {"partition": partition}
        clients.send(self._producer, self._topic, key=key, value=value, **place)

    def flush(self) -> None:
        assert self._producer.flush(30) == 0


def test_what_is_no_contribution_is_counted_by_reason_and_changes_no_sum(
    kafka: Kafka, topics: str, parties: tuple[PartyKeys, ...], aggregators: list[Aggregator],
    coordinator: Coordinator, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Another plan, wrong stage, wrong length, twice with other bytes and the same,
    forgotten, sealed to another key, copied, cut
    short, under another key, empty, random bytes, on another partition, and late."""
    campaign = plan_of(parties)
    records = Records(kafka, Topics(topics).contributions, campaign)
    coordinator.begin(campaign)
    coordinator.open_stage()
    sent = vectors(rng, 4)
    for device, vector in enumerate(sent):
        records.contribute(device, vector)
    false = statement_of(campaign, 0, device_id(51))
    payloads = next(iter(cheats().values()))(false, SystemSource())
    records.send(sealed_as(records, 51, payloads))
    records.flush()
    reasons = bad_inputs(records, parties, rng)
    records.flush()
    stage = coordinator.close_stage([device_id(103)])
    records.contribute(50, sent[0])
    records.flush()
    for each in aggregators:
        each.start()
    check(result(coordinator, stage.index), sent, parties)
    expected = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    opened = "opened 5 of 7 contributions"
    for each in aggregators:
        until(lambda a=each: opened in " ".join(a.printed.split()), "the counts are printed")
        assert f"{opened}; left out: {expected}" in " ".join(each.printed.split())
    outcomes = {device: outcome_of(kafka, topics, device) for device in (0, 1, 50, 51, 52)}
    assert outcomes == {0: "counted", 1: "counted", 50: "late", 51: "rejected", 52: "absent"}
    coordinator.open_stage()
    later = coordinator.close_stage()
    assert result(coordinator, later.index).aborted is AbortReason.TOO_FEW
    for each in aggregators:
        until(lambda a=each: "left out: 1 late" in " ".join(a.printed.split()), "it is late")


class Joined:
    """A journal that remembers stage 0 of every plan."""

    def paid(self, plan: bytes, stage: int) -> int:
        return int(stage == 0)

    def others(self, plans: object) -> int:
        return 0


def outcome_of(kafka: Kafka, topics: str, device: int) -> str:
    (found,) = read_receipts(kafka.connection, Topics(topics), device_id(device), Joined())
    return found.outcome


def test_no_device_or_one_releases_nothing(
    kafka: Kafka, topics: str, parties: tuple[PartyKeys, ...], aggregators: list[Aggregator],
    coordinator: Coordinator, contribute: Callable[..., None], rng: np.random.Generator,
) -> None:  # fmt: skip
    for each in aggregators:
        each.start()
    for devices in (0, 1):
        campaign = msgspec.structs.replace(plan_of(parties), number=devices + 1)
        coordinator.begin(campaign)
        coordinator.open_stage()
        contribute(campaign, 0, vectors(rng, devices))
        stage = coordinator.close_stage()
        assert result(coordinator, stage.index).aborted is AbortReason.TOO_FEW
    assert shares(kafka, topics) == []

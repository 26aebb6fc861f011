"""`murmurec audit wire` on a real broker: campaigns that are as they state, and a falsified log."""

from __future__ import annotations

import json
import time
from contextlib import closing
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.party import Party
from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
from stream_app.aggregation.service import turn
from stream_app.campaigns.planning import certificate
from stream_app.campaigns.sealing import seal
from stream_app.campaigns.verified.field import add, decoded, encode
from stream_app.cli import run
from stream_app.kafka import clients
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import ExactPlan
from stream_app.privacy.gaussian import naming
from stream_app.privacy.randomness import SystemSource
from stream_app.wire import Topics
from stream_app.wire.campaigns.contribution import encode_contribution
from tests.conftest import Kafka
from tests.consumers.audit.test_campaigns import DIGEST, HONEST, ONCE, ONE, SIZE
from tests.consumers.audit.worlds import World, keys, levels
from tests.kafka.test_audit_wire import publish
from tests.stream_app.aggregation.world import Kept, device_id, keys_of, plan_of

pytestmark = pytest.mark.kafka


def campaign_on(kafka: Kafka, topics: str, log: RoundTopic, read: ContributionTopic) -> None:
    """Play both stages of a campaign of two parties; each device sends its record twice."""
    keys = keys_of(2)
    campaign, coordinator = plan_of(keys, **HONEST), Coordinator(log, read)
    parties = [Party(each, Kept()) for each in keys]
    producer, name = clients.producer(kafka.connection), Topics(topics).contributions
    coordinator.begin(campaign)
    for index in (0, 1):
        coordinator.open_stage()
        for device in range(3):
            vector = np.full(SIZE, device)
            made = seal(campaign, index, device_id(device), vector, SystemSource())
            for _ in range(2):
                clients.send(producer, name, key=made.key, value=encode_contribution(made))
        assert producer.flush(30) == 0
        coordinator.close_stage()
        for party in parties * 3:  # opened, checks, share
            turn(party, log, read.read)


def test_a_campaign_is_read_again_and_a_second_share_of_a_stage_is_found(
    kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = Topics(topics)
    command = ["audit", "wire", "--bootstrap", kafka.bootstrap, "--prefix", topics]
    with (
        closing(RoundTopic(kafka.connection, names.rounds)) as log,
        closing(ContributionTopic(kafka.connection, names.contributions)) as read,
    ):
        campaign_on(kafka, topics, log, read)
        assert run([*command, "--json"]) == 0
        found = {row["claim"]: row for row in json.loads(capsys.readouterr().out)["findings"]}
        assert {found[claim]["verdict"] for claim in (DIGEST, ONCE, ONE)} == {"ok"}
        assert "2 stages read again, 6 further records" in found[ONCE]["measured"]
        share = log.rounds.stages[0].shares[0]
        second = encode(add(decoded(share.integers), np.uint64(1)))
        log.append(msgspec.structs.replace(share, integers=second))
    assert run(command) == 1
    assert ONE in capsys.readouterr().err


def test_what_an_account_released_is_its_reports_and_every_stage_of_its_campaigns(
    kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names, mechanism, world = Topics(topics), registry.parse("rr:5:1"), World(1)
    world.send(
        device_id(2), keys(range(4)), levels(world.rng, 4), mechanism,
        epoch=int(time.time()) // 86_400,
    )  # fmt: skip
    publish(kafka, topics, world.records)
    command = ["audit", "wire", "--bootstrap", kafka.bootstrap, "--prefix", topics]
    command += ["--allow", mechanism.id, "--json"]
    whole = naming.name(certificate(plan_of(keys_of(2), **HONEST).stages))

    def spent(budget: str, code: int) -> dict[str, float]:
        assert run([*command, "--budget", budget]) == code
        found = json.loads(capsys.readouterr().out)["findings"]
        (row,) = [each for each in found if each["claim"].startswith("no account releases")]
        assert row["verdict"] == ("violated" if code else "ok")
        return row["figures"]

    assert spent("4", 0)["spent"] == pytest.approx(4, rel=1e-4)
    with (
        closing(RoundTopic(kafka.connection, names.rounds)) as log,
        closing(ContributionTopic(kafka.connection, names.contributions)) as read,
    ):
        campaign_on(kafka, topics, log, read)
    figures = spent("4", 1)
    ledger = ExactPlan((), Fraction(1, 10**6))
    assert figures["spent"] == pytest.approx(ledger.spent({mechanism.id: 4, whole: 1}), rel=1e-4)
    assert figures["replaced"] > figures["spent"] > 4.5
    spent("20", 0)

"""A device contributes to a stage of *stars* with the side that the stages before published."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from murmurec import Device
from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
from stream_app.campaigns.learning import stage_learning as learning
from stream_app.campaigns.planning import Outline, plan
from stream_app.campaigns.public_side import PublicSide, PublishedSide, encode_published
from stream_app.campaigns.rounds import Phase, set_digest
from stream_app.cli import run
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.wire import Topics
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import Close, NoisyShare, Open, Opened, Planned
from stream_app.wire.public_tables import encode_table_record, table_records
from tests.conftest import Kafka

pytestmark = pytest.mark.kafka
ITEMS = 10


def released(log: RoundTopic, campaign: Campaign, index: int) -> np.ndarray:
    """Write the life of a stage that many people contributed to; return its noisy sum."""
    stage, digest, counted = campaign.stages[index], campaign.digest, np.ones(50, np.bool_)
    result = np.random.default_rng(index).integers(-9999, 9999, stage.size)
    records = bytes(32)
    opened = np.packbits(counted, bitorder="little").tobytes()
    share = result.astype("<i4").tobytes()
    for entry in (
        Open(digest, index, (0, 0, 0, 0)),
        Close(digest, index, (0, 0, 0, 0), ()),
        Opened(digest, index, 0, 50, records, opened),
        NoisyShare(digest, index, 0, set_digest(records, counted), share),
    ):
        log.append(entry)
    assert log.catch_up().stages[index].phase is Phase.RELEASED
    return result


def publish(kafka: Kafka, topics: str, side: PublishedSide, cut: int) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).item_side)
    for record in table_records(encode_published(side), cut, cut % 2):
        writer.send_patiently(key=record.key, value=encode_table_record(record))
    writer.wait()


def test_a_stage_of_stars_takes_the_side_of_its_own_plan_alone(
    kafka: Kafka, topics: str, tmp_path: Path, environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL="device.journal",
    )
    party = keys.make(tmp_path, Role.CENTRAL)
    outline = Outline(Fraction(1), Fraction(1, 10**6), 1, ("stars",))
    campaign = plan(outline, range(1, ITEMS + 1), 2, (party.public.hex(),))
    scope = tmp_path / "items.txt"
    scope.write_text("".join(f"{item}\n" for item in range(1, ITEMS + 1)))
    with Device("ann", "device.journal", prefix=topics).enrol(plan="adaptive") as device:
        device.rate(3, 5)
    command = ["device", "contribute", "--user", "ann", "--scope", str(scope)]
    command += ["--keys", str(tmp_path / "central.pub")]
    names = Topics(topics)
    log = RoundTopic(kafka.connection, names.rounds)
    contributions = ContributionTopic(kafka.connection, names.contributions)
    log.append(Planned(campaign))
    noisy = released(log, campaign, 0)
    log.append(Open(campaign.digest, 1, (0, 0, 0, 0)))
    log.close()

    assert run(command) == 1
    assert "is computed from the public item side" in " ".join(capsys.readouterr().err.split())
    side = learning.learn(campaign, 0, PublicSide(2, campaign.scope), noisy, 50)
    own = PublishedSide.of_campaign(campaign, 1, side)
    other = PublishedSide(bytes(32), 1, own.stages, own.epsilon, own.delta, 1, side)
    publish(kafka, topics, other, 1)
    assert run(command) == 1
    assert "nothing was contributed" in " ".join(capsys.readouterr().err.split())
    assert sum(contributions.ends) == 0
    publish(kafka, topics, own, 2)
    assert run(command) == 0
    assert "stage 1 (bias): contributed" in capsys.readouterr().out
    assert sum(contributions.ends) == 1
    contributions.close()

"""What a refusal tells an operator to do, obeyed: no advice loses a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka.admin import NewPartitions

from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli import run
from stream_app.cli.device.publishers import publisher_for
from stream_app.deployment import spec_from_settings
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_follower
from stream_app.kafka.topic_admin import partition_counts
from stream_app.operations import rebuild as rebuilding
from stream_app.operations.session import Session
from stream_app.settings import Settings
from tests.fixtures.streams import events, partition_of, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka


@pytest.fixture
def log(settings: Settings, send: Send, rng: np.random.Generator, tmp_path: Path) -> Log:
    """Give a log of four rounds, of two mechanisms, and a checkpoint of the third."""
    made = Log(settings.model_copy(update={"data_dir": tmp_path}), send)
    made.rounds([publish(event) for event in events(rng, 120)], 4)
    state = made.replayed(3)
    write_checkpoint(made.deployment, state.replica, state.cut_offset, "test")
    return made


def session(log: Log, **changed: object) -> Session:
    """Return the deployment under other settings."""
    return Session.from_settings(log.settings.model_copy(update=changed))


def rejections(log: Log) -> int:
    """Return how many rejections there are."""
    return sum(1 for _ in topic_follower.records(log.connection, log.names.rejected))


def grow(log: Log, count: int) -> None:
    """Add partitions to the rating topic, as Kafka's own tool does."""
    admin = clients.admin(log.connection)
    for future in admin.create_partitions([NewPartitions(log.names.ratings, count)]).values():
        future.result(timeout=PATIENCE_SECONDS)
    ratings = log.names.ratings
    until(lambda: partition_counts(admin, [ratings])[ratings] == count, "the broker tells of them")


def test_added_partitions_are_refused_as_a_setting_and_not_used(log: Log) -> None:
    """The log was learned with the number of its first cut, with which all goes on."""
    grow(log, 6)
    with pytest.raises(UserError, match=r"6 partitions, not 4: .*--prefix") as refused:
        session(log, partitions=6)
    assert "set partitions" not in str(refused.value)
    assert "--rebuild" not in str(refused.value)
    ledger = rebuilding.rebuild(session(log)).replica.ledger
    assert ledger.counts() == log.replayed().replica.ledger.counts()


def test_a_device_goes_on_among_added_partitions_where_the_number_was_set(log: Log) -> None:
    grow(log, 6)
    with pytest.raises(UserError, match=r"6 partitions, not 4: .*operator.*--prefix") as refused:
        publisher_for(log.settings)
    assert "set partitions" not in str(refused.value)
    keys = [f"{number:032x}".encode() for number in range(50)]
    places: list[int] = []
    with publisher_for(log.settings.model_copy(update={"partitions": 4})) as line:
        for key in keys:
            line.send(key, b"{}", accepted=lambda place: places.append(place.partition))
    assert sorted(places) == sorted(partition_of(key) for key in keys)


def test_topics_are_applied_among_added_partitions_and_refused_with_their_number(
    log: Log, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(log, 6)
    where = ["--bootstrap", log.servers, "--prefix", log.settings.topic_prefix]
    assert run(["topics", "apply", *where]) == 0
    assert "uses the first 4" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setenv("MURMUREC_PARTITIONS", "6")
    assert run(["topics", "apply", *where]) == 1
    refused = " ".join(capsys.readouterr().err.split())
    assert "6 partitions, not 4" in refused
    assert "--prefix" in refused
    assert "set partitions" not in refused


def test_a_wrong_number_of_partitions_is_set_right_by_the_advice(log: Log) -> None:
    for wrong in (2, 8):
        with pytest.raises(UserError, match="set partitions to 4"):
            session(log, partitions=wrong)
    assert session(log, partitions=4).deployment.partitions == 4


def test_a_rebuild_names_the_records_that_the_settings_would_drop_and_writes_nothing(
    log: Log,
) -> None:
    whole, before = session(log), session(log).manifest()
    assert before is not None
    # As where a release of another state format has lost the design in force.
    narrow = spec_from_settings(log.settings.model_copy(update={"mechanisms": ("rr:5:2",)}))
    narrowed = replace(whole, deployment=replace(whole.deployment, spec=narrow))
    with pytest.raises(UserError, match=r"mechanism_not_allowed.*--accept-gap") as refused:
        rebuilding.rebuild(narrowed)
    assert rejections(log) == 0
    assert session(log).manifest() == before
    kept = rebuilding.rebuild(whole).replica.ledger
    dropped = rebuilding.rebuild(narrowed, drop=True).replica.ledger
    lost = kept.counts()["applied"] - dropped.counts()["applied"]
    assert lost == rejections(log) > 0
    assert int(str(refused.value).split()[0]) <= lost  # those before the checkpoint


def test_a_rebuild_under_other_settings_keeps_those_in_force_and_every_record(log: Log) -> None:
    rebuilt = rebuilding.rebuild(session(log, factors=16, mechanisms=("rr:5:2",))).replica
    assert rebuilt.spec.factors == 8
    assert rebuilt.cut == 4
    assert rebuilt.ledger.counts() == log.replayed().replica.ledger.counts()

"""`murmurec device run` with pinned keys: it contributes by itself over a real broker."""

from __future__ import annotations

import signal

import msgspec
import numpy as np
import pytest

from producers.journal import Journal
from producers.ranking import CleanHistory
from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.cli import run
from tests.fixtures import forks
from tests.fixtures.campaigns import vector_of
from tests.fixtures.sealing_relays import behind_a_relay
from tests.fixtures.waiting import until
from tests.kafka.test_aggregation import Aggregator, check, coordinator, result
from tests.kafka.test_contribute import ITEMS, RATED, keep, plan_of

__all__ = ["coordinator"]
pytestmark = pytest.mark.kafka

RUNNING = """
    import sys
    from functools import partial
    from stream_app.cli import run
    from stream_app.cli.device.running import campaign_part

    campaign_part.Contributing = partial(campaign_part.Contributing, look_seconds=1.0)
"""


def test_a_running_device_contributes_for_its_accounts_in_the_stage_that_opens(
    kafka, topics, tmp_path, environment, coordinator
):
    party = keys.make(tmp_path, Role.CENTRAL)
    journal, scope = tmp_path / "journal", tmp_path / "items.txt"
    scope.write_text("".join(f"{item}\n" for item in range(1, ITEMS + 1)))
    broker = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    for user in RATED:
        assert run(["device", "enrol", "--user", user, "--journal", str(journal)]) == 0
    devices = keep(journal, RATED)
    campaign = plan_of(party.public)
    coordinator.begin(campaign)
    command = ["device", "run", "--journal", str(journal), "--watch", str(tmp_path / "ratings")]
    command += ["--keys", str(tmp_path / "central.pub"), "--campaign-scope", str(scope), *broker]
    log = tmp_path / "device.log"
    device = forks.start(command, log, before=RUNNING)
    aggregator = Aggregator(Role.CENTRAL, tmp_path, broker)
    try:
        until(lambda: device.poll() is not None or "campaigns  every" in log.read_text(), "it runs")
        coordinator.open_stage()
        until(
            lambda: device.poll() is not None or sum(coordinator.contributions.ends) >= len(RATED),
            "every account has contributed",
        )
        assert device.poll() is None, log.read_text()
        stage = coordinator.close_stage()
        aggregator.start()
        found = result(coordinator, stage.index)
    finally:
        aggregator.end(signal.SIGKILL)
        device.terminate()
        assert device.wait(30) == 0, log.read_text()
    kept = CleanHistory(journal)
    sent = [vector_of(campaign, kept.rated(each)) for each in devices.values()]
    check(found, np.stack(sent), (party,))


@pytest.mark.thorough
def test_a_device_behind_a_relay_contributes_and_the_relay_sees_no_pseudonym(
    kafka, topics, tmp_path, environment, coordinator
):
    """Of Kafka the device knows an address where there is none."""
    environment(MURMUREC_CAMPAIGN_NOTICE_SECONDS="0")
    parties = keys.make(tmp_path, Role.A), keys.make(tmp_path, Role.B)
    journal, scope = tmp_path / "journal", tmp_path / "items.txt"
    scope.write_text("".join(f"{item}\n" for item in range(1, ITEMS + 1)))
    for user in RATED:
        assert run(["device", "enrol", "--user", user, "--journal", str(journal)]) == 0
    devices = keep(journal, RATED)
    public = tuple(each.public.hex() for each in parties)
    campaign = msgspec.structs.replace(plan_of(parties[0].public), parties=2, keys=public)
    coordinator.begin(campaign)
    coordinator.open_stage()
    command = ["device", "run", "--journal", str(journal), "--watch", str(tmp_path / "ratings")]
    command += ["--mechanism", "rr", "--campaign-scope", str(scope), "--bootstrap", "127.0.0.1:1"]
    for role in (Role.A, Role.B):
        command += ["--keys", str(tmp_path / f"{role}.pub")]
    log, broker = tmp_path / "device.log", ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    aggregators = [Aggregator(role, tmp_path, broker) for role in (Role.A, Role.B)]
    with behind_a_relay(kafka.bootstrap, topics, tmp_path, privacy_mode="split") as relay:
        command += ["--relay", f"{relay.address}#{relay.key}"]
        device = forks.start(command, log, before=RUNNING)
        try:
            until(
                lambda: (
                    device.poll() is not None or sum(coordinator.contributions.ends) >= len(RATED)
                ),
                "every account has contributed",
            )
            assert device.poll() is None, log.read_text()
            stage = coordinator.close_stage()
            for each in aggregators:
                each.start()
            found = result(coordinator, stage.index)
        finally:
            for each in aggregators:
                each.end(signal.SIGKILL)
            device.terminate()
            assert device.wait(30) == 0, log.read_text()
    kept = CleanHistory(journal)
    sent = [vector_of(campaign, kept.rated(each)) for each in devices.values()]
    check(found, np.stack(sent), parties)
    written = list(coordinator.contributions.read(found))
    assert {each.key for each in written} == {each.hex().encode() for each in devices.values()}
    for name in devices.values():
        for seen in (relay.clients.sent, relay.relays.sent):
            assert name not in seen
            assert name.hex().encode() not in seen
    with Journal.open(journal) as opened:
        assert opened.pending() == []
        assert [opened.spent(each)["user"].reports for each in devices.values()] == [1] * len(RATED)

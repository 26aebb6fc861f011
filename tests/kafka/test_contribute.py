"""Devices contribute to a campaign over a real broker, and one party releases the sum."""

from __future__ import annotations

import json
import signal
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmurec import Device
from producers.identities import Identities
from producers.journal import Journal
from producers.ranking import CleanHistory
from producers.scale import Scale
from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.campaigns import together
from stream_app.campaigns.planning import Wanted, stages
from stream_app.cli import run
from stream_app.errors import UserError
from stream_app.wire.campaigns.plan import Campaign
from tests.fixtures import forks
from tests.fixtures.campaigns import vector_of
from tests.kafka.test_aggregation import Aggregator, check, coordinator, result

__all__ = ["coordinator"]
pytestmark = pytest.mark.kafka

ITEMS = 8
DELTA = Fraction(1, 10**6)
RATED = {"ann": {1: 5, 2: 4, 3: 1}, "bob": {2: 4}, "cleo": {}, "dan": {7: 5, 8: 5, 1: 4}}

KILLED = """
    import os, signal
    from producers.publishing import OutboxRelay

    # The record of the contribution is durable; the broker has not seen it.
    OutboxRelay.send = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def plan_of(public: bytes, **more: Any) -> Campaign:
    wanted = [Wanted("together", together.size(ITEMS), Fraction(1))]
    found = stages(Fraction(1), DELTA, wanted, bound=100)
    scope = tuple(range(1, ITEMS + 1))
    return Campaign(1, Fraction(1), DELTA, 1, scope, found, (public.hex(),), **more)


def keep(
    journal: Path, ratings: dict[str, dict[int, int]], *, signed: bool = False
) -> dict[str, bytes]:
    """Keep ratings as `publish` and `device run` do; return the pseudonyms."""
    with Journal.open(journal) as opened:
        devices = {user: Identities(opened.key, signed=signed).pseudonym(user) for user in ratings}
    kept = CleanHistory(journal)
    for user, rows in ratings.items():
        for item, stars in rows.items():
            kept.append(devices[user], item, stars, Scale(), time.time())
    return devices


def test_devices_contribute_once_and_the_sum_is_exact_but_for_the_noise(
    kafka, topics, tmp_path, environment, coordinator, capsys
):
    environment(MURMUREC_DEVICES="signed")
    party = keys.make(tmp_path, Role.CENTRAL)
    journal, scope = tmp_path / "journal", tmp_path / "items.txt"
    scope.write_text("".join(f"{item}\n" for item in range(1, ITEMS + 1)))
    broker = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    for user in RATED:
        assert run(["device", "enrol", "--user", user, "--journal", str(journal)]) == 0
    devices = keep(journal, RATED, signed=True)
    campaign = plan_of(party.public, signed=True)
    coordinator.begin(campaign)

    def command(user: str) -> list[str]:
        own = ["--user", user, "--journal", str(journal), "--scope", str(scope)]
        return [
            "device",
            "contribute",
            *own,
            "--keys",
            str(tmp_path / "central.pub"),
            *broker,
        ]

    assert run(command("ann")) == 1
    assert "is planned" in capsys.readouterr().err
    coordinator.notice = 3600.0
    with pytest.raises(UserError, match=r"public for 3,600 s before it opens"):
        coordinator.open_stage()
    coordinator.notice = 0.0
    coordinator.open_stage()
    environment(MURMUREC_CAMPAIGN_NOTICE_SECONDS="3600")
    assert run(command("ann")) == 1
    assert "s before it opened, and this device contributes to none below 3,600 s" in " ".join(
        capsys.readouterr().err.split()
    )
    environment(MURMUREC_CAMPAIGN_NOTICE_SECONDS="0")
    for user in ("ann", "cleo", "dan"):
        assert run(command(user)) == 0
    shown = capsys.readouterr()
    assert shown.out.count("paid epsilon 1 at delta 1e-06 for you as a person") == 3
    assert shown.err.count("kept no rating of this user") == 1
    assert run(command("ann")) == 1
    assert "there is no second" in " ".join(capsys.readouterr().err.split())

    assert forks.run(command("bob"), before=KILLED).returncode == -signal.SIGKILL
    with Journal.open(journal) as opened:
        (waiting,) = opened.pending()
    assert waiting.device == devices["bob"]
    assert sum(coordinator.contributions.ends) == 3
    assert run(command("bob")) == 0
    assert "the same bytes" in " ".join(capsys.readouterr().out.split())
    assert run(command("bob")) == 1

    stage = coordinator.close_stage()
    written = list(coordinator.contributions.read(stage))
    assert {each.key for each in written} == {each.hex().encode() for each in devices.values()}
    assert len(written) == 4
    assert waiting.value in [each.value for each in written]
    assert len({len(each.value or b"") for each in written}) == 1
    aggregator = Aggregator(Role.CENTRAL, tmp_path, broker)
    aggregator.start()
    try:
        found = result(coordinator, stage.index)
    finally:
        aggregator.end(signal.SIGKILL)
    kept = CleanHistory(journal)
    sent = np.stack([vector_of(campaign, kept.rated(each)) for each in devices.values()])
    assert [bool(row.any()) for row in sent] == [True, True, False, True]
    check(found, sent, (party,))

    # What the log decided, by the command and in Python; and of a log that holds no such plan.
    capsys.readouterr()
    environment(MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap, MURMUREC_TOPIC_PREFIX=topics)
    status = ["device", "status", "--user", "bob", "--journal", str(journal), "--receipts"]
    assert run([*status, "--json"]) == 0
    (receipt,) = json.loads(capsys.readouterr().out)["receipts"]
    assert (receipt["campaign"], receipt["stage"], receipt["outcome"]) == (1, 0, "counted")
    assert "of 4, 4 count; the stage is released" in receipt["reason"]
    assert (receipt["epsilon"], receipt["paid"], receipt["records"]) == ("1", 1, 1)
    with Device("ann", journal) as device:
        (again,) = device.receipts()
    assert (again.outcome, again.plan) == ("counted", campaign.digest.hex())
    environment(MURMUREC_TOPIC_PREFIX="elsewhere")
    assert run(status) == 0
    assert "2 contributions or payments are of plans that this log does not hold" in " ".join(
        capsys.readouterr().out.split()
    )

"""Campaigns in the log of a real broker: every replay, start and command computes one state."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli import run
from stream_app.log.canonical_order import Start
from stream_app.replay.follower import Follower
from stream_app.replay.recompute import take
from stream_app.settings import Settings, load
from stream_app.state.replica import Replica
from stream_app.wire import Forget, encode_message
from stream_app.wire.authenticity.seal import Seal
from stream_app.wire.limits import MAX_EVENT_BYTES, MAX_INTEGERS
from tests.fixtures.campaigns import plan, planned, released
from tests.fixtures.streams import events, publish
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka
PLAN, ROUNDS = plan(), 6
SECRET = "0123456789abcdef" * 2


@pytest.fixture
def log(
    settings: Settings, send: Send, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> Log:
    """Give a log of which the second round begins with a plan, the third with a sum of it, the
    fourth with entries that do not fit, and the fifth, without a record, with the next sum."""
    monkeypatch.setenv("MURMUREC_PRIVACY_MODE", "central")
    made = Log(
        load(bootstrap_servers=settings.bootstrap_servers, topic_prefix=settings.topic_prefix), send
    )
    records = [publish(event) for event in events(rng, 120)]
    made.round(records[:40])
    made.entry(planned(PLAN))
    made.round(records[40:80])
    made.entry(released(PLAN))
    made.round(records[80:100])
    for other in (released(PLAN, 0, seed=9), released(plan(7)), planned(PLAN)):
        made.entry(other)
    made.entry(Forget(records[0].key.decode() if records[0].key else ""))
    made.round(records[100:110])
    made.entry(released(PLAN, 1, seed=1))
    made.cut(made.end_offsets)
    made.round(records[110:])
    assert made.number == ROUNDS
    return made


def digests(replica: Replica) -> tuple[int, str, str]:
    return replica.cut, replica.model_digest(), replica.ledger_digest()


def followed(log: Log, start: Start, replica: Replica, seal: Seal | None = None) -> Follower:
    """Follow the log from a position to its end, into a replica."""
    deployment = log.deployment if seal is None else replace(log.deployment, seal=seal)
    follower = Follower(deployment, start)
    try:
        while replica.cut < log.number:
            for piece in follower.poll(0.05):
                take(replica, piece)
    finally:
        follower.close()
    return follower


def test_every_start_leads_to_the_same_campaign(log: Log) -> None:
    whole = log.replayed().replica
    assert whole.campaigns is not None
    standing = whole.campaigns.standing
    assert (standing.plan, standing.released, standing.next_stage) == (PLAN, 2, None)
    assert whole.campaigns.ignored == {"old_number": 1, "other_plan": 1, "other_stage": 1}
    found = [log.replayed(cut) for cut in range(1, ROUNDS + 1)]
    stages = [state.replica.campaigns.summary() for state in found if state.replica.campaigns]
    assert [each["number"] for each in stages] == [None, 1, 1, 1, 1, 1]
    assert [each["released"] for each in stages] == [0, 0, 1, 1, 2, 2]
    for state in found:
        manifest = write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")
        followed(log, Start.after(manifest), state.replica)
        assert digests(state.replica) == digests(whole)


def test_a_state_with_a_campaign_is_verified_and_a_changed_one_is_named(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    state = log.replayed(5)
    write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")
    where = ["--bootstrap", log.servers, "--prefix", log.names.prefix, "--json"]
    assert run(["state", "verify", *where]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []
    assert state.replica.campaigns is not None
    state.replica.campaigns.arrays()["side"][-1] ^= 1
    write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")
    assert run(["state", "verify", *where]) != 0
    assert "campaigns.side" in capsys.readouterr().out


def test_the_seal_is_counted_and_does_not_decide(log: Log) -> None:
    """A reader with another secret, or none, computes the same state."""
    seal = Seal(SECRET, log.names.prefix)
    log.entry(planned(plan(2)).sealed(seal))
    log.cut(log.end_offsets)
    zero, spec = Start(0, (0,) * 4), log.deployment.spec
    replicas = [Replica(spec) for _ in range(3)]
    seals = [Seal(), seal, Seal(SECRET[::-1], log.names.prefix)]
    unsealed = [
        followed(log, zero, replica, each).unsealed
        for replica, each in zip(replicas, seals, strict=True)
    ]
    assert unsealed == [0, 6, 7]
    assert len({digests(replica) for replica in replicas}) == 1


def test_the_largest_noisy_sum_goes_through_the_broker(log: Log) -> None:
    integers = np.arange(MAX_INTEGERS).astype("<i4").tobytes()
    entry = msgspec.structs.replace(released(PLAN, 1), integers=integers)
    assert len(encode_message(entry)) > MAX_EVENT_BYTES
    log.entry(entry)
    log.cut(log.end_offsets)
    campaigns = log.replayed().replica.campaigns
    assert campaigns is not None
    assert campaigns.ignored["other_stage"] == 2

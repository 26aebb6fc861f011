"""The origin that a replay starts from, and what the cut log records of it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from stream_app.checkpoints import checkpoint_reader as changelog
from stream_app.checkpoints import snapshot_file
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import acls as rights
from stream_app.kafka import clients
from stream_app.kafka import topic_admin as topics
from stream_app.kafka.clients import Connection
from stream_app.log.ledger import REJECTED
from stream_app.replay.cut_history import CutHistory, lost_origin
from stream_app.replay.follower import Follower
from stream_app.replay.recompute import begin, redesign
from stream_app.state.outcome import rejected
from stream_app.state.replica import Replica
from stream_app.wire import DigestReport, Forget, Reason, Topics, decode_many
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.campaigns import plan, planned
from tests.fixtures.replicas import ALL, SMALL, played
from tests.fixtures.streams import EVERY_FAMILY, events, publish, run_of

ZERO = (0, 0, 0, 0)
DEVICES = ("a" * 32, "b" * 32, "c" * 32)


def test_a_snapshot_is_adopted_without_the_devices_that_were_forgotten_since(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    made = events(rng, 200, families=EVERY_FAMILY, devices=12)
    old, device = played([publish(e) for e in made], rng, ALL), made[0].device
    snapshot_file.write(tmp_path / "old.npz", old)
    snapshot = snapshot_file.read(tmp_path / "old.npz", ALL)
    origin = StateOrigin(9, (5, 5, 5, 5), snapshot=snapshot.digest)
    adopted = begin(ALL, origin, snapshot)
    with_it = adopted.model_digest()
    assert adopted.forget(device)
    begun = begin(ALL, replace_without(origin, device), snapshot)
    assert begun.model_digest() == adopted.model_digest() != with_it
    words = np.frombuffer(device, "<u8").reshape(1, 2).astype(np.uint64)
    assert begun.marks.find(words).tolist() == [0]
    assert len(begun.ledger.forgotten) == 0, "the origin records it"
    again = replace(made[0], seq=made[0].seq + 1000)
    (batch,) = [decode_many(run_of([publish(again)], 0, 1, publish(again).partition), ALL.intake)]
    assert begun.apply(batch).records.tolist() == [REJECTED]


@pytest.mark.parametrize("head_items", [SMALL.head_items, 2 * SMALL.head_items])
def test_the_design_that_opens_a_log_keeps_the_entries_before_it(head_items: int) -> None:
    first = replace(SMALL, privacy_mode="central")
    opening = replace(first, head_items=head_items)
    live, replayed = Replica(first), Replica(opening)
    for replica in (live, replayed):
        replica.follow(planned(plan()))
        replica.set_contract(2)
        replica.forget(bytes.fromhex(DEVICES[0]))
        redesign(replica, opening)
    assert live.campaigns is not None
    assert live.campaigns.summary()["number"] == plan().number
    assert live.model_digest() == replayed.model_digest()
    assert live.ledger_digest() == replayed.ledger_digest()


def replace_without(origin: StateOrigin, device: bytes) -> StateOrigin:
    return StateOrigin(
        origin.cut, origin.end_offsets, origin.snapshot, origin.truncated, (device.hex(),)
    )


def past(*bases: StateOrigin, forgets: tuple[Forget, ...] = (), design: str = "ours") -> CutHistory:
    """Return a history with a digest report for each of these bases."""
    held = tuple(DigestReport(3, "0" * 32, "0" * 32, design, origin.digest) for origin in bases)
    return CutHistory((), tuple((1, forget) for forget in forgets), held)


FORGETS = (
    Forget(DEVICES[1], rebuild=True),
    Forget(DEVICES[2]),
    Forget(DEVICES[0], rebuild=True),
)


@pytest.mark.parametrize(
    "excluded", [(), (DEVICES[1],), (DEVICES[0], DEVICES[1])], ids=["none", "the first", "both"]
)
def test_what_the_log_alone_leads_to_is_not_lost(excluded: tuple[str, ...]) -> None:
    assert (
        lost_origin(past(StateOrigin(0, ZERO, excluded=excluded), forgets=FORGETS), 4, "ours")
        is None
    )


@pytest.mark.parametrize(
    "origin",
    [
        StateOrigin(0, ZERO, snapshot="a" * 32),
        StateOrigin(3, (1, 1, 1, 1), truncated=True),
        StateOrigin(0, ZERO, excluded=(DEVICES[2],)),
    ],
    ids=["a snapshot", "a gap", "forgotten without a rebuild"],
)
def test_what_the_log_alone_does_not_lead_to_is_lost(origin: StateOrigin) -> None:
    assert (
        lost_origin(past(StateOrigin(0, ZERO), origin, forgets=FORGETS), 4, "ours") == origin.digest
    )


def test_the_newest_digest_report_of_our_design_decides() -> None:
    adopted, log = StateOrigin(0, ZERO, snapshot="a" * 32), StateOrigin(0, ZERO)
    assert lost_origin(past(adopted, log), 4, "ours") is None
    assert lost_origin(past(adopted, design="theirs"), 4, "ours") is None
    assert lost_origin(past(), 4, "ours") is None


def test_a_rejected_record_is_reported_by_offset_reason_and_size(rng: np.random.Generator) -> None:
    replica = Replica(SMALL)
    good = publish(events(rng, 1)[0])
    records = [good, replace(good, value=b"poison"), good]
    batch = decode_many(run_of(records, 0, 3, good.partition), SMALL.intake)
    (rejection,) = rejected("ratings", batch, replica.apply(batch))
    assert (rejection.topic, rejection.partition, rejection.offset) == (
        "ratings",
        good.partition,
        1,
    )
    assert (rejection.reason, rejection.size) == (Reason.MALFORMED, 6)


class Silent:
    """A broker's administrator whose answers never come."""

    def __getattr__(self, _: str) -> object:
        class Never(dict[object, object]):
            def __missing__(self, key: object) -> object:
                return Future()

        return lambda *_arguments, **_more: Never()


def test_a_silent_broker_is_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    silent: AdminClient = Silent()  # type: ignore[assignment]
    monkeypatch.setattr(clients, "admin", lambda *_: silent)
    monkeypatch.setattr(changelog, "_TOPIC_SECONDS", 0.01)
    monkeypatch.setattr(rights, "_SECONDS", 0.01)
    monkeypatch.setattr(topics, "SECONDS", 0.01)
    with pytest.raises(UserError, match="topic x cannot be described: the broker did not answer"):
        changelog.topic_id(silent, "x")
    with pytest.raises(UserError, match=r"topic x\.ratings\.v1: Kafka did not answer"):
        rights.check(Connection("x:1"), rights.of_role("worker", Topics("x")))
    with pytest.raises(UserError, match="topic x: Kafka did not answer"):
        topics._result("x", Future(), "DESCRIBE")


def test_what_is_wrong_with_a_whole_broker_names_no_partition() -> None:
    follower = Follower(Deployment(Connection("127.0.0.1:1"), Topics("x"), SMALL))
    try:
        with pytest.raises(UserError, match=r"^the broker cannot be read: Local: ") as refused:
            follower._failed(KafkaError(KafkaError._AUTHENTICATION), None, -1, -1001)
    finally:
        follower.close()
    assert "None" not in str(refused.value)

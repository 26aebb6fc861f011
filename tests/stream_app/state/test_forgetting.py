"""Forgetting a device: its records are rejected, its own data is cleared, and a state that excludes
a device equals that of a log without its records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.log.ledger import APPLIED, REJECTED
from stream_app.models.factorization.factory import LEARNERS
from stream_app.state.replica import Replica
from stream_app.wire import REASON_CODE, Event, Reason, decode_many
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.replicas import ALL, SMALL, applied, played
from tests.fixtures.streams import EVERY_FAMILY, Published, events, log, publish, run_of

FORGOTTEN = REASON_CODE[Reason.FORGOTTEN]
every_model = pytest.mark.parametrize("model", LEARNERS)


def made_of(rng: np.random.Generator, count: int = 300) -> list[Event]:
    return events(rng, count, families=EVERY_FAMILY, devices=12)


def bytes_of(replica: Replica) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in replica.model_arrays().items()}


def played_in(records: list[Published], replica: Replica, never: set[bytes], most: int) -> Replica:
    """Apply a log in three rounds, in runs of `most` records, without those of some devices."""
    for number in range(1, 4):
        end_offsets = []
        for p, part in enumerate(log(records, replica.spec.partitions)):
            first, end = len(part) * (number - 1) // 3, len(part) * number // 3
            left = [
                r for r in part[first:end] if bytes.fromhex((r.key or b"").decode()) not in never
            ]
            for at in range(0, len(left), most):
                run = run_of(left, at, min(len(left), at + most), p)
                replica.apply(decode_many(run, replica.spec.intake))
            end_offsets.append(end)
        replica.end_round(number, end_offsets)
    return replica


@every_model
def test_excluding_devices_equals_a_log_without_their_records(
    model: str, rng: np.random.Generator
) -> None:
    """Over every mechanism, with the same cuts and other batches."""
    spec, made = replace(ALL, model=model), made_of(rng)
    records, gone = [publish(e) for e in made], {made[0].device, made[7].device}
    origin = StateOrigin(0, (0,) * 4, excluded=tuple(sorted(device.hex() for device in gone)))
    left = played_in(records, Replica(spec, origin), set(), 17)
    right = played_in(records, Replica(spec), gone, 9)
    assert left.model_digest() == right.model_digest()
    assert left.model_digest() != played_in(records, Replica(spec), set(), 17).model_digest()
    refused = sum(e.device in gone for e in made)
    assert refused > 0
    assert left.ledger.rejected() == {"forgotten": refused}
    assert right.ledger.counts()["absent"] == refused
    assert left.ledger.counts()["applied"] == right.ledger.counts()["applied"]


@every_model
def test_the_records_of_a_forgotten_device_change_the_ledger_and_nothing_else(
    model: str, rng: np.random.Generator
) -> None:
    spec, made = replace(ALL, model=model), made_of(rng)
    replica = played([publish(e) for e in made], rng, spec)
    device, others = made[0].device, next(e for e in made if e.device != made[0].device)
    assert replica.forget(device)
    before = bytes_of(replica)
    outcome = applied(replica, replace(made[0], seq=10**6))
    assert outcome.records.tolist() == [REJECTED]
    assert outcome.reasons.tolist() == [FORGOTTEN]
    assert (
        outcome.duplicates == outcome.gaps == len(outcome.users) == len(outcome.missing.rows) == 0
    )
    assert bytes_of(replica) == before
    assert replica.ledger.rejected() == {"forgotten": 1}
    # A duplicate of it, and a jump, are refused for the same reason.
    for seq in (1, 2**50):
        assert applied(replica, replace(made[0], seq=seq)).reasons.tolist() == [FORGOTTEN]
    seq = max(e.seq for e in made if e.device == others.device) + 1
    assert applied(replica, replace(others, seq=seq)).records.tolist() == [APPLIED]


@every_model
def test_forgetting_clears_the_devices_own_data_and_keeps_what_is_documented(
    model: str, rng: np.random.Generator
) -> None:
    spec, made = replace(ALL, model=model), made_of(rng)
    replica = played([publish(e) for e in made], rng, spec)
    device = made[0].device
    words = np.frombuffer(device, "<u8").astype(np.uint64)
    before, users = bytes_of(replica), words[:1]
    own_events = [e for e in made if e.device == device and not e.mechanism.startswith("cell")]
    assert replica.forget(device)
    after = bytes_of(replica)
    changed = {name for name in after if after[name] != before[name]}
    own = {"vectors" if model == "hybrid" else "cells", "scalars"}
    lists = {
        f"{feed}_lists.{name}" for feed in ("rated", "reported") for name in ("ends", "blocks")
    }
    lists |= {"rated_lists.visits", "rated_lists.likes"}
    marks = {"marks.marks", "marks.digests"}
    assert changed <= {"presence.sums", *marks, *lists, *(f"learner.{n}" for n in own)}
    for reported in (False, True):
        assert len(replica.history(device, reported=reported)[0]) == 0
    assert {"presence.sums", *marks} <= changed
    fresh = Replica(spec).learner
    assert replica.learner.users(users)[0] == pytest.approx(fresh.users(users)[0], abs=1e-3)
    assert replica.marks.find(words.reshape(1, 2)).tolist() == [0]
    # What remains: pairs in the seen filter, the pseudonym in marks and ledger, counts of items.
    assert any(replica.seen.test_many(users, e.items[:1])[0] for e in own_events)
    assert words.tolist() in replica.marks.arrays()["devices"].tolist()
    assert replica.ledger.forgotten.tolist() == [words.tolist()]


def test_forgetting_twice_is_forgetting_once(rng: np.random.Generator) -> None:
    made = made_of(rng)
    replica = played([publish(e) for e in made], rng, ALL)
    assert replica.forget(made[0].device)
    others = [e for e in made if e.device != made[0].device]
    for event in others[:20]:
        applied(replica, replace(event, seq=event.seq + 10_000))
    held, ledger = bytes_of(replica), replica.ledger_digest()
    assert not replica.forget(made[0].device)
    assert bytes_of(replica) == held
    assert replica.ledger_digest() == ledger


def test_forgetting_an_unseen_device_changes_only_the_list_of_erased_devices(
    rng: np.random.Generator,
) -> None:
    """Its cells in a sketch hold the data of others and are not changed."""
    replica = played([publish(e) for e in made_of(rng)], rng, ALL)
    model, ledger = replica.model_digest(), replica.ledger_digest()
    assert not replica.forget(bytes(16))
    assert replica.model_digest() == model
    assert replica.ledger_digest() != ledger
    assert replica.ledger.forgotten.tolist() == [[0, 0]]


def test_an_excluded_device_is_not_forgotten_again() -> None:
    device = bytes(range(16))
    replica = Replica(ALL, StateOrigin(0, (0,) * 4, excluded=(device.hex(),)))
    digests = replica.model_digest(), replica.ledger_digest()
    assert not replica.forget(device)
    assert (replica.model_digest(), replica.ledger_digest()) == digests


def test_an_unreadable_record_is_not_attributed_to_a_forgotten_device() -> None:
    """Its device is unknown and written as zeros, which may be a real pseudonym."""
    replica = Replica(SMALL)
    replica.forget(bytes(16))
    run = run_of([Published(0, b"k", b"nonsense")], 0, 1, 0)
    outcome = replica.apply(decode_many(run, SMALL.intake))
    assert outcome.reasons[0] != FORGOTTEN
    assert outcome.records.tolist() == [REJECTED]


def test_a_device_that_shares_half_a_pseudonym_with_a_forgotten_one_is_accepted() -> None:
    event = Event(
        bytes(range(16)), 1, "rr:5:2", 0, np.arange(3, dtype=np.uint64), np.zeros(3, np.uint8)
    )
    replica = Replica(SMALL)
    replica.forget(event.device[:8] + bytes(8))
    assert applied(replica, event).records.tolist() == [APPLIED]


def test_a_rejected_record_does_not_affect_the_others_of_its_batch(
    rng: np.random.Generator,
) -> None:
    """Each record has its reason; a jump of the sequence number has a reason of its own."""
    names = [rng.bytes(16) for _ in range(200)]
    made = [
        Event(name, 1, "rr:5:2", 0, np.arange(2, dtype=np.uint64), np.zeros(2, np.uint8))
        for name in names
    ]
    part = [r for r in map(publish, made) if r.partition == 0][:8]
    devices = [bytes.fromhex(r.key.decode()) for r in part if r.key]
    far = publish(replace(made[names.index(devices[5])], seq=2**21))
    part[4:6], replica = [part[5], far], Replica(SMALL)
    replica.forget(devices[2])
    part.append(part[3])
    batch = decode_many(run_of(part, 0, 9, 0), SMALL.intake)
    outcome = replica.apply(batch)
    jump = REASON_CODE[Reason.SEQ_JUMP]
    assert outcome.records.tolist() == [0, 0, 3, 0, 0, 2, 0, 0, 1]
    assert outcome.reasons.tolist() == [0, 0, FORGOTTEN, 0, 0, jump, 0, 0, 0]
    assert not batch.reasons.any()
    assert outcome.duplicates == replica.ledger.counts()["ratings_duplicate"] == 2
    assert replica.ledger.rejected() == {"seq_jump": 1, "forgotten": 1}
    assert len(outcome.users) == 12


def test_a_pseudonym_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="device of 15 bytes"):
        Replica(SMALL).forget(bytes(15))

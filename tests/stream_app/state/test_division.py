"""A state that is divided by device: the shards together hold each device once, with what the
undivided state knows of it, and each of them all that was learned of items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.kernels.exchange.entered_rows import find_slots
from stream_app.models.cooccurrence.pair_base import TABLES
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import USER
from stream_app.state.exchange.division import adopt_share, shards_of, undivided
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Event
from stream_app.wire.ids import partition_of
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.replicas import LIKES, SMALL, applied, played
from tests.fixtures.streams import events, publish
from tests.stream_app.state.test_exchange import assert_equal, exact

BY_DEVICE = ("marks.", "rated_lists.", "reported_lists.", "learner.")


def shares(whole: Replica, shards: int) -> list[Replica]:
    origin = StateOrigin(1, whole.end_offsets, snapshot="0" * 32)
    found = []
    for shard in range(shards):
        replica = Replica(replace(whole.spec, shards=shards, shard=shard), origin)
        adopt_share(replica, whole.model_arrays(), whole.ledger.arrays(), origin)
        found.append(replica)
    return found


def made(rng: np.random.Generator, spec: StateSpec) -> tuple[list[Event], Replica]:
    family = {"mechanism": spec.mechanisms[0].id} if spec is LIKES else {}
    sent = events(rng, 600, devices=60, **family)
    whole = played([publish(each) for each in sent], rng, spec)
    whole.forget(sent[0].device)
    return sent, whole


def words(device: bytes) -> np.ndarray:
    return np.frombuffer(device, "<u8").astype(np.uint64).reshape(1, 2)


@pytest.mark.parametrize("spec", [SMALL, replace(SMALL, sketch_bytes=1 << 11), LIKES])
def test_each_device_is_in_one_shard_with_all_that_was_known(
    spec: StateSpec, rng: np.random.Generator
) -> None:
    sent, whole = made(rng, spec)
    divided = shares(whole, 4)
    assert sum(len(each.marks) for each in divided) == whole.marks.devices
    for device in {each.device for each in sent}:
        shard = partition_of(device.hex().encode(), spec.partitions) % 4
        assert shards_of(words(device), divided[0].spec).tolist() == [shard]
        for own, replica in enumerate(divided):
            known = replica.marks.rows(words(device))[0] >= 0
            assert known == (own == shard)
        own = divided[shard]
        assert own.marks.find(words(device)) == whole.marks.find(words(device))
        for reported in (False, True):
            pairs = zip(
                own.history(device, reported=reported), whole.history(device, reported=reported),
                strict=True,
            )  # fmt: skip
            assert all(np.array_equal(one, other) for one, other in pairs)
        user = words(device)[0, :1]
        for one, other in zip(own.learner.users(user), whole.learner.users(user), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("spec", [SMALL, LIKES])
def test_what_was_learned_of_items_is_in_every_shard(
    spec: StateSpec, rng: np.random.Generator
) -> None:
    _, whole = made(rng, spec)
    keys, arrays = whole.items.keys, whole.model_arrays()
    for replica in shares(whole, 4):
        own = replica.model_arrays()
        same = [n for n in arrays if not n.startswith(BY_DEVICE) and not n.endswith(TABLES)]
        assert all(np.array_equal(own[name], arrays[name]) for name in same)
        assert_equal(exact(replica), exact(whole))  # pairs too, which base and feed hold together
        for one, other in zip(replica.learner.items(keys), whole.learner.items(keys), strict=True):
            assert np.array_equal(one, other)
        assert replica.ledger.forgotten.tolist() == whole.ledger.forgotten.tolist()
        assert replica.ledger.mechanisms.tolist() == whole.ledger.mechanisms.tolist()
        assert replica.ledger.counts()["applied"] == 0
        assert replica.change(1, pairs=True) is None  # nothing that the others do not have


def test_users_of_other_shards_leave_their_rows(rng: np.random.Generator) -> None:
    """A full table has rows again, and what others own moves together."""
    sent, whole = made(rng, SMALL)
    assert isinstance(whole.learner, HybridLearner)
    users = np.unique([words(each.device)[0, 0] for each in sent])
    for replica in shares(whole, 4):
        learner = replica.learner
        assert isinstance(learner, HybridLearner)
        own = shards_of(np.concatenate([words(each.device) for each in sent]), replica.spec)
        own = np.unique(
            [
                words(e.device)[0, 0]
                for e, s in zip(sent, own, strict=True)
                if s == replica.spec.shard
            ]
        )
        gone = np.setdiff1d(users, own)
        assert not known(learner, gone).any()
        before = known(whole.learner, gone).sum()
        assert learner.rows_given == whole.learner.rows_given - before
        assert known(learner, own).tolist() == known(whole.learner, own).tolist()


def test_two_devices_of_one_user_key_keep_its_row_in_both_shards(rng: np.random.Generator) -> None:
    sent = events(rng, 200, devices=20)
    first = sent[-1].device
    twins = (first[:8] + bytes([n]) + first[9:] for n in range(256))
    homes = {partition_of(twin.hex().encode(), SMALL.partitions) % 2: twin for twin in twins}
    shard = partition_of(first.hex().encode(), SMALL.partitions) % 2
    more = [replace(each, device=homes[1 - shard]) for each in sent if each.device == first]
    whole = played([publish(each) for each in (*sent, *more)], rng, SMALL)
    user = words(first)[0, :1]
    for replica in shares(whole, 2):
        assert len(replica.marks) < whole.marks.devices
        for one, other in zip(replica.learner.users(user), whole.learner.users(user), strict=True):
            assert np.array_equal(one, other)


def known(learner: HybridLearner, users: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which users have a slot and a row of their own."""
    slots = np.empty(len(users), np.int64)
    find_slots(learner._tags, learner._seeds[USER], users, slots)
    return (slots >= 0) & (learner._owners[slots] > 0)


def test_a_share_goes_on_as_the_undivided_state_would(rng: np.random.Generator) -> None:
    """The next event of a device is applied once, and one sent again not at all."""
    sent, whole = made(rng, SMALL)
    last = next(each for each in reversed(sent) if each.device != sent[0].device)
    shard = partition_of(last.device.hex().encode(), SMALL.partitions) % 2
    own = shares(whole, 2)[shard]
    assert applied(own, last).records.tolist() == applied(whole, last).records.tolist() == [1]
    after = replace(last, seq=last.seq + 1)
    assert applied(own, after).records.tolist() == applied(whole, after).records.tolist() == [0]
    pairs = zip(own.history(last.device), whole.history(last.device), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)


def test_a_division_keeps_the_specification_but_for_the_shard() -> None:
    assert undivided(replace(SMALL, shards=2, shard=1)) == SMALL

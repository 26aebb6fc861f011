"""A party of a campaign: the sum that comes out, what counts, and what is never released."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from nacl import bindings

from research.audits.false_devices import cheats
from stream_app.aggregation import collection
from stream_app.aggregation import party as party_module
from stream_app.aggregation.collection import Drop
from stream_app.aggregation.keys import Role
from stream_app.aggregation.party import Party
from stream_app.campaigns import sealing
from stream_app.campaigns.rounds import Phase
from stream_app.campaigns.sealing import box_bytes, open_box, seal
from stream_app.campaigns.verified.field import P, decode
from stream_app.campaigns.verified.norm_proof import expanded
from stream_app.privacy.gaussian.keyed_source import KeyedSource
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.wire import Reason
from stream_app.wire.campaigns.contribution import (
    Contribution,
    box_context,
    encode_contribution,
)
from stream_app.wire.campaigns.round_log import (
    Abort,
    AbortReason,
    Checks,
    NoisyShare,
    Opened,
    decode_round,
)
from stream_app.wire.ids import partition_of
from tests.stream_app.aggregation.world import (
    Kept,
    central_world,
    device_id,
    keys_of,
    plan_of,
    split_world,
    vectors,
)


def parties_of(keys):
    return [Party(each, Kept()) for each in keys]


def noise_of(keys, stage):
    key = keys.noise_key(stage.plan, stage.index, stage.records)
    terms = stage.stage
    return discrete_gaussian(Fraction(terms.variance), terms.size, KeyedSource(key))


@pytest.mark.parametrize("world_of", [split_world, central_world])
def test_the_result_is_the_sum_with_the_full_noise_of_every_party(world_of, rng):
    world, keys = world_of()
    world.plan()
    for index in (0, 1):
        sent = vectors(rng, 7)
        world.open(index)
        for device, vector in enumerate(sent):
            world.contribute(device, vector, index)
        world.close(index)
        stage = world.settle(parties_of(keys)).stages[index]
        assert stage.phase is Phase.RELEASED
        assert stage.contributions == 7
        noise = [noise_of(each, stage) for each in keys]
        assert all(each.any() for each in noise)
        assert np.array_equal(stage.result, sent.sum(axis=0) + sum(noise))


def test_stages_and_sets_of_records_have_noise_of_their_own(rng):
    world, keys = split_world()
    world.plan()
    sent = vectors(rng, 3)
    for index in (0, 1):
        world.open(index)
        for device, vector in enumerate(sent):
            world.contribute(device, vector, index)
        world.close(index)
        world.settle(parties_of(keys))
    first, second = world.rounds().stages
    assert not np.array_equal(noise_of(keys[0], first), noise_of(keys[0], second))
    assert not np.array_equal(noise_of(keys[0], first), noise_of(keys[1], first))
    digest = first.plan
    noise_keys = {
        keys[0].noise_key(plan, stage, records)
        for plan in (digest, bytes(32))
        for stage in (0, 1)
        for records in (first.records, bytes(32))
    }
    assert len(noise_keys) == 8


def bad_inputs(world, keys, rng):
    """Send every kind of record that does not count, and return the reasons."""
    vector = vectors(rng, 1)[0]
    campaign = world.campaign
    strange = plan_of(keys_of(len(keys)))
    source = SeededSource(7)

    def made(device, plan=campaign, stage=0, values=vector):
        return seal(plan, stage, device_id(device), values, source)

    world.send(made(100, plan=strange))
    world.send(made(101, stage=1))
    resized = plan_of(keys, size=6)
    other = made(102, plan=resized, values=np.zeros(6, np.int64))
    world.send(type(other)(campaign.digest, 0, other.device, other.boxes))
    world.contribute(1, vector)
    forgotten = made(103)
    world.send(forgotten)
    others_keys = made(104, plan=strange)
    world.send(type(others_keys)(campaign.digest, 0, others_keys.device, others_keys.boxes))
    copied = made(105)
    for _ in range(2):
        world.send(type(copied)(copied.plan, 0, device_id(106), copied.boxes))
    good = encode_contribution(made(107))
    world.put(device_id(107).hex().encode(), good[:-1])
    world.put(device_id(108).hex().encode(), good)
    world.put(device_id(109).hex().encode(), b"")
    world.put(device_id(110).hex().encode(), b"\x93" + rng.bytes(499))  # no envelope
    elsewhere = made(111)
    wrong = (partition_of(elsewhere.key, world.partitions) + 1) % world.partitions
    world.put(elsewhere.key, encode_contribution(elsewhere), wrong)
    return {
        Drop.OTHER_PLAN: 1,
        Drop.EARLY: 1,
        Drop.WRONG_LENGTH: 1,
        Drop.TWICE: 1,
        Drop.TWICE_OTHER: 1,
        Drop.FORGOTTEN: 1,
        Drop.UNOPENED: 2,
        Reason.MALFORMED: 2,
        Reason.KEY_MISMATCH: 1,
        Reason.EMPTY: 1,
        Reason.WRONG_PARTITION: 1,
    }


@pytest.mark.parametrize("world_of", [split_world, central_world])
def test_what_is_no_contribution_is_counted_by_reason_and_left_out(world_of, rng):
    world, keys = world_of()
    world.plan()
    world.open()
    sent = vectors(rng, 4)
    for device, vector in enumerate(sent):
        world.contribute(device, vector)
    reasons = bad_inputs(world, keys, rng)
    world.close(forgotten=[103])
    late = seal(world.campaign, 0, device_id(50), sent[0], SeededSource(1))
    world.send(late)
    parties = parties_of(keys)
    for party in parties:
        world.answered(party)
        assert party.collected.dropped == reasons
    stage = world.settle(parties).stages[0]
    assert stage.contributions == 4
    assert np.array_equal(
        stage.result, sent.sum(axis=0) + sum(noise_of(each, stage) for each in keys)
    )


def test_a_late_contribution_is_counted_in_the_next_stage(rng):
    world, keys = central_world()
    world.plan()
    world.open()
    for device, vector in enumerate(vectors(rng, 3)):
        world.contribute(device, vector)
    world.close()
    parties = parties_of(keys)
    world.settle(parties)
    world.open(1)
    world.contribute(9, vectors(rng, 1)[0], stage=0)
    world.close(1)
    world.answered(parties[0])
    assert parties[0].collected.dropped == {Drop.LATE: 1}


def test_a_record_that_one_party_cannot_open_is_left_out_by_both(rng):
    world, keys = split_world()
    world.plan()
    world.open()
    sent = vectors(rng, 5)
    for device, vector in enumerate(sent):
        made = seal(world.campaign, 0, device_id(device), vector, SeededSource(device))
        damaged = list(made.boxes)
        if device < 2:
            damaged[device] = damaged[device][:-1] + bytes([damaged[device][-1] ^ 1])
        world.send(type(made)(made.plan, 0, made.device, tuple(damaged)))
    world.close()
    parties = parties_of(keys)
    stage = world.settle(parties).stages[0]
    assert stage.contributions == 3
    assert np.array_equal(
        stage.result, sent[2:].sum(axis=0) + sum(noise_of(each, stage) for each in keys)
    )
    restarted = world.settle(parties_of(keys)).stages[0]
    assert np.array_equal(restarted.result, stage.result)


def false_device(campaign, device, integers):
    """Return what a device sends that does not keep to the bound."""
    context = box_context(campaign.digest, 0, device_id(device), 0)
    payload = np.array(integers, "<i4").tobytes()
    box = bindings.crypto_box_seal(context + payload, bytes.fromhex(campaign.keys[0]))
    return Contribution(campaign.digest, 0, device_id(device), (box,))


def test_a_trusted_aggregator_leaves_out_a_vector_beyond_the_bound(rng):
    world, keys = central_world()
    world.plan()
    world.open()
    sent = vectors(rng, 3)
    for device, vector in enumerate(sent):
        world.contribute(device, vector)
    world.send(false_device(world.campaign, 9, [1001, 0, 0, 0, 0]))
    world.send(false_device(world.campaign, 10, [-1000, 1, 0, 0, 0]))
    world.send(false_device(world.campaign, 11, [-1000, 0, 0, 0, 0]))
    world.send(false_device(world.campaign, 12, [-(2**31), 0, 0, 0, 0]))
    world.close()
    parties = parties_of(keys)
    stage = world.settle(parties).stages[0]
    assert stage.contributions == 4
    assert parties[0].collected.dropped == {Drop.BEYOND_BOUND: 3}


def sealed_as(world, device, payloads):
    """Return a contribution of what a false device made for both parties."""
    plan = world.campaign
    boxes = tuple(
        bindings.crypto_box_seal(
            box_context(plan.digest, 0, device_id(device), party) + payload,
            bytes.fromhex(plan.keys[party]),
        )
        for party, payload in enumerate(payloads)
    )
    return Contribution(plan.digest, 0, device_id(device), boxes)


def test_two_parties_leave_out_what_is_not_proved_and_open_nothing_for_it(rng):
    """Every strategy that keeps the form of a contribution; at their bound devices are counted."""
    world, keys = split_world()
    world.plan()
    world.open()
    sent = np.append(vectors(rng, 3), [[-1000, 0, 0, 0, 0]], axis=0)
    for device, vector in enumerate(sent):
        world.contribute(device, vector)
    false = 0
    for device, cheat in enumerate(cheats().values(), 100):
        statement = sealing.statement_of(world.campaign, 0, device_id(device))
        payloads = cheat(statement, SystemSource())
        if tuple(map(len, payloads)) == statement.payload_bytes:
            world.send(sealed_as(world, device, payloads))
            false += 1
    world.close()
    parties = parties_of(keys)
    stage = world.settle(parties).stages[0]
    noise = [noise_of(each, stage) for each in keys]
    assert false > 35
    assert stage.contributions == 4
    assert stage.rejected >= false - 2  # one is no residue, one has another context
    assert np.array_equal(stage.result, sent.sum(axis=0) + sum(noise))
    restarted = world.settle(parties_of(keys)).stages[0]
    assert np.array_equal(restarted.result, stage.result)


def test_a_party_that_lies_about_proofs_can_drop_devices_and_not_count_false_ones(rng):
    world, keys = begun(rng, devices=4)
    parties = parties_of(keys)
    for party in parties:
        world.write(world.answered(party))
    honest = world.answered(parties[1])
    lie = bytearray(world.answered(parties[0]).messages)
    lie[0] ^= 1
    world.write(msgspec.structs.replace(world.answered(parties[0]), messages=bytes(lie)))
    world.write(honest)
    stage = world.settle(parties).stages[0]
    assert (stage.contributions, stage.rejected) == (3, 1)
    assert stage.phase is Phase.RELEASED


def test_a_party_that_restarts_between_its_answers_says_the_same(rng):
    world, keys = begun(rng, devices=4)
    for each in keys:
        world.write(world.answered(Party(each, Kept())))
    said = {world.answered(Party(keys[0], Kept())).messages for _ in range(2)}
    assert len(said) == 1
    assert world.settle([Party(each, Kept()) for each in keys]).stages[0].phase is Phase.RELEASED


def test_more_proofs_than_an_entry_holds_are_said_in_several(rng, monkeypatch):
    monkeypatch.setattr(party_module, "MOST_CHECKS", 2)
    world, keys = begun(rng, devices=5)
    assert world.settle(parties_of(keys)).stages[0].contributions == 5
    starts = [entry.start for entry in entries(world) if isinstance(entry, Checks)]
    assert sorted(starts) == [0, 0, 2, 2, 4, 4]


@pytest.mark.parametrize("devices", [0, 1])
def test_too_few_devices_release_nothing(devices, rng):
    world, keys = split_world()
    world.plan()
    world.open()
    for device in range(devices):
        world.contribute(device, vectors(rng, 1)[0])
    world.close()
    rounds = world.settle(parties_of(keys))
    assert rounds.stages[0].aborted is AbortReason.TOO_FEW
    assert not any(isinstance(entry, NoisyShare) for entry in entries(world))


def test_made_up_pseudonyms_beyond_the_most_are_counted_and_not_opened(rng, monkeypatch):
    world, keys = central_world(bound=2**24)
    most = world.campaign.stages[0].most
    world.plan()
    world.open()
    sent = vectors(rng, 4)
    for device, vector in enumerate(sent):
        world.contribute(device, vector)
    sizes = [box_bytes(world.campaign, 0, 0)]
    for device in range(1000, 1000 + 2 * most):
        boxes = tuple(rng.bytes(size) for size in sizes)
        world.send(Contribution(world.campaign.digest, 0, device_id(device), boxes))
    world.close()
    tried = []
    monkeypatch.setattr(
        collection, "open_box", lambda *given: (tried.append(given), open_box(*given))[1]
    )
    parties = parties_of(keys)
    world.answered(parties[0])
    assert len(tried) == most + 1
    dropped = parties[0].collected.dropped
    assert dropped[Drop.TOO_MANY] == most + 3
    assert len(parties[0].collected.opened) == most + 1


def test_more_contributions_than_a_sum_holds_release_nothing(rng):
    world, keys = central_world(bound=2**24)
    most = world.campaign.stages[0].most
    world.plan()
    world.open()
    for device, vector in enumerate(vectors(rng, most + 2)):
        world.contribute(device, vector)
    world.close()
    assert world.settle(parties_of(keys)).stages[0].aborted is AbortReason.TOO_MANY


def entries(world):
    return [decode_round(value) for value in world.log]


def begun(rng, devices=3):
    world, keys = split_world()
    world.plan()
    world.open()
    for device, vector in enumerate(vectors(rng, devices)):
        world.contribute(device, vector)
    world.close()
    return world, keys


@pytest.mark.parametrize("silent", [0, 1])
def test_if_a_party_never_answers_the_other_releases_nothing(silent, rng):
    world, keys = begun(rng)
    rounds = world.settle(parties_of([keys[1 - silent]]))
    assert rounds.stages[0].phase is Phase.CLOSED
    world.write(Abort(world.campaign.digest, 0, AbortReason.TIMED_OUT))
    rounds = world.settle(parties_of(keys))
    assert rounds.stages[0].phase is Phase.ABORTED
    assert [type(entry) for entry in entries(world)].count(NoisyShare) == 0


def test_parties_of_other_roles_keys_or_plans_owe_nothing(rng):
    world, keys = begun(rng)
    roles = [replace(keys[0], role=role) for role in (Role.B, Role.CENTRAL)]
    for strange in (*keys_of(2), *keys_of(1), *roles):
        assert world.answered(Party(strange, Kept())) is None


def test_records_that_kafka_has_deleted_end_the_stage(rng):
    world, keys = begun(rng)
    world.gone = True
    rounds = world.settle(parties_of(keys))
    assert rounds.stages[0].aborted is AbortReason.RECORDS_GONE


def test_a_log_that_was_rewritten_gives_no_second_sum(rng):
    """The records of a released stage are replaced and its entries taken back: the difference of
    two sums would be a device's vector, under twice the noise but of a budget spent once."""
    world, keys = begun(rng, devices=4)
    kept = [Kept(), Kept()]
    first = world.settle([Party(*pair) for pair in zip(keys, kept, strict=True)]).stages[0]
    assert first.phase is Phase.RELEASED
    del world.log[3:]
    fullest = max(world.topic, key=len)
    place = len(fullest) - 1
    fullest[place] = type(fullest[0])(fullest[place].partition, place, b"", b"")
    second = world.settle([Party(*pair) for pair in zip(keys, kept, strict=True)]).stages[0]
    assert second.aborted is AbortReason.OTHER_RECORDS
    assert [type(entry) for entry in entries(world)].count(NoisyShare) == 0


def test_a_log_that_was_taken_back_gives_the_same_bytes(rng):
    world, keys = begun(rng)
    first = world.settle(parties_of(keys)).stages[0]
    del world.log[3:]
    second = world.settle(parties_of(keys)).stages[0]
    assert np.array_equal(first.result, second.result)


def test_a_record_that_changes_between_the_answers_ends_the_stage(rng):
    world, keys = begun(rng)
    for party in parties_of(keys):
        world.write(world.answered(party))
    records = next(partition for partition in world.topic if partition)
    same = bytes.fromhex(records[0].key.decode())
    made = seal(world.campaign, 0, same, np.ones(5, np.int64), SeededSource(99))
    records[0] = replace(records[0], value=encode_contribution(made))
    restarted = world.answered(Party(keys[0], Kept()))
    assert restarted == Abort(world.campaign.digest, 0, AbortReason.OTHER_RECORDS)


def test_a_changed_record_under_the_same_place_has_other_noise(rng):
    world, keys = begun(rng)
    first = world.settle(parties_of(keys)).stages[0]
    del world.log[3:]
    device = next(partition for partition in world.topic if partition)
    made = seal(
        world.campaign,
        0,
        bytes.fromhex(device[0].key.decode()),
        np.ones(5, np.int64),
        SeededSource(99),
    )
    device[0] = type(device[0])(device[0].partition, 0, device[0].key, encode_contribution(made))
    second = world.settle(parties_of(keys)).stages[0]
    assert second.contributions == first.contributions
    assert not np.array_equal(noise_of(keys[0], first), noise_of(keys[0], second))


def test_a_share_is_the_seeds_keystreams_and_the_noise_alone(rng):
    """All that party a computes with: seeds, which are drawn before a device looks at its vector,
    and its own noise."""
    world, keys = begun(rng)
    world.settle(parties_of(keys))
    stage = world.rounds().stages[0]
    seeds = [SeededSource(device).words(4).astype("<u8").tobytes() for device in range(3)]
    total = sum(expanded(seed, 5).astype(np.int64) for seed in seeds)
    published = decode(stage.shares[0].integers)
    assert np.array_equal(published, (total + noise_of(keys[0], stage)) % P)


def test_opened_names_exactly_what_opened(rng):
    world, keys = begun(rng, devices=9)
    opened = world.answered(Party(keys[0], Kept()))
    assert isinstance(opened, Opened)
    assert opened.count == 9
    assert opened.opened == b"\xff\x01"

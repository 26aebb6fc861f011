"""The design of a deployment changes at a cut: the state stays a function of the log, what was
learned stays, and old records keep the channel under which they came."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_app.privacy import registry
from stream_app.replay.recompute import redesign
from stream_app.state.design import (
    Way,
    changes,
    decided,
    design_id,
    entry_of,
    followed,
    following,
    merged,
    recorded_spec,
    spec_of,
)
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import (
    DesignEntry,
    Reason,
    WireError,
    decode_entry,
    decode_many,
    encode_message,
)
from stream_app.wire.authenticity.seal import Seal
from tests.fixtures.replicas import ALL, SMALL
from tests.fixtures.streams import EVERY_FAMILY, Published, events, log, publish, run_of

RR = replace(SMALL, mechanisms=(registry.parse("rr:5:2"),))
HALF = replace(RR, mechanisms=(registry.parse("rr:5:1"), registry.parse("rr:5:2")))


def halves(
    replica: Replica, records: list[Published], rng: np.random.Generator, target: StateSpec | None
) -> Replica:
    """Apply a log in two rounds, and take up another design between them."""
    parts = log(records, replica.spec.partitions)
    before = [0] * len(parts)
    for number in (1, 2):
        ends = [len(part) * number // 2 for part in parts]
        for p, part in enumerate(parts):
            while before[p] < ends[p]:
                stop = min(ends[p], before[p] + int(rng.integers(1, 60)))
                run = run_of(part, before[p], stop, p)
                replica.apply(decode_many(run, replica.spec.intake))
                before[p] = stop
        replica.end_round(replica.cut + 1, ends)
        if target is not None and number == 1:
            replica.redesign(merged(replica.spec, target))
    return replica


def digests(replica: Replica) -> tuple[str, str]:
    return replica.model_digest(), replica.ledger_digest()


CHANGES: dict[str, dict[str, Any]] = {
    "mechanisms": {"mechanisms": tuple(map(registry.parse, [*EVERY_FAMILY[:3], "rr:5:1"]))},
    "presence": {"mechanisms": tuple(map(registry.parse, ("rr:5:2", "cell:5:2")))},
    "clip": {"clip": 2.0},
    "held_out": {"held_out": 0.4},
    "head": {"head_items": 40, "recent_items": 32},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_state_after_a_change_is_the_same_however_the_log_was_cut_and_after_a_checkpoint(
    change: str, rng: np.random.Generator
) -> None:
    records = [publish(event) for event in events(rng, 400, mechanism="rr:5:2")]
    target = replace(RR, **CHANGES[change])
    first, second = (halves(Replica(RR), records, rng, target) for _ in range(2))
    assert digests(first) == digests(second)
    assert first.spec == merged(RR, target)
    restored = Replica(first.spec)
    restored.load(
        {name: a.copy() for name, a in first.model_arrays().items()},
        {name: a.copy() for name, a in first.ledger.arrays().items()},
        first.cut, first.end_offsets, first.origin,
    )  # fmt: skip
    more = log([publish(event) for event in events(rng, 200, mechanism="rr:5:2")])
    for replica in (first, restored):
        for p, part in enumerate(more):
            replica.apply(decode_many(run_of(part, 0, len(part), p), replica.spec.intake))
    assert digests(first) == digests(restored)


def test_a_larger_head_keeps_the_pairs_of_its_items(rng: np.random.Generator) -> None:
    records = [publish(event) for event in events(rng, 400, mechanism="rr:5:2")]
    small, large = (halves(Replica(RR), records, rng, None) for _ in range(2))
    before = small.pair_snapshot().counts()
    large.redesign(merged(large.spec, replace(RR, head_items=60)))
    after = large.pair_snapshot().counts()
    np.testing.assert_array_equal(before.pairs, after.pairs)
    np.testing.assert_array_equal(before.keys, after.keys)
    assert large.pairs.rated is not None
    assert len(large.pairs.rated.head.rows) == 60


def test_a_changed_clip_is_that_of_a_state_which_had_it_from_the_beginning(
    rng: np.random.Generator,
) -> None:
    """Where nothing is clipped, the models before and after are one."""
    records = [publish(event) for event in events(rng, 300, mechanism="rr:5:2")]
    changed = halves(Replica(RR), records, rng, replace(RR, clip=1e9))
    plain = halves(Replica(replace(RR, clip=1e9, revision=1)), records, rng, None)
    assert digests(changed) == digests(plain)


def test_a_withdrawn_mechanism_is_rejected_and_what_was_learned_from_it_stays(
    rng: np.random.Generator,
) -> None:
    records = [publish(event) for event in events(rng, 200, mechanism="rr:5:1")]
    replica = halves(Replica(HALF), records, rng, None)
    counted = replica.reports_by_mechanism()["rr:5:1"]
    replica.redesign(merged(replica.spec, RR))
    later = [publish(event) for event in events(rng, 50, mechanism="rr:5:1")]
    of_one = [record for record in later if record.partition == later[0].partition]
    run = run_of(of_one, 0, len(of_one), later[0].partition)
    batch = decode_many(run, replica.spec.intake)
    outcome = replica.apply(batch)
    assert outcome.reasons.all()
    assert replica.reports_by_mechanism()["rr:5:1"] == counted
    for json in (False, True):
        one = publish(events(rng, 1, mechanism="rr:5:1")[0], json=json)
        found = decode_many(run_of([one], 0, 1, one.partition), replica.spec.intake)
        assert list(Reason)[found.reasons[0]] is Reason.MECHANISM_NOT_ALLOWED
    replica.redesign(merged(replica.spec, HALF))
    assert (replica.spec.withdrawn, replica.spec.revision) == ((), 2)
    assert [m.id for m in replica.spec.mechanisms] == ["rr:5:1", "rr:5:2"]


def test_mechanisms_are_a_set() -> None:
    turned = replace(HALF, mechanisms=HALF.mechanisms[::-1])
    assert merged(HALF, turned) == HALF
    assert not changes(HALF, merged(HALF, turned))


@pytest.mark.parametrize(
    ("change", "way"),
    [
        ({"clip": 3.0}, Way.IN_PLACE),
        ({"head_items": 8}, Way.BESIDE),
        ({"recent_items": 32}, Way.IN_PLACE),
        ({"mechanisms": HALF.mechanisms}, Way.IN_PLACE),
        ({"factors": 16}, Way.BESIDE),
        ({"devices": "signed"}, Way.FIXED),
        ({"partitions": 8}, Way.FIXED),
    ],
)
def test_each_setting_has_its_way(change: dict[str, Any], way: Way) -> None:
    found = changes(RR, merged(RR, replace(RR, **change)))
    assert [each.way for each in found] == [way]
    assert bool(found[0].reason) == (way is Way.FIXED)


def test_shards_have_their_factors_for_life() -> None:
    """Another number of factors would end what the others count of a shard: a record that does not
    fit counts for none, and neither do those behind it."""
    shards = replace(RR, shards=2, model="hybrid", factors=8)
    wider = merged(shards, replace(shards, factors=16))
    (change,) = changes(shards, wider)
    assert (change.way, bool(change.reason)) == (Way.FIXED, True)
    for built_to in (None, 5):
        entry = entry_of(shards, replace(shards, factors=16), built_to)
        assert followed(entry, shards, opening=False) is None
    assert followed(entry_of(shards, replace(shards, clip=3.0)), shards, opening=False)


@pytest.mark.parametrize("spec", [RR, SMALL, ALL, replace(RR, clip=2.5, seed=7)])
def test_a_design_survives_as_text_and_as_headers(spec: StateSpec) -> None:
    assert spec_of(decided(spec), spec.seed) == spec
    assert recorded_spec(spec.headers, spec.seed) == spec
    other = recorded_spec(spec.headers, spec.seed + 1)
    assert other is not None
    assert other.digest != spec.digest
    assert recorded_spec([("settings", b"clip=1")], 1) is None
    assert "seed" not in decided(spec)


def test_an_entry_counts_once_and_only_over_the_design_that_it_replaces() -> None:
    target = merged(RR, replace(RR, clip=2.0))
    entry = entry_of(RR, target)
    assert decode_entry(encode_message(entry)) == entry
    assert followed(entry, RR, opening=False) == target
    assert followed(entry, target, opening=False) is None
    second = entry_of(RR, merged(RR, replace(RR, clip=3.0)))
    assert followed(second, target, opening=False) is None
    again = followed(entry_of(target, merged(target, RR)), target, opening=False)
    assert again == replace(RR, revision=2)
    assert again is not None
    assert followed(entry, again, opening=False) is None  # written once more
    opening = entry_of(None, target)
    assert followed(opening, RR, opening=True) == target
    assert followed(opening, RR, opening=False) is None


def test_an_entry_whose_former_settings_are_not_those_that_it_names_has_no_effect() -> None:
    entry = entry_of(RR, replace(RR, clip=2.0))
    forged = DesignEntry(entry.replaces, {**entry.before, "factors": "12"}, entry.settings)
    assert followed(forged, RR, opening=False) is None
    impossible = DesignEntry(entry.replaces, entry.before, {**entry.settings, "clip": "nan"})
    assert followed(impossible, RR, opening=False) is None


@pytest.mark.parametrize("own", [ALL, HALF, replace(RR, factors=16)])
def test_a_design_that_opens_a_log_is_taken_up_as_if_it_had_been_the_own_one(
    own: StateSpec, rng: np.random.Generator
) -> None:
    opening = followed(entry_of(None, RR), own, opening=True)
    assert opening == RR
    replica, fresh = Replica(own), Replica(RR)
    device = events(rng, 1, mechanism="rr:5:2")[0].device
    for each in (replica, fresh):
        each.set_contract(3)
        each.forget(device)
    redesign(replica, opening)
    assert digests(replica) == digests(fresh)
    records = [publish(event) for event in events(rng, 200, mechanism="rr:5:2")]
    assert digests(halves(replica, records, rng, None)) == digests(
        halves(fresh, records, rng, None)
    )


def test_an_entry_that_changes_what_it_may_not_has_no_effect() -> None:
    for target in (
        replace(RR, devices="signed"),
        replace(RR, factors=16),
        replace(HALF, mechanisms=HALF.mechanisms),
    ):
        assert followed(entry_of(RR, target), RR, opening=False) is None
    beside = replace(RR, factors=16)
    assert followed(entry_of(RR, beside, 9), RR, opening=False) == following(beside, RR)


def test_an_entry_with_settings_of_a_later_release_is_refused_by_its_name() -> None:
    entry = DesignEntry(design_id(RR), decided(RR), {**decided(RR), "colour": "red"})
    with pytest.raises(ValueError, match="colour"):
        followed(entry, RR, opening=False)


def test_the_seal_covers_the_settings() -> None:
    seal = Seal("s" * 40, "murmurec")
    entry = entry_of(RR, replace(RR, clip=2.0))
    assert not entry.is_genuine(seal)
    assert entry.sealed(seal).is_genuine(seal)
    assert entry.is_genuine(Seal())
    changed = DesignEntry(
        entry.replaces,
        entry.before,
        {**entry.settings, "clip": "9.0"},
        seal=entry.sealed(seal).seal,
    )
    assert not changed.is_genuine(seal)
    with pytest.raises(WireError):
        decode_entry(encode_message(entry).replace(b'"replaces"', b'"replaced"'))

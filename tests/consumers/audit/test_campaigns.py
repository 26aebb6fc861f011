"""Campaigns seen from outside: an honest log passes, and each falsified one is accused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from consumers.audit.campaigns import checks
from consumers.audit.campaigns.checks import DEADLINE, campaign_findings
from consumers.audit.campaigns.stated import Stated, stated
from consumers.audit.findings import Finding, Verdict, judged
from consumers.audit.observed import Sample
from stream_app.aggregation import party
from stream_app.aggregation.collection import Collection, Drop
from stream_app.aggregation.party import Party
from stream_app.campaigns import sealing
from stream_app.campaigns.rounds import Phase
from stream_app.campaigns.verified import norm_proof
from stream_app.campaigns.verified.field import add, decoded, encode
from stream_app.privacy.randomness import SeededSource
from stream_app.wire.campaigns.contribution import Contribution
from stream_app.wire.campaigns.round_log import NoisyShare, Opened
from tests.stream_app.aggregation.world import (
    Kept,
    World,
    device_id,
    keys_of,
    plan_of,
    without_noise,
)

SIZE = 400
READ = "every entry of the log of rounds can be read"
BUDGET = "the stages of a plan are within the epsilon that it states"
ONE = "a party publishes one noisy share of a stage"
SIZES = "noisy shares have the size of their stage"
DIGEST = "the records that count are those of the log"
ONCE = "a device counts once in a stage"
BOXES = "contributions of a stage have one size"
SUMS = "released sums have at least the noise of their plan"
UNIFORM = "a share is uniform"
HONEST = {"size": SIZE, "bound": 100, "variance": 400_000, "share": Fraction(1, 2)}


def world_of(parties: int = 2, **changes: object) -> tuple[World, list[Party]]:
    keys = keys_of(parties)
    world = World(plan_of(keys, **(HONEST | changes)))
    world.plan()
    return world, [Party(each, Kept()) for each in keys]


def stage_of(world: World, parties: list[Party], index: int, extra: Callable[[], None]) -> None:
    """Play one stage of five devices; `extra` writes more before the close."""
    rng = np.random.default_rng(index)
    world.open(index)
    for device in range(5):
        made = world.contribute(device, rng.integers(-2, 3, SIZE), index)
    world.send(made)  # a second record of the last device
    extra()
    world.close(index)
    world.settle(parties)


def played(
    parties: int = 2, extra: Callable[[World], None] = lambda world: None, **changes: object
) -> World:
    world, made = world_of(parties, **changes)
    for index in (0, 1):
        stage_of(world, made, index, lambda: extra(world))
    return world


def found(world: World) -> dict[str, Finding]:
    findings = judged(list(campaign_findings(stated(world.log), world.read)), 1e-4)
    assert len({each.claim for each in findings}) == len(findings)
    return {each.claim: each for each in findings}


def accused(world: World) -> set[str]:
    return {claim for claim, each in found(world).items() if each.verdict is Verdict.VIOLATED}


@pytest.mark.parametrize("parties", [1, 2], ids=["central", "split"])
def test_an_honest_log_is_not_accused_and_every_claim_is_tested(parties):
    world = played(parties)
    assert world.rounds().stages[1].phase is Phase.RELEASED
    findings = found(world)
    assert accused(world) == set()
    untestable = {DEADLINE} | ({UNIFORM} if parties == 1 else set())
    verdicts = {claim: each.verdict for claim, each in findings.items()}
    assert {claim for claim in verdicts if verdicts[claim] is Verdict.UNTESTABLE} == untestable
    assert "2 further records of a device left out" in findings[ONCE].measured


def test_who_contributed_is_kept_once_a_stage_by_the_day_of_the_first_record():
    world = played()
    for records in world.topic:
        records[:] = [replace(each, time=(7 * 86_400 + each.offset) * 1000) for each in records]
    joined = checks.Joined(Sample())
    list(campaign_findings(stated(world.log), world.read, joined=joined))
    devices = sorted(each.device for each in joined.found)
    assert devices == sorted([*map(device_id, range(5))] * 2)
    assert {each.epoch for each in joined.found} == {7}
    noise = {(each.sum.bound, each.sum.variance, each.sum.size) for each in joined.found}
    assert noise == {(100, 400_000, SIZE)}
    few = checks.Joined(Sample(halvings=64, always=frozenset([device_id(3)])))
    list(campaign_findings(stated(world.log), world.read, joined=few))
    assert [each.device for each in few.found] == [device_id(3)] * 2


def test_without_a_log_nothing_is_said():
    (finding,) = campaign_findings(Stated(), lambda stage: [])
    assert finding.verdict is Verdict.UNTESTABLE


def test_bytes_that_are_no_entry_are_found():
    world = played()
    world.log.append(b"\x01\x02")
    assert accused(world) == {READ}


def test_a_plan_that_costs_more_than_it_states_is_found():
    assert accused(played(variance=40_000)) == {BUDGET}


def test_a_stage_that_was_released_twice_is_found_and_a_repeated_entry_is_not():
    """A second share has no effect on the result; it stands in the log all the same."""
    world = played()
    share = world.rounds().stages[0].shares[1]
    world.write(share)
    assert accused(world) == set()
    other = encode(add(decoded(share.integers), np.uint64(7)))
    world.write(msgspec.structs.replace(share, integers=other))
    assert accused(world) == {ONE}


def test_a_second_share_for_other_records_is_found():
    world = played()
    share = world.rounds().stages[0].shares[0]
    world.write(msgspec.structs.replace(share, records=bytes(32)))
    assert accused(world) == {ONE}


def test_shares_of_another_size_or_of_no_plan_are_found():
    world = played()
    share = world.rounds().stages[0].shares[1]
    world.write(NoisyShare(share.plan, 1, 0, share.records, bytes(8)))
    assert SIZES in accused(world)
    world = played()
    world.write(NoisyShare(bytes(32), 0, 0, share.records, share.integers))
    assert accused(world) == {SIZES}


class Liar(Party):
    """Publishes the digest of other records."""

    def _opened(self, *args):
        return msgspec.structs.replace(super()._opened(*args), records=b"\x05" * 32)


def test_parties_that_state_other_records_are_found():
    """Both lie alike; one alone would end the stage."""
    keys = keys_of(2)
    world = World(plan_of(keys, **HONEST))
    world.plan()
    stage_of(world, [Liar(each, Kept()) for each in keys], 0, lambda: None)
    assert accused(world) == {DIGEST}


def test_a_record_that_was_changed_after_the_close_is_found():
    world = played()
    (first, *_) = (part for part in world.topic if part)
    value = bytearray(first[0].value)
    value[len(value) // 2] ^= 1  # within a box
    first[0] = type(first[0])(first[0].partition, 0, first[0].key, bytes(value))
    assert accused(world) == {DIGEST}


def test_a_device_that_counts_twice_is_found(monkeypatch):
    honest = Collection._refusal
    with monkeypatch.context() as patched:
        patched.setattr(
            Collection,
            "_refusal",
            lambda self, found: None if honest(self, found) is Drop.TWICE else honest(self, found),
        )
        world = played()
    assert world.rounds().stages[1].contributions == 6
    assert accused(world) == {DIGEST, ONCE}


def test_contributions_that_stand_out_by_their_size_are_found():
    def longer(world: World) -> None:
        plan = plan_of(keys_of(2), **(HONEST | {"size": SIZE + 1}))
        made = sealing.seal(plan, 0, device_id(50), np.zeros(SIZE + 1, int), SeededSource(1))
        stage = world.rounds().current
        assert stage is not None
        world.send(Contribution(stage.plan, stage.index, made.device, made.boxes))

    assert accused(played(extra=longer)) == {BOXES}


@pytest.mark.parametrize("parties", [1, 2], ids=["central", "split"])
def test_sums_without_noise_are_found(monkeypatch, parties):
    monkeypatch.setattr(Party, "_with_noise", lambda self, stage, total: without_noise(total))
    assert accused(played(parties)) == {SUMS}


def test_noise_that_is_too_small_is_found(monkeypatch):
    honest = party.discrete_gaussian
    monkeypatch.setattr(
        party,
        "discrete_gaussian",
        lambda variance, size, source: honest(variance / 4, size, source),
    )
    assert accused(played()) == {SUMS}


def test_shares_without_masks_are_found(monkeypatch):
    monkeypatch.setattr(norm_proof, "expanded", lambda seed, count: np.zeros(count, np.uint64))
    assert accused(played()) == {UNIFORM}


def test_records_that_are_gone_are_said_to_be():
    world = played()
    world.gone = True
    findings = found(world)
    assert accused(world) == set()
    assert findings[DIGEST].verdict is findings[ONCE].verdict is Verdict.UNTESTABLE
    assert "of 2 closed stages" in findings[DIGEST].measured


def test_a_stage_that_was_not_released_says_nothing_about_noise():
    world, parties = world_of()
    stage_of(world, parties[:1], 0, lambda: None)
    findings = found(world)
    assert findings[SUMS].verdict is findings[UNIFORM].verdict is Verdict.UNTESTABLE
    assert findings[DIGEST].verdict is Verdict.OK


def test_bytes_of_any_other_law_are_unlikely():
    rng = np.random.default_rng(1)
    assert checks._uniform(rng.bytes(100_000)) > -20
    assert checks._uniform(bytes(2000)) < -1000


def test_a_stage_that_one_party_has_answered_is_compared_with_that_answer():
    world, parties = world_of()
    stage_of(world, parties[1:], 0, lambda: None)
    stage = world.rounds().stages[0]
    assert list(stage.opened) == [1]
    assert isinstance(stage.opened[1], Opened)
    assert accused(world) == set()

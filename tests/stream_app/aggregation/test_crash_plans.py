"""Every plan of three crashes: the stage comes to its end, and no noise is drawn a second time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from stream_app.aggregation.party import Party
from stream_app.campaigns.rounds import Phase
from stream_app.campaigns.sealing import seal
from stream_app.campaigns.verified.field import add, encode, residues
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import SeededSource, SystemSource
from tests.stream_app.aggregation.crashes import Scene, runs
from tests.stream_app.aggregation.test_party import noise_of
from tests.stream_app.aggregation.world import World, device_id, split_world, vectors

CRASHES = 3


def scenes(rng, late=False, bare=False, make=Party):
    """Give a function from a plan to its scene: three devices, of which party b opens two."""
    world, keys = split_world(size=3)
    world.plan()
    world.open()
    sent = vectors(rng, 3, 3)
    for device, vector in enumerate(sent):
        made = seal(world.campaign, 0, device_id(device), vector, SeededSource(device))
        if device == 0:
            made = type(made)(made.plan, 0, made.device, (made.boxes[0], bytes(len(made.boxes[1]))))
        world.send(made)
    world.close()

    def scene(plan):
        own = World(world.campaign, world.topic, list(world.log))
        return Scene(own, keys, plan, late, bare, make)

    return scene, sent[1:].sum(axis=0), keys


def faults(scene, rounds, total, keys):
    """Return what is wrong after a run: the second draws, or a result that is not the sum."""
    drawn = {(share.party, share.integers) for share in scene.sent}
    if len(drawn) != len(keys):
        return [f"{len(drawn)} draws of {len(keys)} parties"]
    stage = rounds.stages[0]
    if stage.phase is not Phase.RELEASED or stage.result is None:
        return [f"stage is {stage.phase} ({stage.aborted})"]
    noise = sum(noise_of(each, stage) for each in keys)
    return [] if np.array_equal(stage.result, total + noise) else ["another sum"]


def all_plans(rng, crashes, late, bare):
    """Run every plan and return their number."""
    scene, total, keys = scenes(rng, late, bare)
    count = 0
    for done, rounds in runs(scene, crashes):
        count += 1
        assert faults(done, rounds, total, keys) == [], done.plan
    return count


WAYS = {
    "late": pytest.param(True, False, marks=pytest.mark.nightly),
    "no disk": pytest.param(False, True, marks=pytest.mark.nightly),
    "late, no disk": pytest.param(True, True),
}


@pytest.mark.thorough
@pytest.mark.nightly
def test_no_plan_of_three_crashes_draws_twice(rng):
    assert all_plans(rng, CRASHES, late=False, bare=False) > 2000


@pytest.mark.thorough
@pytest.mark.parametrize(("late", "bare"), WAYS.values(), ids=WAYS)
def test_no_plan_of_two_crashes_draws_twice_where_answers_are_late_or_disks_are_lost(
    late, bare, rng
):
    assert all_plans(rng, CRASHES - 1, late, bare) > 200


@pytest.mark.nightly
@pytest.mark.parametrize(("late", "bare"), WAYS.values(), ids=WAYS)
def test_no_plan_of_three_draws_twice_where_answers_are_late_or_disks_are_lost(late, bare, rng):
    assert all_plans(rng, CRASHES, late, bare) > 2000


class Redraws(Party):
    """A party whose noise is new at every attempt."""

    def _with_noise(self, stage, total):
        noise = discrete_gaussian(Fraction(400), len(total), SystemSource())
        return encode(add(total, residues(noise)))


class Forgets(Party):
    """A party that sums what it opened, whatever the other one opened."""

    def _share(self, campaign, stage, party, read):
        opened = np.frombuffer(stage.opened[party].opened, np.uint8)
        bits = np.unpackbits(opened, count=len(stage.counted), bitorder="little")
        stage.counted = bits.astype(np.bool_)
        return super()._share(campaign, stage, party, read)


@pytest.mark.parametrize("make", [Redraws, Forgets])
def test_a_party_with_a_planted_fault_is_found(make, rng):
    scene, total, keys = scenes(rng, make=make)
    found = [faults(done, rounds, total, keys) for done, rounds in runs(scene, 1)]
    assert any(found)

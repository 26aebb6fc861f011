"""Party a as an attacker that keeps to the protocol: what it holds, and what it can subtract."""

from __future__ import annotations

import math

import numpy as np

from stream_app.aggregation.party import Party
from stream_app.campaigns.rounds import Phase
from stream_app.campaigns.sealing import open_box, seal
from stream_app.privacy.randomness import SeededSource
from stream_app.wire.campaigns.round_log import Abort, AbortReason
from tests.stream_app.aggregation.test_party import noise_of
from tests.stream_app.aggregation.world import Kept, device_id, split_world

SIZE = 3000
TERMS = {"size": SIZE, "bound": 1000, "variance": 2000}


def test_what_a_opens_is_the_same_bytes_for_any_vector():
    """Not alike but equal: with the same words of the device, a's share does not see the vector."""
    world, keys = split_world(**TERMS)
    vectors = (np.zeros(SIZE, int), np.eye(1, SIZE, 5, dtype=int)[0] * 1000, np.full(SIZE, -18))
    held = set()
    for vector in vectors:
        made = seal(world.campaign, 0, device_id(1), vector, SeededSource(9))
        share = open_box(world.campaign, made, 0, keys[0].public, keys[0].secret)
        assert share is not None
        assert open_box(world.campaign, made, 1, keys[0].public, keys[0].secret) is None
        held.add((share.tobytes(), tuple(map(len, made.boxes))))
    assert len(held) == 1


def played(vector):
    """Play two stages of one plan with the same vectors; return world, keys and parties."""
    world, keys = split_world(**TERMS)
    parties = [Party(each, Kept()) for each in keys]
    world.plan()
    for index in (0, 1):
        world.open(index)
        for device in (0, 1):
            world.contribute(device, vector if device else np.zeros(SIZE, int), index)
        world.close(index)
        assert world.settle(parties).stages[index].phase is Phase.RELEASED
    return world, keys, parties


def test_two_sums_less_what_a_knows_differ_by_the_noise_of_b_twice():
    """The same vector in both stages: the difference has no vector left, and all of b's noise.

    The variance of 3,000 differences is within five standard deviations of 2 V: false alarms below
    1e-6. Noise that is used again leaves zeros.
    """
    world, keys, _ = played(np.full(SIZE, 18))
    stages = world.rounds().stages
    left = [stage.result - noise_of(keys[0], stage) for stage in stages]
    difference = left[0] - left[1]
    assert abs(difference.var() / (2 * 2000) - 1) < 5 * math.sqrt(2 / SIZE)
    for each in left:  # the vector, and b's noise once
        assert abs((each - 18).var() / 2000 - 1) < 5 * math.sqrt(2 / SIZE)


def test_b_answers_a_second_set_of_records_by_ending_the_stage():
    world, keys, parties = played(np.full(SIZE, 18))
    other, _ = split_world(**TERMS)
    other.campaign = world.campaign
    other.plan()
    other.open(0)
    for device in (0, 1, 2):  # one more than what was released
        other.contribute(device, np.full(SIZE, 18 if device == 1 else 0))
    other.close(0)
    fork = other.rounds()
    curious, honest = Party(keys[0], Kept(), fork), Party(keys[1], parties[1].releases, fork)
    for party in (curious, honest) * 3:
        answer = party.answer(other.read)
        if isinstance(answer, Abort):
            assert party is honest
            assert answer.reason is AbortReason.OTHER_RECORDS
            return
        if answer is not None:
            fork.apply(answer)
    raise AssertionError("b published a second sum of a stage")

"""What a party opens before a stage is closed: the same answers, and nothing opened twice."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from stream_app.aggregation import collection
from stream_app.aggregation.party import Party
from stream_app.aggregation.service import prepare
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.campaigns.sealing import check_box, open_box, seal
from stream_app.privacy.randomness import SeededSource
from tests.stream_app.aggregation.world import (
    Kept,
    World,
    central_world,
    device_id,
    split_world,
    vectors,
)


class WorldLog:
    """The log of a world, as one party reads it; `then` happens before it is read again."""

    def __init__(self, world: World, then=lambda: None) -> None:
        self._world, self._then, self.party = world, then, None

    def catch_up(self) -> Rounds:
        self._then()
        self._world.answered(self.party)
        return self.party.rounds


def prepared(world: World, party: Party, then=lambda: None) -> bool:
    """Let a party prepare what its world holds by now."""
    log = WorldLog(world, then)
    log.party = party
    world.answered(party)

    def read_on(places):
        for partition, begin in enumerate(places):
            yield from world.topic[partition][begin : begin + 2]

    return prepare(party, log, read_on)


@pytest.fixture
def opened(monkeypatch) -> list[bytes]:
    """Give the devices whose boxes were opened, in order."""
    found = []

    def counted(function):
        def call(campaign, contribution, *rest):
            found.append(contribution.device)
            return function(campaign, contribution, *rest)

        return call

    monkeypatch.setattr(collection, "open_box", counted(open_box))
    monkeypatch.setattr(collection, "check_box", counted(check_box))
    return found


def filled(world: World, rng) -> None:
    """Send nine contributions, one of them twice, one with two contents, and one damaged."""
    world.plan()
    world.open()
    sent = [world.contribute(device, row) for device, row in enumerate(vectors(rng, 9))]
    world.send(sent[2])
    again = seal(world.campaign, 0, device_id(3), vectors(rng, 1)[0], SeededSource(77))
    world.send(again)
    damaged = seal(world.campaign, 0, device_id(20), vectors(rng, 1)[0], SeededSource(78))
    boxes = tuple(box[:-1] + bytes([box[-1] ^ 1]) for box in damaged.boxes)
    world.send(msgspec.structs.replace(damaged, boxes=boxes))


@pytest.mark.parametrize("world_of", [split_world, central_world])
@pytest.mark.parametrize("forgotten", [(), (1,)])
def test_a_party_that_prepared_answers_to_the_byte_as_one_that_did_not(
    world_of, forgotten, rng
) -> None:
    world, keys = world_of()
    filled(world, rng)
    ahead, late = ([Party(each, Kept()) for each in keys] for _ in range(2))
    for party in ahead:
        assert prepared(world, party)
    world.contribute(12, vectors(rng, 1)[0])  # after that
    world.close(forgotten=forgotten)
    before = list(world.log)
    first = world.settle(ahead).stages[0]
    answers, world.log = world.log, before
    second = world.settle(late).stages[0]
    assert first.phase is second.phase is Phase.RELEASED
    assert first.contributions == 10 - len(forgotten)
    assert world.log == answers


def test_other_contents_of_a_device_than_those_prepared_are_opened(rng) -> None:
    """The record that was prepared is gone from the log, and another of its device counts."""
    world, keys = central_world()
    filled(world, rng)
    ahead, late = (Party(each, Kept()) for each in keys * 2)
    while prepared(world, ahead):
        pass
    name = device_id(3).hex().encode()
    first, _ = (each for part in world.topic for each in part if each.key == name)
    world.topic[first.partition][first.offset] = replace(first, value=None)
    world.close()
    before = list(world.log)
    assert world.settle([ahead]).stages[0].phase is Phase.RELEASED
    answers, world.log = world.log, before
    world.settle([late])
    assert world.log == answers


@pytest.mark.parametrize("world_of", [split_world, central_world])
def test_what_is_prepared_is_not_opened_again(world_of, rng, opened) -> None:
    world, keys = world_of()
    filled(world, rng)
    parties = [Party(each, Kept()) for each in keys]
    for party in parties:
        while prepared(world, party):
            pass
    before = len(opened)
    assert before == 10 * len(parties)
    world.contribute(12, vectors(rng, 1)[0])
    world.close()
    assert world.settle(parties).stages[0].contributions == 10
    assert opened[before:] == [device_id(12)] * len(parties)


def test_what_arrives_after_the_end_is_not_prepared(rng, opened) -> None:
    world, keys = central_world()
    filled(world, rng)
    (party,) = (Party(each, Kept()) for each in keys)
    prepared(world, party, then=world.close)
    assert len(opened) == 10  # each once, by the answer
    assert not prepared(world, party)


def test_records_of_a_stage_that_was_closed_meanwhile_are_not_prepared_for_the_next(rng) -> None:
    world, keys = central_world()
    filled(world, rng)
    party, other = (Party(each, Kept()) for each in keys * 2)
    early = world.contribute(30, vectors(rng, 1)[0], stage=1)

    def next_stage() -> None:
        world.close()
        world.settle([other])
        world.open(1)

    prepared(world, party, then=next_stage)
    assert party.next_places == world.ends
    world.contribute(30, vectors(rng, 1)[0], stage=1)  # other bytes than those that came too early
    world.contribute(31, vectors(rng, 1)[0], stage=1)
    assert early.stage == 1
    assert prepared(world, party)
    world.close(1)
    done = world.settle([party]).stages[1]
    assert done.phase is Phase.RELEASED
    assert done.contributions == 2

"""A campaign of signed contributions: others neither add to a device's nor replace it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from stream_app.aggregation.party import Party
from stream_app.campaigns.rounds import Phase
from stream_app.campaigns.sealing import seal
from stream_app.privacy.randomness import SeededSource
from stream_app.wire.campaigns.contribution import SIGNED_AS, encode_contribution
from stream_app.wire.signatures import SigningKey
from tests.stream_app.aggregation.world import Kept, World, keys_of, plan_of

SIGNERS = [SigningKey.from_seed(bytes([number]) * 32) for number in range(4)]


def a_world(parties: int) -> tuple[World, list[Party]]:
    keys = keys_of(parties)
    world = World(msgspec.structs.replace(plan_of(keys), signed=True))
    world.plan()
    world.open()
    return world, [Party(each, Kept()) for each in keys]


@pytest.mark.parametrize("parties", [1, 2])
def test_what_a_device_has_not_signed_neither_counts_nor_takes_its_place(parties: int) -> None:
    world, agreed = a_world(parties)

    def value(signer: SigningKey, number: int) -> bytes:
        vector = np.full(5, number, np.int64)
        made = seal(world.campaign, 0, signer.pseudonym, vector, SeededSource(number))
        return encode_contribution(made)

    first, second, third, forger = SIGNERS
    name = first.pseudonym.hex().encode()
    forged = value(first, 90)
    for other in (
        forged,  # not signed, before the device's own
        forger.seal(SIGNED_AS, forged),  # by another key
        first.seal(SIGNED_AS, forged)[:33] + bytes(64) + forged,
        first.seal("murmurec.ratings.v1", forged),  # signed as a report
    ):
        world.put(name, other)
    for number, signer in enumerate((first, second, third), 1):
        own = signer.seal(SIGNED_AS, value(signer, number))
        world.put(signer.pseudonym.hex().encode(), own)
    world.close()
    stage = world.settle(agreed).stages[0]
    assert (stage.phase, stage.contributions) == (Phase.RELEASED, 3)
    assert stage.result is not None
    assert np.abs(stage.result - 6).max() < 6 * 20 * parties  # 1 + 2 + 3, and the noise
    for party in agreed:
        assert party.collected is not None
        assert party.collected.dropped["bad_signature"] == 4


def test_where_none_is_asked_for_an_envelope_is_opened_and_counts() -> None:
    keys = keys_of(1)
    world = World(plan_of(keys))
    world.plan()
    world.open()
    for signer in SIGNERS:
        made = seal(world.campaign, 0, signer.pseudonym, np.ones(5, int), SeededSource(1))
        world.put(
            signer.pseudonym.hex().encode(), signer.seal(SIGNED_AS, encode_contribution(made))
        )
    world.close()
    assert world.settle([Party(keys[0], Kept())]).stages[0].contributions == 4

"""The enrolment attack against the truth of a test."""

from __future__ import annotations

import numpy as np
import pytest

from consumers.audit import PublicConfiguration, observe
from research.attacks.enrolment import FEATURES, advantage, traces
from tests.consumers.audit.worlds import CELL, EPOCH, RR, World, emit, keys

SEVEN = keys([7])
PAIRS = 2000


def population(seed: int, *, rates: bool, silent: bool) -> tuple[np.ndarray, list[bytes]]:
    """Return the traces of one account a world: it has rated item 7 or nothing; with `silent` an
    account without ratings does not emit."""
    world = World(seed)
    devices = [world.device() for _ in range(PAIRS)]
    items = SEVEN if rates else keys([])
    for device in devices:
        if len(items) or not silent:
            emit(world, device, items, EPOCH, scope=keys(range(20)))
    observed = observe(world.records, PublicConfiguration((RR, CELL)))
    return traces(observed.messages, devices), devices


def test_who_emits_when_and_how_much_does_not_tell_a_rating_from_none() -> None:
    """{account: item 7} against {}, 2,000 pairs over the same accounts."""
    without, devices = population(1, rates=False, silent=False)
    found, same = population(1, rates=True, silent=False)
    assert devices == same
    assert np.abs(without[:, :3] - found[:, :3]).max() == 0
    assert abs(advantage(without, found).advantage) <= 0.03


def test_an_account_that_emits_only_when_it_rates_is_told_apart() -> None:
    without, _ = population(1, rates=False, silent=True)
    found, _ = population(1, rates=True, silent=True)
    attack = advantage(without, found)
    assert attack.advantage == 1
    assert attack.feature in FEATURES


def test_the_advantage_is_measured_on_pairs_that_did_not_choose_the_rule() -> None:
    rng = np.random.default_rng(5)
    noise = rng.standard_normal((2, 4000, 3))
    assert abs(advantage(noise[0], noise[1]).advantage) < 0.08
    shifted = noise[1] + np.array([0, 1.0, 0])  # total variation of N(0, 1) and N(1, 1): .383
    assert advantage(noise[0], shifted).advantage == pytest.approx(0.383, abs=0.06)
    with pytest.raises(ValueError, match="two or more pairs"):
        advantage(noise[0][:1], noise[1][:1])

"""The three attacks against the truth of a test: what they reach, and what a guess reaches."""

from __future__ import annotations

import numpy as np
import pytest

from consumers.audit import Observed, PublicConfiguration, observe
from consumers.audit.attacks.enrolment import FEATURES, advantage, traces
from consumers.audit.attacks.linking import hit_rate, link
from consumers.audit.attacks.rebuilding import hits, rebuild
from stream_app.privacy.profiles import registry as profiles
from tests.consumers.audit.worlds import CELL, EPOCH, PUBLIC, RR, World, emit, keys, rate, rated

SEVEN = keys([7])
PAIRS = 2000


def seen(world: World, **public: object) -> tuple[Observed, PublicConfiguration]:
    configuration = PublicConfiguration((RR, CELL), **public)  # type: ignore[arg-type]
    return observe(world.records, configuration), configuration


def population(seed: int, *, rates: bool, silent: bool) -> tuple[np.ndarray, list[bytes]]:
    """Return the traces of one account a world: it has rated item 7 or nothing; with `silent` an
    account without ratings does not emit."""
    world = World(seed)
    devices = [world.device() for _ in range(PAIRS)]
    items = SEVEN if rates else keys([])
    for device in devices:
        if len(items) or not silent:
            emit(world, device, items, EPOCH, scope=keys(range(20)))
    observed, _ = seen(world)
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


@pytest.mark.parametrize("same_person", [True, False])
def test_journals_of_one_person_are_linked_and_those_of_strangers_are_not(
    same_person: bool,
) -> None:
    world, truth = World(6), {}
    for _ in range(80):
        first, second, items = world.device(), world.device(), rated(world, 40)
        rate(world, first, items)
        emit(
            world, second, items if same_person else rated(world, 40), EPOCH,
            scope=keys(range(300)),
        )  # fmt: skip
        truth[first] = second
    observed, public = seen(world)
    found = link(observed, public, (RR.id, list(truth)), (CELL.id, sorted(truth.values())))
    assert found.chance == 1 / 80
    if same_person:
        assert hit_rate(found, truth) > 0.5
    else:
        assert hit_rate(found, truth) < 0.1


@pytest.mark.parametrize(
    ("epsilon", "epochs", "precise", "complete"),
    [("8", 2, True, True), ("1/2", 2, False, False), ("4", 1, True, False)],
)
def test_rebuilt_profiles_are_as_good_as_the_attack_expects(
    epsilon: str, epochs: int, precise: bool, complete: bool
) -> None:
    world, truth = World(7), {}
    mechanism, catalogue = profiles.parse(f"blip:5000:2:{epsilon}"), PUBLIC["scope"]
    for _ in range(30):
        device, items = world.device(), np.sort(world.rng.choice(300, 60, replace=False))
        truth[device] = np.isin(catalogue, items)
        for epoch in range(EPOCH, EPOCH + epochs):
            world.send_profile(device, items.astype(np.uint64), mechanism, epoch=epoch)
    observed, public = seen(world, **PUBLIC)
    found = rebuild(observed, public)
    precision, recall = hits(truth, found)
    assert (precision > 0.85, recall > 0.85) == (precise, complete)
    expected = [each.precision for each in found if each.posterior is not None]
    picked = [bool((each.posterior > 0.5).any()) for each in found if each.posterior is not None]
    if any(picked):
        assert np.mean(np.array(expected)[picked]) == pytest.approx(precision, abs=0.12)


@pytest.mark.statistical
def test_the_attack_on_cells_expects_as_many_items_as_people_have() -> None:
    """60 of 300 items, reported in 6 messages: the mean of the expected numbers is 60.1 and
    deviates by 2.5 over 40 worlds, so 13 is beyond five deviations (false alarm below 1e-6). Were
    a device counted once for each message, it would be 12."""
    world = World(9)
    for _ in range(30):
        device, items = world.device(), world.rng.choice(300, 60, replace=False)
        for epoch, turn in enumerate(np.split(PUBLIC["scope"], 6)):
            emit(world, device, items.astype(np.uint64), EPOCH + epoch, scope=turn)
    found = rebuild(*seen(world, **PUBLIC))
    expected = [each.posterior.sum() for each in found if each.posterior is not None]
    assert len(expected) == 30
    assert np.mean(expected) == pytest.approx(60, abs=13)


def test_projections_are_rebuilt_too() -> None:
    world, truth = World(8), {}
    mechanism = profiles.parse("jlt:1000:8:1/1000000")
    for _ in range(10):
        device, items = world.device(), np.sort(world.rng.choice(300, 60, replace=False))
        truth[device] = np.isin(PUBLIC["scope"], items)
        for epoch in (EPOCH, EPOCH + 1):
            world.send_profile(device, items.astype(np.uint64), mechanism, epoch=epoch)
    observed, public = seen(world, **PUBLIC)
    precision, recall = hits(truth, rebuild(observed, public))
    assert precision > 0.7
    assert recall > 0.5

"""The attacks against the truth of a test: what they reach, and what a guess reaches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from consumers.audit import PublicConfiguration, observe
from consumers.audit.attacks.evidence import Rebuilt, rebuild
from consumers.audit.attacks.linking import Links, link
from consumers.audit.observed import Observed
from stream_app.privacy import registry
from tests.consumers.audit.worlds import CELL, EPOCH, PUBLIC, RR, World, emit, keys, rate, rated


def hits(found: Mapping[bytes, NDArray[np.bool_]], rebuilt: list[Rebuilt]) -> tuple[float, float]:
    """Return precision and recall of what was rebuilt against the truth."""
    picked = true = right = 0
    for each in rebuilt:
        if each.posterior is not None and each.device in found:
            chosen, own = each.posterior > 0.5, found[each.device]
            picked, true = picked + int(chosen.sum()), true + int(own.sum())
            right += int((chosen & own).sum())
    return right / max(1, picked), right / max(1, true)


def hit_rate(links: Links, truth: dict[bytes, bytes]) -> float:
    """Return the share of pseudonyms whose best match is the same person's."""
    right = [truth.get(own) == match for own, match in zip(links.first, links.best, strict=True)]
    return float(np.mean(right)) if right else 0.0


def seen(world: World, **public: object) -> tuple[Observed, PublicConfiguration]:
    mechanisms = public.pop("mechanisms", (RR, CELL))
    configuration = PublicConfiguration(mechanisms, **public)  # type: ignore[arg-type]
    return observe(world.records, configuration), configuration


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
    [("4", 2, True, True), ("1/2", 2, False, False), ("4", 1, False, True)],
)
def test_what_is_rebuilt_is_as_good_as_the_attack_expects(
    epsilon: str, epochs: int, precise: bool, complete: bool
) -> None:
    world, truth = World(7), {}
    mechanism, catalogue = registry.parse(f"cell:5:{epsilon}"), PUBLIC["scope"]
    for _ in range(30):
        device, items = world.device(), np.sort(world.rng.choice(300, 60, replace=False))
        truth[device] = np.isin(catalogue, items)
        for epoch in range(EPOCH, EPOCH + epochs):
            emit(
                world, device, items.astype(np.uint64), epoch, mechanism=mechanism, scope=catalogue
            )
    found = rebuild(*seen(world, **PUBLIC, mechanisms=(mechanism,)))
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

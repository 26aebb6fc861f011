"""Accounts that enrolled on different days: what their turns give is no fault, all else is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from consumers.audit.checks.public_turns import PublicTurns
from producers.daemon.cells import Cells
from producers.device.scope import turn
from tests.consumers.audit.worlds import EPOCH, World, emit, keys, violated

ITEMS = keys(range(200))
EVEN = "cell:5:2: every account sends as many cells and messages as the others"
SILENT = "cell:5:2: every enrolled account emits in every epoch"


def enrolled_on(world: World, cells: Cells, days: list[int], *, epochs: int, off: int = 0) -> None:
    """Let an account for each day of enrolment before `EPOCH` start in `EPOCH`; the first `off`
    of them send nothing in the second epoch."""
    for place, day in enumerate(days):
        device, count = world.device(), dict.fromkeys(ITEMS.tolist(), 0)

        def reports(asked: NDArray[np.uint64], count: dict[int, int] = count) -> NDArray[np.int64]:
            return np.array([count[key] for key in asked.tolist()], np.int64)

        for epoch in range(EPOCH, EPOCH + epochs):
            due = cells.left(EPOCH - day, epoch, reports)
            due = due[reports(due) < cells.rounds]  # the journal leaves out what is reported
            if len(due) and not (place < off and epoch == EPOCH + 1):
                emit(world, device, keys([]), epoch, scope=due)
                for key in due.tolist():
                    count[key] += 1


@pytest.mark.parametrize(
    "public", [{}, {"scope": ITEMS}, {"scope": ITEMS, "rotate_every": 5}], ids=["", "scope", "all"]
)
@pytest.mark.parametrize("epochs", [1, 4])
def test_accounts_of_different_days_that_start_together_are_not_uneven(
    public: dict[str, object], epochs: int
) -> None:
    world = World(1)
    enrolled_on(world, Cells(ITEMS, 5, 1), [1] * 20 + [2] * 12 + [4] * 8, epochs=epochs, off=1)
    found = world.found(**public)
    assert violated(found) == set()
    assert "20 accounts enrolled earlier" in found[EVEN].measured


def test_accounts_of_different_days_with_several_rounds_are_not_uneven() -> None:
    world = World(2)
    enrolled_on(world, Cells(ITEMS, 3, 1, rounds=2), [1] * 9 + [2] * 6 + [4] * 4, epochs=6)
    assert violated(world.found(scope=ITEMS, rounds=2, budget=1e6)) == set()


def test_a_scope_with_turns_excuses_no_other_number_of_cells() -> None:
    world = World(3)
    enrolled_on(world, Cells(ITEMS, 5, 1), [1] * 20 + [3] * 10, epochs=1)
    due = turn(ITEMS, EPOCH, 5, 1)
    for extra in (ITEMS[:1], ITEMS[:7]):  # rated since its turn passed
        emit(world, world.device(), ITEMS[:7], EPOCH, scope=np.union1d(due, extra))
    found = world.found(scope=ITEMS)
    assert violated(found) == {EVEN}
    assert found[EVEN].figures["violations"] == 2


def test_an_account_that_leaves_a_turn_out_is_not_excused() -> None:
    world = World(4)
    enrolled_on(world, Cells(ITEMS, 5, 1), [1] * 20, epochs=3)
    device = world.device()
    for epoch in (EPOCH, EPOCH + 2):  # silent between, and never makes up for it
        emit(world, device, keys([]), epoch, scope=turn(ITEMS, epoch, 5, 1))
    assert SILENT in violated(world.found(scope=ITEMS))


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_latest_enrolment_that_explains_an_account_is_found(rounds: int) -> None:
    turns = PublicTurns.of_period(ITEMS, 4, 1, rounds)
    cells = Cells(ITEMS, 4, 1, rounds=rounds)
    for day in (1, 2, 3):
        first = cells.due(EPOCH - day, EPOCH)
        assert turns.explain([EPOCH], [first]) == EPOCH - day
        assert turns.explain([EPOCH], [first[1:]]) is None

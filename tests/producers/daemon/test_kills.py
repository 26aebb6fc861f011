"""SIGKILL at any moment: nothing is drawn twice, overspent or lost, and kills reveal no rating."""

from __future__ import annotations

import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from producers.identities import Identities
from producers.journal import Journal, PersonBudget, read_journal
from producers.ranking.clean_history import CleanHistory
from tests.producers.daemon.lives import DAYS, ITEMS, ratings
from tests.producers.daemon.world import CELL, DAY, TODAY, event

USERS = tuple(f"u{number}" for number in range(5))
BUDGET = PersonBudget(CELL.epsilon * ITEMS, Fraction(0), None)  # exactly one report a cell


def lived(folder: Path, journal: Path, seed: int, kills: int, *, rated: bool) -> int:
    folder.mkdir()
    shutil.copy(journal, folder / "device.journal")
    (folder / "clock").write_text(repr(TODAY * DAY))
    (folder / "broker").touch()
    command = [
        sys.executable, "-m", "tests.producers.daemon.lives", str(folder), str(seed), str(kills),
        "rated" if rated else "unrated", *USERS,
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


def outside(folder: Path) -> dict[tuple[str, int], tuple[float, int, set[str]]]:
    """Return (key, seq) -> when it was first seen, its size, and its different bytes."""
    found: dict[tuple[str, int], tuple[float, int, set[str]]] = {}
    for line in (folder / "broker").read_text().splitlines():
        at, key, seq, value = line.split()
        entry = found.setdefault((key, int(seq)), (float(at), len(value), set()))
        entry[2].add(value)
    return found


def check(folder: Path, quiet: dict[tuple[str, int], tuple[float, int, set[str]]]) -> None:
    """Compare a device that was killed with one that was not and had no ratings."""
    seen = outside(folder)
    assert {name: entry[:2] for name, entry in seen.items()} == {
        name: entry[:2] for name, entry in quiet.items()
    }
    assert all(len(values) == 1 for *_, values in seen.values()), "drawn again"
    cells = [
        (key, item)
        for (key, _), (_, _, values) in seen.items()
        for item in event(None, bytes.fromhex(next(iter(values)))).items.tolist()
    ]
    assert len(cells) == len(set(cells)) == len(USERS) * ITEMS, "a cell twice, or never"
    view = read_journal(folder / "device.journal")
    for account in view.book.accounts.values():
        nano = sum(spent.nano for spent in account.by_adjacency().values())
        assert nano <= BUDGET.nano
    named = Identities(view.key)
    kept = {(row.device, row.item) for row in CleanHistory(folder / "device.journal").read()}
    given = {
        (named.pseudonym(line.split(",")[0]).hex(), int(line.split(",")[1]))
        for user in USERS for day in range(TODAY, TODAY + DAYS) for line in ratings(user, day)
    }  # fmt: skip
    assert kept == given, "a rating was lost"


@pytest.fixture
def enrolled(tmp_path: Path) -> Path:
    path = tmp_path / "enrolled"
    with Journal.open(path) as journal:
        named = Identities(journal.key)
        journal.enrol([named.pseudonym(user) for user in USERS], BUDGET, TODAY - 1)
    return path


def killed(tmp_path: Path, enrolled: Path, seed: int, least: int) -> None:
    assert lived(tmp_path / "quiet", enrolled, 0, 0, rated=False) == 0
    quiet = outside(tmp_path / "quiet")
    kills = 0
    while kills < least:
        folder = tmp_path / f"killed-{kills}"
        kills += lived(folder, enrolled, seed + kills, least - kills, rated=True)
        check(folder, quiet)


def test_sixty_kills_change_nothing_and_lose_nothing(
    tmp_path: Path, enrolled: Path, seed: int
) -> None:
    killed(tmp_path, enrolled, seed, 60)


@pytest.mark.nightly
def test_three_hundred_kills_change_nothing_and_lose_nothing(
    tmp_path: Path, enrolled: Path, seed: int
) -> None:
    killed(tmp_path, enrolled, seed, 300)

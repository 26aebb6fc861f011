"""The loop of the program: who reports, when, and how much, with or without ratings."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from producers.daemon.schedule import moment
from producers.daemon.watched_file import Places, WatchedFile
from producers.journal import Journal, PersonBudget
from tests.producers.daemon.world import (
    DAY,
    LOUD,
    SCOPE,
    TODAY,
    device,
    pseudonym,
    write,
)


def enrolled(path: Path, *users: str, epoch: int = TODAY) -> Journal:
    journal = Journal.open(path)
    journal.enrol([pseudonym(journal, user) for user in users], PersonBudget(), epoch)
    return journal


def watching(journal: Journal, path: Path) -> WatchedFile:
    return WatchedFile(path, Places(journal.path), journal.key)


@pytest.mark.parametrize("lines", [(), ("7,4",)], ids=["no rating", "one rating"])
def test_an_account_reports_from_the_first_epoch_after_it_enrolled(
    lines: tuple[str, ...], tmp_path: Path
) -> None:
    with enrolled(tmp_path / "j", "ann") as journal:
        file = write(tmp_path / "ratings.csv", *lines)
        run = device(journal, [watching(journal, file)])
        run.days(1)
        assert run.broker.seen == []
        run.days(1)
        ann = pseudonym(journal, "ann")
        ((at, key, seq, _),) = run.broker.seen
        assert (at, key, seq) == (moment(ann, TODAY + 1, DAY).at, ann.hex().encode(), 1)
        assert {item for _, item in run.broker.cells()} == set(SCOPE.tolist())


def test_the_report_of_a_rated_item_is_drawn_from_its_level(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann") as journal:
        journal.raise_budget([pseudonym(journal, "ann")], Fraction(10**4))
        file = write(tmp_path / "ratings.csv", "7,4", "3,1", "99,5")
        run = device(journal, [watching(journal, file)], mechanism=LOUD)
        run.days(2)
        reports = {item: report for (_, item), (report,) in run.broker.cells().items()}
        assert reports == {item: {7: 3, 3: 0}.get(item, 5) for item in SCOPE.tolist()}

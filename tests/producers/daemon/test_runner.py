"""The loop of the program: who reports, when, and how much, with or without ratings."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.daemon.schedule import moment
from producers.daemon.sources.watched_file import Places, WatchedFile
from producers.journal import Journal, Limits, PersonBudget
from producers.journal.disk import Disk
from producers.ranking.clean_history import CleanHistory
from producers.scale import Scale
from stream_app.errors import UserError
from stream_app.privacy.mechanism import Mechanism
from tests.producers.daemon.world import (
    CELL,
    DAY,
    LOUD,
    RR,
    SCOPE,
    TODAY,
    HandClock,
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


def test_a_moment_that_passed_while_the_program_was_off_is_made_up_for_at_the_next(
    tmp_path: Path,
) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        ann = pseudonym(journal, "ann")
        clock = HandClock(moment(ann, TODAY, DAY).at + 1)
        run = device(journal, clock=clock, rotate_every=3)
        run.until((TODAY + 1) * DAY)
        assert run.broker.seen == []
        run.until((TODAY + 2) * DAY)
        assert [at for at, *_ in run.broker.seen] == [moment(ann, TODAY + 1, DAY).at]
        whole = {item for _, item in run.broker.cells()}
        run.until((TODAY + 4) * DAY)
        later = {item for _, item in run.broker.cells()}
        assert 0 < len(whole) < len(later) == len(SCOPE)


def test_a_program_that_sleeps_over_a_moment_waits_for_the_next(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        ann = pseudonym(journal, "ann")
        run = device(journal)
        run.daemon.step()
        run.clock.at = moment(ann, TODAY, DAY).at + 3600  # a laptop that was closed
        run.daemon.step()
        assert run.broker.seen == []
        assert "slept over a moment" in run.notices[-1]
        run.until((TODAY + 2) * DAY)
        assert [at for at, *_ in run.broker.seen] == [moment(ann, TODAY + 1, DAY).at]


def test_while_the_broker_is_away_messages_wait_and_go_out_as_the_same_bytes(
    tmp_path: Path,
) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        run = device(journal)
        run.daemon.step()
        run.broker.away = True
        run.days(1)
        (waiting,) = journal.pending()
        run.broker.away = False
        run.daemon.step()
        assert [value for *_, value in run.broker.seen] == [waiting.value]
        assert journal.pending() == []


def test_a_message_that_was_not_accepted_is_sent_again_by_another_producer(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        run = device(journal)
        run.broker.refusal = "Broker: Topic authorization failed"
        run.days(1)
        assert run.broker.seen == []
        assert len([n for n in run.notices if "authorization failed" in n]) == 1
        (waiting,) = journal.pending()
        run.broker.refusal = ""
        run.clock.at += 60
        run.daemon.step()
        assert [value for *_, value in run.broker.seen] == [waiting.value]
        assert run.broker.connected > 1
        assert run.notices[-1] == "the broker is back"


def test_nothing_is_drawn_before_the_broker_was_reached_once(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        run = device(journal)
        run.broker.away = True
        run.days(1)
        assert journal.pending() == []
        run.broker.away = False
        run.days(1)
        assert len(run.broker.cells()) == len(SCOPE)


def test_a_clock_that_was_set_back_reports_nothing_until_it_is_later(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        device(journal, rotate_every=2).days(1)
        journal.enrol([pseudonym(journal, "bob")], PersonBudget(), TODAY - 9)
        back = device(journal, clock=HandClock((TODAY - 5) * DAY), rotate_every=2)
        back.days(3)
        assert back.broker.seen == []
        assert len([n for n in back.notices if "set the clock right" in n]) == 3  # one a day
        back.until((TODAY + 3) * DAY)
        # The other turn of one account, and the whole scope of the one that waited longer.
        assert len(back.broker.seen) == 2


def test_a_clock_that_was_set_far_forward_is_refused_and_draws_nothing(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        device(journal, rotate_every=2).days(1)
        before = journal.path.read_bytes()
        run = device(journal, clock=HandClock((TODAY + 400) * DAY), rotate_every=2)
        with pytest.raises(UserError, match="at most 366 days are accepted"):
            run.days(1)
        assert journal.path.read_bytes() == before


def test_a_full_disk_keeps_the_ratings_where_they_are_and_says_so_once(tmp_path: Path) -> None:
    class Full(Disk):
        full = True

        def append(self, handle: int, data: bytes) -> None:
            if self.full:
                raise OSError(28, "No space left on device")
            super().append(handle, data)

    disk = Full()
    with enrolled(tmp_path / "j", "ann") as journal:
        file = write(tmp_path / "ratings.csv", "7,4")
        run = device(journal, [watching(journal, file)], disk=disk)
        for _ in range(3):
            run.daemon.step()
        assert len([n for n in run.notices if "No space left" in n]) == 1
        assert CleanHistory(journal.path).read() == []
        disk.full = False
        run.daemon.step()
        (row,) = CleanHistory(journal.path).read()
        assert (row.item, row.epoch) == (7, TODAY)
        assert row.at is not None
        assert row.at // 60 * 60 == row.at
        assert row.at // DAY == row.epoch


def test_bad_lines_are_named_without_their_ratings_and_the_others_are_kept(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann") as journal:
        lines = ["7,4", "8,31415", "9", "x" * 20_000, "Дом,5"] + ["1,9"] * 30
        run = device(journal, [watching(journal, write(tmp_path / "r.csv", *lines))])
        run.daemon.step()
        assert {row.item for row in CleanHistory(journal.path).read()} == {7, "Дом"}
        assert "must be a number on the scale 1..5 by 1" in run.notices[0]
        assert "31415" not in " ".join(run.notices)
        assert len(run.notices) == 21  # a flood is cut off


def test_a_rating_that_changes_before_its_report_counts_as_it_is_then(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann") as journal:
        journal.raise_budget([pseudonym(journal, "ann")], Fraction(10**4))
        file = write(tmp_path / "r.csv", "7,4", "7,2")
        run = device(journal, [watching(journal, file)], mechanism=LOUD)
        run.daemon.step()
        with file.open("a") as more:
            more.write("7,5\n")
        run.days(2)
        assert run.broker.cells()[pseudonym(journal, "ann"), 7] == [4]


def test_a_rating_that_the_user_forgot_is_not_reported(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann") as journal:
        journal.raise_budget([pseudonym(journal, "ann")], Fraction(10**4))
        run = device(journal, [watching(journal, write(tmp_path / "r.csv", "7,4"))], mechanism=LOUD)
        run.daemon.step()
        CleanHistory(journal.path).forget()
        run.days(2)
        assert run.broker.cells()[pseudonym(journal, "ann"), 7] == [5]  # "missing"


class ForgettingDisk(Disk):
    """A disk on which another program removes the history while lines are parsed."""

    asked = False

    def open(self, path: Path) -> int:
        if not self.asked:
            self.asked = True
            CleanHistory(path.with_name(path.name.removesuffix(".history"))).forget()
        return super().open(path)


def test_a_rating_that_is_forgotten_while_others_come_is_not_reported(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann") as journal:
        ann = pseudonym(journal, "ann")
        journal.raise_budget([ann], Fraction(10**4))
        CleanHistory(journal.path).append(ann, 7, 4, Scale(), TODAY * DAY)
        file = watching(journal, write(tmp_path / "r.csv", "3,1"))
        run = device(journal, [file], mechanism=LOUD, disk=ForgettingDisk())
        run.days(2)
        found = run.broker.cells()
        assert (found[ann, 7], found[ann, 3]) == ([5], [0])  # "missing", and what came


def test_where_presence_is_public_what_is_new_is_sent_once_and_as_much_as_fits(
    tmp_path: Path,
) -> None:
    with enrolled(tmp_path / "j", "ann") as journal:
        file = write(tmp_path / "r.csv", "7,4", "8,2")
        run = device(journal, [watching(journal, file)], mechanism=RR, scope=None)
        run.days(3)
        assert sorted(item for _, item in run.broker.cells()) == [7, 8]
        with file.open("a") as more:
            more.write("".join(f"{item},3\n" for item in range(100, 400)))
        run.days(2)
        room = journal.room(pseudonym(journal, "ann"), RR, TODAY + 5)
        assert room == 0
        assert 2 < len(run.broker.cells()) < 302


def test_of_a_catalogue_an_account_reports_what_its_own_key_picks(tmp_path: Path) -> None:
    catalogue = np.arange(50_000, dtype=np.uint64)
    with enrolled(tmp_path / "j", "ann", "bob") as journal:
        run = device(journal, scope=catalogue, user=None, most=4096)
        run.days(3)
        picked = [
            {item for sender, item in run.broker.cells() if sender == pseudonym(journal, user)}
            for user in ("ann", "bob")
        ]
        assert len(picked[0]) == len(picked[1]) > 30
        assert len(picked[0] & picked[1]) < 10
        for user in ("ann", "bob"):
            assert journal.room(pseudonym(journal, user), CELL, TODAY + 4) == 0


def test_a_full_outbox_is_waited_for_and_made_up_for(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        journal.outbox_bytes = 10
        run = device(journal)
        run.days(1)
        assert "wait for delivery reports" in run.notices[-1]
        journal.outbox_bytes = 10**6
        run.days(1)
        assert len(run.broker.cells()) == len(SCOPE)


def test_withdrawn_accounts_and_those_of_tomorrow_do_not_report(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", "bob") as journal:
        journal.withdraw([pseudonym(journal, "bob")], TODAY)
        journal.enrol([pseudonym(journal, "cleo")], PersonBudget(), TODAY + 3)
        run = device(journal, user=None)
        run.until((TODAY + 3) * DAY)
        assert {key for key, _ in run.broker.cells()} == {pseudonym(journal, "ann")}
        run.until((TODAY + 6) * DAY)
        assert pseudonym(journal, "cleo") in {key for key, _ in run.broker.cells()}


def test_two_programs_on_one_journal_are_refused(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann"), pytest.raises(UserError, match="another process is us"):
        Journal.open(tmp_path / "j")


@pytest.mark.parametrize("rated", [False, True])
def test_in_rounds_each_item_is_reported_again_in_its_next_turns(
    rated: bool, tmp_path: Path
) -> None:
    path = tmp_path / "j"
    enrolled(path, "ann", epoch=TODAY - 1).close()
    with Journal.open(path, limits=Limits(reports=3)) as journal:
        lines = ["7,4", "3,1"] if rated else []
        file = write(tmp_path / "r.csv", *lines)
        run = device(journal, [watching(journal, file)], rotate_every=2, rounds=3)
        counts = []
        for _ in range(9):
            run.days(1)
            counts.append(sum(map(len, run.broker.cells().values())))
        assert [b - a for a, b in zip(counts[1::2], counts[3::2], strict=False)] == [12, 12, 0]
        assert {len(reports) for reports in run.broker.cells().values()} == {3}
        assert journal.spent(pseudonym(journal, "ann"))["cell"].reports == 3 * len(SCOPE)


def test_a_round_that_was_missed_is_made_up_for_one_report_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "j"
    enrolled(path, "ann", epoch=TODAY - 6).close()
    with Journal.open(path, limits=Limits(reports=2)) as journal:
        run = device(journal, rotate_every=2, rounds=2)
        run.days(1)
        assert {len(reports) for reports in run.broker.cells().values()} == {1}
        run.days(1)
        assert {len(reports) for reports in run.broker.cells().values()} == {2}
        run.days(3)
        assert {len(reports) for reports in run.broker.cells().values()} == {2}


def test_a_plan_of_some_reports_is_followed_and_then_nothing_is_reported(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j") as journal:
        ann = pseudonym(journal, "ann")
        journal.enrol([ann], PersonBudget(plan="rr:5:1/2*8"), TODAY)
        file = write(tmp_path / "ratings.csv", *(f"{item},4" for item in range(5)))
        run = device(journal, [watching(journal, file)], mechanism=RR, scope=None)
        run.days(2)
        assert len(run.broker.cells()) == 5
        write(file, *(f"{item},4" for item in range(30)))
        run.days(3)
        assert len(run.broker.cells()) == 8
        assert journal.room(ann, RR, TODAY + 5) == 0
        assert len(run.broker.seen) == 2


@pytest.mark.parametrize(("mechanism", "scope"), [(RR, None), (CELL, SCOPE)])
def test_a_budget_that_holds_too_few_reports_is_one_notice(
    tmp_path: Path, mechanism: Mechanism, scope: Any
) -> None:
    with Journal.open(tmp_path / "j") as journal:
        journal.enrol([pseudonym(journal, "ann")], PersonBudget(Fraction(2), plan="sum"), TODAY - 1)
        file = write(tmp_path / "r.csv", *(f"{item},3" for item in range(9)))
        run = device(journal, [watching(journal, file)], mechanism=mechanism, scope=scope)
        run.days(4)
        found = [sentence for sentence in run.notices if "fewer reports under" in sentence]
        assert len(found) == 1
        assert mechanism.id in found[0]


def test_a_line_of_a_user_without_an_account_is_kept_and_named_once(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        file = write(tmp_path / "r.csv", "ann,3,5")
        run = device(journal, [watching(journal, file)], user=None)
        run.daemon.step()
        assert run.notices == []
        write(file, "ann,3,5", "zoe,4,4", "zoe,5,4")
        run.days(2)
        found = [sentence for sentence in run.notices if "without an account" in sentence]
        assert len(found) == 1
        assert "murmurec device enrol --user ID" in found[0]
        assert run.daemon.ratings.count == 3
        assert {device for device, _ in run.broker.cells()} == {pseudonym(journal, "ann")}


def test_an_edit_of_the_kept_ratings_is_read_before_a_moment(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        run = device(journal, [watching(journal, write(tmp_path / "r.csv", "3,5", "4,4"))])
        run.daemon.step()
        history = CleanHistory(journal.path)
        history.forget(pseudonym(journal, "ann"))
        assert run.daemon.ratings.count == 2
        run.daemon.step()
        assert run.daemon.ratings.count == 0

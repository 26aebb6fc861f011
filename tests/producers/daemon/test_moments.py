"""When and on what an account reports does not follow a clock's jump, a long file or a turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.daemon.schedule import moment
from producers.daemon.sources.source import Source
from producers.daemon.sources.watched_file import Places, WatchedFile
from producers.journal import Journal, Limits, PersonBudget
from tests.producers.daemon.test_contributing import running
from tests.producers.daemon.test_runner import enrolled
from tests.producers.daemon.world import DAY, SCOPE, TODAY, HandClock, device, pseudonym, write
from tests.producers.test_campaign import DELTA, opened, pinned, plan
from tests.stream_app.aggregation.world import keys_of


@pytest.mark.parametrize("options", [{"rotate_every": 3}, {"rounds": 2}], ids=["turns", "rounds"])
def test_of_a_catalogue_in_turns_an_account_reports_on_no_more_items_than_allowed(
    options: dict[str, int], tmp_path: Path
) -> None:
    catalogue = np.arange(60, dtype=np.uint64)
    journal = enrolled(tmp_path / "j", "ann")
    journal.close()
    with Journal.open(tmp_path / "j", limits=Limits(reports=options.get("rounds", 1))) as journal:
        run = device(journal, scope=catalogue, most=8, **options)
        run.days(8)
        found = run.broker.cells()
        assert len(found) == 8  # one sample, and not one a turn
        assert {len(reports) for reports in found.values()} == {options.get("rounds", 1)}


def test_a_clock_that_was_ahead_for_a_while_does_not_silence_the_accounts(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        ann = pseudonym(journal, "ann")
        run = device(journal)
        run.daemon.step()
        run.clock.at = max(moment(ann, TODAY + 300, DAY).at, (TODAY + 300) * DAY) + 3600
        run.daemon.step()  # the moment is over, so nothing is reported
        run.clock.at = TODAY * DAY + 60
        run.daemon.step()
        run.until((TODAY + 2) * DAY)
        assert [at for at, *_ in run.broker.seen] == [moment(ann, TODAY, DAY).at]


class Counted(dict[int, int]):
    """The kept ratings of a device, which count what is looked at; all of them at once is a step
    for each."""

    touched = 0

    def get(self, key: int, missing: Any = None) -> Any:
        self.touched += 1
        return super().get(key, missing)

    def __iter__(self) -> Iterator[int]:
        self.touched += len(self)
        return super().__iter__()

    def _all(self, name: str) -> Any:
        self.touched += len(self)
        return getattr(dict, name)(self)

    def keys(self) -> Any:
        return self._all("keys")

    def values(self) -> Any:
        return self._all("values")

    def items(self) -> Any:
        return self._all("items")


@pytest.mark.parametrize("kept", [0, 1_000, 100_000])
def test_the_work_before_a_message_does_not_grow_with_the_kept_ratings(
    kept: int, tmp_path: Path
) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        run = device(journal)
        run.daemon.ratings._levels[pseudonym(journal, "ann")] = looked = Counted(
            (item, item % 5) for item in range(kept)
        )
        run.until((TODAY + 1) * DAY - 1)
        assert len(run.broker.seen) == 1
        assert looked.touched == len(run.broker.cells()) == len(SCOPE)


@pytest.mark.parametrize("kept", [0, 100_000])
def test_the_work_before_a_contribution_does_not_grow_with_the_kept_ratings(
    kept: int, tmp_path: Path
) -> None:
    campaign = plan(keys_of(1))
    with Journal.open(tmp_path / "j") as journal:
        ann = pseudonym(journal, "ann")
        journal.enrol([ann], PersonBudget(Fraction(20), DELTA, plan="adaptive"), TODAY - 1)
        found = running(journal, opened(campaign), pinned(campaign))
        found.device.daemon.ratings._levels[ann] = looked = Counted(
            (10**6 + item, 4) for item in range(kept)
        )
        found.device.daemon._report = lambda: None  # counted above
        found.minutes(3)
        assert len(found.line.seen) == 1
        assert looked.touched == len(campaign.scope)


class SlowLines:
    """A file of many lines, of which each piece takes some seconds of the clock to keep."""

    name, trouble, busy = "slow", "", False

    def __init__(self, clock: HandClock, pieces: int, seconds: float) -> None:
        self.clock, self.pieces, self.seconds = clock, pieces, seconds

    def files(self) -> list[int]:
        return []

    def take(self) -> list[tuple[str, bytes]]:
        if not self.pieces:
            return []
        self.clock.at += self.seconds
        return [("slow", b"7,4")]

    def confirm(self, answers: Sequence[str]) -> None:
        self.pieces -= 1

    def refuse(self, reason: str) -> None:
        raise AssertionError(reason)

    def close(self) -> None:
        pass


def test_a_moment_does_not_wait_until_a_long_file_was_read(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        at = moment(pseudonym(journal, "ann"), TODAY, DAY).at
        clock = HandClock(at - 75)
        run = device(journal, [SlowLines(clock, 20, 50)], clock=clock)
        run.daemon.delivery.serve()
        run.daemon.step()
        assert [seen for seen, *_ in run.broker.seen] == [at + 25]  # one piece, not all of them


@pytest.mark.parametrize("pieces", [0, 1, 40])
def test_lines_that_come_right_before_a_moment_do_not_delay_it(pieces: int, tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        at = moment(pseudonym(journal, "ann"), TODAY, DAY).at
        clock = HandClock(at - 0.4)
        source = SlowLines(clock, pieces, 0.25)
        run = device(journal, [source], clock=clock)
        run.daemon.run(lambda: clock.at > at)
        assert [seen for seen, *_ in run.broker.seen] == [at]
        assert not source.pieces  # kept afterwards


class Slow:
    """A source of which each byte takes a microsecond of the clock."""

    def __init__(self, source: Source, clock: HandClock) -> None:
        self.source, self.clock = source, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def take(self) -> list[tuple[str, bytes]]:
        lines = self.source.take()
        self.clock.at += sum(len(line) for _, line in lines) * 1e-6
        return lines


def test_a_long_file_that_is_begun_before_a_moment_does_not_delay_it(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j", "ann", epoch=TODAY - 1) as journal:
        at = moment(pseudonym(journal, "ann"), TODAY, DAY).at
        clock = HandClock(at - 0.6)
        lines = [f"{number},{4:>200}" for number in range(15_000)]  # 3 MB
        file = WatchedFile(write(tmp_path / "r.csv", *lines), Places(journal.path), journal.key)
        run = device(journal, [Slow(file, clock)], clock=clock)
        run.daemon.run(lambda: clock.at > at)
        assert [seen for seen, *_ in run.broker.seen] == [at]
        run.daemon.step()
        assert run.daemon.ratings.count == len(lines)

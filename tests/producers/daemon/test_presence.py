"""What an observer sees of a device program does not depend on any rating, whatever happens."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from producers.daemon.sources.watched_file import Places, WatchedFile
from producers.journal import Journal, Limits, PersonBudget
from producers.journal.disk import Disk
from tests.producers.daemon.world import (
    DAY,
    SCOPE,
    TODAY,
    Broker,
    HandClock,
    device,
    pseudonym,
)

USERS = ("ann", "bob", "cleo", "dan")
DAYS = 5


@dataclass(frozen=True)
class Course:
    """What happens besides ratings, in hours: when the program stops and starts, and when the
    broker is away; who enrolled when; every how many epochs an item has its turn; the budget."""

    enrolled: tuple[int, ...]
    withdrawn: bool
    stops: tuple[tuple[int, int], ...]
    away: tuple[int, int]
    rotate_every: int
    epsilon: int
    rounds: int = 1
    share: Fraction | None = None


Rows = list[tuple[int, str, int, int]]  # hour, user, item, rating
rows = st.lists(
    st.tuples(
        st.integers(0, 24 * DAYS - 1),
        st.sampled_from((*USERS, "stranger")),
        st.integers(0, len(SCOPE) + 3),
        st.integers(-1, 7),
    ),
    max_size=30,
)
courses = st.builds(
    Course,
    st.tuples(*[st.integers(-2, 2)] * len(USERS)),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 24 * DAYS), st.integers(0, 40)), max_size=2).map(tuple),
    st.tuples(st.integers(0, 24 * DAYS), st.integers(0, 40)),
    st.integers(1, 3),
    st.sampled_from([2, 5, 20]),
    st.integers(1, 3),
    st.sampled_from([None, Fraction(1, 3), Fraction(1, 2), Fraction(4, 5)]),
)


def enrolling(path: Path, course: Course) -> None:
    with Journal.open(path) as journal:
        budget = PersonBudget(Fraction(course.epsilon), Fraction(0))
        for user, epoch in zip(USERS, course.enrolled, strict=True):
            journal.enrol([pseudonym(journal, user)], budget, TODAY + epoch)
        if course.withdrawn:
            journal.withdraw([pseudonym(journal, "dan")], TODAY)


def observed(folder: Path, enrolled: Path, course: Course, given: Rows) -> list[object]:
    """Return what an observer sees: moment, key, seq, size of each message, in order."""
    folder.mkdir()
    shutil.copy(enrolled, path := folder / "device.journal")
    clock, file = HandClock(), folder / "ratings.csv"
    file.touch()
    broker = Broker(clock)
    off = [hour for at, hours in course.stops for hour in range(at, at + hours)]
    first, hours = course.away
    hour = 0
    while hour < 24 * DAYS:
        if hour in off:
            hour += 1
            continue
        clock.at = TODAY * DAY + hour * 3600
        limits = Limits(course.rounds, share=course.share)
        with Journal.open(path, limits=limits, disk=Disk()) as journal:  # each a life of its own
            source = WatchedFile(file, Places(journal.path), journal.key)
            run = device(
                journal, [source], clock=clock, broker=broker, user=None,
                rotate_every=course.rotate_every, rounds=course.rounds,
            )  # fmt: skip
            while hour < 24 * DAYS and hour not in off:
                with file.open("a") as lines:
                    for _, user, item, rating in (row for row in given if row[0] == hour):
                        lines.write(f"{user},{item},{rating}\n")
                broker.away = first <= hour < first + hours
                run.until(TODAY * DAY + (hour + 1) * 3600)
                hour += 1
            source.close()
            run.daemon.delivery.close(0)
    return list(broker.outside)


# Without shrinking: a failure is small as it is, and each example runs three devices.
@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(courses, rows, rows)
def test_two_files_of_ratings_give_the_same_messages(
    course: Course, first: Rows, second: Rows
) -> None:
    with TemporaryDirectory() as folder:
        enrolling(enrolled := Path(folder) / "enrolled", course)
        seen = [
            observed(Path(folder) / str(i), enrolled, course, given)
            for i, given in enumerate((first, second, []))
        ]
    assert seen[0] == seen[1] == seen[2]


def test_the_course_of_that_test_has_messages(tmp_path: Path) -> None:
    course = Course((-1, -1, 0, 1), False, (), (0, 0), 3, 20)
    enrolling(tmp_path / "enrolled", course)
    messages = observed(tmp_path / "run", tmp_path / "enrolled", course, [(0, "ann", 3, 5)])
    assert len(messages) == 3 * 4  # each item has its turn once in three days


@pytest.mark.parametrize(("share", "days"), [(None, 3), (Fraction(1, 2), 2), (Fraction(1, 5), 1)])
def test_a_share_decides_on_how_many_days_a_scope_is_reported(
    share: Fraction | None, days: int, tmp_path: Path
) -> None:
    course = Course((-1, -1, -1, -1), False, (), (0, 0), 1, 20, 3, share)
    enrolling(tmp_path / "enrolled", course)  # 20 holds 40 reports: three rounds of 12 items
    for name, rated in ("none", []), ("some", [(0, "ann", 3, 5), (30, "ann", 4, 1)]):
        messages = observed(tmp_path / name, tmp_path / "enrolled", course, rated)
        assert len(messages) == days * 4


class SmallDisk(Disk):
    """A disk that holds so many bytes of a journal and of what is beside it."""

    def __init__(self, journal: Path, capacity: int) -> None:
        self._journal, self._capacity = journal, capacity

    def free(self, path: Path) -> int:
        files = self._journal.parent.glob(f"{self._journal.name}*")
        return self._capacity - sum(file.stat().st_size for file in files)

    def append(self, handle: int, data: bytes) -> None:
        if len(data) > self.free(self._journal):
            raise OSError(28, "No space left on device")
        super().append(handle, data)


def test_ratings_that_fill_the_disk_delay_no_report(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal") as journal:
        journal.enrol([pseudonym(journal, "ann")], PersonBudget(), TODAY - 1)
    outside = []
    for ratings in (0, 80):
        path = tmp_path / str(ratings) / "journal"
        path.parent.mkdir()
        shutil.copy(tmp_path / "journal", path)
        disk, file = SmallDisk(path, 8_000), tmp_path / f"{ratings}.csv"
        with Journal.open(path, disk=disk) as journal:
            source = WatchedFile(file, Places(path), journal.key)
            run = device(journal, [source], disk=disk)
            run.daemon.ratings.spare = 4_000
            for item in range(ratings):
                with file.open("a") as lines:
                    lines.write(f"{item},4\n")
                run.daemon.step()
            run.days(2)
            outside.append(run.broker.outside)
            waiting = [each for each in run.notices if "kept free for the reports" in each]
            assert len(waiting) == (ratings > 0)
            assert (run.daemon.ratings.count > 10) == (ratings > 0)
    assert outside[0] == outside[1] != []

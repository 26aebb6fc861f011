"""A file that is appended to, rewritten, truncated or rotated: no line is lost or counted twice."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from producers.daemon.sources.watched_file import Places, WatchedFile

KEY = bytes(range(32))


class Watch:
    """A file and its watcher, which can be started again as after a crash."""

    def __init__(self, folder: Path) -> None:
        self.path, self.journal = folder / "ratings.csv", folder / "device.journal"
        self.start()

    def start(self) -> None:
        self.source = WatchedFile(self.path, Places(self.journal), KEY)

    def write(self, text: str, mode: str = "a") -> None:
        with self.path.open(mode, encoding="utf-8") as file:
            file.write(text)

    def lines(self) -> list[str]:
        """Take and confirm until nothing more comes."""
        found = []
        while (taken := self.source.take()) or self.source.busy:
            found += [line.decode() for _, line in taken]
            self.source.confirm([""] * len(taken))
        return found


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def test_lines_are_taken_once_as_they_are_appended(watch: Watch) -> None:
    assert watch.lines() == []  # there is no file yet
    watch.write("1,5\n2,4\n")
    assert watch.lines() == ["1,5", "2,4"]
    assert watch.lines() == []
    watch.write("3,3\n")
    assert watch.lines() == ["3,3"]


def test_a_line_is_named_by_its_number_in_the_file_as_it_is(watch: Watch) -> None:
    def places() -> list[str]:
        found = []
        while (taken := watch.source.take()) or watch.source.busy:
            found += [place.rpartition(": ")[2] for place, _ in taken]
            watch.source.confirm([""] * len(taken))
        return found

    many = 9_000  # more than are taken at once
    watch.write("1,5\r\n\n3,3\n" + "4,4\n" * many)
    assert places() == [f"line {number}" for number in range(1, many + 4)]
    watch.write("5,5\n6,6\n")
    assert places() == [f"line {many + 4}", f"line {many + 5}"]
    watch.start()
    watch.write("7,5\n")
    assert places() == [f"line {many + 6}"]
    watch.write("8,5\n9,1\n", "w")  # rewritten
    assert places() == ["line 1", "line 2"]
    watch.path.rename(watch.path.with_name("ratings.csv.1"))
    with watch.path.with_name("ratings.csv.1").open("a") as rotated:
        rotated.write("10,2\n")
    watch.write("11,3\n")
    assert places() == ["line 3", "line 1"]


def test_a_line_is_taken_when_it_has_its_end(watch: Watch) -> None:
    watch.write("1,5\n2,")
    assert watch.lines() == ["1,5"]
    watch.write("4\n")
    assert watch.lines() == ["2,4"]


def test_lines_that_were_not_confirmed_are_taken_again(watch: Watch) -> None:
    watch.write("1,5\n")
    assert len(watch.source.take()) == 1
    watch.source.refuse("the disk is full")
    watch.write("2,4\n")
    assert watch.lines() == ["1,5", "2,4"]


def test_a_start_goes_on_behind_what_was_confirmed(watch: Watch) -> None:
    watch.write("1,5\n2,4\n")
    watch.lines()
    watch.source.take()
    watch.write("3,3\n")
    watch.start()
    assert watch.lines() == ["3,3"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_rewritten_file_is_read_from_its_beginning(watch: Watch, restarted: bool) -> None:
    watch.write("1,5\n2,4\n")
    watch.lines()
    watch.write("1,5\n2,3\n9,9\n", "w")
    if restarted:
        watch.start()
    assert watch.lines() == ["1,5", "2,3", "9,9"]
    watch.write("1,1\n2,3\n9,9\n", "w")  # as long as before
    assert watch.lines() == ["1,1", "2,3", "9,9"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_truncated_file_is_read_from_its_beginning(watch: Watch, restarted: bool) -> None:
    watch.write("1,5\n2,4\n")
    watch.lines()
    watch.write("3,1\n", "w")
    if restarted:
        watch.start()
    assert watch.lines() == ["3,1"]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen"])
def test_what_a_rotated_file_got_last_is_read_before_the_new_one(
    watch: Watch, restarted: bool, seen: bool
) -> None:
    watch.write("1,5\n")
    watch.lines()
    watch.write("2,4\n3,3")  # the last line never gets its end
    if seen and not restarted:
        assert watch.lines() == ["2,4"]
    watch.path.rename(watch.path.with_name("ratings.csv.1"))
    watch.write("4,2\n")
    if restarted:
        watch.start()
    expected = ["2,4", "3,3", "4,2"]
    assert watch.lines() == (expected[1:] if seen and not restarted else expected)


def test_a_file_that_is_moved_away_and_comes_back_is_read_again(watch: Watch) -> None:
    watch.write("1,5\n")
    watch.lines()
    watch.write("2,4\n")
    watch.path.unlink()
    assert watch.lines() == ["2,4"]
    assert watch.lines() == []
    watch.write("1,5\n7,1\n")
    assert watch.lines() == ["1,5", "7,1"]


def test_a_file_that_was_copied_and_truncated_loses_nothing(watch: Watch) -> None:
    watch.write("1,5\n")
    watch.lines()
    watch.write("2,4\n")
    watch.path.with_name("ratings.csv.1").write_bytes(watch.path.read_bytes())
    watch.write("3,3\n", "w")
    assert watch.lines() == ["2,4", "3,3"]


def test_a_large_file_is_taken_in_pieces_and_whole(watch: Watch) -> None:
    rows = [f"{row},5" for row in range(700_000)]
    watch.write("\n".join(rows) + "\n")
    assert len(watch.source.take()) < len(rows)
    assert watch.lines() == rows
    watch.start()
    assert watch.lines() == []


def test_the_places_are_private_and_say_nothing_without_the_key(watch: Watch) -> None:
    watch.write("1,5\n")
    watch.lines()
    places = watch.journal.with_name("device.journal.watched")
    assert stat.S_IMODE(places.stat().st_mode) == 0o600
    one = places.read_text()
    places.unlink()
    watch.source = WatchedFile(watch.path, Places(watch.journal), bytes(32))
    assert watch.lines() == ["1,5"]  # read again: nothing is lost with the places
    assert places.read_text() != one  # the same file under another key


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"x": 3}', "\x00\x01"])
def test_damaged_places_only_make_the_file_read_again(watch: Watch, damage: str) -> None:
    watch.write("1,5\n")
    watch.lines()
    watch.journal.with_name("device.journal.watched").write_text(damage)
    watch.start()
    assert watch.lines() == ["1,5"]


def test_a_file_that_may_not_be_read_is_waited_for(watch: Watch) -> None:
    os.mkfifo(watch.path)  # opening it may not wait for a writer
    assert watch.lines() == []


def test_a_file_that_cannot_be_opened_for_a_while_keeps_its_place(watch: Watch) -> None:
    watch.write("1,5\n")
    watch.lines()
    kept = watch.path.rename(watch.path.with_name("kept"))
    os.mkfifo(watch.path)
    watch.start()
    assert watch.lines() == []
    watch.path.unlink()
    kept.rename(watch.path)
    watch.write("2,4\n")
    assert watch.lines() == ["2,4"]


def test_all_of_a_long_file_that_was_moved_away_is_read(watch: Watch) -> None:
    watch.write("1,5\n")
    watch.lines()
    rows = [f"{row},5" for row in range(700_000)]
    watch.write("\n".join(rows) + "\n")
    watch.path.unlink()
    assert watch.lines() == rows


def test_a_file_that_is_rewritten_while_it_is_read_loses_nothing(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.write("1,5\n2,4\n")
    read, turned = os.read, []

    def rewritten(file: int, size: int) -> bytes:
        data = read(file, size)
        if data and not turned:
            turned.append(watch.write("1,5\n9,4\n", "w"))
        return data

    monkeypatch.setattr(os, "read", rewritten)
    assert watch.lines() == ["1,5", "2,4", "1,5", "9,4"]


def test_a_long_file_comes_in_pieces_that_are_compared_in_pieces(tmp_path: Path) -> None:
    path, lines = tmp_path / "r.csv", [f"{number:>500},4".encode() for number in range(40_000)]
    path.write_bytes(b"\n".join(lines) + b"\n")  # 20 MB

    def taken(source: WatchedFile) -> tuple[list[bytes], int]:
        found, empty = [], 0
        while (piece := source.take()) or source.busy:
            assert sum(len(line) + 1 for _, line in piece) <= 1 << 15
            found += [line for _, line in piece]
            empty += not piece
            source.confirm([""] * len(piece))
        return found, empty

    source = WatchedFile(path, Places(tmp_path / "j"), KEY)
    assert taken(source)[0] == lines
    with path.open("ab") as more:
        more.write(b"7,4\n")
    source = WatchedFile(path, Places(tmp_path / "j"), KEY)
    found, empty = taken(source)
    assert found == [b"7,4"]
    assert empty > 1  # the bytes before were not compared in one go


def test_of_a_batch_that_was_kept_in_part_all_comes_again(tmp_path: Path) -> None:
    path, lines = tmp_path / "r.csv", [f"{number:>500},4".encode() for number in range(1000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    source = WatchedFile(path, Places(tmp_path / "j"), KEY)
    first = source.take()
    source.confirm([""] * len(first))
    assert next(line for _, line in source.take()) == lines[len(first)]
    again = WatchedFile(path, Places(tmp_path / "j"), KEY)
    assert again.take() == first

"""The file of clean ratings beside the journal: appended whole, read whole, forgotten on demand."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from producers.journal.disk import Disk
from producers.ranking.clean_history import VISIT_SECONDS, CleanHistory, RatedItem, visit_of
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import Unwritable, UserError

ANN, BOB = bytes(16), bytes([1] * 16)
STARS = Scale()
DAY, TODAY = 86_400, 20_000
NOON = TODAY * DAY + DAY // 2


@pytest.fixture
def history(tmp_path: Path) -> CleanHistory:
    return CleanHistory(tmp_path / "folder" / "device.journal")


def test_ratings_come_back_in_their_order_for_each_device(history: CleanHistory) -> None:
    assert history.read() == history.rated(ANN) == []
    history.append(ANN, 7, 4, STARS, NOON)
    history.append(BOB, "alien", 1, STARS, NOON + 59.9)
    history.append(ANN, "heat", 10, Scale(1, 10, 1), NOON + DAY + 61)
    assert history.path.name == "device.journal.history"
    assert history.path.stat().st_mode & 0o777 == 0o600
    assert history.rated(ANN) == [
        RatedItem(7, 7, 4.0, TODAY, NOON),
        RatedItem("heat", wire.key("heat"), 5.0, TODAY + 1, NOON + DAY + 61),
    ]
    assert history.rated(BOB) == [RatedItem("alien", wire.key("alien"), 1.0, TODAY, NOON + 59)]
    assert [row.epoch for row in history.read()] == [20_000, 20_000, 20_001]


def test_an_item_counts_once_with_its_newest_rating_and_place(history: CleanHistory) -> None:
    for item, rating in ((1, 5), (2, 3), (1, 2)):
        history.append(ANN, item, rating, STARS, NOON)
    assert [(row.item, row.stars) for row in history.rated(ANN)] == [(2, 3.0), (1, 2.0)]


@pytest.mark.parametrize(
    ("age", "visit"),
    [
        (0, "now"),
        (VISIT_SECONDS - 1, "now"),
        (VISIT_SECONDS, "next"),
        (DAY, "next"),
        (-1, "next"),  # the clock was set back
    ],
)
def test_a_list_is_for_this_visit_for_half_an_hour_after_the_newest_rating(
    age: int, visit: str
) -> None:
    old, newest = RatedItem(1, 1, 5.0, TODAY - 9, NOON - 9 * DAY), RatedItem(2, 2, 1.0, TODAY, NOON)
    assert visit_of([old, newest], NOON + age) == visit


def test_a_list_is_for_the_next_visit_where_the_newest_time_is_unknown() -> None:
    known = RatedItem(1, 1, 5.0, TODAY, NOON)
    for rated in ([], [RatedItem(2, 2, None)], [known, RatedItem(2, 2, 4.0, TODAY)]):
        assert visit_of(rated, NOON) == "next"


@pytest.mark.parametrize("lost", range(1, 60, 7))
def test_a_torn_line_is_skipped_and_does_not_spoil_the_next(
    history: CleanHistory, lost: int
) -> None:
    history.append(ANN, 1, 5, STARS, NOON)
    history.append(ANN, 2, 4, STARS, NOON)
    whole = history.path.read_bytes()
    history.path.write_bytes(whole[:-lost])
    history.append(ANN, 3, 3, STARS, NOON)
    # Without its line end alone a line is still whole.
    kept = [1, 2] if lost == 1 else [1]
    assert [row.item for row in history.rated(ANN)] == [*kept, 3]


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b"[]", b"{}", b'{"device":"x","item":1,"rating":4,"scale":[1,5,1]}', b"\x00" * 9],
)
def test_a_line_that_is_no_rating_is_skipped(history: CleanHistory, line: bytes) -> None:
    history.append(ANN, 1, 5, STARS, NOON)
    with history.path.open("ab") as file:
        file.write(line + b"\n")
    history.append(ANN, 2, 4, STARS, NOON)
    assert [row.item for row in history.rated(ANN)] == [1, 2]


def test_a_line_edited_off_its_scale_is_skipped(history: CleanHistory) -> None:
    history.append(ANN, 1, 5, STARS, NOON)
    text = history.path.read_text()
    history.path.write_text(text.replace("5.0,", "9.0,", 1) + text)
    assert [(row.item, row.stars) for row in history.rated(ANN)] == [(1, 5.0)]


def test_a_device_is_forgotten_and_the_others_are_kept(history: CleanHistory) -> None:
    assert history.forget(ANN) == 0
    for device, item in ((ANN, 1), (BOB, 2), (ANN, 3)):
        history.append(device, item, 5, STARS, NOON)
    assert history.forget(ANN) == 2
    assert history.rated(ANN) == []
    assert [row.item for row in history.rated(BOB)] == [2]
    assert history.path.stat().st_mode & 0o777 == 0o600
    history.append(ANN, 4, 5, STARS, NOON)
    assert history.forget() == 2
    assert history.path.read_bytes() == b""
    assert [path.name for path in history.path.parent.iterdir()] == [history.path.name]


class Full(Disk):
    """A disk that is full after half of a write."""

    def append(self, handle: int, data: bytes) -> None:
        super().append(handle, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_one_sentence_and_leaves_the_file_as_it_was(history: CleanHistory) -> None:
    history.append(ANN, 1, 5, STARS, NOON)
    before = history.path.read_bytes()
    full = CleanHistory(history.path.with_name("device.journal"), Full())
    for change in (lambda: full.append(ANN, 2, 4, STARS, NOON), lambda: full.forget(BOB)):
        with pytest.raises(Unwritable, match="cannot be written \\(No space left on device\\)"):
            change()
        assert history.path.read_bytes() == before
        assert [path.name for path in history.path.parent.iterdir()] == [history.path.name]


def test_a_file_that_others_can_read_is_refused(history: CleanHistory) -> None:
    history.append(ANN, 1, 5, STARS, NOON)
    history.path.chmod(0o644)
    with pytest.raises(Unwritable, match=r"others can open it .* chmod 600"):
        history.append(ANN, 2, 5, STARS, NOON)
    assert len(history.read()) == 1


def test_a_folder_in_its_place_is_one_sentence(history: CleanHistory) -> None:
    history.path.mkdir(parents=True)
    with pytest.raises(UserError, match="cannot be read"):
        history.read()
    with pytest.raises(Unwritable, match="cannot be written"):
        history.append(ANN, 1, 5, STARS, NOON)

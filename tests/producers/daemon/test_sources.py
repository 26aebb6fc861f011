"""A pipe, and the lines that come from it."""

from __future__ import annotations

import os
import resource

import pytest

from producers.daemon.runner import SystemClock
from producers.daemon.sources.source import LONGEST, Lines, Pipe, parse


def test_descriptors_above_those_that_select_takes_are_waited_for() -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 1100:
        pytest.skip("this system allows no descriptor above 1023")
    reading, writing = os.pipe()
    high = 1090
    os.dup2(reading, high)
    os.write(writing, b"7,4\n")
    SystemClock().wait(60, [high])
    assert Pipe(high).take() == [("standard input: line 1", b"7,4")]
    for file in (reading, writing, high):
        os.close(file)


def test_a_pipe_keeps_its_lines_until_they_are_confirmed() -> None:
    reading, writing = os.pipe()
    pipe = Pipe(reading)
    assert pipe.take() == []  # and does not wait
    os.write(writing, b"7,4\n8,")
    assert [line for _, line in pipe.take()] == [b"7,4"]
    pipe.refuse("the disk is full")
    assert pipe.files() == []  # nothing more is read meanwhile
    assert pipe.take() == [("standard input: line 1", b"7,4")]
    pipe.confirm([""])
    os.write(writing, b"3")
    os.close(writing)
    pipe.take()
    pipe.take()
    assert pipe.take() == [("standard input: line 2", b"8,3")]
    pipe.confirm([""])
    assert pipe.files() == pipe.take() == []
    os.close(reading)


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_a_line_that_is_too_long_is_refused_and_not_held_in_memory(size: int) -> None:
    lines = Lines()
    data = b"1,5\n" + b"x" * 100_000 + b"\n2,4\n"
    found = [line for at in range(0, len(data), size) for line in lines.add(data[at : at + size])]
    assert [found[0], found[2]] == [b"1,5", b"2,4"]
    assert len(found) == 3
    with pytest.raises(ValueError, match=f"at most {LONGEST}"):
        parse(found[1], named=False)


@pytest.mark.parametrize(
    ("line", "named", "expected"),
    [
        ("7,4", False, (None, 7, 4.0)),
        ("007, 4.0 , 17\r", False, (None, "007", 4.0)),
        (" 7 ,4", False, (None, " 7 ", 4.0)),
        ("item,4", False, (None, "item", 4.0)),
        ("ann ,７,4", True, ("ann ", "７", 4.0)),
        ("анна,Дом,5", True, ("анна", "Дом", 5.0)),
        ('{"user": "a, b", "item": "x,y", "rating": 3}', True, ("a, b", "x,y", 3.0)),
        ('{"item": 7, "rating": 3}', False, (None, 7, 3.0)),
    ],
)
def test_a_line_is_a_rating(line: str, named: bool, expected: tuple[object, ...]) -> None:
    row = parse(line.encode(), named=named)
    assert row is not None
    assert (row.user, row.item, row.raw_rating) == expected


@pytest.mark.parametrize("line", ["", "  ", "# 7,4", "item,rating", "User,Item,Rating"])
def test_a_line_may_hold_no_rating(line: str) -> None:
    assert parse(line.encode(), named=True) is None


@pytest.mark.parametrize(
    ("line", "named", "message"),
    [
        (b"7", False, "1 fields: write item,rating"),
        (b"ann,7", True, "2 fields: write user,item,rating"),
        (b"ann,7,3,4", False, "4 fields"),
        (b"7,three", False, "the rating is not a number"),
        (b"7,nan", False, "the rating is not a number"),
        (b",4", False, "a string item has 1 to"),
        (b"\xff,4", False, "not text in UTF-8"),
        (b"{", False, "is not {"),
        (b'{"item": 7, "rating": 31415, "x": 1}', False, "is not {"),
        (b'{"item": 7, "rating": 3}', True, "names no user"),
        (b'{"user": 7, "item": 7, "rating": 3}', False, "names a user"),
        (b"[" * 10_000, False, "1 fields"),
    ],
)
def test_a_bad_line_is_one_sentence_without_its_rating(
    line: bytes, named: bool, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        parse(line, named=named)
    assert "31415" not in str(refused.value)

"""A wait that fails says what it saw."""

from __future__ import annotations

import pytest

from tests.fixtures.waiting import until


def waits_for(name: str) -> str:
    return f"{name} reads the checkpoint"


def test_a_wait_ends_as_soon_as_its_condition_holds() -> None:
    looks = iter([False, True])
    until(lambda: next(looks), "the second look")
    with pytest.raises(StopIteration):
        next(looks)


def test_what_a_condition_called_is_in_the_sentence() -> None:
    with pytest.raises(
        AssertionError, match=r"^it is ready: not within 0 s; seen last: "
    ) as failed:
        until(lambda: waits_for("a") == "", "it is ready", 0.0)
    assert "waits_for() -> 'a reads the checkpoint'" in str(failed.value)


def test_what_its_variables_held_is_in_the_sentence() -> None:
    def has_come() -> bool:
        found = {"cut": 7}
        return found["cut"] > 8

    with pytest.raises(AssertionError, match=r"found = \{'cut': 7\}; it is False"):
        until(has_come, "a later cut", 0.0)


def test_what_it_raised_is_in_the_sentence() -> None:
    def answer() -> bool:
        raise ConnectionRefusedError("port 8")

    with pytest.raises(AssertionError, match=r"raised ConnectionRefusedError\('port 8'\)"):
        until(answer, "it answers", 0.0)


def test_a_defect_in_a_condition_is_raised_and_not_waited_for() -> None:
    empty: dict[str, int] = {}
    with pytest.raises(KeyError):
        until(lambda: empty["cut"] > 1, "a cut")


def test_a_condition_that_holds_at_the_last_look_is_no_failure() -> None:
    until(lambda: True, "it holds", 0.0)

"""`murmurec audit lia`: guesses beside what epsilon allows, and its refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stream_app.cli import run


@pytest.fixture
def ratings(environment: Callable[..., None]) -> str:
    environment()
    generator = np.random.default_rng(3)
    rows = [
        f"{user},{item},{generator.integers(1, 6)}"
        for user in range(60)
        for item in generator.choice(70, 22, replace=False)
    ]
    lonely = ["900,1,5", "901,2,3"]
    Path("few.csv").write_text("user,item,rating\n" + "\n".join(rows + lonely) + "\n")
    return "few.csv"


def test_guesses_stand_beside_what_epsilon_allows(
    ratings: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["audit", "lia", ratings, "--users", "40", "--published", "5"]
    assert run([*arguments, "--epsilon", "200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["items"], found["published"]) == (70, 5)
    rows = {each["mechanism"]: each for each in found["attacked"]}
    assert len(rows) == 4
    assert rows["paper (no guarantee for a list)"]["best"] > 0.9
    assert rows["damped, list alone"]["plain"] is None
    assert all(each["users"] == 40 for each in rows.values())
    assert run([*arguments, "--epsilon", "1", "--epsilon", "1/2"]) == 0
    shown = capsys.readouterr().out
    assert "chance 20 %" in shown
    assert "0.5" in shown
    assert "noise once: its epsilon is said to protect all of a user" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "nan"], "epsilon"),
        (["--epsilon", "inf"], "epsilon"),
        (["--epsilon", "1000"], "give 500 at most"),
        (["--users", "0"], "--users 0: give 1 to"),
        (["--items", "9000"], "--items 9000: give 1 to"),
        (["--published", "0"], "--published 0: give 1 to"),
        (["--published", "60"], "no user has 20 ratings"),
        (["--items", "5"], "no user has 20 ratings"),
    ],
)
def test_what_cannot_be_attacked_is_one_sentence(
    ratings: str, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert run(["audit", "lia", ratings, *arguments]) != 0
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error

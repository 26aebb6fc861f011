"""`murmurec evaluate` over profiles: neighbours, their figures, and its refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_app.cli import run


@pytest.fixture
def ratings(environment: Callable[..., None]) -> str:
    """Give a file of two groups of people who rate different items."""
    environment()
    rows = [f"{user},{item},4" for user in range(60) for item in range(30) if (user + item) % 2]
    Path("two.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n0,1000,1\n1,1001,5\n")
    return "two.csv"


@pytest.mark.parametrize("mechanism", ["blip:500:2:20", "jlt:100:40:1/1000000"])
def test_neighbours_are_measured_and_written(
    mechanism: str, ratings: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--mechanism", mechanism, "--model", "neighbours", "--json", "out.json"]
    assert run(["evaluate", ratings, *arguments]) == 0
    assert "recall of the 10 nearest" in capsys.readouterr().out
    found = json.loads(Path("out.json").read_text())
    assert found["mechanism"] == mechanism
    assert found["users"] == 60
    assert found["chance"] < found["recall"] <= 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "neighbours"], "needs profiles"),
        (["--mechanism", "blip", "--epsilon", "0"], "epsilon"),
        (["--mechanism", "blip:0:2:8"], "a BLIP has 8 to"),
        (["--mechanism", "blip:500:2:8", "--epsilon", "8"], "epsilon"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[str], sentence: str, ratings: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", ratings, *arguments]) in (1, 2)
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err

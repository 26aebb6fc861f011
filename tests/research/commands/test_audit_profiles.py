"""`murmurec audit profiles`: a table of attacks beside epsilon, and its refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from research.attacks.attacks import ATTACKS
from stream_app.cli import run


@pytest.fixture
def ratings(environment: Callable[..., None]) -> str:
    environment()
    rng = np.random.default_rng(3)
    cells = [(user, item) for user in range(30) for item in rng.choice(40, 6, replace=False)]
    rows = [f"{user},{item},4" for user, item in cells]
    Path("few.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n0,1000,1\n1,1001,5\n")
    return "few.csv"


def test_every_attack_stands_beside_its_epsilon(
    ratings: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--mechanism", "jlt", "--mechanism", "blip:500:4:inf", "--epsilon", "8"]
    arguments += ["--length", "100", "--users", "2"]
    assert run(["audit", "profiles", ratings, *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["users"], found["trained"], found["items"]) == (2, 28, 42)
    rows = [(each["mechanism"], each["epsilon"], each["attack"]) for each in found["trials"]]
    assert rows == [
        (mechanism, epsilon, attack)
        for mechanism, epsilon in (("jlt:100:8:1/1000000", 8.0), ("blip:500:4:inf", None))
        for attack in ATTACKS
    ]
    assert all(
        0 <= each["measured"]["low"] <= each["measured"]["high"] <= 1 for each in found["trials"]
    )
    assert found["trials"][-1]["measured"]["cosine"] > 0.9
    assert run(["audit", "profiles", ratings, "--epsilon", "0", "--users", "1"]) == 0
    shown = capsys.readouterr().out
    assert "blip:5000:2:0" in shown
    assert "bits prior" in shown
    assert "epsilon bounds them all" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--mechanism", "rr:5:2"], "profile mechanism"),
        (["--mechanism", "guess"], "there are blip"),
        (["--mechanism", "blip:500:2:8", "--epsilon", "8"], "leave --epsilon out"),
        (["--mechanism", "jlt", "--hashes", "2"], "only blip has hashes"),
        (["--epsilon", "-1"], "epsilon"),
        (["--epsilon", "nan"], "epsilon"),
        (["--users", "0"], "--users 0"),
        (["--users", "29"], "30 users"),
    ],
    ids=str,
)
def test_what_cannot_be_attacked_is_refused(
    arguments: list[str], sentence: str, ratings: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", "profiles", ratings, *arguments]) in (1, 2)
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert "Traceback" not in captured.err
    assert captured.err.count("\n") == 1

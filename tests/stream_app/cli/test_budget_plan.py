"""`murmurec device plan`: its figures, the command that it prints, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

import pytest

from stream_app.cli import run


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["device", "plan", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_a_plan_is_figures_and_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    row = json.loads(planned(capsys, "--budget", "20", "--ratings", "165", "--json"))
    assert (row["mechanism"], row["reports"]) == ("partition:5:5/2", 8)
    assert row["plan"] == "partition:5:5/2*8"
    assert row["best_by_sums"] == {"plan": row["plan"], "information": row["information"]}
    assert 0.95 < row["expected"]["rmse_folded_in"] < row["expected"]["rmse"] < 1.01
    printed = planned(capsys, "--budget", "20", "--ratings", "165")
    assert "8 reports of epsilon 5/2: partition:5:5/2*8\n" in printed
    assert f"RMSE {row['expected']['rmse']:.3f}" in printed
    assert "measured on MovieLens-1M" in printed
    assert "basic composition (epsilons added) admits the same plan" in printed


def test_where_exact_composition_admits_more_it_says_how_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = planned(capsys, "--budget", "320", "--ratings", "10000")
    assert "basic composition (epsilons added) admits 1280 of them; its best plan is " in printed
    assert "no RMSE was measured" in printed


@pytest.mark.parametrize(
    "terms",
    [
        ["--budget", "20"],
        ["--budget", "10.5", "--delta", "2.5e-7", "--window", "0"],
        ["--budget", "1/4", "--window", "30"],
    ],
)
def test_the_printed_command_enrols_under_the_plan(
    terms: list[str], environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment(MURMUREC_DEVICE_JOURNAL="device.journal")
    row = json.loads(planned(capsys, "--ratings", "40", "--user", "ann lee", *terms, "--json"))
    program, *words = shlex.split(row["enrol"])
    assert program == "murmurec"
    assert run([*words, "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    assert account["plan"] == row["plan"]
    assert account["window"] == row["window"]
    assert account["epsilon"] == row["epsilon_of_person"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ratings", "0"], r"--ratings 0: give a whole number from 1 to 1000000"),
        (["--ratings", "9", "--budget", "-3"], r"--budget -3: give a number above 0"),
        (["--ratings", "9", "--budget", "1/9"], r"--budget 1/9: holds no report of epsilon 1/4"),
        (["--ratings", "9", "--delta", "0"], r"--delta 0: give 1e-15 or more"),
        (["--ratings", "9", "--delta", "much"], r"--delta much: give a probability"),
        (["--ratings", "9", "--horizon", "0"], r"--horizon 0: give a whole number"),
        (["--ratings", "9", "--levels", "1"], r"--levels 1"),
        (["--ratings", "9", "--levels", "400"], r"--levels 400"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["device", "plan", *arguments]) != 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(message, printed.err)
    assert len(printed.err.strip().splitlines()) == 1

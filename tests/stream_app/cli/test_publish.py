"""`murmurec publish` without a broker: what is wrong is one sentence and nothing is made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_app.cli import run
from stream_app.cli.output import printable

GOOD = [
    "publish",
    "--journal",
    "device.journal",
    "--user",
    "ann",
    "--item",
    "1193",
    "--rating",
    "4",
]


@pytest.fixture(autouse=True)
def _empty(environment: Callable[..., None]) -> None:
    pass


def test_publishing_asks_for_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(GOOD) == 1
    err = capsys.readouterr().err
    assert "no Kafka is configured" in err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--rating", "4.5"], "rating: must be a number on the scale 1..5 by 1"),
        (["--rating", "nan"], "rating: must be a number on the scale"),
        (["--rating", "inf"], "rating: must be a number on the scale"),
        (["--rating", "1e400"], "rating: must be a number on the scale"),
        (["--rating", "four"], "--rating: is not a number"),
        (["--rating", "0.25", "--scale", "0", "1", "0.5"], "on the scale 0..1 by 0.5"),
        (["--scale", "5", "1", "1"], "the maximum above the minimum"),
        (["--item", "x" * 129], "item of 129 bytes"),
        (["--epsilon", "0"], "epsilon 0: must be above 0"),
        (["--epsilon", "-1"], "at most 64"),
        (["--epsilon", "nan"], "at most 64"),
        (["--epsilon", "1e308"], "at most 64"),
        (["--epsilon", "65"], "at most 64"),
        (["--mechanism", "none", "--epsilon", "2"], "leave it out"),
        (["--mechanism", "magic"], "choose one of rr, "),
        (["--mechanism", "cell"], "cell:5:2: hides whether a rating exists"),
        (["--mechanism", "cell"], "send whole epochs: murmurec device run --scope FILE, or"),
        (["--emission", "epoch"], "a single rating is sent immediately"),
        (["--relay", "https://relay.example"], "give the address of the relay, #, and"),
        (["--relay", f"http://a#{'0' * 64}"], "nothing can be sealed to this key"),
        (["--relay", f"ftp://a#{'0' * 64}"], "give the address of the relay, #, and"),
        (["--relay", f"http://a#{'0' * 65}"], "give the address of the relay, #, and"),
        (
            ["--mechanism", "partition", "--relay", f"http://a#09{'0' * 62}"],
            "another --mechanism",
        ),
        (["--emission", "never"], "--emission never: choose immediate or epoch"),
        (["--epsilon", "1"], "rr:5:1 is not allowed (rr:5:2, rr:3:2)"),
        (["--mechanism", "none"], "none:5:inf is not allowed (rr:5:2, rr:3:2)"),
        (["--scale", "1", "10", "1"], "set MURMUREC_MECHANISMS here and for the workers"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else None,
)
def test_bad_input_is_one_sentence_and_makes_no_journal(
    arguments: list[str],
    expected: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment(MURMUREC_MECHANISMS="rr:5:2,rr:3:2")
    # What the settings do not allow is no mistake of the command line alone.
    failed = "not allowed" in expected or "MURMUREC_MECHANISMS" in expected
    assert run([*GOOD, "--bootstrap", "localhost:1", *arguments]) == (1 if failed else 2)
    shown = capsys.readouterr()
    assert expected in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert "4.5" not in shown.err
    assert "0.25" not in shown.err
    assert "four" not in shown.err
    assert list(Path().iterdir()) == []


def test_a_broker_that_is_not_there_costs_no_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GOOD, "--bootstrap", "localhost:1"]) == 1
    assert "localhost:1" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--epsilon", "8"], "epsilon 8 is above 4 per rating"),
        (["--mechanism", "none"], "nothing is protected"),
    ],
    ids=str,
)
def test_what_a_careful_person_should_know_is_printed_first(
    arguments: list[str],
    expected: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment(MURMUREC_MECHANISMS="rr:5:8,none:5:inf")
    run([*GOOD, *arguments])
    assert f"warning: {expected}" in capsys.readouterr().err


def test_a_wrong_option_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GOOD, "--rate", "4"]) == 2
    assert run(["publish", "--user", "ann"]) == 2
    capsys.readouterr()


def test_a_rating_can_come_from_standard_input_where_no_process_list_shows_it() -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; from stream_app.cli import run; sys.exit(run(sys.argv[1:]))",
    ]
    arguments = ["-" if value == "4" else value for value in GOOD]
    for typed, expected in {
        "4\n": "no Kafka is configured",
        "9\n": "on the scale",
        "": "not a number",
    }.items():
        ended = subprocess.run(
            [*command, *arguments], input=typed, capture_output=True, text=True, check=False
        )
        assert ended.returncode == (1 if "Kafka" in expected else 2)
        assert expected in ended.stderr


def test_what_is_echoed_does_not_move_the_cursor() -> None:
    assert printable("tt\x1b[2J\n01 \u00e9") == "tt?[2J?01 \u00e9"

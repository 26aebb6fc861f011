"""`murmurec replay` without a broker: what is wrong is told in one sentence and nothing is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stream_app.cli import run


@pytest.fixture(autouse=True)
def file(environment: Callable[..., None]) -> Path:
    path = Path("mine.csv")
    path.write_text("user,item,rating\nann,1,5\nbob,1,4\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["other.csv"], "there is no such file"),
        (["mine.csv"], "no Kafka is configured"),
        (["mine.csv", "--speed", "0"], "--speed 0: give reports per second above 0, or max"),
        (["mine.csv", "--speed", "fast"], "--speed fast"),
        (["mine.csv", "--speed", "nan"], "--speed nan"),
        (["mine.csv", "--speed", "inf"], "--speed inf"),
        (["mine.csv", "--scale", "10", "20", "1"], "no rating lies on the scale 10..20"),
        (["mine.csv", "--epsilon", "0"], "epsilon 0"),
        (["mine.csv", "--epsilon", "1"], "rr:5:1 is not allowed (rr:5:2, cell:5:2)"),
        (["mine.csv", "--mechanism", "none"], "none:5:inf is not allowed (rr:5:2, cell:5:2)"),
        (["mine.csv", "--scale", "1", "10", "1"], "MURMUREC_MECHANISMS"),
        (["mine.csv", "--mechanism", "cell"], "cell:5:2 hides whether a rating exists"),
        (["mine.csv", "--mechanism", "cell"], "give --emission epoch"),
        (["mine.csv", "--emission", "sometimes"], "choose immediate or epoch"),
        (["mine.csv", "--sample", "20", "--epsilon", "2"], "leave --epsilon out"),
        (["mine.csv", "--sample", "20", "--budget", "30"], "leave --budget and --window out"),
        (["mine.csv", "--sample", "20", "--window", "7"], "is the user's budget, for life"),
        (["mine.csv", "--sample", "20", "--period", "3"], "drawn once from the whole scope"),
        (["mine.csv", "--sample", "1/3"], "at most nine digits behind the point"),
        (["mine.csv", "--sample", "lots"], "--sample lots: give a number above 0"),
        (["mine.csv", "--sample", "5"], "--sample goes with a mechanism that hides"),
        (["mine.csv", "--emission", "epoch", "--limit", "5"], "sent as a whole; leave it out"),
        (["mine.csv", "--scope", "mine.csv"], "hides what was rated, not with rr:5:2"),
        (["mine.csv", "--period", "3"], "--scope and --period go with"),
        (["mine.csv", "--share", "1/4"], "share '1/4': only cell"),
        (["mine.csv", "--budget", "many"], "--budget many: give a number above 0"),
        (["mine.csv", "--bootstrap", "localhost:1"], "localhost:1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_replayed_is_one_sentence_and_makes_no_journal(
    arguments: list[str],
    said: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment(MURMUREC_MECHANISMS="rr:5:2,cell:5:2")
    assert run(["replay", "--journal", "device.journal", *arguments]) == 1
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert [path.name for path in Path().iterdir()] == ["mine.csv"]


def test_a_limit_below_one_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "mine.csv", "--limit", "0"]) == 2
    capsys.readouterr()

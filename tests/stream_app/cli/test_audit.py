"""`murmurec audit wire` with input that it refuses in one sentence, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.cli import run

WIRE = ["audit", "wire", "--bootstrap", "localhost:1"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--alpha", "0"], "alpha 0.0: a probability above 0 and below 1"),
        (["--budget", "-1"], "budget -1.0: a person's epsilon is above 0"),
        (["--rounds", "0"], "rounds 0: a cell is reported 1 to 1000 times"),
        (["--delta", "0"], "delta 0: give 1e-15 to 1"),
        (["--delta", "nan"], "delta nan: give 1e-15 to 1"),
        (["--memory", "0"], "--memory 0: give 1 to 1000000 MB"),
        (["--rotate-every", "0"], "rotate every 0: give 1 to 4096 epochs"),
        (["--canary", "ann"], "canary ann: give a pseudonym of 32 hex characters"),
        (["--canary", "0" * 32], "no allowed mechanism takes this input"),
        (["--canary", "0" * 32 + ":9"], "no allowed mechanism takes this input"),
        (["--allow", "rr:05:2"], "rr:05:2"),
        (["--scope", "absent.txt"], "absent.txt: cannot be read"),
        (["--scope", "empty.txt"], "empty.txt: holds no item"),
        (["--enrolled", "bad.txt"], "bad.txt: line 2: a pseudonym has 32 lower-case hex"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_before_anything_is_read(
    options: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n")
    Path("bad.txt").write_text("0" * 32 + "\nann\n")
    assert run([*WIRE, *options]) in (1, 2)
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert "Traceback" not in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert shown.out == ""


def test_a_broker_that_is_away_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WIRE, "--canary", "0" * 32 + ":4"]) == 1
    assert "localhost:1" in capsys.readouterr().err

"""The command line of `murmurec replay --mode`: what is refused before a broker is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.cli import run

PUBLIC = "ab" * 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    path.write_text("userId,movieId,rating,timestamp\n1,10,5,100\n")
    (tmp_path / "items.txt").write_text("10\n20\n")
    return path


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--mode", "both"], "--mode both: choose local, split or central"),
        (["--mode", "split", "--epsilon", "1", "--speed", "9"], "--epsilon, --speed: not with"),
        (["--mode", "split"], "no keys of the parties"),
        (["--mode", "split", "--scope", "items.txt"], "no keys of the parties"),
    ],
)
def test_options_that_do_not_go_with_a_mode_are_refused(environment, file, capsys, words, sentence):
    assert run(["replay", str(file), "--bootstrap", "localhost:1", *words]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_the_setting_privacy_mode_is_the_default_and_names_keys_and_scope(
    environment, file, capsys
):
    environment(MURMUREC_PRIVACY_MODE="split")
    command = ["replay", str(file), "--bootstrap", "localhost:1"]
    assert run(command) == 2
    assert "no keys of the parties" in capsys.readouterr().err
    environment(MURMUREC_CAMPAIGN_KEYS=PUBLIC)
    assert run(command) == 2
    assert "no items of campaigns" in capsys.readouterr().err
    environment(MURMUREC_CAMPAIGN_SCOPE=str(file.with_name("items.txt")))
    assert run(command) == 2
    assert "1 key given, and --mode split has 2" in capsys.readouterr().err

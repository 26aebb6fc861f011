"""The keys and the items of campaigns come from options, or from the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.cli import run
from stream_app.cli.options import campaign_keys, campaign_scope
from stream_app.errors import UsageError
from stream_app.settings import load


def test_files_win_over_the_settings(environment, tmp_path: Path) -> None:
    party = keys.make(tmp_path, Role.CENTRAL)
    environment(
        MURMUREC_CAMPAIGN_KEYS=f"{'AB' * 32},{'cd' * 32}", MURMUREC_CAMPAIGN_SCOPE="items.txt"
    )
    settings = load()
    assert campaign_keys(settings, None) == ("ab" * 32, "cd" * 32)
    assert campaign_keys(settings, [tmp_path / "central.pub"]) == (party.public.hex(),)
    assert campaign_scope(settings, None) == Path("items.txt")
    assert campaign_scope(settings, tmp_path) == tmp_path


def test_a_device_without_keys_or_items_is_one_sentence(
    environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="MURMUREC_CAMPAIGN_KEYS"):
        campaign_keys(load(), None)
    journal = ["--user", "ann", "--journal", str(tmp_path / "j")]
    assert run(["device", "enrol", *journal]) == 0
    command = ["device", "contribute", *journal, "--bootstrap", "127.0.0.1:1"]
    assert run(command) == 2
    assert "MURMUREC_CAMPAIGN_SCOPE" in capsys.readouterr().err
    (tmp_path / "items.txt").write_text("1\n2\n")
    assert run([*command, "--scope", str(tmp_path / "items.txt")]) == 2
    assert "MURMUREC_CAMPAIGN_KEYS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("most", "code", "sentence"),
    [
        ("1/2", 1, "nothing listens at 127.0.0.1:1"),
        ("nan", 2, "--most-epsilon nan: give a number above 0"),
        ("100", 2, "--most-epsilon 100: above 0 and at most 64"),
    ],
)
def test_the_most_that_a_device_allows_is_written_as_any_epsilon(
    environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], most: str, code: int,
    sentence: str,
) -> None:  # fmt: skip
    journal = ["--user", "ann", "--journal", str(tmp_path / "j")]
    assert run(["device", "enrol", *journal]) == 0
    (tmp_path / "items.txt").write_text("1\n2\n")
    environment(
        MURMUREC_CAMPAIGN_KEYS=f"{'ab' * 32},{'cd' * 32}",
        MURMUREC_CAMPAIGN_SCOPE=str(tmp_path / "items.txt"),
    )
    command = ["device", "contribute", *journal, "--bootstrap", "127.0.0.1:1"]
    assert run([*command, "--most-epsilon", most]) == code
    assert sentence in " ".join(capsys.readouterr().err.split())

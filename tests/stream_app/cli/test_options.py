"""What several sub-commands ask for: a path that can be written, and properties without secrets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_app.cli import run
from stream_app.cli.options import settings_from, writable
from stream_app.errors import UserError


def test_a_path_that_can_be_written_is_returned_and_not_made(tmp_path: Path) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("{}")
    assert writable(new) == new
    assert writable(old) == old
    assert not new.exists()
    assert old.read_text() == "{}"


def test_a_path_that_cannot_be_written_is_refused_by_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, said in {
        tmp_path / "nowhere" / "out.json": "there is no directory",
        tmp_path / "file" / "out.json": "there is no directory",
        tmp_path: "is a directory",
        tmp_path / ("x" * 300): "cannot be written .File name too long.",
        tmp_path / ("x" * 300) / "out.json": "cannot be written .File name too long.",
    }.items():
        with pytest.raises(UserError, match=said) as caught:
            writable(path)
        assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_path_in_a_directory_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="cannot be written"):
        writable(tmp_path / "out.json")


@pytest.mark.parametrize(
    "name", ["sasl.password", "SSL.KEY.PASSWORD", "sasl.oauthbearer.client.secret"]
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(
    name: str, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "show", "-X", "linger.ms=5", "-X", f"{name}=hunter2"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"murmurec: -X {name}: ")
    assert "MURMUREC_KAFKA" in said.err
    assert "hunter2" not in said.err + said.out


def test_other_properties_are_taken(environment: Callable[..., None]) -> None:
    environment(MURMUREC_KAFKA="sasl.password=hunter2")
    settings = settings_from(kafka=["sasl.username=ann", "linger.ms = 5"])
    assert settings.kafka == {
        "sasl.password": "hunter2", "sasl.username": "ann", "linger.ms": "5",
    }  # fmt: skip

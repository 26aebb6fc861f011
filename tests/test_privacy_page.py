"""PRIVACY.md against the code: tables, families, commands and digests are those of this version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stream_app.cli import run
from stream_app.privacy import page, registry

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "PRIVACY.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_code() -> None:
    assert page.filled(PAGE) == PAGE, "run: python -m stream_app.privacy.page PRIVACY.md"
    assert set(re.findall(r"<!-- table: ([a-z]+) -->", PAGE)) == set(page.TABLES)


def test_a_table_that_was_edited_is_noticed() -> None:
    edited = PAGE.replace("| `cell:5:2` | cell |", "| `cell:5:2` | value |")
    assert edited != PAGE
    assert page.filled(edited) == PAGE


@pytest.mark.parametrize("family", registry.FAMILIES)
def test_every_family_is_described_with_what_an_observer_still_sees(family: str) -> None:
    assert f"`{family}" in PAGE.split("## What a hundred ratings cost")[0]


def test_a_digest_on_the_page_is_that_of_the_certificate() -> None:
    (proof,) = registry.parse("rr:5:2").certify()
    assert f"`{proof.digest}`" in PAGE


def test_every_command_on_the_page_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {tuple(text.split()) for text in re.findall(r"`murmurec ([a-z ]+)", PAGE)}
    assert ("budget", "show") in commands
    for command in commands:
        assert run([*command, "--help"]) == 0
    capsys.readouterr()

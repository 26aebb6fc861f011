"""What a device is told to do, done: what was spent stays spent, or the sentence says otherwise."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from murmurec import Device
from producers.journal import Journal
from stream_app.cli import run
from stream_app.errors import BudgetExhausted, UserError


def test_raising_a_budget_keeps_what_was_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "device.journal"
    with Device("ann", path, epsilon=2).enrol(budget=2) as device:
        device.rate(1, 5)
        with pytest.raises(
            BudgetExhausted, match=r"raise the budget \(murmurec device enrol --raise"
        ):
            device.rate(2, 5)
        before = device.spent
    given = ["--user", "ann", "--journal", str(path)]
    assert run(["device", "enrol", *given, "--budget", "6"]) == 1
    assert "murmurec device enrol --raise" in " ".join(capsys.readouterr().err.split())
    assert run(["device", "enrol", "--raise", "6", *given]) == 0
    with Device("ann", path, epsilon=2) as device:
        assert device.spent == before == Fraction(2)
        device.rate(2, 5)
        device.rate(3, 5)
        with pytest.raises(BudgetExhausted):
            device.rate(4, 5)


def test_another_path_says_that_its_budget_begins_again(tmp_path: Path) -> None:
    """Neither removes what is on the old path."""
    damaged = tmp_path / "damaged.journal"
    with Device("ann", damaged).enrol() as device:
        device.rate(1, 5)
    kept = damaged.read_bytes()
    raw = bytearray(kept)
    raw[len(raw) // 2] ^= 1
    damaged.write_bytes(raw)
    with pytest.raises(UserError, match="new pseudonyms are made, whose budgets begin again"):
        Journal.open(damaged)
    assert damaged.read_bytes() == bytes(raw)
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(UserError, match=r"another path \(--journal\), where a budget begins again"):
        Journal.open(folder)
    person = tmp_path / "other" / "device.journal"
    person.parent.mkdir()
    with Device("bob", person).enrol() as device:
        device.rate(1, 5)
        spent = device.spent
    with pytest.raises(UserError, match=r"another path for the test \(--journal\)"):
        Journal.open(person, test=True)
    Journal.open(person.with_name("test.journal"), test=True).close()
    with Device("bob", person) as device:
        assert device.spent == spent

"""docs/privacy.md and docs/proofs.md against the code: tables, families, commands and digests."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from research import privacy_page as page
from research.privacy_proofs import PROOFS, Proof
from stream_app.cli import run
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import fits
from stream_app.privacy.gaussian import naming as noisy_sums

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("privacy.md", "proofs.md")
}
PAGE, PROVED = PAGES.values()


def test_the_tables_are_those_of_the_code() -> None:
    for name, text in PAGES.items():
        command = f"python -m research.privacy_page docs/{name}"
        assert page.filled(text) == text, f"run: {command}"
    shown = re.findall(r"<!-- table: ([a-z]+) -->", PAGE + PROVED)
    assert sorted(shown) == sorted(page.TABLES)


def test_a_table_that_was_edited_is_noticed() -> None:
    edited = PAGE.replace("| `cell:5:2` | cell |", "| `cell:5:2` | value |")
    assert edited != PAGE
    assert page.filled(edited) == PAGE


@pytest.mark.parametrize("family", registry.families())
def test_every_family_is_listed_with_what_an_observer_still_sees_and_its_limit(
    family: str,
) -> None:
    (table,) = re.findall(r"<!-- table: families -->(.*?)<!-- end -->", PAGE, re.S)
    (row,) = re.findall(rf"^\| [^|]*`{family}`[^|]* \| (.*) \| (.*) \|$", table, re.M)
    mechanism = registry.family_class(family)
    assert row == (mechanism.observed, mechanism.limit)
    assert len(mechanism.observed) > 10 < len(mechanism.limit)


@pytest.mark.parametrize("epsilon", ["1/2", "1", "2", "4"])
def test_the_exact_numbers_of_reports_are_the_largest_that_the_accountant_admits(
    epsilon: str,
) -> None:
    (cells,) = re.findall(rf"^\| {epsilon} \| 100 x .*\| (\d+) \| ([\d /]+) \|$", PAGE, re.M)
    sums, exact = int(cells[0]), [int(count) for count in cells[1].split(" / ")]
    assert sums == Fraction(20) / Fraction(epsilon)
    budget = Fraction(20), Fraction(1, 10**6)
    for family, count in zip(("rr", "partition", "cell"), exact, strict=True):
        id = f"{family}:5:{epsilon}"
        assert count >= sums
        assert fits(((id, count),), *budget)
        assert not fits(((id, count + 1),), *budget)


def test_a_digest_on_the_page_is_that_of_the_certificate() -> None:
    (proof,) = registry.parse("rr:5:2").certify()
    assert f"`{proof.digest}`" in PAGE


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.family)
def test_a_proof_names_tests_and_a_table_that_exist_in_at_most_ten_steps(proof: Proof) -> None:
    assert 4 <= len(proof.steps) <= 10
    for step in proof.steps:
        file, _, name = step.test.partition("::")
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, file
        assert f"[`{name}`]" in PROVED
    module, _, path = proof.table.partition(":")
    assert callable(found := reduce(getattr, path.split("."), import_module(module))) or found


def test_every_family_that_claims_an_epsilon_has_a_proof() -> None:
    assert [proof.family for proof in PROOFS] == [*registry.protecting(), noisy_sums.FAMILY]


def test_the_noise_of_a_budget_on_the_page_is_that_of_the_certificate() -> None:
    delta = Fraction(1, 10**6)
    rows = re.findall(r"^\| ([\d/]+) \| (\d\.\d{4}) \| ([\d.]+) \| [\d.]+ \|$", PAGE, re.M)
    assert [row[0] for row in rows] == ["1/2", "1", "2", "4", "8"]
    for epsilon, mu, deviation in rows:
        stage = noisy_sums.NoisySum(1000, (1000 * Fraction(deviation)) ** 2, 1)
        found = noisy_sums.CampaignCertificate((stage,)).epsilon(delta)
        assert float(found) == pytest.approx(float(Fraction(epsilon)), rel=2e-3)
        assert float(mu) * float(deviation) == pytest.approx(1, rel=2e-3)


def test_every_command_on_the_page_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {tuple(text.split()) for text in re.findall(r"`murmurec ([a-z ]+)", PAGE)}
    assert ("device", "status") in commands
    for command in commands:
        assert run([*command, "--help"]) == 0
    capsys.readouterr()

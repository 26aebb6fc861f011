"""The commands that check the project check what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests import commits
from tests.fixtures.programs import program
from tests.fixtures.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text())


def recipe(target: str) -> str:
    """Return the recipe of a target of the Makefile."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"{target}:"))
    rest = lines[first + 1 :]
    return "\n".join(rest[: next(i for i, line in enumerate(rest) if not line.startswith("\t"))])


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check", "mypy"])
def test_make_check_runs_the_linter_the_formatter_and_the_type_checker(command: str) -> None:
    assert f"$(BIN)/{command}" in recipe("check")


def test_make_test_runs_the_examples_of_every_package() -> None:
    wheel = CONFIGURATION["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    packages = {path for path in wheel if "/" not in path}  # the others are files of a package
    assert packages
    paths = set(CONFIGURATION["tool"]["pytest"]["ini_options"]["testpaths"])
    assert paths == {"tests", "research", *packages}
    assert "$(PYTEST)" in recipe("test")


def test_each_tier_is_a_mark_and_a_target_and_ci_runs_the_first() -> None:
    options = CONFIGURATION["tool"]["pytest"]["ini_options"]
    marks = {mark.partition(":")[0] for mark in options["markers"]}
    assert {"thorough", "nightly"} <= marks
    assert "-m 'not thorough and not nightly and not benchmark'" in options["addopts"]
    assert "-m 'not nightly and not benchmark'" in recipe("test-all")
    assert "-m nightly" in recipe("nightly")
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    made = [line for line in script if line.startswith("make ")]
    assert made == ["make check", "make test"]


@pytest.mark.parametrize(("answer", "code"), [("2", 0), ("3", 1)], ids=["right", "wrong"])
def test_a_wrong_example_fails(tmp_path: Path, answer: str, code: int) -> None:
    (tmp_path / "example.py").write_text(f'"""One and one.\n\n>>> 1 + 1\n{answer}\n"""\n')
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert f"{1 - code} passed" in done.stdout or f"{code} failed" in done.stdout


def test_the_hooks_before_a_commit_are_the_projects_own_ruff() -> None:
    found = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = {hook["id"]: hook for repo in found["repos"] for hook in repo["hooks"]}
    assert [repo["repo"] for repo in found["repos"]] == ["local"]
    assert set(hooks) == {"ruff-check", "ruff-format", "commit-subject"}
    assert hooks.pop("commit-subject")["stages"] == ["commit-msg"]
    assert "-m tests.commits" in recipe("check")
    for hook in hooks.values():
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/ruff ")
        command = hook["entry"].split()[1]
        assert command == hook["id"].removeprefix("ruff-")
        assert f"$(BIN)/ruff {command}" in recipe("check")


@pytest.mark.parametrize(
    ("subject", "fits"),
    [
        ("Count every sum beside its ceiling", True),
        ("Seed the draw", True),
        ("A" * 72, True),
        ("A" * 73, False),
        ("Added a ceiling", False),
        ("Forgetting a device", False),
        ("count every sum", False),
        ("Count every sum.", False),
    ],
)
def test_the_subject_of_a_commit_is_imperative_and_short(subject: str, fits: bool) -> None:
    assert bool(commits.rule().search(f"{subject}\n\nA body. It ends.\n")) is fits
    assert bool(commits.rule().search(f"{subject}\n")) is fits


def test_commits_are_read_since_the_rule_and_none_without_git(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    assert commits.new_subjects(tmp_path, "HEAD") == []
    git("init", "-q")
    for subject in ("Added before", "Added after", "Add a third"):
        git("commit", "-q", "--allow-empty", "-m", subject)
    assert commits.new_subjects(tmp_path, "HEAD~2") == ["Add a third", "Added after"]
    assert commits.new_subjects(tmp_path, "HEAD~9") == []


def test_ci_installs_every_program_that_a_test_asks_for() -> None:
    """Without it a test fails there, and is not skipped."""
    asked = re.compile(r"program\(((?:\"[^\"]+\", )+)package=\"([^\"]+)\"\)")
    found = {
        (name, package)
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__)
        for names, package in asked.findall(path.read_text())
        for name in re.findall(r'"([^"]+)"', names)
    }
    assert "\ndeploy/install-debian test\n" in (ROOT / ".ci" / "run").read_text()
    script = (ROOT / "deploy" / "install-debian").read_text()
    assert {"promtool", "systemd-analyze", "ip", "git"} <= {name for name, _ in found}
    other = {"prometheus": "promtool"}  # of one package
    for name, package in found:
        assert f"need {other.get(name, name)} {package}\n" in script, name


def test_a_program_that_is_missing_fails_a_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for ci, outcome in (("true", pytest.fail.Exception), ("", pytest.skip.Exception)):
        monkeypatch.setenv("CI", ci)
        with pytest.raises(outcome, match=r"no-such is not on the PATH .* install none"):
            program("no-such", package="none")

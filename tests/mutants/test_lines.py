"""The mutants fit the product as it is, and are spread over all of it."""

from __future__ import annotations

import os

import pytest

from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.mutants.__main__ import verdict, with_words
from tests.mutants.lines import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.tree import FAILED, LATE, PASSED, ROOT, Run, Tree

PARTS = ("murmurec", "producers", "consumers", "deploy/web")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.file)
def test_a_mutant_breaks_one_place_and_still_compiles(mutant):
    text = mutant.mutated((ROOT / mutant.file).read_text(encoding="utf-8"))
    if mutant.file.endswith(".py"):
        compile(text, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.file)
def test_the_tests_that_a_mutant_names_are_there(mutant):
    assert mutant.first
    for test in mutant.first:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists()
        assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_there_are_forty_and_none_twice():
    assert len(MUTANTS) == len({each.name for each in MUTANTS}) == 40
    assert len({(each.file, each.old) for each in MUTANTS}) == 40


def test_every_package_has_a_mutant():
    inside = (path.parent for path in (ROOT / "stream_app").glob("*/__init__.py"))
    packages = [*PARTS, *(folder.relative_to(ROOT).as_posix() for folder in inside)]
    files = [each.file for each in MUTANTS]
    without = [p for p in packages if not any(file.startswith(f"{p}/") for file in files)]
    assert without == []


TWO = Mutant("a is two", "a.py", "a = 1\n", "a = 2\n", "it is two", ("test_a.py",))


@pytest.mark.parametrize("text", ["", "a = 1\na = 1\n"], ids=["gone", "twice"])
def test_a_line_that_is_not_there_once_is_refused(text):
    assert TWO.mutated("a = 1\n") == "a = 2\n"
    with pytest.raises(ValueError, match="occurs"):
        TWO.mutated(text)


def test_a_mutant_is_there_for_one_run_and_the_file_is_then_as_before(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("a = 1\n")
    os.utime(path, ns=(1, 1_000_000_000))
    (tmp_path / "test_a.py").write_text("import a\n\ndef test_one():\n    assert a.a == 1\n")
    tree = Tree(tmp_path, PATIENCE_SECONDS)
    with tree.applied(TWO):
        found = tree.run(TWO.first)
    assert (found.code, found.failed) == (FAILED, ("test_a.py::test_one",))
    assert (path.read_text(), path.stat().st_mtime_ns) == ("a = 1\n", 1_000_000_000)


def test_mutants_are_chosen_by_words_of_their_name_and_file():
    (found,) = with_words(MUTANTS, ["Journal synced", "no such word"])
    assert found.file == "producers/journal/append_log.py"
    assert with_words(MUTANTS, [""]) == list(MUTANTS)
    assert with_words(MUTANTS, ["no such word"]) == []


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (Run(PASSED), ("survived", "")),
        (Run(FAILED, ("a.py::b", "a.py::c")), ("caught", "a.py::b")),
        (Run(LATE), ("broken", "the time is over")),
        (Run(2), ("broken", "pytest ended with 2")),
    ],
    ids=["passed", "failed", "late", "interrupted"],
)
def test_a_run_says_what_became_of_a_mutant(run, found):
    assert verdict(run) == found

"""Break the product line by line and see whether the tests notice.

    python -m tests.mutants --list
    python -m tests.mutants                                the tests that each mutant names
    python -m tests.mutants --all                          also those of `make test-all` among them
    python -m tests.mutants --tests tests                  then, where they pass, all tests
    python -m tests.mutants --only journal --output FILE   those with the word in name or file

The tests run once without any mutant, since a test that fails anyway catches nothing: a mutant
that names such a test is broken. Exits 1 where fewer mutants are caught than wanted, and 2 where
the tests of --tests do not pass without any.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.lines import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.tree import FAILED, LATE, NOTHING_CHOSEN, PASSED, Run, Tree, copy

LEAST = 34
FIRST_TWO_TIERS = ("-m", "not nightly and not benchmark")
_SECONDS = 1800.0


@dataclass(frozen=True)
class Result:
    """What became of a mutant: caught by a test, survived all, or broken: no test could tell."""

    name: str
    file: str
    outcome: str
    by: str
    seconds: float


def main() -> int:
    """Run the chosen mutants, print a line each, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", metavar="WORDS", action="append", help="those with all these words; repeatable"
    )
    parser.add_argument("--tests", metavar="ARGS", default="", help="of pytest, after the first")
    parser.add_argument("--all", action="store_true", help="run the tests of make test-all, too")
    parser.add_argument("--least", type=int, default=LEAST, help="how many must be caught")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="of one run of pytest")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    arguments = parser.parse_args()
    chosen = with_words(MUTANTS, arguments.only or [""])
    if not chosen:
        parser.error(f"--only {arguments.only}: no mutant has these words in its name or file")
    if arguments.list:
        print("\n".join(f"{each.file}: {each.name}; {each.seen}" for each in chosen))
        return 0
    tests = shlex.split(arguments.tests)
    with tempfile.TemporaryDirectory(prefix="murmurec-mutants-") as folder:
        copy(Path(folder))
        tree = Tree(Path(folder), arguments.seconds, FIRST_TWO_TIERS if arguments.all else ())
        first = tree.run(all_first(chosen), to_the_end=True)
        after = tree.run(tests, to_the_end=True) if tests else Run(PASSED)
        if first.code not in (PASSED, FAILED) or after.code != PASSED:
            print(f"{first.output[-4000:]}{after.output[-4000:]}\nwithout any mutant tests fail")
            return 2
        results = [judged(tree, each, tests, first.failed) for each in chosen]
    if arguments.output is not None:
        written = json.dumps([asdict(each) for each in results], indent=1)
        arguments.output.write_text(written + "\n", encoding="utf-8")
    caught = sum(each.outcome == "caught" for each in results)
    print(f"caught {caught} of {len(results)}")
    return int(caught < min(arguments.least, len(results)))


def with_words(mutants: Iterable[Mutant], wanted: Sequence[str]) -> list[Mutant]:
    """Return the mutants whose name or file has every word of one of the texts."""
    texts = [(each, f"{each.name} {each.file}".lower()) for each in mutants]
    groups = [words.lower().split() for words in wanted]
    return [each for each, text in texts if any(all(w in text for w in words) for words in groups)]


def all_first(mutants: Iterable[Mutant]) -> list[str]:
    """Return the tests that mutants name, each once."""
    return list(dict.fromkeys(test for each in mutants for test in each.first))


def judged(tree: Tree, mutant: Mutant, tests: Sequence[str], failing: Sequence[str]) -> Result:
    """Return what the tests find of a mutant, and print it; `failing` ones fail without any."""
    began = time.monotonic()
    if anyway := [test for test in failing if test.startswith(mutant.first)]:
        outcome, by = "broken", f"fails without any mutant: {anyway[0]}"
    else:
        with tree.applied(mutant):
            outcome, by = verdict(run_in_turn(tree, (mutant.first, tests)))
    seconds = round(time.monotonic() - began, 1)
    print(f"{outcome:8} {seconds:6.1f} s  {mutant.name}  [{by}]", flush=True)
    return Result(mutant.name, mutant.file, outcome, by, seconds)


def run_in_turn(tree: Tree, selections: Iterable[Sequence[str]]) -> Run:
    """Run selections of tests until one does not pass; empty ones are passed over."""
    found = Run(PASSED)
    for selection in filter(None, selections):
        found = tree.run(selection)
        if found.code not in (PASSED, NOTHING_CHOSEN):
            break
    return found


def verdict(run: Run) -> tuple[str, str]:
    """Return what a run says of a mutant, and which test or what else said so."""
    if run.code == NOTHING_CHOSEN:
        return "not run", "the tests that it names are of a later tier: --all"
    if run.code == PASSED:
        return "survived", ""
    if run.code == FAILED:
        return "caught", run.failed[0] if run.failed else "a test"
    return "broken", "the time is over" if run.code == LATE else f"pytest ended with {run.code}"


if __name__ == "__main__":
    sys.exit(main())

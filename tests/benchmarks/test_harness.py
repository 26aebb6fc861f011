"""`make bench`: what it writes, and what it makes of a benchmark that fails or a peer not there."""

from __future__ import annotations

import json
import math
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.benchmarks import __main__ as harness
from tests.benchmarks import contest, machine, runs
from tests.benchmarks.figure import Figure

MEASURED = [
    Figure("ours, times faster than theirs", 3.5, "x", ">= 3", low=3.25, high=4.0),
    contest.not_installed("theirs", "murmurec_peer_of_nobody"),
]


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave two benchmarks: one measures, one fails."""

    def fails() -> list[Figure]:
        raise ValueError("no broker\nmore")

    for name, measure in (("good", lambda: MEASURED), ("bad", fails)):
        module = ModuleType(name)
        module.measure = measure  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"tests.benchmarks.{name}", module)
    monkeypatch.setattr(harness, "benchmarks", lambda: ["bad", "good"])


def test_a_failed_benchmark_and_an_absent_peer_are_listed_and_the_rest_is_measured(
    two: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "bench.json"
    assert harness.main(["--output", str(output)]) == 1
    written = json.loads(output.read_text())  # strict: a bare NaN would be no JSON
    bad, good = written["benchmarks"]
    assert bad["failed"] == "ValueError: no broker"
    assert good["figures"][0] == {
        "name": "ours, times faster than theirs",
        "value": 3.5,
        "unit": "x",
        "target": ">= 3",
        "met": True,
        "low": 3.25,
        "high": 4.0,
    }
    assert good["figures"][1]["value"] is None
    printed = " ".join(capsys.readouterr().out.split())
    assert "1/2 bad: failed: ValueError: no broker" in printed
    assert "2/2 good: 2 figures" in printed
    assert "failed: bad: ValueError: no broker" in printed
    assert "theirs (skipped: murmurec_peer_of_nobody is not installed)" in printed


def test_a_run_ends_with_its_report(two: None, tmp_path: Path) -> None:
    words = ["good", "--output", str(tmp_path / "b.json"), "--report", str(tmp_path / "page")]
    assert harness.main(words) == 0
    assert "| 3.5 x (3.25..4), wanted >= 3: met |" in (tmp_path / "page" / "README.md").read_text()


def test_a_run_is_read_as_it_was_written(two: None, tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    assert harness.main(["good", "--output", str(output)]) == 0
    run = runs.read(output)
    first, absent = (line.figure() for line in run.benchmarks[0].figures)
    assert first == MEASURED[0]
    assert math.isnan(absent.value)
    assert run.absent() == [absent.name]


def test_a_run_says_on_what_it_was_measured(two: None, tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    harness.main(["good", "--output", str(output)])
    stated = json.loads(output.read_text())["conditions"]
    assert stated["machine"]["processor"]
    assert set(stated["machine"]["flags"]) == {"avx2", "avx512", "neon"}
    assert stated["machine"]["cores"] >= 1
    assert stated["machine"]["memory_bytes"] > 2**28
    assert len(stated["load_average"]) == 3
    assert stated["packages"]["numpy"]
    assert stated["python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["good", "fast"], "no benchmark 'fast': give of bad, good\n"),
        (["--output", "/nowhere/b.json"], "/nowhere/b.json: No such file or directory; give"),
    ],
)
def test_a_wrong_command_is_one_sentence(two, words, sentence, capsys) -> None:
    assert harness.main(words) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", '{"conditions": {}}', "\xff"])
def test_a_file_that_is_no_run_is_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"bench\.json: .*; give a file of `make bench`$"):
        runs.read(path)
    with pytest.raises(ValueError, match="No such file"):
        runs.read(tmp_path / "none.json")


def test_every_module_that_measures_is_a_benchmark() -> None:
    assert {"learning", "accuracy"} <= set(harness.benchmarks())
    assert not {"contest", "figure", "machine", "test_harness"} & set(harness.benchmarks())


def test_a_peer_that_is_not_installed_is_none() -> None:
    assert contest.peer("murmurec_peer_of_nobody") is None
    assert contest.peer("math") is math


def test_a_figure_without_a_value_neither_meets_nor_misses() -> None:
    assert Figure("x", math.nan, "", ">= 1").met is None
    assert Figure("x", 1.0, "", ">= 1").met is True
    assert Figure("x", 1.1, "", "<= 1").met is False


def test_outside_a_checkout_there_is_no_commit(tmp_path: Path) -> None:
    assert machine.commit(tmp_path) == ""


@pytest.mark.thorough
def test_contenders_alternate_and_the_first_round_is_not_counted() -> None:
    calls: list[str] = []
    ticks = iter(range(100))

    def ran(name: str) -> contest.Contender:
        return contest.Contender(name, lambda given: calls.append(name + given), 2, lambda: "!")

    found = contest.contest([ran("a"), ran("b")], rounds=3, clock=lambda: float(next(ticks)))
    assert calls == ["a!", "b!", "b!", "a!", "a!", "b!", "b!", "a!"]
    assert found["a"].rounds == (0.5, 0.5, 0.5)
    ratio = found["a"].times_faster_than(found["b"], target=">= 1")
    assert (ratio.value, ratio.low, ratio.high, ratio.met) == (1.0, 1.0, 1.0, True)


def test_the_peers_are_an_extra_of_their_own() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    named = {line.partition(">")[0] for line in extras["peers"]}
    assert named == {*machine.PEERS, "dp-accounting"}  # it gives figures of tests
    assert "peers" not in "".join(extras["dev"])

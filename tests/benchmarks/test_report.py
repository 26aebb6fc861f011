"""The page of the benchmarks is what the committed runs give, and plots show their figures."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.benchmarks import report
from tests.benchmarks.figure import Figure
from tests.benchmarks.machine import Conditions, Machine
from tests.benchmarks.plots import FORMS, Plot, draw, plots
from tests.benchmarks.runs import Line, Measured, Run, read

MACHINE = Machine("Nobody's 9000", {"avx2": True, "avx512": False, "neon": False}, 2, 1 << 33, "X")
CONDITIONS = Conditions(
    machine=MACHINE,
    python="3.11.9",
    packages={"numpy": "2.4.6", "river": "0.26.1", "rbloom": None},
    commit="c0ffee",
    began="2026-11-23",
    load_average=[0.5, 0.5, 0.5],
    threads={},
)
SEARCH = [
    Figure("search flat, 10,000 items", 2e4, "queries/s", low=1.5e4, high=2.5e4),
    Figure("search flat, 10,000 items", 1.0, "recall@100"),
    Figure("search graph, 10,000 items, ef = 50", 9e4, "queries/s"),
    Figure("search graph, 10,000 items, ef = 50", 0.8, "recall@100"),
    Figure("search graph, 10,000 items, ef = 10", 200, "k queries/s"),
    Figure("search graph, 10,000 items, ef = 10", 0.5, "recall@100"),
    Figure("search flat, 300 items", 1e5, "queries/s"),  # no recall: no point
]
REGENERATE = "run `python -m tests.benchmarks.report`"


def run_of(*figures: Figure) -> Run:
    return Run(CONDITIONS, [Measured("some", 1.0, [Line.of(figure) for figure in figures])])


def test_the_page_is_what_the_generator_makes_of_the_committed_runs() -> None:
    runs = [read(path) for path in report.committed()]
    assert runs
    page = (report.FOLDER / "README.md").read_text(encoding="utf-8")
    assert page == report.page(runs, report.plots_of(runs), every=False), REGENERATE


def test_the_committed_plots_show_the_committed_figures() -> None:
    drawn = report.plots_of([read(path) for path in report.committed()])
    folder = report.FOLDER / "plots"
    assert {path.stem for path in folder.glob("*")} == {plot.file for plot in drawn}, REGENERATE
    for plot in drawn:
        text = (folder / f"{plot.file}.svg").read_text(encoding="utf-8")
        assert plot.digest in text, REGENERATE


def test_the_committed_runs_have_every_value_and_no_failure() -> None:
    for path in report.committed():
        run = read(path)
        assert not run.absent(), path
        assert not [each.name for each in run.benchmarks if each.failed], path


def test_a_committed_figure_that_begins_like_a_point_is_one() -> None:
    for path in report.committed():
        for line in (line for each in read(path).benchmarks for line in each.figures):
            form = FORMS.get(line.name.split()[0])
            assert form is None or form.fullmatch(line.name), line.name


def test_rate_and_recall_of_one_setting_are_one_point() -> None:
    (plot,) = plots(SEARCH)
    assert plot.file == "search-10000"
    assert plot.curves == {"flat": [(1.0, 2e4)], "graph": [(0.5, 2e5), (0.8, 9e4)]}
    assert plot.log_y


def test_figures_with_names_of_the_other_forms_are_points() -> None:
    found = plots(
        [
            Figure("memory sketch, d = 8, 2,048 bytes", 0.9, "stars"),
            Figure("memory sketch, d = 8, 1,024 bytes", 0.95, "stars"),
            Figure("memory dense, 1,024 bytes", 0.1, "nDCG@10"),
            Figure("epsilon dense, no noise", 0.87, "stars"),
            Figure("epsilon dense, 1/2", 1.02, "stars"),
            Figure("epsilon dense, 4", 0.88, "stars"),
            Figure("epsilon dense, 8", math.nan, "stars"),
            Figure("message packed, 1 rating", 0.2, "M ratings/s"),
            Figure("message packed, 200 ratings", 4.0, "M ratings/s"),
            Figure("worker end to end, 200 ratings per packed message, rr:5:2", 2.0, "M ratings/s"),
            Figure("learn dense", 1.0, "M ratings/s"),
        ]
    )
    curves = {plot.file: dict(plot.curves) for plot in found}
    assert curves == {
        "memory-rmse": {"sketch, d = 8": [(1024.0, 0.95), (2048.0, 0.9)]},
        "memory-ndcg": {"dense": [(1024.0, 0.1)]},
        "epsilon-rmse": {"dense": [(0.5, 1.02), (4.0, 0.88)]},
        "message": {
            "packed": [(1.0, 0.2), (200.0, 4.0)],
            "worker with Kafka, packed, rr:5:2": [(200.0, 2.0)],
        },
    }
    assert found[2].levels == {"dense": 0.87}


def test_of_two_runs_the_later_figure_is_shown() -> None:
    (plot,) = plots([*SEARCH, Figure("search flat, 10,000 items", 3e4, "queries/s")])
    assert plot.curves["flat"] == [(1.0, 3e4)]


def test_a_plot_is_the_same_file_twice_and_holds_its_digest(tmp_path: Path) -> None:
    plot = Plot("one", "t", "x", "y", {"a": [(1, 2), (4, 3)]}, {"a": 2.5}, log_x=True)
    first = draw(plot, tmp_path).read_bytes()
    assert first == draw(plot, tmp_path).read_bytes()
    assert plot.digest in first.decode()
    assert plot.digest != Plot("one", "t", "x", "y", {"a": [(1, 2)]}).digest


def test_the_table_has_spread_target_and_an_absent_peer() -> None:
    met = Figure("ours | theirs", 3.5, "x", ">= 3", low=3.25, high=4.0)
    missed = Figure("slow", 2.0, "x", ">= 3")
    absent = Figure("theirs (skipped: river is not installed)", math.nan, "")
    text = report.page([run_of(met, missed, absent)], [])
    assert "| ours \\| theirs | 3.5 x (3.25..4), wanted >= 3: met |" in text
    assert "| slow | 2 x, wanted >= 3: missed |" in text
    assert "| theirs (skipped: river is not installed) | - |" in text
    assert "- targets met: 1 of 2\n- missed: slow: 2 x, wanted >= 3\n" in text
    assert "Nobody's 9000 (avx2), 2 cores, 8 GiB" in text
    assert "not installed: scikit-surprise" in text


def test_the_page_of_committed_runs_has_the_figures_with_a_target_alone() -> None:
    run = run_of(Figure("fast", 4.0, "x", ">= 3"), Figure("other", 2.0, "x"))
    assert "| other |" in report.page([run], [])
    page = report.page([run], [], every=False)
    assert "| fast | 4 x, wanted >= 3: met |" in page
    assert "| other |" not in page


def test_a_failed_benchmark_is_on_the_page() -> None:
    run = Run(CONDITIONS, [Measured("broken", 0.0, failed="ValueError: no broker")])
    assert "### `broken` (0 s)\n\nFailed: ValueError: no broker\n" in report.page([run], [])


def test_the_command_writes_the_page_and_the_plots(tmp_path: Path, capsys) -> None:
    run_of(*SEARCH).write(tmp_path / "bench.json")
    output = tmp_path / "new" / "page.md"
    assert report.main([str(tmp_path / "bench.json"), "--output", str(output)]) == 0
    assert "(plots/search-10000.svg)" in output.read_text()
    assert (tmp_path / "new" / "plots" / "search-10000.svg").exists()
    assert capsys.readouterr().out == f"written to {output}, with 1 plots\n"


def test_without_matplotlib_there_are_tables_and_a_sentence(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    run_of(*SEARCH).write(tmp_path / "bench.json")
    output = tmp_path / "page.md"
    assert report.main([str(tmp_path / "bench.json"), "--output", str(output)]) == 0
    assert "plots/" not in output.read_text()
    assert "matplotlib (pip install matplotlib)" in capsys.readouterr().err


def test_a_wrong_file_is_one_sentence(tmp_path: Path, capsys) -> None:
    assert report.main([str(tmp_path / "none.json")]) == 2
    error = capsys.readouterr().err
    assert "No such file" in error
    assert error.count("\n") == 1

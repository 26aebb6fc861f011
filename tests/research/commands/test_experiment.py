"""`murmurec experiment`: rows that a killed run goes on from, table, pictures, refusals."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import murmurec
from murmurec.ranking import RankingEvaluation, RankingOptions
from producers.datasets.load import Dataset
from producers.datasets.synthetic import generate
from research.commands.experiment import rows as kept_rows
from research.commands.experiment.grid import Grid, cells_of, usual
from research.commands.experiment.rows import rows
from research.commands.experiment.summary import Interval, groups_of, table_of
from research.commands.pictures import number
from stream_app.cli import run
from stream_app.errors import UserError
from stream_app.evaluation.results import ExperimentRow
from stream_app.privacy import registry

SMALL = Grid(("dense", "item-means"), ("none", "rr:5:2"), (), seeds=2, factors=2)
WIDE = Grid(
    ("hybrid", "popular", "EASE"), ("rr:5:2", "cell:5:2", "central:4"),
    ("user-time",), seeds=1, factors=2, scope=20,
)  # fmt: skip


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Give made-up ratings with times."""
    return generate(5, users=60, items=30, ratings=900).dataset


@pytest.fixture(scope="module")
def file(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file of the ratings, and one without times beside it."""
    place = tmp_path_factory.mktemp("data") / "made-up.csv"
    assert data.timestamps is not None
    columns = (data.users, data.items, data.ratings, data.timestamps)
    lines = [f"{u},{i},{r:g},{t}" for u, i, r, t in zip(*columns, strict=True)]
    place.write_text("\n".join(["user,item,rating,timestamp", *lines]) + "\n")
    timeless = [line.rpartition(",")[0] for line in lines]
    (place.parent / "timeless.csv").write_text("\n".join(["user,item,rating", *timeless]) + "\n")
    return place


def ticking() -> Callable[[], float]:
    """Return a clock that moves by a second whenever it is read."""
    return map(float, itertools.count()).__next__


def test_a_run_that_was_killed_ends_with_the_rows_of_one_that_was_not(
    data: Dataset, tmp_path: Path
) -> None:
    whole = list(rows(data, SMALL, tmp_path / "whole", now=ticking()))
    expected = (tmp_path / "whole" / "rows.jsonl").read_bytes()

    def kill(done: float, total: int, cell: str) -> None:
        if done > 2:
            raise KeyboardInterrupt

    killed = tmp_path / "killed"
    with pytest.raises(KeyboardInterrupt):
        list(rows(data, SMALL, killed, kill, ticking()))
    kept = (killed / "rows.jsonl").read_bytes()
    assert kept == b"".join(expected.splitlines(keepends=True)[:2])
    (killed / "rows.jsonl").write_bytes(kept[:-7])  # as a power cut leaves it
    assert list(rows(data, SMALL, killed, now=ticking())) == whole
    assert (killed / "rows.jsonl").read_bytes() == expected


def test_a_wider_grid_in_the_same_folder_measures_what_is_new(
    data: Dataset, tmp_path: Path
) -> None:
    few = list(rows(data, SMALL, tmp_path))
    more = Grid(("dense", "sketch"), ("none", "rr:5:2"), (), seeds=2, factors=2)
    found = list(rows(data, more, tmp_path))
    assert found[:4] == few[:4]
    assert len((tmp_path / "rows.jsonl").read_bytes().splitlines()) == len(few) + 4


def test_a_folder_is_of_one_run_at_a_time(data: Dataset, tmp_path: Path) -> None:
    first = rows(data, SMALL, tmp_path)
    next(first)
    with pytest.raises(UserError, match="another experiment writes there; wait for its end, or"):
        rows(data, SMALL, tmp_path)
    first.close()  # type: ignore[attr-defined]
    assert len(list(rows(data, SMALL, tmp_path))) == 6


def test_a_campaign_beside_baselines_alone_is_measured(data: Dataset) -> None:
    asked = Grid(("popular",), ("none", "central:2"), ("global",), seeds=1)
    found = {(cell.model, cell.split) for cell in cells_of(asked, data)}
    assert found == {("popular", "global"), ("campaign", "global")}


@pytest.mark.thorough
def test_each_row_says_what_is_protected_and_what_it_was_tested_on(data: Dataset) -> None:
    found = {(row.model, row.mechanism, row.split): row for row in rows(data, WIDE)}
    assert {key: (row.adjacency, row.epsilon) for key, row in found.items()} == {
        ("hybrid", "rr:5:2", "prequential"): ("value", 2.0),
        ("hybrid", "cell:5:2", "scope"): ("cell", 2.0),
        ("hybrid", "rr:5:2", "user-time"): ("value", 2.0),
        ("hybrid", "cell:5:2", "user-time"): ("cell", 2.0),
        ("campaign", "central:4", "user-time"): ("user", 4.0),
        ("popular", "none", "user-time"): ("nothing", None),
        ("EASE", "none", "user-time"): ("nothing", None),
    }
    popular = found["popular", "none", "user-time"].ndcg
    for (_, _, split), row in found.items():
        assert (row.ndcg is None) == (split != "user-time")
        if row.ndcg is not None:
            assert row.baseline == popular
        else:
            assert row.rmse is not None
            assert row.baseline is not None
            assert len(row.rmse_parts) == (20 if split == "prequential" else 0)


def test_rows_are_those_of_the_evaluation(data: Dataset) -> None:
    grid = Grid(("hybrid",), ("rr:5:2",), ("user-time",), seeds=1, factors=2)
    data = replace(data, timestamps=3600 * np.arange(len(data)))
    # A file need not be in the order of time.
    errors, lists = rows(data.at(np.random.default_rng(1).permutation(len(data))), grid)
    alone = murmurec.evaluate(data, "rr:5:2", factors=2)
    assert (errors.rmse, errors.baseline) == (alone.rmse, alone.rmse_baseline)
    ranked = RankingEvaluation(
        data, "rr:5:2", k=10, split="user-time", model="hybrid", seed=0,
        options=RankingOptions(2, messages=("packed",)),
    ).measure(lambda done, total: None)  # fmt: skip
    assert (lists.ndcg, lists.baseline) == (ranked.ndcg, ranked.ndcg_popular)


def test_a_preset_names_every_mechanism_and_the_usual_grid_lists(data: Dataset) -> None:
    asked = usual(data, "tradeoff")
    families = {each.partition(":")[0] for each in asked["mechanisms"]}
    assert families == {"none", *registry.protecting()}
    assert not asked["splits"]
    usually = Grid(*map(tuple, usual(data, None).values()), seeds=1)
    tests = {cell.split for cell in cells_of(usually, data)}
    assert tests == {"prequential", "global", "visit", "user-time"}


def test_an_interval_is_that_of_student() -> None:
    # Three values of standard deviation 1: 4.303 / sqrt(3).
    assert Interval.over([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.4843), abs=1e-4)
    assert str(Interval.over([0.5])) == "0.5000"


def test_the_table_has_a_line_for_each_model_and_mechanism() -> None:
    shared = {"adjacency": "value", "epsilon": 2.0, "seconds": 1.0}
    found = [
        ExperimentRow("dense", "rr:5:2", "prequential", 0, **shared, rmse=1.0),
        ExperimentRow("dense", "rr:5:2", "visit", 0, **shared, ndcg=0.25),
        ExperimentRow("dense", "like:5:2", "scope", 0, **shared, log_loss=0.5),
    ]
    head, lines = table_of(groups_of(found))
    assert head == ["model", "mechanism", "protects", "RMSE", "nDCG@10 visit"]
    assert lines == [
        ["dense", "rr:5:2", "value", "1.0000", "0.2500"],
        ["dense", "like:5:2", "value", "log-loss 0.5000", "-"],
    ]


def test_a_command_shows_a_table_and_writes_it_with_pictures(
    environment: Callable[..., None], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    asked = ["--models", "dense,item-means", "--mechanisms", "none,rr:5:1,rr:5:2,cell:5:1"]
    command = ["experiment", str(file), *asked, "--splits", "none", "--seeds", "2"]
    assert run([*command, "--factors", "2", "--scope", "10", "-o", "out"]) == 0
    shown, err = capsys.readouterr()
    assert err.splitlines()[0] == (
        f"rows, table and pictures are written to {Path('out').resolve()} (--out)"
    )
    assert "model       mechanism   protects  RMSE" in shown
    assert "± " in shown
    assert "all other splits are one" in shown
    for picture in ("quality", "learning"):
        assert Path(f"out/{picture}.png").read_bytes().startswith(b"\x89PNG\r\n")
    lines = list(csv.DictReader(Path("out/table.csv").read_text().splitlines()))
    assert [line["mechanism"] for line in lines] == [
        *("none:5:inf", "rr:5:1", "rr:5:2", "cell:5:1", "none"),
    ]
    for line in lines:
        assert float(line["rmse_low"]) <= float(line["rmse"]) <= float(line["rmse_high"])
        assert line["seeds"] == "2"
    kept = [json.loads(line)["row"] for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert len(kept) == 2 * len(lines)


def test_an_interrupt_says_how_to_go_on(
    environment: Callable[..., None],
    file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment()

    def interrupted(*_: object) -> ExperimentRow:
        raise KeyboardInterrupt

    monkeypatch.setattr(kept_rows, "measured", interrupted)
    assert run(["experiment", str(file), "--models", "item-means", "-o", "out"]) == 130
    assert "stopped; finished rows are in out, and the same command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--models", "forest"], 2, "--models forest: choose some of hybrid, sketch"),
        (["--models", ","], 2, "--models, mechanisms: give one of each"),
        (["--mechanisms", "rr:5"], 2, "--mechanisms rr:5: give an id such as rr:5:2, of rr, "),
        (["--mechanisms", "rr:4:2"], 2, "--mechanisms rr:4:2: the ratings have 5 levels"),
        (["--mechanisms", "central:0"], 2, "--mechanisms central:0: give an epsilon above 0"),
        (["--mechanisms", "split:x"], 2, "--mechanisms split: epsilon 'x': give 2, 0.5 or 1/2"),
        (["--splits", "last"], 2, "--splits last: choose some of global, visit, user-time"),
        (["--models", "popular", "--splits", "none"], 2, "name one"),
        (["--seeds", "0"], 2, "--seeds 0: give 1 to 30"),
        (["--seed", "-1"], 2, "--seed -1: give a number from 0"),
        (["--factors", "0"], 2, "--factors 0: give 1 to 256"),
        (["--scope", "0"], 2, "--scope 0: give 1 or more"),
        (
            ["--mechanisms", "cell:5:1", "--scope", "31"],
            2,
            "--scope 31: give 1 to 30 for cell:5:1 (scope)",
        ),
        (
            ["--mechanisms", "none,central:1", "--scope", "9"],
            2,
            "--scope 9: give 10 to 30 for central:1 (global)",
        ),
        (["--preset", "best"], 2, "--preset best: choose one of tradeoff, whole-person"),
        (["-o", "file/x"], 1, "--out file/x: cannot be written"),
        (
            ["--models", "slope-one", "--mechanisms", "cell:5:1"],
            2,
            "--models slope-one: needs a mechanism with public presence, such as rr:5:2",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(
    arguments: list[str],
    code: int,
    sentence: str,
    environment: Callable[..., None],
    file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment()
    Path("file").write_text("")
    assert run(["experiment", str(file), *arguments]) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert [each.name for each in Path().iterdir()] == ["file"]


def test_a_split_in_time_needs_times(
    environment: Callable[..., None], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    timeless = str(file.parent / "timeless.csv")
    assert run(["experiment", timeless, "--splits", "visit"]) == 2
    error = capsys.readouterr().err
    assert "--splits visit: timeless.csv has no times; choose user-time" in error


def test_a_folder_of_other_ratings_or_of_other_lines_is_refused(
    environment: Callable[..., None], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    asked = ["--models", "item-means", "--seeds", "1", "-o", "out"]
    assert run(["experiment", str(file), *asked]) == 0
    assert run(["experiment", str(file.parent / "timeless.csv"), *asked]) == 1
    assert "out/rows.jsonl: holds an experiment on other ratings" in capsys.readouterr().err
    Path("out/rows.jsonl").write_text("x\n")
    assert run(["experiment", str(file), *asked]) == 1
    assert "line 1 is no row of an experiment; delete the line" in capsys.readouterr().err
    Path("out/rows.jsonl").write_text("not of an experiment")
    assert run(["experiment", str(file), *asked]) == 1
    assert Path("out/rows.jsonl").read_text() == "not of an experiment"


def test_too_few_ratings_are_a_sentence(
    environment: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    few = tmp_path / "few.csv"
    few.write_text("user,item,rating,timestamp\n" + "".join(f"{n},{n},3,{n}\n" for n in range(9)))
    assert run(["experiment", str(few), "--splits", "none", "--scale", "1", "5", "1"]) == 1
    assert "9 ratings: at least 10 are needed to evaluate" in capsys.readouterr().err


def test_a_number_at_a_tick_is_plain() -> None:
    assert list(map(number, (0.05, 1.0, 20_000.0, 1e-7, 0.0))) == [
        *("0.05", "1", "20,000", "1e-07", "0"),
    ]

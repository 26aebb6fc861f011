"""`murmurec evaluate --rank`: the table, the JSON, and what it refuses."""

from __future__ import annotations

import functools
import itertools
import json
import re
from pathlib import Path

import pytest

from producers.datasets.synthetic import generate
from stream_app.cli import output, run

KEYS = {"ndcg", "recall", "hit_rate", "coverage", "overlap", "ndcg_popular", "where", "rows"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    data = generate(1, users=80, items=40, ratings=1300).dataset
    path = tmp_path / "ratings.csv"
    rows = zip(data.users, data.items, data.ratings, data.timestamps, strict=True)  # type: ignore[arg-type]
    lines = [f"{u},{i},{r:g},{t}" for u, i, r, t in rows]
    path.write_text("\n".join(["user,item,rating,timestamp", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    "options", [[], ["--k", "3", "--split", "last"], ["--mechanism", "cell", "--scope", "30"]]
)
def test_the_figures_are_shown_and_written(file, tmp_path, capsys, options):
    out = tmp_path / "out.json"
    arguments = ["--rank", "--factors", "4", "--json", str(out)]
    assert run(["evaluate", str(file), *arguments, *options]) == 0
    written, (shown, notices) = json.loads(out.read_text()), capsys.readouterr()
    assert set(written) >= KEYS
    assert written["where"] in ("server", "device")
    assert 0 <= written["ndcg"] <= 1
    assert written["rows"][0]["ndcg"] == written["ndcg"]
    for row in written["rows"]:
        assert f"{row['ndcg']:.3f}" in shown
    assert "popular" in shown
    methods = [row["method"] for row in written["rows"] if row["where"] == "baseline"]
    together = ["cosine", "damped cosine", "slope-one", "damped slope-one", "damped cosine"]
    assert methods[-5:] == together
    assert f"a server serves {written['serving']}" in notices


def test_a_figure_that_there_is_not_is_null(tmp_path, capsys):
    path, out = tmp_path / "two.csv", tmp_path / "out.json"
    rows = [f"1,{i},{1 + 4 * (i % 2)},{i}" for i in range(20)]
    rows += [f"2,{i},1,{50 - i}" for i in range(20)]
    path.write_text("\n".join(["user,item,rating,timestamp", *rows]) + "\n")
    assert run(["evaluate", str(path), "--rank", "--factors", "2", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["overlap"] is None
    assert " - " in capsys.readouterr().out


def test_a_file_without_times_is_ranked_in_a_random_order_and_says_so(file, capsys):
    rows = [",".join(line.split(",")[:3]) for line in file.read_text().splitlines()]
    file.write_text("\n".join(rows) + "\n")
    assert run(["evaluate", str(file), "--rank", "--factors", "2"]) == 0
    assert "has no times, so its ratings are ranked in a random order" in capsys.readouterr().err


def test_a_long_run_shows_its_progress_in_a_pipe(file, capsys, monkeypatch):
    slowly = itertools.count(0, 11).__next__
    monkeypatch.setattr(output, "progress", functools.partial(output.progress, now=slowly))
    assert run(["evaluate", str(file), "--rank", "--factors", "2"]) == 0
    shown = capsys.readouterr()
    assert "learning and ranking: " not in shown.out
    lines = re.findall(r"learning and ranking: ([\d,]+) of ([\d,]+)\n", shown.err)
    assert len(lines) > 5
    assert lines[-1][0] == lines[-1][1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--rank", "--k", "41"], "--k 41: 40 items can be ranked; give 1 to 40"),
        (["--rank", "--k", "0"], "--k 0: 40 items"),
        (["--rank", "--split", "later"], "--split later: choose user-time, last or global"),
        (["--rank", "--protocol", "one-pass"], "leave --protocol out"),
        (["--rank", "--model", "slope-one"], "leave --model out"),
        (["--rank", "--choice", "guess"], "leaning"),
        (["--rank", "--mechanism", "cell", "--scope", "41"], "--scope 41: the ratings are of 40"),
        (["--rank", "--mechanism", "blip"], "--rank"),
        (["--k", "5"], "--k: is about lists; add --rank"),
        (["--split", "last"], "--split: is about lists; add --rank"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(file, capsys, options, expected):
    assert run(["evaluate", str(file), *options]) == 2
    err = capsys.readouterr().err.strip()
    assert expected in err
    assert "\n" not in err


def test_lists_below_popularity_are_named_with_the_scope_as_a_reason(file, capsys):
    arguments = ["--rank", "--factors", "2", "--mechanism", "like", "--scope", "1"]
    assert run(["evaluate", str(file), *arguments]) == 0
    shown = capsys.readouterr().err
    assert "warning: the device's lists are below the most popular items" in shown
    assert "too small an --epsilon or --scope" in shown

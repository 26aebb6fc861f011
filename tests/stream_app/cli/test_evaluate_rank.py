"""`murmurec evaluate --rank`: the table, the JSON, and what it refuses."""

from __future__ import annotations

import functools
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from producers.datasets.synthetic import generate
from stream_app.cli import output, run

KEYS = {"split", "k", "mechanism", "epsilon", "users", "items", "learned", "in_time", "rows"}
PACKED = ["--rank", "--split", "user-time", "--messages", "packed"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    data = generate(1, users=80, items=40, ratings=1300).dataset
    path = tmp_path / "ratings.csv"
    times = 600 * np.random.default_rng(2).permutation(len(data))  # of nine days
    rows = zip(data.users, data.items, data.ratings, times, strict=True)
    lines = [f"{u},{i},{r:g},{t}" for u, i, r, t in rows]
    path.write_text("\n".join(["user,item,rating,timestamp", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--k", "3", "--split", "last", "--messages", "daily"],
        ["--split", "visit", "--mechanism", "cell", "--scope", "30"],
    ],
)
def test_the_figures_are_shown_and_written(file, tmp_path, capsys, options):
    out = tmp_path / "out.json"
    arguments = ["--rank", "--factors", "4", "--json", str(out)]
    assert run(["evaluate", str(file), *arguments, *options]) == 0
    ((written,), shown) = json.loads(out.read_text())["splits"], capsys.readouterr().out
    assert set(written) >= KEYS
    assert written["rows"][0]["where"] == "device"
    for row in written["rows"]:
        assert 0 <= row["ndcg"] <= 1
        assert f"{row['ndcg']:.3f} ± {1.96 * row['ndcg_error']:.3f}" in shown
    methods = [row["method"] for row in written["rows"] if row["where"] == "baseline"]
    assert methods == ["popular", "recent popular", "EASE"]


def test_without_a_split_three_are_measured_in_every_form_of_messages(file, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert run(["evaluate", str(file), "--rank", "--factors", "2", "--json", str(out)]) == 0
    written = json.loads(out.read_text())["splits"]
    assert [result["split"] for result in written] == ["global", "visit", "user-time"]
    shown = capsys.readouterr().out
    for result in written:
        assert f"lists of 10, {result['split']}, {result['users']} users" in shown
        sent = [row["messages"] for row in result["rows"] if row["where"] == "server"]
        assert list(dict.fromkeys(sent)) == ["single", "daily", "packed"]


def test_a_figure_that_there_is_not_is_null(tmp_path, capsys):
    path, out = tmp_path / "two.csv", tmp_path / "out.json"
    rows = [f"1,{i},{1 + 4 * (i % 2)},{i}" for i in range(20)]
    rows += [f"2,{i},1,{50 - i}" for i in range(20)]
    path.write_text("\n".join(["user,item,rating,timestamp", *rows]) + "\n")
    assert run(["evaluate", str(path), *PACKED, "--factors", "2", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["splits"][0]["rows"][0]["overlap"] is None
    assert " - " in capsys.readouterr().out


def test_a_split_of_which_nobody_is_tested_is_left_out_and_says_so(tmp_path, capsys):
    path = tmp_path / "two.csv"
    rows = [f"1,{item},5,{item}" for item in range(20)]
    rows += [f"2,{item},5,{40 - item}" for item in range(20)]
    path.write_text("\n".join(["user,item,rating,timestamp", *rows]) + "\n")
    options = ["--rank", "--factors", "2", "--messages", "packed"]
    assert run(["evaluate", str(path), *options]) == 0
    shown, notices = capsys.readouterr()
    assert "split visit: no user has learned ratings and, held out, a liked item" in notices
    assert "lists of 10, user-time, 2 users" in shown
    assert run(["evaluate", str(path), *options, "--split", "visit"]) == 1
    assert "no list can be measured" in capsys.readouterr().err


def test_a_file_without_times_is_ranked_in_a_random_order_and_says_so(file, capsys):
    rows = [",".join(line.split(",")[:3]) for line in file.read_text().splitlines()]
    file.write_text("\n".join(rows) + "\n")
    assert run(["evaluate", str(file), "--rank", "--messages", "packed", "--factors", "2"]) == 0
    assert "has no times, so its ratings are ranked in a random order" in capsys.readouterr().err


def test_a_long_run_shows_its_progress_in_a_pipe(file, capsys, monkeypatch):
    slowly = itertools.count(0, 11).__next__
    monkeypatch.setattr(output, "progress", functools.partial(output.progress, now=slowly))
    assert run(["evaluate", str(file), *PACKED, "--factors", "2"]) == 0
    shown = capsys.readouterr()
    assert "learning and ranking: " not in shown.out
    lines = re.findall(r"user-time: learning and ranking: ([\d,]+) of ([\d,]+)\n", shown.err)
    assert len(lines) > 5
    assert lines[-1][0] == lines[-1][1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([*PACKED, "--k", "41"], "--k 41: 40 items can be ranked; give 1 to 40"),
        ([*PACKED, "--k", "0"], "--k 0: 40 items"),
        (["--rank", "--split", "later"], "--split later: choose global, visit, user-time or last"),
        (["--rank", "--messages", "weekly"], "--messages weekly: choose single, daily, packed"),
        (["--rank", "--protocol", "one-pass"], "leave --protocol out"),
        (["--rank", "--model", "slope-one"], "choose hybrid or sketch"),
        (["--rank", "--choice", "guess"], "leaning"),
        ([*PACKED, "--mechanism", "cell", "--scope", "41"], "--scope 41: the ratings are of 40"),
        (["--k", "5"], "--k: is about lists; add --rank"),
        (["--split", "last"], "--split: is about lists; add --rank"),
        (["--messages", "daily"], "--messages: is about lists; add --rank"),
        (["--rank", "--mode", "central", "--messages", "daily"], "--messages: a campaign"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(file, capsys, options, expected):
    assert run(["evaluate", str(file), *options]) == 2
    err = capsys.readouterr().err.strip()
    assert expected in err
    assert "\n" not in err


def test_lists_below_popularity_are_named_with_the_difference_and_no_cause(file, capsys):
    options = ["--factors", "2", "--mechanism", "like", "--scope", "1", "--split", "user-time"]
    assert run(["evaluate", str(file), "--rank", *options]) == 0
    shown = capsys.readouterr().err
    assert re.search(
        r"warning: user-time: below the most popular items \(nDCG 0\.\d{3}\), by the difference on "
        r"the same users with its 95 % interval: device, clean -0\.\d{3} ± 0\.\d{3}; ",
        shown,
    )
    assert "too small" not in shown

"""`murmurec evaluate --mode central|split`: the table, the JSON, and what it refuses."""

from __future__ import annotations

import json

import pytest

from stream_app.cli import run
from tests.stream_app.evaluation.campaigns.worlds import columns

pytestmark = pytest.mark.thorough


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ratings.csv"
    rows = zip(*(column.tolist() for column in columns(200)), strict=True)
    lines = [f"{user},{item},{stars},{when}" for when, (user, item, stars) in enumerate(rows)]
    path.write_text("\n".join(["user,item,rating,timestamp", *lines]) + "\n")
    return path


@pytest.mark.parametrize("mode", ["central", "split"])
def test_lists_of_a_campaign_are_measured(file, tmp_path, capsys, mode):
    out = tmp_path / "out.json"
    options = ("--mode", mode, "--rank", "--epsilon", "8", "--scope", "30", "--json", str(out))
    assert run(["evaluate", str(file), *options]) == 0
    shown = capsys.readouterr()
    assert f"{mode}, epsilon 8 a person" in shown.out
    assert "200 people, each protected whole" in shown.err
    found = json.loads(out.read_text())
    assert (found["mode"], found["epsilon"], found["people"]) == (mode, 8, 200)
    assert found["ndcg"] == found["rows"][0]["ndcg"]


def test_the_default_is_a_whole_person_of_two(file, capsys):
    assert run(["evaluate", str(file), "--mode", "central", "--rank", "--scope", "20"]) == 0
    assert "epsilon 2 a person" in capsys.readouterr().out


def test_too_few_people_are_a_sentence(file, capsys):
    options = ["--mode", "split", "--rank", "--epsilon", "1/4"]
    assert run(["evaluate", str(file), *options]) == 0
    assert "the lists are those of the prior" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--mode", "none", "--rank"], "--mode none: choose central or split"),
        (["--mode", "split", "--mechanism", "rr"], "--mechanism: a campaign"),
        (["--mode", "split", "--protocol", "one-pass"], "--protocol: a campaign"),
        (["--mode", "central", "--rank", "--scope", "310"], "scope 310: give 2 to 60"),
        (["--mode", "central", "--rank", "--scope", "20", "--k", "21"], "--k 21: 20 items"),
        (["--mode", "central", "--scope", "30"], "--mode: a campaign is about lists; add --rank"),
        (["--meta"], "--meta: is about a campaign"),
        (["--mode", "central", "--rank", "--epsilon", "0"], "--epsilon 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(file, capsys, options, sentence):
    assert run(["evaluate", str(file), *options]) == 2
    assert sentence in capsys.readouterr().err


def test_metadata_beside_the_file_take_part(file, capsys):
    lines = [f"{item},Item ({1970 + item}),{'abc'[item % 3]}" for item in range(60)]
    (file.parent / "movies.csv").write_text("movieId,title,genres\n" + "\n".join(lines) + "\n")
    figures = []
    for meta in ([], ["--meta"]):
        out = file.parent / "out.json"
        options = ["--mode", "central", "--epsilon", "8", "--rank", "--scope", "30", *meta]
        assert run(["evaluate", str(file), *options, "--json", str(out)]) == 0
        figures.append(json.loads(out.read_text())["ndcg_prior"])
    assert "with public metadata" in capsys.readouterr().out
    assert figures[0] != figures[1]


def test_titles_alone_are_no_metadata(file, capsys):
    (file.parent / "movies.csv").write_text("movieId,title,genres\n1,One,(no genres listed)\n")
    assert run(["evaluate", str(file), "--mode", "central", "--rank", "--meta"]) == 1
    assert "no genres and years" in capsys.readouterr().err


def test_without_metadata_there_is_a_sentence(file, capsys):
    assert run(["evaluate", str(file), "--mode", "central", "--rank", "--meta"]) == 1
    assert "no genres and years of its items in it or beside it" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.nightly
def test_local_is_as_without_a_mode(file, capsys):
    options = ["--model", "dense", "--factors", "2"]
    assert run(["evaluate", str(file), *options]) == 0
    plain = capsys.readouterr().out
    assert run(["evaluate", str(file), "--mode", "local", *options]) == 0
    assert plain.splitlines()[:3] == capsys.readouterr().out.splitlines()[:3]

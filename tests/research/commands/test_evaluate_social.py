"""`murmurec evaluate --model plain | social | privsr | privsr-paper --trust FILE`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_app.cli import run

PEOPLE, ITEMS = 80, 30


@pytest.fixture
def file(tmp_path):
    """Give ratings on .5 .. 4 by people of two tastes, who trust their like; beside it trust."""
    random = np.random.default_rng(4)
    lines = []
    for user in range(PEOPLE):
        for item in random.choice(ITEMS, 15, replace=False):
            liked = (user % 2) == (item % 2)
            lines.append(f"{user},{item},{(7 + liked * 1 - (not liked) * 4 - user % 3 // 2) / 2}")
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating", *lines]) + "\n")
    pairs = [f"{user},{(user + 2) % PEOPLE}" for user in range(PEOPLE)]
    (tmp_path / "trust.csv").write_text("\n".join(["truster,trustee", *pairs]) + "\n")
    return path


def measured(file, model, *options):
    out = file.parent / "out.json"
    command = ["evaluate", str(file), "--scale", "0.5", "4", "0.5", "--json", str(out)]
    trust = ["--trust", str(file.parent / "trust.csv")]
    assert run([*command, "--model", model, *trust, *options]) == 0
    return json.loads(out.read_text())


def test_every_model_predicts_and_states_what_it_guarantees(file, capsys):
    found = {model: measured(file, model) for model in ("plain", "social", "privsr-paper")}
    found["privsr"] = measured(file, "privsr", "--epsilon", "8")
    assert {each["links"] for each in found.values()} == {PEOPLE}
    assert {each["people"] for each in found.values()} == {PEOPLE}
    assert {each["events"] for each in found.values()} == {PEOPLE * 15 // 10}
    for model in ("plain", "social", "privsr-paper"):
        assert found[model]["epsilon"] is None
        assert "no guarantee" in found[model]["guarantee"]
    assert found["plain"]["rmse"] < found["plain"]["rmse_baseline"]
    assert found["privsr-paper"]["guarantee"] == "paper: no guarantee, where it claims 2"
    assert 7.9 < found["privsr"]["epsilon"] <= 8
    assert 3.9 < found["privsr"]["epsilon_sensitive"] <= 4
    printed = capsys.readouterr()
    assert "paper: no guarantee, where it claims 2" in printed.out
    assert "for one rating, 4 for a sensitive one" in printed.out
    assert "no times" not in printed.err


def test_more_noise_predicts_worse(file):
    for model in ("privsr-paper", "privsr"):
        errors = [measured(file, model, "--epsilon", e)["rmse"] for e in ("1", "100")]
        assert errors[1] < errors[0], model


def test_trust_changes_the_social_model_alone(file):
    before = {model: measured(file, model)["rmse"] for model in ("plain", "social")}
    other = [f"{user},{(user + 1) % PEOPLE}" for user in range(PEOPLE)]
    (file.parent / "trust.csv").write_text("\n".join(["truster,trustee", *other]) + "\n")
    after = {model: measured(file, model)["rmse"] for model in ("plain", "social")}
    assert after["plain"] == before["plain"]
    assert after["social"] > before["social"]  # friends of the other taste


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trust.txt", "".join(f"{user} {(user + 2) % PEOPLE} 1\n" for user in range(PEOPLE))),
        ("trust.tsv", "".join(f"{user}\t{(user + 2) % PEOPLE}\n" for user in range(PEOPLE))),
    ],
)
def test_links_come_in_columns_without_a_header_too(file, name, content):
    expected = measured(file, "social")
    (file.parent / name).write_text(content)
    options = ["--trust", str(file.parent / name)]
    assert measured(file, "social", *options) == expected


def test_links_come_as_arrays(file):
    expected = measured(file, "social")
    users = np.arange(PEOPLE)
    path = file.parent / "trust.npz"
    np.savez(path, truster=users, trustee=(users + 2) % PEOPLE)
    assert measured(file, "social", "--trust", str(path)) == expected


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model", "privsr"], "--model privsr: needs --trust FILE"),
        (["--model", "dense", "--trust", "trust.csv"], "--trust: is for --model plain, social"),
        (["--model", "social", "--trust", "trust.csv", "--rank"], "--rank: --model social has"),
        (
            ["--model", "social", "--trust", "trust.csv", "--mode", "split"],
            "--mode: a campaign is about lists; add --rank",
        ),
        (
            ["--model", "plain", "--trust", "trust.csv", "--epsilon", "2"],
            "--epsilon: --model plain adds no noise",
        ),
        (["--model", "privsr", "--trust", "trust.csv", "--epsilon", "0"], "--epsilon 0"),
        (
            ["--model", "privsr", "--trust", "trust.csv", "--epsilon", "1/10"],
            "epsilon 0.1: needs wider noise than can be drawn; give 1 or more",
        ),
        (["--model", "social", "--trust", "absent.csv"], "absent.csv: there is no such file"),
        (["--model", "social", "--trust", "ratings.csv"], "holds no links of trust"),
        (["--model", "social", "--trust", "empty.txt"], "holds no links of trust"),
        (["--model", "social", "--trust", "one.txt"], "holds no links of trust"),
        (["--model", "social", "--trust", "junk.npz"], "holds no links of trust"),
        (["--model", "social", "--trust", "trust.json"], "not a file of links"),
        (["--model", "social", "--trust", "others.csv"], "none of 1 links is between two"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(file, capsys, monkeypatch, options, sentence):
    monkeypatch.chdir(file.parent)
    (file.parent / "empty.txt").write_text("")
    (file.parent / "one.txt").write_text("alone\n")
    (file.parent / "junk.npz").write_bytes(b"junk")
    (file.parent / "trust.json").write_text("[]")
    (file.parent / "others.csv").write_text("truster,trustee\nann,bob\n")
    assert run(["evaluate", str(file), *options]) in (1, 2)
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error

"""`murmurec evaluate` on a small generated file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from producers.datasets.synthetic import generate
from research.co_rated import CO_RATED
from stream_app.cli import run
from stream_app.models.baselines.learners import LEARNERS
from tests.stream_app.models.example_learner import ItemMeans


@pytest.fixture
def file(tmp_path: Path) -> Path:
    data = generate(1, users=60, items=40, ratings=1000).dataset
    path = tmp_path / "ratings.csv"
    rows = zip(data.users, data.items, data.ratings, data.timestamps, strict=True)  # type: ignore[arg-type]
    lines = [f"{u},{i},{r:g},{t}" for u, i, r, t in rows]
    path.write_text("\n".join(["user,item,rating,timestamp", *lines]) + "\n")
    return path


@pytest.mark.parametrize("protocol", ["prequential", "one-pass"])
def test_the_figures_are_shown_and_written(file, tmp_path, capsys, protocol):
    out = tmp_path / "out.json"
    arguments = ["--protocol", protocol, "--model", "dense", "--epsilon", "3", "--factors", "4"]
    assert run(["evaluate", str(file), *arguments, "--json", str(out)]) == 0
    written = json.loads(out.read_text())
    assert written["protocol"] == protocol
    assert written["model"] == "dense"
    assert written["mechanism"] == "partition:5:3"
    assert written["epsilon"] == 3.0
    assert isinstance(written["epsilon"], float)
    assert 0.5 < written["rmse"] < 2
    assert f"{written['rmse']:.4f}" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.nightly
def test_a_scale_with_too_many_levels_for_groups_is_reported_by_level(tmp_path, capsys):
    path = tmp_path / "ratings.csv"
    rows = "".join(f"{n % 20},{n % 7},{n % 101},{n}\n" for n in range(404))
    path.write_text("user,item,rating,timestamp\n" + rows)
    assert run(["evaluate", str(path), "--factors", "1"]) == 0
    assert "rr:101:2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--mechanism", "rr", "--epsilon", "1/10"], "--mechanism partition learns more"),
        (["--epsilon", "1/10"], "it needs more ratings, or a larger --epsilon"),
    ],
)
def test_a_model_below_its_baseline_is_named(file, capsys, options, advice):
    assert run(["evaluate", str(file), "--factors", "4", *options]) == 0
    captured = capsys.readouterr()
    assert "the model is below its baseline: the items' true means" in captured.err
    assert advice in captured.err


def test_a_model_above_its_baseline_is_not_warned_about(tmp_path, capsys):
    data = generate(1, users=100, items=40, ratings=2000).dataset
    path = tmp_path / "planted.csv"
    planted = 1 + (data.users % 5)  # a user's ratings are all equal
    rows = zip(data.users, data.items, planted, data.timestamps, strict=True)
    path.write_text(
        "user,item,rating,timestamp\n" + "".join(f"{u},{i},{r},{t}\n" for u, i, r, t in rows)
    )
    assert run(["evaluate", str(path), "--factors", "4", "--mechanism", "none"]) == 0
    assert capsys.readouterr().err == ""


def test_without_noise_the_epsilon_that_is_written_is_null(file, tmp_path):
    out = tmp_path / "out.json"
    assert run(["evaluate", str(file), "--mechanism", "none", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["epsilon"] is None


@pytest.mark.parametrize(
    ("out", "expected"),
    [("nowhere/out.json", "the directory nowhere does not exist"), (".", "is a directory")],
)
def test_a_result_that_could_not_be_written_is_refused_before_the_work(
    tmp_path, monkeypatch, capsys, out, expected
):
    monkeypatch.chdir(tmp_path)
    # The file of ratings is not there either: that it is not asked for shows what comes first.
    assert run(["evaluate", "no-ratings.csv", "--json", out]) in (1, 2)
    assert expected in capsys.readouterr().err


def test_a_result_that_cannot_be_written_after_all_is_one_sentence(file, capsys):
    assert run(["evaluate", str(file), "--factors", "4", "--json", "/dev/full"]) == 1
    captured = capsys.readouterr()
    refusal = captured.err.splitlines()[-1]
    assert refusal == "murmurec: /dev/full: cannot be written (No space left on device)"
    assert "RMSE" in captured.out


def test_the_same_seed_gives_the_same_figures(file, tmp_path):
    found = []
    for seed in ("1", "1", "2"):
        out = tmp_path / "out.json"
        options = ["--factors", "4", "--seed", seed, "--json", str(out)]
        assert run(["evaluate", str(file), *options]) == 0
        found.append(json.loads(out.read_text())["rmse"])
    assert found[0] == found[1] != found[2]


def test_ids_may_be_text(file, tmp_path):
    named = tmp_path / "named.csv"
    rows = file.read_text().splitlines()
    named.write_text("\n".join([rows[0], *("u" + row.replace(",", ",i", 1) for row in rows[1:])]))
    out = tmp_path / "out.json"
    assert run(["evaluate", str(named), "--factors", "4", "--json", str(out)]) == 0
    assert np.isfinite(json.loads(out.read_text())["rmse"])


@pytest.mark.parametrize("user", ["-7", "é" * 100])
def test_a_user_id_that_could_be_no_item_is_evaluated(user, file, tmp_path):
    file.write_text(re.sub(r"(?m)^1,", f"{user},", file.read_text()))
    out = tmp_path / "out.json"
    arguments = ["--model", "dense", "--epsilon", "3", "--factors", "4", "--json", str(out)]
    assert run(["evaluate", str(file), *arguments]) == 0
    assert json.loads(out.read_text())["rmse"] > 0.5


def test_a_user_id_that_is_none_is_named_by_its_row_and_called_a_user(file, capsys):
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, ",2,3,0"]) + "\n")
    assert run(["evaluate", str(file)]) == 1
    assert f"{file}: the user in row {len(lines) + 1} is empty" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "mechanism"),
    [
        (["--mechanism", "partition", "--epsilon", "1"], "partition:5:1"),
        (["--mechanism", "partition", "--choice", "leaning"], "partition:5:2"),
        (["--mechanism", "partition:5:3", "--protocol", "one-pass"], "partition:5:3"),
    ],
)
def test_a_partition_is_asked_by_the_item_table_or_by_leanings_too(
    file, tmp_path, capsys, options, mechanism
):
    out = tmp_path / "out.json"
    assert run(["evaluate", str(file), "--factors", "1", *options, "--json", str(out)]) == 0
    written = json.loads(out.read_text())
    assert written["mechanism"] == mechanism
    assert written["scope"] == 0
    assert "public scope" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "mechanism"),
    [
        (["--mechanism", "cell", "--epsilon", "4"], "cell:5:4"),
        (["--mechanism", "ternary", "--epsilon", "4", "--thinning", "1/2"], "ternary:5:4:1/2"),
        (["--mechanism", "laplace:5:5"], "laplace:5:5"),
        (["--mechanism", "cell:5:4:1/4", "--protocol", "one-pass"], "cell:5:4:1/4"),
    ],
)
def test_where_presence_is_protected_a_public_scope_is_sent_and_named(
    file, tmp_path, capsys, options, mechanism
):
    out = tmp_path / "out.json"
    arguments = ["--factors", "1", "--scope", "12", *options, "--json", str(out)]
    assert run(["evaluate", str(file), *arguments]) == 0
    written, shown = json.loads(out.read_text()), capsys.readouterr().out
    assert (written["protocol"], written["mechanism"]) == ("scope", mechanism)
    assert (written["scope"], written["cells"]) == (12, 12 * 60)
    assert 0 < written["learned"] < written["cells"]
    assert "the 12 most rated items of the file" in shown
    assert f"{written['cells']:,} / {written['learned']:,}" in shown


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--protocol", "forwards"], "prequential"),
        (["--choice", "guess"], "leaning"),
        (["--mechanism", "cell", "--protocol", "prequential"], "leave the protocol out"),
        (["--mechanism", "cell", "--scope", "41"], "the ratings are of 40 items; give 1 to 40"),
        (["--mechanism", "cell:5:2", "--epsilon", "2"], "the id contains epsilon"),
        (["--mechanism", "cell:9:2"], "5 levels"),
        (["--mechanism", "cell:5:2:2/8"], "cell:5:2:1/4"),
        (["--mechanism", "rr", "--thinning", "1/2"], "thinning"),
        (["--model", "deep"], "hashing"),
        (["--factors", "0"], "factors 0"),
        (["--mechanism", "none", "--epsilon", "1"], "epsilon"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(file, capsys, options, expected):
    assert run(["evaluate", str(file), *options]) == 2
    err = capsys.readouterr().err.strip()
    assert expected in err
    assert "\n" not in err


@pytest.mark.thorough
@pytest.mark.nightly
def test_likes_are_measured_by_log_loss_and_the_output_says_so(file, tmp_path, capsys):
    out = tmp_path / "likes.json"
    options = ["--mechanism", "like", "--epsilon", "4", "--scope", "12", "--factors", "2"]
    assert run(["evaluate", str(file), *options, "--json", str(out)]) == 0
    written, shown = json.loads(out.read_text()), capsys.readouterr().out
    assert written["mechanism"] == "like:5:4"
    assert 0 < written["log_loss"] < 1
    assert f"{written['log_loss']:.4f} nats a cell" in shown
    assert f"{written['cells']:,} / {written['likes_reported']:,}" in shown
    assert "no stars are reported" in shown
    assert "RMSE" not in shown


@pytest.mark.parametrize("scope", ["0", "-3", "99999"])
def test_a_scope_that_the_ratings_do_not_have_is_refused_by_its_name(file, capsys, scope):
    assert run(["evaluate", str(file), "--mechanism", "cell", "--scope", scope]) == 2
    assert re.search(rf"--scope {scope}: the ratings are of \d+ items", capsys.readouterr().err)


def test_one_rating_is_too_few_and_not_a_matter_of_the_sketch(tmp_path, capsys):
    (tmp_path / "one.csv").write_text("user,item,rating\nann,1,4\n")
    scale = ["--scale", "1", "5", "1"]
    assert run(["evaluate", str(tmp_path / "one.csv"), *scale]) == 1
    assert "at least 10 are needed" in capsys.readouterr().err


def test_a_learner_of_a_new_row_is_evaluated_by_its_name(file, tmp_path, monkeypatch):
    monkeypatch.setitem(LEARNERS, "item-means", ItemMeans)
    out = tmp_path / "out.json"
    options = ["--model", "item-means", "--mechanism", "none", "--json", str(out)]
    assert run(["evaluate", str(file), *options]) == 0
    written = json.loads(out.read_text())
    assert written["model"] == "item-means"
    assert written["rmse"] < 1.05 * written["rmse_baseline"]


@pytest.mark.parametrize("protocol", ["prequential", "one-pass"])
@pytest.mark.parametrize("mechanism", ["none", "rr:5:2", "partition:5:2"])
@pytest.mark.parametrize("model", CO_RATED)
def test_a_model_of_pairs_is_evaluated_by_its_name(file, tmp_path, protocol, mechanism, model):
    out = tmp_path / "out.json"
    options = ["--model", model, "--mechanism", mechanism, "--protocol", protocol]
    assert run(["evaluate", str(file), *options, "--json", str(out)]) == 0
    written = json.loads(out.read_text())
    assert (written["model"], written["protocol"]) == (model, protocol)
    assert written["mechanism"].startswith(mechanism)
    assert written["rmse"] < 1.3 * written["rmse_baseline"]


def test_a_model_of_pairs_needs_public_presence(file, capsys):
    assert run(["evaluate", str(file), "--model", "cosine", "--mechanism", "cell"]) == 2
    assert "--model cosine: counts who rated what, which this mechanism" in capsys.readouterr().err


def test_a_trainer_is_measured_with_its_own_epsilon(file, tmp_path, capsys):
    out = tmp_path / "out.json"
    options = ["--model", "noisy-cells", "--epsilon", "4", "--factors", "4", "--json", str(out)]
    assert run(["evaluate", str(file), *options]) == 0
    written = json.loads(out.read_text())
    assert written["protocol"] == "one-pass"
    assert 3.99 < written["epsilon"] <= 4
    assert "for one rating event, central" in written["mechanism"]
    assert "for one rating event, central" in " ".join(capsys.readouterr().out.split())


def test_a_trainer_as_printed_states_that_it_has_no_guarantee(file, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert run(["evaluate", str(file), "--model", "sgld-paper", "--json", str(out)]) == 0
    written = json.loads(out.read_text())
    assert written["epsilon"] is None
    assert written["mechanism"].startswith("no guarantee: as printed")
    assert "no guarantee" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mechanism", "rr"], "leave --mechanism rr out"),
        (["--protocol", "prequential"], "is measured one-pass"),
        (["--rank"], "predicts ratings alone"),
        (["--epsilon", "many"], "epsilon 'many': give 2, 0.5, 1/2 or inf"),
        (["--epsilon", "0"], "epsilon 0: must be above 0"),
    ],
)
def test_what_a_trainer_does_not_have_is_refused(file, capsys, options, message):
    assert run(["evaluate", str(file), "--model", "tree", *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())

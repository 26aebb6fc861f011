"""`murmurec tradeoff`: one picture, the same numbers as JSON, and its refusals."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from producers.datasets.synthetic import generate
from stream_app.cli import run
from stream_app.privacy import registry

FEW = ["--epsilons", "1,8", "--factors", "4", "--scope", "20"]


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file of made-up ratings, sorted by user."""
    dataset = generate(5, users=300, items=60, ratings=6000).dataset
    dataset = dataset.at(np.argsort(dataset.users, kind="stable"))
    file = tmp_path_factory.mktemp("data") / "made-up.csv"
    rows = zip(
        dataset.users.tolist(), dataset.items.tolist(), dataset.ratings.tolist(), strict=True
    )
    file.write_text("user,item,rating\n" + "".join(f"{u},{i},{r:g}\n" for u, i, r in rows))
    return file


def test_a_picture_and_its_numbers_are_written(
    environment: Callable[..., None], ratings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    assert run(["tradeoff", str(ratings), *FEW, "-o", "some.thing", "--scale", "1", "5", "1"]) == 0
    assert Path("some.thing.png").read_bytes().startswith(b"\x89PNG\r\n")
    found = json.loads(Path("some.thing.json").read_text())
    rows = {(row["family"], row["epsilon"]): row for row in found["accuracy"]}
    assert {family for family, _ in rows} == {"naive", *registry.protecting()} - {"like"}
    for family in ("rr", "partition", "cell", "ternary", "laplace"):
        assert rows[family, 8.0]["rmse"] < rows[family, 1.0]["rmse"] < 4
    likes = {row["epsilon"]: row for row in found["likes"]}
    assert likes[8.0]["log_loss"] < likes[1.0]["log_loss"] < 0.69
    assert likes[8.0]["log_loss_item_shares"] == likes[1.0]["log_loss_item_shares"]
    assert rows["rr", 1.0]["rmse"] < rows["naive", 1.0]["rmse"]
    assert rows["cell", 1.0]["adjacency"] == "cell"
    assert rows["rr", 1.0]["mechanism"] == "rr:5:1"
    volume = {(row["family"], row["epsilon"]): row["fake"] for row in found["volume"]}
    empty = found["items"] - found["ratings_per_user"]
    assert volume["cell", 1.0] == pytest.approx(empty * 5 / (2.718281828 + 5), rel=1e-6)
    assert volume["cell", 8.0] < volume["cell", 1.0]
    for row in found["sigma"]:
        assert row["analytic"] < row["paper"]
    captured = capsys.readouterr()
    assert "test RMSE" in captured.out
    assert "log-loss of the liked bit" in captured.out
    (warning,) = captured.err.splitlines()
    assert "made-up.csv: no times, and the rows are sorted by user" in warning
    # Without a cache of fonts matplotlib warns after 5 s, which only a slow machine needs.
    assert not logging.getLogger("matplotlib.font_manager").isEnabledFor(logging.WARNING)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--epsilons", "0"], "--epsilons: epsilon"),
        (["--epsilons", "1,x"], "--epsilons: epsilon"),
        (["--epsilons", ","], "give at least one"),
        (["--model", "forest"], "--model forest: choose one of"),
        (["--factors", "0"], "--factors 0: 1 to 256"),
        (["--scope", "0"], "--scope 0: at least 1"),
        (["--seed", "-1"], "--seed -1"),
        (["-o", "/"], "--output /: give a name"),
        (["-o", "no/such/folder/x"], "no/such/folder"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(
    arguments: list[str],
    sentence: str,
    environment: Callable[..., None],
    ratings: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment()
    assert run(["tradeoff", str(ratings), *arguments]) in (1, 2)
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err
    assert not list(Path().iterdir())

"""`murmurec.evaluate` over every protocol, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from murmurec import evaluate, mechanisms
from murmurec.evaluation import Options
from producers.datasets import synthetic
from producers.datasets.load import Dataset
from stream_app.cli import run


@pytest.fixture(scope="module")
def ratings() -> Dataset:
    return synthetic.generate(5, users=120, items=40, ratings=1500).dataset


@pytest.mark.parametrize(
    ("mechanism", "protocol"),
    [
        (None, "prequential"),
        ("rr:5:2", "prequential"),
        ("rr:5:2", "one-pass"),
        (mechanisms.parse("partition:5:2"), "prequential"),
    ],
    ids=str,
)
def test_a_protocol_measures_every_tested_rating(
    ratings: Dataset, mechanism: Any, protocol: str
) -> None:
    steps: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        steps.append((done, total))

    result = evaluate(
        ratings, mechanism, protocol=protocol, model="dense", factors=8, progress=progress
    )
    assert result.protocol == protocol
    assert result.events == (len(ratings) if protocol == "prequential" else result.events)
    assert steps[-1] == (result.learned, len(ratings))
    assert 0 < result.mae <= result.rmse < 4


@pytest.mark.parametrize("mechanism", [None, "cell:5:4"])
def test_hybrid_has_a_row_for_everybody(ratings: Dataset, mechanism: str | None) -> None:
    rmse = {
        model: evaluate(ratings, mechanism, model=model, factors=8).rmse
        for model in ("hybrid", "dense")
    }
    assert rmse["hybrid"] == pytest.approx(rmse["dense"], abs=1e-5)


def test_hidden_presence_is_measured_over_a_scope(ratings: Dataset) -> None:
    result = evaluate(ratings, "cell:5:4", model="dense", factors=8, options=Options(scope=10))
    assert (result.protocol, result.scope) == ("scope", 10)


def test_the_same_seed_gives_the_same_figure(ratings: Dataset) -> None:
    figures = {evaluate(ratings, "rr:5:1", factors=8, seed=s).rmse for s in (1, 1, 2)}
    assert len(figures) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"mechanism": "rr:10:2"}, "the ratings have 5 levels"),
        ({"mechanism": "cell:5:2", "protocol": "prequential"}, "leave the protocol out"),
        ({"mechanism": "cell:5:2", "options": Options(scope=0)}, "scope 0"),
        ({"mechanism": "cell:5:2", "options": Options(scope=10**6)}, "scope 1000000"),
        ({"protocol": "twice"}, "protocol twice"),
        ({"model": "deep"}, "model 'deep'"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_bad_arguments_are_refused(
    ratings: Dataset, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        evaluate(ratings, **arguments)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file of made-up ratings by many people, with genres and years beside it."""
    folder = tmp_path_factory.mktemp("data")
    dataset = synthetic.generate(5, users=150, items=30, ratings=1800).dataset
    rows = zip(dataset.users.tolist(), dataset.items.tolist(), dataset.ratings, strict=True)
    lines = [f"{user},{item},{stars},{when}" for when, (user, item, stars) in enumerate(rows)]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating,timestamp", *lines]) + "\n")
    titles = [f"{item},Item ({1970 + n}),{'abc'[n % 3]}" for n, item in enumerate(_items(dataset))]
    (folder / "movies.csv").write_text("\n".join(["movieId,title,genres", *titles]) + "\n")
    return folder / "ratings.csv"


def _items(dataset: Dataset) -> list[Any]:
    return sorted(set(dataset.items.tolist()))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"model": "noisy-cells"}, ["--model", "noisy-cells"]),
        ({"model": "sgld-paper", "epsilon": "inf"}, ["--model", "sgld-paper", "--epsilon", "inf"]),
        ({"mechanism": "rr:5:2"}, ["--mechanism", "rr"]),
    ],
    ids=str,
)
def test_the_figures_are_those_of_the_command(
    file: Path, tmp_path: Path, arguments: dict[str, Any], options: list[str]
) -> None:
    written = tmp_path / "out.json"
    given = ["--factors", "4", "--seed", "3", "--scale", "1", "5", "1", "--json", str(written)]
    assert run(["evaluate", str(file), *options, *given]) == 0
    expected = json.loads(written.read_text())
    found = asdict(evaluate(file, factors=4, seed=3, **arguments))
    for name in ("events", "rmse", "mae", "rmse_baseline", "epsilon"):
        assert found[name] == expected[name], name
    assert found.get("mechanism") == expected.get("mechanism")

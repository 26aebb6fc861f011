"""`murmurec.evaluate` over every protocol, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from murmurec import evaluate, mechanisms
from murmurec.evaluation import Options
from producers.datasets import synthetic
from producers.datasets.load import Dataset


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

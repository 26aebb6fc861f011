"""Without the data set, benchmarks on real ratings report that they were skipped and why."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.benchmarks import (
    accuracy,
    budget_plans,
    campaigns,
    cooccurrence,
    curves,
    edge_lists,
    learning,
    learning_peers,
    message_sizes,
    noise_once,
    retrieval,
    rounds,
    shard_lists,
    shards,
    similarity,
)
from tests.benchmarks.plots import plots
from tests.fixtures.movielens import load


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MURMUREC_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "module",
    [
        learning,
        accuracy,
        cooccurrence,
        curves,
        edge_lists,
        learning_peers,
        budget_plans,
        rounds,
        campaigns,
        noise_once,
        shards,
        shard_lists,
        similarity,
    ],
    ids=lambda m: m.__name__,
)
def test_a_benchmark_without_its_data_set_lists_that_it_was_skipped(module, folder: Path) -> None:
    assert load() is None
    (figure,) = module.measure()
    assert "skipped" in figure.name
    assert str(folder) in figure.name
    assert math.isnan(figure.value)
    assert figure.met is None


def test_the_generated_catalogues_are_measured_without_the_data_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrieval, "encoding", list)
    monkeypatch.setattr(retrieval, "selecting", lambda n: n)
    monkeypatch.setattr(retrieval, "searching", lambda size, *_: [size])
    monkeypatch.setattr(retrieval, "catalogue", lambda n: (n,))
    *figures, last = retrieval.measure()
    assert "300 items" in figures
    assert "skipped" in last.name


@pytest.mark.nightly
def test_messages_of_every_form_are_measured_without_the_data_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(message_sizes, "SIZES", {False: (1, 20), True: (2,)})
    monkeypatch.setattr(message_sizes, "MESSAGES", 40)
    figures = message_sizes.measure()
    assert [figure.name for figure in figures] == [
        "message decoded, packed, 1 rating",
        "message decoded, learned, packed, 1 rating",
        "message decoded, packed, 20 ratings",
        "message decoded, learned, packed, 20 ratings",
        "message decoded, JSON, 2 ratings",
        "message decoded, learned, JSON, 2 ratings",
    ]
    assert all(figure.value > 0 for figure in figures)
    (plot,) = plots(figures)
    assert {curve: len(points) for curve, points in plot.curves.items()} == {
        "decoded, packed": 2,
        "decoded, learned, packed": 2,
        "decoded, JSON": 1,
        "decoded, learned, JSON": 1,
    }

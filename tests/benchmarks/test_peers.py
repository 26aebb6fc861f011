"""Benchmarks beside other libraries, where the libraries are not installed: rows that say so."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from stream_app.wire import decode_many
from tests.benchmarks import (
    contest,
    decoding,
    learning_peers,
    mechanism_peers,
    search_peers,
    sketch_peers,
)
from tests.benchmarks.sketch_peers import expected_false_positive_ratio
from tests.fixtures.movielens import Ratings

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "peer", lambda module: None)


@pytest.fixture
def few() -> Ratings:
    rng = np.random.default_rng(1)
    users, items = rng.integers(0, 30, 600), rng.integers(0, 20, 600)
    return Ratings(
        users.astype(np.uint64), items.astype(np.uint64), rng.integers(0, 5, 600).astype(np.uint8)
    )


@pytest.mark.nightly
def test_without_peers_learning_measures_ours_and_names_them(
    monkeypatch: pytest.MonkeyPatch, few: Ratings
) -> None:
    monkeypatch.setattr(learning_peers, "load", lambda: few)
    monkeypatch.setattr(learning_peers, "FEW", 500)
    figures = {figure.name: figure for figure in learning_peers.measure()}
    absent = [name for name, figure in figures.items() if math.isnan(figure.value)]
    assert absent == [
        "River BiasedMF (skipped: river is not installed)",
        "surprise SVD, an epoch (skipped: surprise is not installed)",
        "implicit BPR, an epoch (skipped: implicit is not installed)",
        "implicit ALS, an epoch (skipped: implicit is not installed)",
    ]
    assert all(figures[name].met is None for name in absent)
    assert figures["sketch k=4, online"].value > 0
    assert "sketch k=4, online, times faster than naive Python, sketch k=4" in figures
    assert 0 < figures["prequential RMSE, dense, online"].value < 4
    assert not figures["prequential RMSE, dense, online"].target  # there is nobody to compare with


@pytest.mark.nightly
def test_without_opendp_mechanisms_are_measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism_peers, "MANY", 100)
    *ours, absent = mechanism_peers.measure()
    assert [figure.name for figure in ours][:2] == ["rr:5:2", "like:5:2"]
    assert all(figure.value > 0 for figure in ours)
    assert absent.name == "the same of OpenDP (skipped: opendp is not installed)"
    assert math.isnan(absent.value)


@pytest.mark.nightly
def test_without_peers_sketches_are_measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketch_peers, "KEYS", 2000)
    figures = {figure.name: figure for figure in sketch_peers.measure()}
    assert [name for name, figure in figures.items() if math.isnan(figure.value)] == [
        "the same of rbloom (skipped: rbloom is not installed)",
        "the same of datasketches (skipped: datasketches is not installed)",
    ]
    assert figures["Bloom filter, add"].value > 0
    assert figures["AMS add, 5 rows of 256"].value > 0
    assert figures["false positives, ours"].value < 0.03


def test_the_filter_is_the_smallest_that_keeps_the_ratio() -> None:
    size = sketch_peers.filter_bytes(2000, 0.01)
    assert expected_false_positive_ratio(2000, size) <= 0.01
    assert expected_false_positive_ratio(2000, size - 32) > 0.01


@pytest.mark.nightly
def test_without_peers_our_decoders_are_measured_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "peer", lambda module: None)
    monkeypatch.setattr(decoding, "SIZES", (2,))
    monkeypatch.setattr(decoding, "RECORDS", 20)
    monkeypatch.setattr(decoding, "REPEATS", 1)
    figures = {figure.name: figure for figure in decoding.measure()}
    absent = [name for name, figure in figures.items() if math.isnan(figure.value)]
    assert absent == [
        "decode by orjson (skipped: orjson is not installed)",
        "decode by simdjson (skipped: simdjson is not installed)",
    ]
    assert figures["message decoded by own scanner, 2 ratings"].value > 0
    run = decoding.run_of(2)
    batch = decode_many(run, decoding.INTAKE)
    checked = decoding.checked(run, msgspec.json.decode)
    expected = (batch.devices, batch.seqs, batch.mechanisms, batch.epochs, batch.counts)
    for theirs, ours in zip(checked, (*expected, batch.items, batch.reports), strict=True):
        assert np.array_equal(theirs, ours)


@pytest.mark.nightly
def test_without_peers_searches_measure_ours_and_name_them() -> None:
    figures = search_peers.measure((300,))
    rates = {figure.name for figure in figures if figure.unit == "queries/s"}
    assert rates == {f"search {name}, 300 items" for name in ("exact", "pca", "qoLSH", "numpy")}
    for unit in ("recall@10", "recall@100"):
        assert [figure.value for figure in figures if figure.unit == unit] == [1.0] * 4
    absent = [figure.name for figure in figures if math.isnan(figure.value)]
    assert absent == [
        f"search {module}, 300 items (skipped: {module} is not installed)"
        for module in ("faiss", "hnswlib")
    ]

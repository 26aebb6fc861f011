"""The scan of bytes finds what the plain sum of codes and weights says; bounds pass none over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.kernels.retrieval import pca_scan as scan
from stream_app.kernels.retrieval.top_k import shortened
from stream_app.models.retrieval.pca_index import PCAIndex

LOWEST = -(2**15)


def plain_estimates(index: PCAIndex, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the coarse and the full estimate of every row, from codes without groups."""
    groups = -(-index.size // scan.GROUP)
    coarse = index._coarse[: groups * scan.GROUP * (1 + scan.COARSE)].reshape(groups, -1, 32)
    fine = index._fine[: groups * scan.GROUP * scan.FINE].reshape(groups, -1, 32)
    w = weights.astype(np.int64)
    slots = index._slots[: index.size]
    by_slot = np.einsum("gcs,c->gs", coarse.astype(np.int64), w[: 1 + scan.COARSE]).ravel()
    more = np.einsum("gcs,c->gs", fine.astype(np.int64), w[1 + scan.COARSE :]).ravel()
    return by_slot[slots], (by_slot + more)[slots]


@pytest.mark.thorough
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([1, 31, 33, 500, 1500, 2600]),
    factors=st.sampled_from([1, 5, 16, 33]),
    spread=st.sampled_from([0.0, 1.0, 1e-30, 1e30]),
    long=st.sampled_from([1.0, 30.0, 1e6]),
    moved=st.integers(0, 40),
)
def test_no_item_that_reaches_the_thresholds_is_passed_over(
    seed, size, factors, spread, long, moved
):
    rng = np.random.default_rng(seed)
    vectors = (spread * rng.standard_normal((size, factors))).astype(np.float32)
    vectors[rng.integers(0, size)] *= np.float32(long)
    biases = rng.standard_normal(size).astype(np.float32)
    index = PCAIndex(factors)
    index.update(np.arange(size), vectors, biases)
    rows = np.unique(rng.integers(0, size, moved))
    index.update(rows, 2 * vectors[rows], -biases[rows])
    more = rng.integers(0, min(size, 40))
    index.update(np.arange(size, size + more), vectors[:more], biases[:more] + 3)
    weights = np.empty(scan.COLUMNS, np.int16)
    query = (rng.standard_normal(factors) / max(spread, 1e-30)).astype(np.float32)
    scan.weigh(query, index._axes, index._scales, weights)
    coarse, full = plain_estimates(index, weights)
    for share in (0.0, 0.5, 0.9, 1.0):
        coarse_least, least = (int(np.quantile(x, share)) for x in (coarse, full))
        found = scan.candidates(
            index._coarse, index._fine, index._top_biases, index._top_lengths, index._names,
            weights, index._scales, index.size, coarse_least, least, index._rows, index._keys,
        )  # fmt: skip
        names = index._rows[:found]
        assert len(set(names.tolist())) == found
        # A group with one such item is estimated as a whole.
        wanted = set(np.flatnonzero((coarse >= coarse_least) & (full >= least)).tolist())
        assert wanted <= set(names.tolist())
        assert (full[names] >= least).all()
        assert (index._keys[:found].astype(np.int64) - 2**15 == full[names]).all()
    everything = scan.candidates(
        index._coarse, index._fine, index._top_biases, index._top_lengths, index._names,
        weights, index._scales, index.size, LOWEST, LOWEST, index._rows, index._keys,
    )  # fmt: skip
    assert sorted(index._rows[:everything].tolist()) == list(range(index.size))


def test_most_groups_of_a_large_catalogue_are_not_read():
    """Of 2,000 groups, one in five can hold one of the best 100 (measured: 370)."""
    rng = np.random.default_rng(1)
    lengths = rng.gamma(4, 0.25, (64_000, 1))
    vectors = (lengths * rng.standard_normal((64_000, 8))).astype(np.float32)
    index = PCAIndex(8)
    index.update(np.arange(64_000), vectors, np.zeros(64_000, np.float32))
    weights = np.empty(scan.COLUMNS, np.int16)
    scan.weigh(vectors[5], index._axes, index._scales, weights)
    coarse, _ = plain_estimates(index, weights)
    least = np.sort(coarse)[-100]
    w = weights[: scan.COARSE] * index._scales[: scan.COARSE].astype(np.float64)
    bounds = index._top_lengths[:2000] * np.sqrt((w**2).sum())
    assert (bounds >= least).sum() < 600


@pytest.mark.parametrize("kinds", [1, 3, 2000])
def test_a_shortened_list_holds_the_highest(kinds):
    rng = np.random.default_rng(kinds)
    keys = rng.integers(0, 2**16, kinds)[rng.integers(0, kinds, 3000)].astype(np.uint64)
    rows = np.arange(3000)
    kept = shortened(keys, rows, 3000, 400)
    assert 400 <= kept <= 3000
    left = np.setdiff1d(np.arange(3000), rows[:kept])
    assert (np.diff(rows[:kept]) > 0).all()
    assert kept == 3000 or keys[left].max() < keys[rows[:kept]].min()
    if kinds == 2000:
        assert kept < 420

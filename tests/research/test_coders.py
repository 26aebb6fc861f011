"""Coders beside qoLSH: what each promises, against the obvious version or its own conditions."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from research.coders import (
    CODERS,
    AntiSparseCoder,
    ExhaustiveCoder,
    coder,
    reconstruct,
    signs_of,
)
from tests.fixtures.vectors import sphere


@pytest.mark.parametrize(("factors", "bits"), [(1, 1), (1, 4), (2, 2), (3, 7), (8, 16), (20, 33)])
@pytest.mark.parametrize("frame", ["qr", "gaussian"])
def test_an_anti_sparse_representation_satisfies_the_conditions_of_the_least(factors, bits, frame):
    """Wa = x, and a y with x . y = 1 that proves max |a| to be the least: 1 / sum |w_j . y|."""
    made = AntiSparseCoder(factors, bits, frame=frame)
    vectors = sphere(200, factors)
    W = made._W.astype(np.float64)
    for x, a in zip(vectors.astype(np.float64), made.represent(vectors), strict=True):
        x /= np.linalg.norm(x)
        np.testing.assert_allclose(W @ a, x, atol=1e-9)
        most = np.abs(a).max()
        inner = np.flatnonzero(np.abs(a) < most * (1 - 1e-9))
        assert len(inner) <= factors - 1
        y = np.linalg.lstsq(
            np.vstack([x, W[:, inner].T]), np.eye(1 + len(inner))[0], rcond=None
        )[0]  # fmt: skip
        sizes = W.T @ y
        assert np.abs(sizes).sum() == pytest.approx(1 / most, rel=1e-6)
        outer = np.setdiff1d(np.arange(bits), inner)
        assert (sizes[outer] * a[outer] >= -1e-9).all()


def test_an_anti_sparse_representation_is_the_least_of_all_corners():
    """At the least, all but d - 1 components are at +-m: every such choice is tried."""
    made = AntiSparseCoder(2, 5, frame="qr")
    W = made._W.astype(np.float64)
    vectors = sphere(30, 2)
    for x, a in zip(vectors.astype(np.float64), made.represent(vectors), strict=True):
        x /= np.linalg.norm(x)
        least = np.inf
        for (free,) in combinations(range(5), 1):
            others = [j for j in range(5) if j != free]
            for signs in product((-1, 1), repeat=4):
                # m W_others signs + W_free a_free = x
                matrix = np.column_stack([W[:, others] @ signs, W[:, free]])
                if abs(np.linalg.det(matrix)) > 1e-12:
                    m, other = np.linalg.solve(matrix, x)
                    if m > 0 and abs(other) <= m * (1 + 1e-9):
                        least = min(least, m)
        assert np.abs(a).max() == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize(("factors", "bits"), [(1, 1), (4, 3), (3, 8), (8, 10)])
def test_the_optimal_code_is_the_nearest_of_all(factors, bits):
    made = ExhaustiveCoder(factors, bits)
    vectors = sphere(100, factors)
    codes = made.encode(vectors)
    signs = np.array(list(product((-1.0, 1.0), repeat=bits)))
    images = signs @ made._W.T.astype(np.float64)
    every = images / np.linalg.norm(images, axis=1, keepdims=True)
    np.testing.assert_allclose(codes.objectives, (vectors @ every.T).max(axis=1), atol=1e-6)
    found = (reconstruct(made, codes) * vectors).sum(axis=1)
    np.testing.assert_allclose(codes.objectives, found, atol=1e-6)
    lengths = np.linalg.norm(signs_of(made, codes) @ made._W.T.astype(np.float64), axis=1)
    np.testing.assert_allclose(codes.lengths, lengths, rtol=1e-5)


def test_nothing_is_nearer_than_optimal_codes_and_more_work_is_better():
    vectors = sphere(5000, 8)
    found = {name: coder(name, 8, 16, 5).encode(vectors).objectives for name in CODERS}
    for name in CODERS[1:]:  # LSH has another frame
        assert (found[name] <= found["optimal"] + 1e-6).all()
    means = [found[name].mean() for name in CODERS]
    assert means == sorted(means)


@pytest.mark.parametrize("name", CODERS)
def test_every_coder_keeps_what_the_interface_says(name):
    made = coder(name, 5, 12, 4)
    vectors = 7 * sphere(37, 5)
    vectors[3] = 0
    codes = made.encode(vectors)
    assert codes.words.shape == (37, 1)
    assert codes.words.max() < 2**12
    assert (codes.norms == 0).tolist() == [i == 3 for i in range(37)]
    assert (codes.words[3, 0], codes.objectives[3]) == (2**12 - 1, 0)
    kept = codes.norms > 0
    np.testing.assert_allclose(codes.norms[kept], 7, rtol=1e-6)
    cosines = (reconstruct(made, codes) * vectors).sum(axis=1) / 7
    np.testing.assert_allclose(codes.objectives, np.where(kept, cosines, 0), atol=1e-5)
    alone = [made.encode(vector[None]).words[0, 0] for vector in vectors]
    assert codes.words[:, 0].tolist() == alone
    assert len(made.encode(vectors[:0]).words) == 0
    with pytest.raises(ValueError, match=r"use \(n, 5\)"):
        made.encode(vectors[:, :4])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: AntiSparseCoder(5, 4), "use 1 <= factors <= bits"),
        (lambda: AntiSparseCoder(0, 4), "use 1 <= factors <= bits"),
        (lambda: ExhaustiveCoder(8, 17), "code bits 17: use 1 to 16"),
        (lambda: ExhaustiveCoder(0, 8), "factors 0: use 1 to 4096"),
        (lambda: coder("itq", 8, 16), "coder 'itq': use lsh, "),
    ],
)
def test_what_cannot_be_encoded_is_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()

"""Features of items: the same numbers wherever they are computed."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from hashlib import blake2b

import numpy as np
import pytest

from stream_app.campaigns.features import RARE, features_of

NAMES = ("Action", "Comedy", "Drama", "War")


def described(items: int = 300, seed: int = 3) -> list[tuple[tuple[str, ...], int | None]]:
    random = np.random.default_rng(seed)
    flags = random.random((items, len(NAMES))) < [0.5, 0.3, 0.02, 0.2]
    years = np.where(random.random(items) < 0.9, random.integers(1920, 2001, items), 0)
    years[1] = 1605  # far from the others
    return [
        (tuple(name for name, has in zip(NAMES, row, strict=True) if has), int(year) or None)
        for row, year in zip(flags, years, strict=True)
    ]


def columns(rows: list[tuple[tuple[str, ...], int | None]]) -> np.ndarray:
    """Genres, standardised year and its square, in the obvious way."""
    known = np.array([year for _, year in rows if year])
    found = []
    for genres, year in rows:
        z = np.clip((year - known.mean()) / known.std(), -3, 3) if year else 0.0
        found.append([*(float(name in genres) for name in NAMES), z, z * z])
    return np.array(found)


def test_of_too_many_genres_those_of_most_items_are_kept() -> None:
    rows = [((f"genre {number:02}", "all"), None) for number in range(40)] + [(("genre 39",), None)]
    kept = ["all", *(f"genre {number:02}" for number in range(30)), "genre 39"]
    alone = [(tuple(name for name in names if name in kept), None) for names, _ in rows]
    assert len(kept) == 32
    assert np.array_equal(features_of(rows), features_of(alone))


def test_columns_have_no_mean_and_a_covariance_of_one_but_for_what_is_rare() -> None:
    rows = described()
    raw, found = columns(rows), features_of(rows)
    assert np.abs(found.mean(0)).max() < 1e-12
    covariance = np.cov(raw.T, bias=True)
    # A ridge on the features depends on them through their products alone.
    centred = raw - raw.mean(0)
    wanted = centred @ np.linalg.inv(covariance + RARE * np.eye(6)) @ centred.T
    # The year is rounded to a 64th.
    assert np.allclose(found @ found.T, wanted, rtol=0.01, atol=0.15)
    assert found.var(0).max() <= 1


def test_the_kernel_is_the_obvious_arithmetic_in_the_same_order() -> None:
    """The naive twin: exact sums as fractions, Cholesky and substitution item by item."""
    items = described(60)
    found = features_of(items)
    years = [year or 0 for _, year in items]
    flags = [[name in genres for name in NAMES] for genres, _ in items]
    known = [year for year in years if year]
    count, total = len(known), sum(known)
    spread = int(np.sqrt(float(count * sum(y * y for y in known) - total * total)))
    rows = []
    for year, row in zip(years, flags, strict=True):
        z = 0
        if year:
            z = min(max(((year * count - total) * 64 + spread // 2) // spread, -192), 192)
        rows.append([*map(int, row), Fraction(z, 64), Fraction(z * z, 4096)])
    width, n = len(rows[0]), len(rows)
    means = [sum((row[j] for row in rows), Fraction(0)) / n for j in range(width)]
    root = [[0.0] * width for _ in range(width)]
    for j in range(width):
        for k in range(j + 1):
            products = sum((row[j] * row[k] for row in rows), Fraction(0))
            left = float(products / n - means[j] * means[k]) + (RARE if j == k else 0.0)
            for i in range(k):
                left -= root[j][i] * root[k][i]
            root[j][k] = left**0.5 if j == k else left / root[k][k]
    for row, got in zip(rows, found.tolist(), strict=True):
        out: list[float] = []
        for j in range(width):
            value = float(row[j]) - float(means[j])
            for k in range(j):
                value -= root[j][k] * out[k]
            out.append(value / root[j][j])
        assert out == got


def test_the_same_features_give_the_same_bytes() -> None:
    """Digest of one machine: another one has to give the same."""
    found = features_of(described())
    assert blake2b(found.tobytes(), digest_size=8).hexdigest() == "7c46a99d3f9645b2"


def test_a_device_computes_them_without_a_compiler() -> None:
    code = "import stream_app.campaigns.features, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("rows", [[((), None)], [((), 1990)] * 3, [(("Drama",), 1990)] * 3])
def test_items_that_do_not_differ_have_no_features(rows) -> None:
    assert not features_of(rows).any()

"""The public table from sums: links, steps over a bridge, means; and nothing from noise alone."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.ranking.domains.noised import Noise, Terms, clear, similarity_table
from stream_app.ranking.domains.table_bytes import decode_table, encode_table
from stream_app.ranking.similarity.table import CoRatingTable, from_ratings
from tests.fixtures.similarity_tables import by_taste

TERMS = Terms(3, 1.0, 1e-6, 2.0)


def counted(counts: list[list[float]], sums: list[float]) -> CoRatingTable:
    n = len(counts)
    square = np.array(counts, np.float32)
    return CoRatingTable(
        9, np.arange(10, 10 + n, dtype=np.uint64), square, np.zeros((n, n), np.float32),
        np.zeros((n, n), np.float32), np.array(sums, np.float32), np.zeros(n, np.float32),
    )  # fmt: skip


def test_links_are_damped_cosines_of_what_is_above_the_noise() -> None:
    sums = counted([[9, 3, 1], [3, 4, 0], [1, 0, 2]], [27, 16, 2])
    table = similarity_table(sums, ["a", "b", "b"], Noise(1.0, 1.0), TERMS)
    assert table.domains == ("a", "b")
    assert table.targets[1, 0, :2].tolist() == [1, -1]  # 1 co-rater is not above 1.5 deviations
    assert table.similarities[1, 0, 0] == pytest.approx(3 / np.sqrt(10 * 5))
    assert table.means == pytest.approx(np.float32([3, 3 + 4 / 5, 3 - 4 / 3]))
    assert table.rates == pytest.approx(np.float32([9 / 15, 4 / 15, 2 / 15]))
    assert (table.version, table.release, table.spent) == (9, 3, 2.0)


def test_an_item_without_a_link_goes_over_a_bridge() -> None:
    """Item 0 of a goes with 1 of a, which goes with 2 of b; no user rated 0 and 2."""
    sums = counted([[9, 6, 0], [6, 9, 6], [0, 6, 9]], [27, 27, 27])
    table = similarity_table(sums, ["a", "a", "b"], Noise(0.1, 3.0), TERMS)
    assert table.targets[1, :, 0].tolist() == [2, 2, -1]
    assert table.similarities[1, :2, 0] == pytest.approx(np.float32([0.25, 0.5]))


def test_deviations_are_damped_means_of_differences() -> None:
    sums = from_ratings([1, 1, 2, 2], [7, 9, 7, 9], [5, 2, 4, 3], keys=[7, 9])
    table = similarity_table(sums, ["a", "b"], Noise(0.1, 2.0), TERMS)
    assert table.deviations[1, 0, 0] == pytest.approx(4 / 4)
    assert table.deviations[0, 1, 0] == pytest.approx(-4 / 4)


def test_sums_of_noise_alone_are_a_table_too(rng: np.random.Generator) -> None:
    n = 40
    noise = rng.normal(0, 1, (n, n))
    counts = (noise + noise.T) / np.sqrt(2)
    sums = counted(counts.tolist(), rng.normal(0, 1, n).tolist())
    table = similarity_table(sums, ["a", "b"] * (n // 2), Noise(1.0, 8.0), TERMS)
    kept = (counts > clear(n)) & ~np.eye(n, dtype=bool)
    steps = (table.similarities[:, :, 0] > 0).sum()
    assert kept.sum() < n
    assert steps < 2 * n
    assert len(decode_table(encode_table(table))) == n


def test_tables_of_any_sums_survive_their_bytes() -> None:
    table = by_taste()
    found = decode_table(encode_table(table))
    assert np.array_equal(found.targets, table.targets)
    assert np.abs(found.similarities - table.similarities).max() <= 0.5 / 255 + 1e-6
    assert np.abs(found.deviations - table.deviations).max() <= 0.5 / 31 + 1e-6

"""The public table from sums: directions above the noise, links, means; none from noise alone."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.ranking.domains.noised_similarities import (
    RIDGE,
    Noise,
    Terms,
    similarity_table,
    smoothed,
)
from stream_app.ranking.domains.table_bytes import decode_table, encode_table
from stream_app.ranking.similarity.table import CoRatingTable
from tests.fixtures.similarity_tables import by_taste

TERMS = Terms(3, 1.0, 1e-6, 2.0)


def counted(counts: list[list[float]], sums: list[float]) -> CoRatingTable:
    n = len(counts)
    square = np.array(counts, np.float32)
    return CoRatingTable(
        9, np.arange(10, 10 + n, dtype=np.uint64), square, np.zeros((n, n), np.float32),
        np.zeros((n, n), np.float32), np.array(sums, np.float32), np.zeros(n, np.float32),
    )  # fmt: skip


def test_directions_above_the_edge_are_kept_and_shrunk() -> None:
    """[[9, 6], [6, 9]] has 15 along (1, 1) and 3 along (1, -1), which is below the edge."""
    deviation = 4 / (2 * np.sqrt(2))  # keeps what is above 4 (1 + 2^(-2/3)) = 6.5
    strength = np.sqrt(15**2 - 4**2)
    entry = strength / (strength + RIDGE) / 2
    assert smoothed(np.array([[9, 6], [6, 9]]), deviation) == pytest.approx(np.full((2, 2), entry))
    both = smoothed(np.array([[9, 6], [6, 9]]), 0.0)
    apart = (15 / (15 + RIDGE) - 3 / (3 + RIDGE)) / 2
    assert both[0, 1] == pytest.approx(apart)


def test_links_are_the_largest_of_the_smoothed_counts() -> None:
    sums = counted([[9, 3, 1], [3, 4, 0], [1, 0, 2]], [27, 16, 2])
    table = similarity_table(sums, ["a", "b", "b"], Noise(0.0, 1.0), TERMS)
    similar = smoothed(sums.counts, 0.0)
    assert table.domains == ("a", "b")
    assert table.targets[1, 0, :3].tolist() == [1, 2, -1]
    assert table.similarities[1, 0, 0] == 1
    assert table.similarities[1, 0, 1] == pytest.approx(similar[0, 2] / similar[0, 1], rel=1e-6)
    assert table.means == pytest.approx(np.float32([3, 3 + 4 / 5, 3 - 4 / 3]))
    assert table.rates == pytest.approx(np.float32([9 / 15, 4 / 15, 2 / 15]))
    assert table.deviations[1, 0, :2] == pytest.approx(table.means[0] - table.means[1:])
    assert (table.version, table.release, table.spent) == (9, 3, 2.0)


def test_the_strongest_link_within_a_domain_is_one_and_none_is_to_itself() -> None:
    sums = counted([[9, 3, 1], [3, 4, 2], [1, 2, 8]], [27, 16, 2])
    table = similarity_table(sums, ["a", "a", "b"], Noise(0.0, 1.0), TERMS)
    assert all(item not in table.targets[:, item] for item in range(3))
    assert table.targets[0, :2, 0].tolist() == [1, 0]
    assert table.similarities[0, :2, 0] == pytest.approx(
        [1, 1]
    )  # not less than an item's with itself


def test_an_item_is_linked_to_what_no_user_rated_with_it() -> None:
    """Item 0 of a goes with 1 of a, which goes with 2 of b; no user rated 0 and 2."""
    sums = counted([[9, 6, 0], [6, 9, 6], [0, 6, 9]], [27, 27, 27])
    table = similarity_table(sums, ["a", "a", "b"], Noise(3.0, 3.0), TERMS)
    assert table.targets[1, :, 0].tolist() == [2, 2, -1]
    assert table.similarities[1, 0, 0] == pytest.approx(np.sqrt(0.5))  # along (1, sqrt 2, 1)


def test_structure_below_the_noise_of_single_pairs_is_found(rng: np.random.Generator) -> None:
    """Two tastes of 100 items each: a pair of one taste counts 1, under noise of deviation 2."""
    n, deviation = 200, 2.0
    same = np.equal.outer(np.arange(n) % 4 // 2, np.arange(n) % 4 // 2)
    counts = np.where(same, 1.0, 0.0) + gaussian(rng, n, deviation)
    table = similarity_table(
        counted(counts.tolist(), [0.0] * n), ["a", "b"] * (n // 2), Noise(deviation, 8.0), TERMS
    )
    found = table.targets[1, ::2]
    right = same[np.arange(0, n, 2)[:, None], found]
    single = np.argsort(-counts[::2, 1::2], axis=1)[:, :10] * 2 + 1
    assert np.where(found >= 0, right, False)[:, :10].mean() > 0.9
    assert same[np.arange(0, n, 2)[:, None], single].mean() < 0.8


def test_noise_alone_gives_no_links(rng: np.random.Generator) -> None:
    """By chance in 1 of 100 draws: more than 3 of 20 do in 1 of 20,000 runs."""
    n, linked = 100, 0
    for _ in range(20):
        counts = gaussian(rng, n, 1.0)
        sums = counted(counts.tolist(), rng.normal(0, 1, n).tolist())
        table = similarity_table(sums, ["a", "b"] * (n // 2), Noise(1.0, 8.0), TERMS)
        assert len(decode_table(encode_table(table))) == n
        linked += bool((table.targets >= 0).any() or table.is_bridged("a", "b"))
    assert linked <= 3


def gaussian(rng: np.random.Generator, n: int, deviation: float) -> np.ndarray:
    noise = rng.normal(0, deviation, (n, n))
    return (noise + noise.T) / np.sqrt(2)


def test_tables_of_any_sums_survive_their_bytes() -> None:
    table = by_taste()
    found = decode_table(encode_table(table))
    assert np.array_equal(found.targets, table.targets)
    assert np.abs(found.similarities - table.similarities).max() <= 0.5 / 255 + 1e-6
    assert np.abs(found.deviations - table.deviations).max() <= 0.5 / 31 + 1e-6

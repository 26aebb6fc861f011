"""The noise table: integer counts near the discrete Gaussian, drawn exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from research.profiles.noise_table import TOTAL, NoiseTable
from stream_app.privacy.randomness import SystemSource

ALPHA = 1e-6
VARIANCES = [Fraction(4), Fraction(325, 64), Fraction(50), Fraction(4976)]
every = pytest.mark.parametrize("variance", VARIANCES, ids=str)


@every
def test_counts_are_symmetric_fall_and_sum_to_all_words(variance: Fraction) -> None:
    table = NoiseTable(variance)
    assert 2 * sum(table.counts) - table.counts[0] == TOTAL
    assert list(table.counts) == sorted(table.counts, reverse=True)
    assert 1 <= table.counts[-1] <= TOTAL / 2**69
    assert table.second_moment == pytest.approx(float(variance), rel=1e-12)


@every
def test_probabilities_are_those_of_the_discrete_gaussian(variance: Fraction) -> None:
    table = NoiseTable(variance)
    n = np.arange(-table.reach, table.reach + 1)
    weight = np.exp(-(n**2) / (2 * float(variance)))
    expected = np.log(weight / weight.sum())
    np.testing.assert_allclose(table.log_probabilities(n), expected, rtol=0, atol=1e-9)
    assert table.log_probabilities(np.array([table.reach + 1, -10 * table.reach])).max() == -np.inf


def test_a_draw_is_the_row_in_whose_words_it_falls() -> None:
    table = NoiseTable(Fraction(4))
    counts = table.counts[:0:-1] + table.counts
    ends = np.cumsum(np.array(counts, object))
    picked = [0, 1, TOTAL // 2, TOTAL - 1]
    picked += [int(end) + off for end in ends[:-1] for off in (-1, 0, 1)]
    words = np.array([[pick >> 64, pick % 2**64] for pick in picked], np.uint64)
    found = table.sample(words.reshape(-1))
    expected = [int((ends <= pick).sum()) - table.reach for pick in picked]
    assert found.tolist() == expected


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [Fraction(4), Fraction(50)], ids=str)
def test_draws_follow_the_counts(variance: Fraction) -> None:
    """Bernstein for every value with 10 expected draws or more; false alarm below 1e-6.

    Power: a variance of a tenth more moves the count of 0 by 5 percent, ten times what is allowed.
    """
    draws = 400_000
    assert not _departs(NoiseTable(variance), NoiseTable(variance), draws)
    assert _departs(NoiseTable(variance), NoiseTable(variance * Fraction(11, 10)), draws)


def _departs(claimed: NoiseTable, used: NoiseTable, draws: int) -> bool:
    noise = used.sample(SystemSource().words(2 * draws))
    values = np.arange(-claimed.reach, claimed.reach + 1)
    p = np.exp(claimed.log_probabilities(values))
    values, p = values[p * draws >= 10], p[p * draws >= 10]
    depth = math.log(2 * 2 * len(values) / ALPHA)
    allowed = depth / 3 + np.sqrt((depth / 3) ** 2 + 2 * draws * p * (1 - p) * depth)
    counts = np.array([int((noise == value).sum()) for value in values])
    return bool((np.abs(counts - draws * p) > allowed).any())


@pytest.mark.parametrize("variance", [Fraction(3), Fraction(2**23 + 1)], ids=str)
def test_noise_that_the_table_cannot_hold_is_refused(variance: Fraction) -> None:
    with pytest.raises(ValueError, match="2 to 2896"):
        NoiseTable(variance)

"""The fast sampler against the law that it claims: thresholds, ties, tails and counts of draws."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.privacy.gaussian.keyed_source import KeyedSource
from stream_app.privacy.gaussian.sampling import (
    GaussianTable,
    cumulative,
    discrete_gaussian,
    gaussian_table,
    resolve,
)
from stream_app.privacy.randomness import SeededSource, SystemSource
from tests.naive import gaussian as naive
from tests.naive.exact_samplers import Words
from tests.naive.exact_samplers import discrete_gaussian as rational
from tests.stream_app.privacy.exact.test_samplers import strange

ALPHA = 1e-6
VARIANCES = [Fraction(4), Fraction(325, 64), Fraction(50), Fraction(4976), Fraction(10**6, 33)]
every = pytest.mark.parametrize("variance", VARIANCES, ids=str)


class Given:
    """Given words, and a failure where more are asked for."""

    unsafe = True

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count <= len(self.left), "more words than were given"
        found, self.left = self.left[:count], self.left[count:]
        return np.array(found, np.uint64)


def drawn(variance: Fraction, *words: int) -> int:
    """Return the draw of a first word and those after it, and see that all were needed."""
    source = Given(*words)
    (found,) = discrete_gaussian(variance, 1, source)
    assert not source.left
    return int(found)


def digits_of(share: Decimal, count: int) -> int:
    with localcontext(prec=naive.DIGITS):
        return int((share * 2**count).to_integral_value(ROUND_FLOOR))


@every
def test_a_threshold_is_the_first_63_digits_of_the_distribution(variance: Fraction) -> None:
    table, below = GaussianTable(variance), naive.distribution(variance)
    expected = [digits_of(share, 63) for share in below[: table.reach + 1]]
    assert table.thresholds.tolist() == expected
    assert expected[-1] == 2**63 - 1 > expected[-2]


@pytest.mark.parametrize("deviation", [2**14, pytest.param(2**16, marks=pytest.mark.nightly)])
def test_a_wide_table_has_the_digits_of_the_distribution_too(deviation: int) -> None:
    """The weights as products of decimals, and some of them as exponentials of their own."""
    variance, table = Fraction(deviation**2), gaussian_table(Fraction(deviation**2))
    with localcontext(prec=60):
        ratio = (-1 / (2 * Decimal(deviation) ** 2)).exp()
        square, weight, total, sums = ratio * ratio, Decimal(1), Decimal(1), [Decimal(1)]
        for n in range(1, 13 * deviation):
            weight, ratio = weight * ratio, ratio * square
            total += 2 * weight
            sums.append(total)
            if n % deviation == 0:
                exact = (-Decimal(n * n) / (2 * Decimal(deviation) ** 2)).exp()
                assert abs(weight / exact - 1) < Decimal("1e-45")
        for m in (*range(50), *range(50, table.reach, 997), table.reach):
            assert table.thresholds[m] == int(sums[m] / total * 2**63)
    assert variance == table.variance


@every
@pytest.mark.parametrize("wanted", [40, 104, 300])
def test_the_distribution_is_between_its_bounds_and_these_are_close(
    variance: Fraction, wanted: int
) -> None:
    bounds, below = cumulative(variance, wanted), naive.distribution(variance)
    with localcontext(prec=naive.DIGITS):
        whole, error = Decimal(2) ** bounds.bits, Decimal("1e-58")
        for low, high, share in zip(bounds.low, bounds.high, below, strict=False):
            assert low / whole <= share + error
            assert high / whole >= share - error
            assert 0 <= high - low < 2 ** (bounds.bits - wanted - 20)
    assert (1 << bounds.bits) - bounds.low[-1] < 2 ** (bounds.bits - wanted)


def test_a_threshold_that_is_another_is_caught() -> None:
    table = GaussianTable(Fraction(50))
    table.check()
    for place in (0, 20, table.reach):
        for off in (-1, 1):
            changed = table.thresholds.astype(np.uint64) + np.uint64(off % 2**64)
            mutant = GaussianTable(Fraction(50))
            thresholds = table.thresholds.copy()
            thresholds[place] = changed.view(np.int64)[place]
            object.__setattr__(mutant, "thresholds", thresholds)
            with pytest.raises(ValueError, match="a threshold is not the law's"):
                mutant.check()


@every
def test_a_draw_is_the_place_of_its_digits_with_the_sign_of_its_lowest_bit(
    variance: Fraction,
) -> None:
    table, below = GaussianTable(variance), naive.distribution(variance)
    ends = [int(end) + off for end in table.thresholds[:-1] for off in (-1, 1)]
    chosen = [0, 1, 2**62, *ends[:: max(1, len(ends) // 500)], *ends[-60:]]
    digits = [u for u in chosen if u not in set(table.thresholds.tolist())]
    words = [2 * u + u % 2 for u in digits]
    found = table.sample(np.array(words, np.uint64), Given())
    with localcontext(prec=naive.DIGITS):
        expected = [naive.place(Decimal(u) / 2**63, below) for u in digits]
    assert found.tolist() == [-m if u % 2 else m for m, u in zip(expected, digits, strict=True)]


@every
def test_a_word_that_meets_a_threshold_is_decided_by_further_digits(variance: Fraction) -> None:
    table, below = GaussianTable(variance), naive.distribution(variance)
    for m in {0, 1, 3, table.reach // 2, table.reach - 1}:
        u = int(table.thresholds[m])
        more = digits_of(below[m], 127) - (u << 64)
        assert drawn(variance, 2 * u, more - 1) == m
        assert drawn(variance, 2 * u + 1, more - 1) == -m
        assert drawn(variance, 2 * u, more + 1) == m + 1
        # 127 digits that are those of A(m), too: a third word decides.
        most = digits_of(below[m], 191) - (u << 128) - (more << 64)
        assert drawn(variance, 2 * u, more, most - 1) == m
        assert drawn(variance, 2 * u + 1, more, most + 1) == -m - 1


@every
def test_the_tail_beyond_the_table_has_its_probability(variance: Fraction) -> None:
    table, below = GaussianTable(variance), naive.distribution(variance)
    last = 2**63 - 1
    enough = 2**127 - 2**8  # digits; beyond it 127 of them leave the place open
    beyond = [m for m in range(table.reach, len(below)) if digits_of(below[m], 127) < enough]
    for m in beyond[:: max(1, len(beyond) // 8)]:
        more = digits_of(below[m], 127) - (last << 64)
        assert drawn(variance, 2 * last, more - 1) == m
        assert drawn(variance, 2 * last + 1, more + 1) == -m - 1
    assert len(beyond) >= 6
    far = drawn(variance, 2 * last, 2**64 - 1, 2**63)
    assert far > 12 * math.sqrt(variance)
    with localcontext(prec=naive.DIGITS):
        u = 1 - Decimal(2**63) / Decimal(2) ** 191
        assert far == naive.place(u, below)


def test_many_ties_in_one_block_take_their_words_in_order() -> None:
    table = gaussian_table(Fraction(50))
    u = [int(table.thresholds[m]) for m in (2, 5)]
    words = np.array([2 * u[0], 2 * 2**62, 2 * u[1] + 1], np.uint64)
    found = table.sample(words, Given(0, 2**64 - 1))
    assert found.tolist() == [2, int(np.searchsorted(table.thresholds, 2**62)), -6]


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [Fraction(4), Fraction(50), Fraction(10**4)], ids=str)
def test_draws_have_the_law(variance: Fraction) -> None:
    """Chi-square over 401 cells; false alarm 1e-6. Power: a variance 5 percent smaller is seen."""
    draws = 400_000
    found = discrete_gaussian(variance, draws, SystemSource())
    assert not _departs(found, variance)
    assert _departs(found, variance * Fraction(95, 100))
    assert _departs(np.abs(found), variance)


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [Fraction(4), Fraction(50)], ids=str)
def test_the_rational_sampler_has_the_same_law(variance: Fraction) -> None:
    """Canonne et al. 2020, algorithm 3, in the cells of the fast one; false alarm 1e-6. Power: a
    variance a fifth larger is seen."""
    words = Words(SystemSource())
    found = np.array([rational(variance, words) for _ in range(10_000)])
    assert not _departs(found, variance)
    assert _departs(found, variance * Fraction(5, 6))


def _departs(found: NDArray[np.int64], variance: Fraction) -> bool:
    width = max(1, round(math.sqrt(variance) / 40))
    each = [float(weight) for weight in naive.weights(variance)]
    law = np.array([*each[:0:-1], *each])
    reach, law = len(each) - 1, law / law.sum()
    cells = (np.arange(-reach, reach + 1) + width // 2) // width
    low = cells[0]
    counts = np.bincount((found + width // 2) // width - low, minlength=cells[-1] - low + 1)
    return strange(counts, np.bincount(cells - low, weights=law), ALPHA)


def test_draws_are_a_function_of_the_words_for_any_size_of_the_request() -> None:
    whole = discrete_gaussian(Fraction(900), 40_000, KeyedSource(bytes(32)))
    assert (
        discrete_gaussian(Fraction(900), 20_001, KeyedSource(bytes(32))) == whole[:20_001]
    ).all()
    source = KeyedSource(bytes(32))
    parts = [discrete_gaussian(Fraction(900), size, source) for size in (1, 16_384, 0, 23_615)]
    assert (np.concatenate(parts) == whole).all()


def test_pinned_draws_are_those_of_every_machine() -> None:
    found = discrete_gaussian(Fraction(10**6), 6, KeyedSource(b"murmurec" * 4))
    assert found.dtype == np.int64
    assert found.tolist() == PINNED
    assert gaussian_table(Fraction(10**6)).digest == DIGEST


PINNED = [-1744, -1905, -214, -1116, -181, -723]
DIGEST = "34296ae5132d6806"


def test_the_noise_of_one_vector_does_not_repeat_in_another() -> None:
    source = SeededSource(3)
    first, second = (discrete_gaussian(Fraction(100), 1000, source) for _ in range(2))
    assert (first != second).any()
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / math.sqrt(1000)


@pytest.mark.parametrize("variance", [Fraction(399, 100), Fraction(2**32) + 1, Fraction(-1)])
def test_noise_that_the_table_cannot_hold_is_refused(variance: Fraction) -> None:
    with pytest.raises(ValueError, match="must be 4 to 4294967296"):
        discrete_gaussian(variance, 1, SystemSource())


def test_a_resolved_place_needs_its_digits_to_be_certain() -> None:
    """All digits ones: no number of them is certain, so every further word is asked for."""
    with pytest.raises(AssertionError, match="more words"):
        resolve(Fraction(4), 2**63 - 1, Given(2**64 - 1, 2**64 - 1))

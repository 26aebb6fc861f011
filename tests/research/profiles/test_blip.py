"""BLIP: the claim by exact enumeration, what is released, and the edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from research.profiles.blip import Blip
from stream_app.privacy.exact.integer_tables import TOTAL, compile_table, compiled_ratio, exp_bounds
from stream_app.privacy.randomness import SeededSource

THESIS = {59: 0.0497, 28: 0.1978, 17: 0.2994, 8: 0.4013, 6: 0.4256, 5: 0.4378, 3: 0.4626, 2: 0.4750}
SMALL = Blip(8, 2, Fraction(2))
ITEMS = np.array([1, 2, 3, 7, 11], np.uint64)
EVERY_OUTPUT = np.arange(256, dtype=np.uint8)[:, None]


@dataclass
class Counting:
    """A seeded source that counts what is asked of it."""

    unsafe: bool = True
    asked: list[int] = field(default_factory=list)

    def words(self, count: int) -> np.ndarray:
        self.asked.append(count)
        return SeededSource(1).words(count)


def exact(mechanism: Blip, items: np.ndarray) -> list[int]:
    """P(output | items) * 2^512 of all 256 outputs, bit by bit from the counts of the table."""
    table = mechanism._table
    assert table is not None
    clear = mechanism.filter(items).tolist()
    return [
        math.prod(table.counts[was][output >> bit & 1] for bit, was in enumerate(clear))
        for output in range(256)
    ]


def worst_exact(mechanism: Blip) -> Fraction:
    """The worst quotient of two profiles that differ in one item, at any of all 256 outputs."""
    profiles = [np.array(p, np.uint64) for n in range(5) for p in combinations(ITEMS.tolist(), n)]
    worst = 1, 1
    for profile in profiles:
        before = exact(mechanism, profile)
        for item in ITEMS[~np.isin(ITEMS, profile)]:
            for a, b in zip(before, exact(mechanism, np.append(profile, item)), strict=True):
                worst = max(worst, (a, b), (b, a), key=lambda pair: pair[0] / pair[1])
    return Fraction(*worst)


def with_table(mechanism: Blip, epsilon_of_a_bit: Fraction) -> Blip:
    """A mechanism whose bits are flipped for another epsilon than it claims: a mutant."""
    ratio = compiled_ratio(epsilon_of_a_bit)
    made = Blip(mechanism.length, mechanism.hashes, mechanism.epsilon)
    object.__setattr__(made, "_table", compile_table([[ratio, 1], [1, ratio]]))
    return made


@pytest.mark.parametrize(("epsilon", "flip"), THESIS.items())
def test_bits_are_flipped_as_often_as_the_thesis_lists(epsilon: int, flip: float) -> None:
    assert float(Blip(5000, 20, Fraction(epsilon)).flip) == pytest.approx(flip, abs=5e-5)


def test_no_output_distinguishes_two_neighbouring_profiles_by_more_than_epsilon() -> None:
    worst = worst_exact(SMALL)
    assert worst <= exp_bounds(Fraction(2))[0]
    # Tight: an item with two positions of its own uses all of it.
    assert float(worst) == pytest.approx(math.exp(2), rel=1e-9)


def test_an_epsilon_that_ignores_the_number_of_hashes_is_caught() -> None:
    mutant = with_table(SMALL, Fraction(2))  # 2 a bit, so 4 an item
    assert worst_exact(mutant) > exp_bounds(Fraction(2))[1]


def test_the_likelihood_is_that_of_the_table_and_sums_to_one() -> None:
    profile = ITEMS[:3]
    found = np.exp([SMALL.log_likelihood(output, profile) for output in EVERY_OUTPUT])
    expected = exact(SMALL, profile)
    np.testing.assert_allclose(found, [count / TOTAL**8 for count in expected], rtol=1e-12)
    assert sum(expected) == TOTAL**8


def test_a_release_has_one_size_and_takes_one_word_a_bit_whatever_the_profile_is() -> None:
    mechanism, source = Blip(1003, 20, Fraction(8)), Counting()
    for size in (0, 1, 700):
        released = mechanism.release(np.arange(size, dtype=np.uint64), source)
        assert released.shape == (mechanism.profile_bytes,) == (126,)
        assert released[-1] >> (1003 - 125 * 8) == 0  # unused bits
    assert source.asked == [1003] * 3


def test_unused_bits_cannot_come_out_set() -> None:
    mechanism = Blip(9, 2, Fraction(2))
    assert mechanism.log_likelihood(np.array([255, 3], np.uint8), ITEMS) == -math.inf
    assert mechanism.log_likelihood(np.array([255, 1], np.uint8), ITEMS) > -math.inf


def test_two_releases_of_one_profile_have_noise_of_their_own() -> None:
    mechanism, source = Blip(5000, 20, Fraction(8)), SeededSource(1)
    first, second = (mechanism.release(ITEMS, source) for _ in range(2))
    # Bits of independent noise differ with probability 2 p (1 - p) = .48; reused noise never.
    assert 2200 < int(np.unpackbits(first ^ second).sum()) < 2600


def test_without_epsilon_the_filter_itself_is_released_and_nothing_is_claimed() -> None:
    mechanism = Blip(64, 4, None)
    released = mechanism.release(ITEMS, SeededSource(1))
    np.testing.assert_array_equal(mechanism.bits(released[None])[0], mechanism.filter(ITEMS))
    assert mechanism.id == "blip:64:4:inf"
    assert mechanism.log_likelihood(released, ITEMS) == 0
    assert mechanism.log_likelihood(released, ITEMS[:1]) == -math.inf


def test_epsilon_zero_releases_uniform_bits_and_estimates_nothing() -> None:
    mechanism = Blip(64, 4, Fraction(0))
    assert mechanism.flip == Fraction(1, 2)
    released = mechanism.release(ITEMS, SeededSource(1))[None]
    read = mechanism.coordinates(released)
    assert mechanism.no_estimate == "the bits are uniform at epsilon 0"
    assert np.isnan(mechanism.sizes(read, 1682)).all()
    assert mechanism.size_variance(10) == math.inf
    assert Blip(64, 4, Fraction(1)).no_estimate == ""


def test_without_noise_sizes_and_overlaps_are_near_the_truth() -> None:
    mechanism = Blip(5000, 20, None)
    a, b = np.arange(100, dtype=np.uint64), np.arange(50, 250, dtype=np.uint64)
    source = SeededSource(1)
    released = np.stack([mechanism.release(p, source) for p in (a, b, a[:0])])
    sizes = mechanism.sizes(mechanism.coordinates(released), 1682)
    np.testing.assert_allclose(sizes, [100, 200, 0], atol=8)
    np.testing.assert_allclose(mechanism.overlaps(released, released)[0], [100, 50, 0], atol=8)


def test_sizes_stay_between_nothing_and_the_catalogue() -> None:
    mechanism = Blip(64, 4, Fraction(2))
    extremes = np.array([[0] * 8, [255] * 8], np.uint8)
    assert mechanism.sizes(mechanism.coordinates(extremes), 30).tolist() == [0, 30]


@pytest.mark.statistical
def test_the_overlap_of_two_profiles_scatters_as_is_known() -> None:
    """At the thesis' setting and epsilon 8, 106 items each and 50 in common: mean 48, deviation 43.

    Of 300 pairs mean and deviation have deviations of 2.7 and 2.2 and may be off by 16 and 13, five
    of them. Power: without 1/(1 - 2p) the overlap would be near 0.
    """
    mechanism, source = Blip(5000, 20, Fraction(8)), SeededSource(7)
    items = np.arange(1_000_000, 1_000_162, dtype=np.uint64)
    pairs = (items[:106], items[56:])
    first, second = (np.stack([mechanism.release(p, source) for _ in range(300)]) for p in pairs)
    found = np.concatenate(
        [mechanism.overlaps(a[None], b[None])[0] for a, b in zip(first, second, strict=True)]
    )
    assert found.mean() == pytest.approx(48, abs=16)
    assert found.std() == pytest.approx(43, rel=0.3)
    sizes = mechanism.sizes(mechanism.coordinates(first), 1682)
    assert sizes.mean() == pytest.approx(106, abs=16)
    assert sizes.std() == pytest.approx(math.sqrt(mechanism.size_variance(106)), rel=0.5)


@pytest.mark.parametrize(
    ("length", "hashes", "epsilon", "message"),
    [
        (7, 2, Fraction(1), "8 to 524288 bits"),
        (True, 2, Fraction(1), "8 to 524288 bits"),
        (64, 0, Fraction(1), "1 to 64 per item"),
        (64, 65, Fraction(1), "1 to 64 per item"),
        (64, 2, Fraction(-1), "epsilon -1: 0 to 64"),
        (64, 2, Fraction(65), "epsilon 65: 0 to 64"),
        (64, 2, Fraction(1, 10**7), "at most six decimals"),
        (64, 2, 2.0, "give an exact number"),
        (64, 2, math.nan, "give an exact number"),
        (64, 1, Fraction(17), "use more hashes"),
    ],
)
def test_what_is_out_of_range_is_refused(
    length: int, hashes: int, epsilon: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Blip(length, hashes, epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (np.array([1, 1], np.uint64), "twice"),
        (np.arange(3), "uint64"),
        ([1, 2], "uint64"),
        (np.zeros((2, 2), np.uint64), "uint64"),
    ],
)
def test_what_is_no_profile_is_refused_before_a_word_is_drawn(items: object, message: str) -> None:
    source = Counting()
    with pytest.raises(ValueError, match=message):
        SMALL.release(items, source)  # type: ignore[arg-type]
    assert source.asked == []


def test_profiles_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(m, 1\) bytes"):
        SMALL.bits(np.zeros((2, 3), np.uint8))

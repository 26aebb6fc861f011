"""JLT: the sensitivity as a fact of integers, the claim, what is released, and the edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from research.profiles.jlt import JltPaper, lemma_variance
from research.profiles.profile_mechanism import posterior_sizes
from stream_app.privacy.exact.gaussian_calibration import analytic_variance
from stream_app.privacy.exact.integer_tables import exp_bounds
from stream_app.privacy.randomness import SeededSource

MICRO = Fraction(1, 10**6)
THESIS = {  # epsilon: sigma, at delta = 1/10 (Balu 2016, section 3.5.1)
    "3": 2, "2": 3, "1": 6, "3/4": 8, "1/2": 12, "1/4": 24, "1/10": 61,
}  # fmt: skip
SMALL = JltPaper(64, Fraction(2), MICRO)
ITEMS = np.array([1, 2, 3, 7, 11], np.uint64)


@dataclass
class Counting:
    """A seeded source that counts what is asked of it."""

    unsafe: bool = True
    asked: list[int] = field(default_factory=list)

    def words(self, count: int) -> np.ndarray:
        self.asked.append(count)
        return SeededSource(1).words(count)


def test_one_item_more_moves_every_coordinate_by_exactly_one() -> None:
    before = SMALL.project(ITEMS)
    for item in range(50, 80):
        moved = SMALL.project(np.append(ITEMS, np.uint64(item))) - before
        assert set(np.abs(moved).tolist()) == {1}
    assert (SMALL.project(ITEMS[:0]) == 0).all()


@pytest.mark.parametrize(
    ("epsilon", "analytic", "lemma"),
    [
        ("1/10", 38.6, 149),
        ("1/2", 8.57, 29.7),
        ("1", 4.49, 14.9),
        ("2", 2.37, 7.4),
        ("3", 1.64, 5.0),
        ("6", 0.89, 2.5),
    ],
)
def test_the_lemma_of_the_thesis_takes_three_times_the_noise_or_more(
    epsilon: str, analytic: float, lemma: float
) -> None:
    # The codewords of the thesis have lengths up to 1.063 at L = 1000.
    needed = 1.063 * math.sqrt(analytic_variance(Fraction(epsilon), MICRO))
    assert needed == pytest.approx(analytic, rel=0.004)
    taken = math.sqrt(lemma_variance(Fraction(epsilon), MICRO))
    assert taken == pytest.approx(lemma, rel=0.01)
    assert 2.7 < taken / needed < 4


def test_the_lemma_is_rounded_up() -> None:
    for epsilon, delta in (("6", 10), ("1/10", 10), ("2", 10**6)):
        exact = 16 * math.log(delta) / float(Fraction(epsilon)) ** 2
        found = lemma_variance(Fraction(epsilon), Fraction(1, delta))
        assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "sigma"), THESIS.items())
def test_the_reproduction_has_the_noise_that_the_thesis_lists(epsilon: str, sigma: float) -> None:
    mechanism = JltPaper(1000, Fraction(epsilon), Fraction(1, 10))
    assert math.sqrt(mechanism.variance / 1000) == pytest.approx(sigma, rel=0.02)
    # The condition of the lemma, epsilon < ln 10.
    assert (exp_bounds(Fraction(epsilon))[1] < 1 / mechanism.delta) == (Fraction(epsilon) <= 2)


def test_the_likelihood_is_the_product_over_the_coordinates() -> None:
    mechanism = JltPaper(8, Fraction(4), MICRO)
    released = mechanism.release(ITEMS, SeededSource(1))
    noise = mechanism.integers(released[None])[0] - mechanism.project(ITEMS)
    weight = np.exp(-(noise**2) / (2 * float(mechanism.variance)))
    whole = np.exp(-(np.arange(-200, 201) ** 2) / (2 * float(mechanism.variance))).sum()
    expected = float(np.log(weight / whole).sum())
    assert mechanism.log_likelihood(released, ITEMS) == pytest.approx(expected, abs=1e-9)
    far = np.full(8, 30_000, "<i2").view(np.uint8)
    assert mechanism.log_likelihood(far, ITEMS) == -math.inf


def test_the_privacy_loss_of_one_item_depends_on_the_sum_of_the_noise_alone() -> None:
    """(L - 2T) / 2V, T the noise with its signs turned to the item's."""
    mechanism, item = JltPaper(16, Fraction(1), MICRO), np.array([99], np.uint64)
    more = np.append(ITEMS, item)
    for seed in range(20):
        released = mechanism.release(more, SeededSource(seed))
        noise = mechanism.integers(released[None])[0] - mechanism.project(more)
        loss = mechanism.log_likelihood(released, more) - mechanism.log_likelihood(released, ITEMS)
        along = int((noise * -mechanism.project(item)).sum())
        assert loss == pytest.approx((16 - 2 * along) / (2 * float(mechanism.variance)), abs=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "width"),
    [(SMALL, 2), (JltPaper(1000, Fraction(1, 10), Fraction(1, 10)), 4)],
    ids=lambda value: getattr(value, "id", None),
)
def test_a_release_has_one_size_and_takes_two_words_a_coordinate_whatever_the_profile_is(
    mechanism: JltPaper, width: int
) -> None:
    source = Counting()
    for size in (0, 1, 700):
        released = mechanism.release(np.arange(size, dtype=np.uint64), source)
        assert released.shape == (mechanism.profile_bytes,) == (width * mechanism.length,)
    assert source.asked == [2 * mechanism.length] * 3


def test_released_integers_are_little_endian() -> None:
    given = np.array([[1, 0, 255, 255] + [0] * 124], np.uint8)
    assert SMALL.integers(given)[0, :3].tolist() == [1, -1, 0]


def test_two_releases_of_one_profile_have_noise_of_their_own() -> None:
    source = SeededSource(1)
    first, second = (SMALL.release(ITEMS, source) for _ in range(2))
    assert (SMALL.integers(first[None]) != SMALL.integers(second[None])).mean() > 0.5


def test_without_epsilon_the_projection_itself_is_released_and_nothing_is_claimed() -> None:
    mechanism = JltPaper(64, None, Fraction(0))
    released = mechanism.release(ITEMS, SeededSource(1))
    assert mechanism.integers(released[None])[0].tolist() == mechanism.project(ITEMS).tolist()
    assert (mechanism.id, mechanism.variance) == ("jltpaper:64:inf:0", 0)
    assert mechanism.log_likelihood(released, ITEMS) == 0
    assert mechanism.log_likelihood(released, ITEMS[:1]) == -math.inf


@pytest.mark.statistical
def test_sizes_overlaps_and_distances_are_unbiased() -> None:
    """Means of 400 pairs of releases over as many codebooks (other items each time) within 5.5 of
    their deviations: false alarm about 1e-7. Power: the factor L/(L-1) of Balu 2016, eq. 3.11, at
    this noise adds (L sigma^2 + c) / (L - 1) = 1.9 to the size; ignoring the noise adds 122.
    """
    mechanism, times, source = JltPaper(64, Fraction(9), MICRO), 400, SeededSource(11)
    first, second = [], []
    for start in range(0, 1000 * times, 1000):
        a = np.arange(start, start + 10, dtype=np.uint64)
        first.append(mechanism.release(a, source))
        second.append(mechanism.release(a[6:], source))
    a_read, b_read = (mechanism.coordinates(np.stack(each)) for each in (first, second))
    raw_sizes = np.einsum("ml,ml->m", a_read, a_read, dtype=float) - float(mechanism.variance)
    sizes = mechanism.sizes(a_read, 1682)
    np.testing.assert_allclose(sizes, np.clip(raw_sizes, 0, None), atol=1e-3)
    overlaps = np.diagonal(mechanism.overlaps(np.stack(first), np.stack(second)))
    squares = np.einsum("ml,ml->m", b_read, b_read, dtype=float) - mechanism._noise
    distances = raw_sizes + squares - 2 * overlaps
    for found, true in ((raw_sizes, 10), (overlaps, 4), (distances, 6)):
        assert abs(found.mean() - true) <= 5.5 * found.std() / math.sqrt(times)
    assert raw_sizes.std() == pytest.approx(math.sqrt(mechanism.size_variance(10)), rel=0.25)


def test_sizes_stay_between_nothing_and_the_catalogue() -> None:
    zeros, large = np.zeros((1, 64), np.float32), np.full((1, 64), 100, np.float32)
    assert SMALL.sizes(zeros, 30).tolist() == [0]
    assert SMALL.sizes(large, 30).tolist() == [30]


def test_the_posterior_mean_of_a_size_lies_between_the_estimate_and_the_prior() -> None:
    sizes = np.array([-500.0, 90.0, 10_000.0])
    drawn = posterior_sizes(SMALL, sizes, 100.0, 30.0, 1682)
    assert drawn[0] == pytest.approx(1, abs=100)
    assert 90 < drawn[1] < 100
    v, prior = SMALL.size_variance(100), 900
    assert drawn[1] == pytest.approx((100 / prior + 90 / v) / (1 / prior + 1 / v))
    assert posterior_sizes(SMALL, sizes, 100.0, 1e9, 1682)[2] == 1682
    assert posterior_sizes(SMALL, sizes, 100.0, 0.0, 1682).tolist() == [100] * 3
    assert posterior_sizes(JltPaper(64, None, Fraction(0)), sizes, 0.0, 30.0, 10_000).tolist() == [
        1,
        90,
        10_000,
    ]


@pytest.mark.parametrize(
    ("length", "epsilon", "delta", "message"),
    [
        (7, Fraction(1), MICRO, "8 to 16384 coordinates"),
        (64, Fraction(0), MICRO, "epsilon 0: 1/1000 to 64"),
        (64, Fraction(-1), MICRO, "epsilon -1"),
        (64, 1.0, MICRO, "give an exact number"),
        (64, Fraction(65), MICRO, "epsilon 65"),
        (64, Fraction(1), 0.1, "delta 0.1: give an exact number"),
        (64, Fraction(1), Fraction(0), "at least 10"),
        (64, Fraction(1), Fraction(1), "below 1"),
        (64, Fraction(1), Fraction(1, 10**13), "at least 10"),
        (64, None, MICRO, "give Fraction"),
        (16384, Fraction(1, 10), MICRO, "2 to 2896"),
        (16384, Fraction(1, 1000), Fraction(1, 10**12), "2 to 2896"),
    ],
)
def test_what_is_out_of_range_is_refused(
    length: int, epsilon: object, delta: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        JltPaper(length, epsilon, delta)  # type: ignore[arg-type]


def test_what_is_no_profile_is_refused_before_a_word_is_drawn() -> None:
    source = Counting()
    with pytest.raises(ValueError, match="twice"):
        SMALL.release(np.array([1, 1], np.uint64), source)
    assert source.asked == []

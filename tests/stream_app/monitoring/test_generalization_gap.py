"""The generalization gap: pairs of equal age, and the KL of two known Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_app.monitoring.gauges import FEWEST_SAMPLES, GeneralizationGap, gaussian_kl


def slow_pairs(held_out: list[bool]) -> tuple[list[int], list[int]]:
    """Return the numbers of held-out events and of the learned events paired with them."""
    out, learned, owed = [], [], 0
    for number, is_held_out in enumerate(held_out):
        if is_held_out:
            out.append(number)
            owed += 1
        elif owed:
            learned.append(number)
            owed -= 1
    return out, learned


def remember(gap: GeneralizationGap, held_out: list[bool], start: int = 0) -> None:
    numbers = np.arange(start, start + len(held_out), dtype=np.uint64)
    small = (numbers % np.uint64(5)).astype(np.uint8)
    channels, priors = small.astype(np.uint16), np.ones(len(small), np.float32)
    gap.add(numbers, numbers, small, channels, priors, np.array(held_out, bool))


def kept(gap: GeneralizationGap) -> tuple[list[int], list[int]]:
    """Return the users on each side, (held-out, learned)."""
    return (
        sorted(int(u) for u in gap._held_out[0].values()),
        sorted(int(u) for u in gap._learned[0].values()),
    )


@given(
    batches=st.lists(st.lists(st.booleans(), max_size=15), max_size=6), capacity=st.integers(1, 20)
)
def test_both_sides_hold_pairs_of_equal_age_whatever_the_batches(
    batches: list[list[bool]], capacity: int
) -> None:
    gap, start = GeneralizationGap(capacity), 0
    for batch in batches:
        remember(gap, batch, start)
        start += len(batch)
    out, learned = slow_pairs([flag for batch in batches for flag in batch])
    assert kept(gap) == (out[-capacity:], learned[-capacity:])


def residuals_of(
    learned: Callable[[int], NDArray[np.float64]], held_out: Callable[[int], NDArray[np.float64]]
) -> Callable[..., NDArray[np.float64]]:
    """Answer for the learned side when asked about odd users, for the held-out side when even."""

    def answer(users: NDArray[np.uint64], *_: NDArray[np.generic]) -> NDArray[np.float64]:
        return (learned if users[0] % 2 else held_out)(len(users))

    return answer


def paired(pairs: int) -> GeneralizationGap:
    """Return a memory whose held-out users are even and whose learned ones are odd."""
    gap = GeneralizationGap()
    remember(gap, [True, False] * pairs)
    return gap


def spread_out(mean: float, deviation: float) -> Callable[[int], NDArray[np.float64]]:
    """Return n numbers with exactly this mean and deviation, for even n."""
    return lambda n: mean + deviation * np.where(np.arange(n) % 2, 1.0, -1.0)


def test_kl_is_the_known_value_of_two_gaussians() -> None:
    assert gaussian_kl(0.05, 0.8, 0.0, 0.9) == pytest.approx(0.01438797, abs=5e-9)
    measured = paired(100).measure(residuals_of(spread_out(0.05, 0.8), spread_out(0.0, 0.9)))
    assert measured == pytest.approx(0.01438797, abs=5e-9)


def test_kl_is_zero_for_equal_residuals_and_has_a_direction() -> None:
    assert gaussian_kl(0.1, 0.9, 0.1, 0.9) == 0
    assert gaussian_kl(0.0, 0.5, 0.0, 0.9) != pytest.approx(gaussian_kl(0.0, 0.9, 0.0, 0.5))


def test_below_thirty_samples_the_leakage_is_unknown() -> None:
    alike = residuals_of(spread_out(0, 1), spread_out(0, 1))
    assert isnan(paired(FEWEST_SAMPLES - 1).measure(alike))
    assert paired(FEWEST_SAMPLES).measure(alike) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("odd_one", [0.1, nan, inf])
@pytest.mark.parametrize("side", ["learned", "held out"])
def test_residuals_without_a_finite_width_give_no_number(odd_one: float, side: str) -> None:
    def flat(n: int) -> NDArray[np.float64]:
        return np.array([odd_one, *[0.1] * (n - 1)])

    wide = spread_out(0, 1)
    answer = residuals_of(flat, wide) if side == "learned" else residuals_of(wide, flat)
    assert isnan(paired(50).measure(answer))


@pytest.mark.statistical
def test_a_model_that_leaks_nothing_shows_about_two_nats_over_the_number_of_samples() -> None:
    """400 measurements on n = 500 pairs, seed 3: n KL / 2 has mean 1 and deviation 1 (chi^2 / 2).

    The mean of 400 lies within .3 of 1 except with probability 2e-9.
    """
    source = np.random.default_rng(3)

    def normal(n: int) -> NDArray[np.float64]:
        return source.normal(0, 0.9, n)

    gap = paired(500)
    measured = [gap.measure(residuals_of(normal, normal)) for _ in range(400)]
    assert np.mean(measured) * 500 / 2 == pytest.approx(1, abs=0.3)

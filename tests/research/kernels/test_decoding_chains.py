"""Chains over the sets behind a released profile: as the naive ones, and as enumeration."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from research.kernels import bloom_chains, projection_chains
from research.kernels.bloom_chains import choose
from research.profiles.blip import Blip
from research.profiles.codebook import positions, signs
from research.profiles.jlt import JltPaper
from stream_app.privacy.randomness import SeededSource
from tests.naive import decoding as naive

ITEMS = np.arange(100, 108, dtype=np.uint64)
TRUE = ITEMS[[1, 4, 6]]
ODDS = np.linspace(-1.5, 0.5, len(ITEMS))


class Chain(NamedTuple):
    """A released profile: its likelihood, and the arguments of the kernels by the items held."""

    likelihood: naive.LogLikelihood
    kernels: Any
    first: tuple[Any, ...]  # before the odds
    state: Any  # held items -> the arrays that hold them


def blip() -> Chain:
    made = Blip(24, 3, Fraction(4))
    released = made.release(TRUE, SeededSource(3))
    places, starts = positions(ITEMS, 3, 24)
    bits = made.bits(released[None])[0].astype(np.int8)
    p = float(made.flip)

    def state(held: list[int]) -> tuple[np.ndarray, np.ndarray]:
        covers, inside = np.zeros(24, np.int32), np.zeros(len(ITEMS), np.uint8)
        for j in held:
            covers[places[starts[j] : starts[j + 1]]] += 1
            inside[j] = 1
        return covers, inside

    first = (places, starts, (2 * bits - 1).astype(np.int8), float(np.log((1 - p) / p)))
    return Chain(lambda held: _likelihood(made, released, held), bloom_chains, first, state)


def jlt() -> Chain:
    made = JltPaper(16, Fraction(8), Fraction(1, 100))
    released = made.release(TRUE, SeededSource(3))
    words = signs(ITEMS, 16).astype(np.int64)
    y = made.integers(released[None])[0]

    def state(held: list[int]) -> tuple[np.ndarray, np.ndarray]:
        inside = np.zeros(len(ITEMS), np.uint8)
        inside[held] = 1
        return (words @ (y - words[held].sum(axis=0))).astype(np.float64), inside

    first = ((words @ words.T).astype(np.int32), float(made.variance))
    return Chain(lambda held: _likelihood(made, released, held), projection_chains, first, state)


def _likelihood(made: Blip | JltPaper, released: np.ndarray, held: frozenset[int]) -> float:
    return made.log_likelihood(released, ITEMS[sorted(held)])


CHAINS = [blip, jlt]


def swept(chain: Chain, sweeps: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    uniforms = np.random.default_rng(seed).random((sweeps, len(ITEMS)))
    (a, b), totals = chain.state([]), np.zeros(len(ITEMS))
    chain.kernels.sweep(*chain.first, ODDS, a, b, uniforms, totals)
    return totals, b


def stepped(
    chain: Chain, steps: int, *, corrected: bool, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Take steps with as many slots as items, so that every set has a state."""
    uniforms = np.random.default_rng(seed).random((steps, 2))
    slots = np.full(len(ITEMS), -1, np.int64)
    slots[:3] = [7, 0, 2]
    (a, b), totals = chain.state([7, 0, 2]), np.zeros(len(ITEMS), np.int64)
    scratch = np.zeros(len(ITEMS) + 1)
    chain.kernels.step(*chain.first, ODDS, a, b, slots, corrected, uniforms, scratch, totals)
    return totals, slots


@pytest.mark.parametrize("made", CHAINS)
def test_sweeps_are_the_naive_ones(made: Any) -> None:
    chain = made()
    totals, inside = swept(chain, 30)
    held: set[int] = set()
    expected = np.zeros(len(ITEMS))
    uniforms = np.random.default_rng(1).random((30, len(ITEMS)))
    naive.sweep(chain.likelihood, ODDS, held, uniforms, expected)
    assert np.allclose(totals, expected, rtol=1e-7)
    assert set(np.flatnonzero(inside).tolist()) == held


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("made", CHAINS)
def test_steps_are_the_naive_ones(made: Any, corrected: bool) -> None:
    chain = made()
    totals, slots = stepped(chain, 300, corrected=corrected)
    expected, held = np.zeros(len(ITEMS), np.int64), [7, 0, 2, *[-1] * 5]
    uniforms = np.random.default_rng(1).random((300, 2))
    naive.step(chain.likelihood, ODDS, held, corrected, uniforms, expected)
    assert totals.tolist() == expected.tolist()
    assert slots.tolist() == held


@pytest.mark.claims
@pytest.mark.parametrize("made", CHAINS)
def test_both_chains_have_the_marginals_of_enumeration_and_the_printed_slots_have_not(
    made: Any,
) -> None:
    """Seeded, so nothing is left to chance. A set of c items stands in c_max! / (c_max - c)! orders
    of the slots: as printed (Balu 2016, eqs 3.34 and 3.35) larger sets are visited too often."""
    chain = made()
    exact, size = naive.posterior(chain.likelihood, ODDS)
    by_bits = swept(chain, 200_000)[0] / 200_000
    assert np.abs(by_bits - exact).max() < 0.005
    steps = 2_000_000
    by_slots = stepped(chain, steps, corrected=True)[0] / steps
    assert np.abs(by_slots - exact).max() < 0.005
    assert by_slots.sum() == pytest.approx(size, abs=0.01)
    printed = stepped(chain, steps, corrected=False)[0] / steps
    assert printed.sum() > size + 0.2
    assert np.abs(printed - exact).max() > 0.05


def test_an_item_without_weight_is_never_chosen() -> None:
    weights = np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    assert choose(weights, 0.0) == 1
    assert choose(weights, 0.25) == 3
    assert choose(weights, np.nextafter(1, 0)) == 3
    assert choose(np.array([0.0, 1e-300]), 0.999) == 1

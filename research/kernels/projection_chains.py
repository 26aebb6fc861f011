"""Gibbs chains over the item sets behind one released projection (Balu 2016, section 3.4.2).

    ln P(y | P) = const - |y - sum over P of x_j|^2 / 2V        x_j: L signs, V: variance of a noise
    x_j' = odds_j + (2 a_j - L) / 2V,    a_j = <y - sum over the others of P, x_j>

x_j' are the log-odds of item j given the others. along (n,) float64 holds <y - sum over P, x_j> of
every item, whole numbers, and gram (n, n) int32 the products <x_i, x_j>: a change of P costs n
additions. The two chains and their other arguments are those of `bloom_chains`.
"""

from __future__ import annotations

from numba import njit

from research.kernels.bloom_chains import choose
from stream_app.kernels.machine.scalars import exponential


@njit(cache=True, nogil=True, inline="always")
def _move(gram, along, j, change):
    """Take item j into the set (-1) or out of it (+1)."""
    for i in range(along.size):
        along[i] += change * gram[j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(gram, variance, odds, along, inside, uniforms, totals):
    """Sweep over all items once a row of uniforms (s, n); add P(j in P | others) to totals (n,)."""
    for row in range(uniforms.shape[0]):
        for j in range(odds.size):
            length = gram[j, j]
            a = along[j] + (length if inside[j] else 0)
            x = odds[j] + (2.0 * a - length) / (2.0 * variance)
            probability = 1.0 / (1.0 + exponential(-x))
            totals[j] += probability
            drawn = uniforms[row, j] < probability
            if drawn != (inside[j] != 0):
                inside[j] = drawn
                _move(gram, along, j, -1 if drawn else 1)


@njit(cache=True, nogil=True, error_model="numpy")
def step(gram, variance, odds, along, inside, slots, corrected, uniforms, weights, totals):
    """Take one step a row of uniforms (t, 2); add to totals (n,) how many states hold each item."""
    size, n = slots.size, odds.size
    held = 0
    for slot in range(size):
        held += slots[slot] >= 0
    for row in range(uniforms.shape[0]):
        slot = min(int(uniforms[row, 0] * size), size - 1)
        if slots[slot] >= 0:
            held -= 1
            inside[slots[slot]] = 0
            _move(gram, along, slots[slot], 1)
        highest = 0.0
        for j in range(n):
            weights[j] = odds[j] + (2.0 * along[j] - gram[j, j]) / (2.0 * variance)
            if not inside[j]:
                highest = max(highest, weights[j])
        for j in range(n):
            weights[j] = 0.0 if inside[j] else exponential(weights[j] - highest)
        weights[n] = exponential(-highest) * (float(size - held) if corrected else 1.0)
        j = choose(weights, uniforms[row, 1])
        slots[slot] = -1
        if j < n:
            held += 1
            slots[slot] = j
            inside[j] = 1
            _move(gram, along, j, -1)
        for other in range(size):
            if slots[other] >= 0:
                totals[slots[other]] += 1

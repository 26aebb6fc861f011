"""Gibbs chains over the item sets behind one released Bloom filter (Balu 2016, section 3.4.2).

    ln P(bits | P) = const + g * sum over the bits l set by P of s(l),   s(l) = 2 bit(l) - 1
    x_j = odds_j + g * sum over the bits of j that no other item of P sets of s(l)

x_j are the log-odds of item j given the others; g = ln((1 - p) / p). odds_j is the prior's.

    bits    item after item is drawn again from its log-odds; the mean of the probabilities is kept
    slots   one of c_max slots is emptied, then filled with an item that no slot holds, or left
            empty (3.34, 3.35); an item's visits are counted

Item j sets the places `places[starts[j] : starts[j + 1]]`. covers (L,) int32 counts the items of P
that set each bit, inside (n,) uint8 marks the items of P, signs (L,) int8 is s. Randomness comes in
as uniforms; `exponential` has the same bits on every machine.
"""

from __future__ import annotations

from numba import njit

from stream_app.kernels.machine.scalars import exponential


@njit(cache=True, nogil=True, error_model="numpy")
def choose(weights, uniform):
    """Return i with probability weights[i] / sum, for a uniform in [0, 1); one weight above 0."""
    total = 0.0
    for i in range(weights.size):
        total += weights[i]
    left = uniform * total
    last = 0
    for i in range(weights.size):
        if weights[i] > 0.0:
            last = i
            if left < weights[i]:
                return i
            left -= weights[i]
    return last  # what rounding leaves


@njit(cache=True, nogil=True, inline="always")
def _gain(places, starts, signs, covers, j):
    """Return the sum of s over the bits of item j that no item of the set sets."""
    total = 0
    for at in range(starts[j], starts[j + 1]):
        if covers[places[at]] == 0:
            total += signs[places[at]]
    return total


@njit(cache=True, nogil=True, inline="always")
def _count(places, starts, covers, j, change):
    for at in range(starts[j], starts[j + 1]):
        covers[places[at]] += change


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(places, starts, signs, g, odds, covers, inside, uniforms, totals):
    """Sweep over all items once a row of uniforms (s, n); add P(j in P | others) to totals (n,)."""
    for row in range(uniforms.shape[0]):
        for j in range(odds.size):
            if inside[j]:
                _count(places, starts, covers, j, -1)
            x = odds[j] + g * _gain(places, starts, signs, covers, j)
            probability = 1.0 / (1.0 + exponential(-x))
            totals[j] += probability
            inside[j] = uniforms[row, j] < probability
            if inside[j]:
                _count(places, starts, covers, j, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def step(
    places, starts, signs, g, odds, covers, inside, slots, corrected, uniforms, weights, totals
):
    """Take one step a row of uniforms (t, 2); add to totals (n,) how many states hold each item.

    slots: (c_max,) int64 items, -1 for an empty one; weights: (n + 1,) float64 scratch. corrected:
    the empty slot weighs as many as there are empty slots, so that a set has the same weight in
    however many orders its items stand; as printed it weighs 1.
    """
    size, n = slots.size, odds.size
    held = 0
    for slot in range(size):
        held += slots[slot] >= 0
    for row in range(uniforms.shape[0]):
        slot = min(int(uniforms[row, 0] * size), size - 1)
        if slots[slot] >= 0:
            held -= 1
            inside[slots[slot]] = 0
            _count(places, starts, covers, slots[slot], -1)
        highest = 0.0
        for j in range(n):
            if not inside[j]:
                weights[j] = odds[j] + g * _gain(places, starts, signs, covers, j)
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
            _count(places, starts, covers, j, 1)
        for other in range(size):
            if slots[other] >= 0:
                totals[slots[other]] += 1

"""qoLSH codes of up to 64 bits, sixteen vectors at a time: one vector per lane of a SIMD register.

    A = W'x, s = sign(A), Wb, Y = W'Wb, num = x'Wb, den = |Wb|^2     as in `qolsh`
    a flip of bit k   n = num - 2 s_k A_k,   e = den + 4 G_kk - 4 s_k Y_k
    it is better      n^2 e' > n'^2 e: no division, no root; ties go to the first bit
    it is made        n^2 den > num^2 e (1 + 2e-6), in the lanes where this holds

    starts   start t flips first those of the least certain bits (the lowest |A_k|) whose number is
             a bit of t; start 0 none. The best code of all starts is kept, ties to the first.

Sums over factors and bits are from first to last, each with its own rounding.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.lanes import (
    above,
    add,
    both,
    choose,
    equal,
    load,
    look_up,
    magnitude,
    multiply,
    occurs,
    spread,
    store,
    subtract,
)

MOST_BITS = 64
_LANES = 16
# A word of a code is put together from floats that are whole numbers below 2^16.
_PART = 16
_ZERO, _ONE, _TWO, _FOUR = np.float32(0), np.float32(1), np.float32(2), np.float32(4)
_MINUS_ONE, _INFINITE = np.float32(-1), np.float32(np.inf)
_SMALLEST = np.float32(1e-9)
# A flip must gain more than a rounding error of float32, or two bits could flip back and forth.
_GAIN = np.float32(1 + 2e-6)


@njit(cache=True, nogil=True)
def _fill(vectors, first, units, norms):
    """Write the directions of sixteen vectors, one per lane, and their lengths; zeros past the end.

    units: (factors, 16) float32, flat.
    """
    factors = vectors.shape[1]
    for lane in range(_LANES):
        row = first + lane
        inverse = 0.0
        if row < vectors.shape[0]:
            square = 0.0
            for c in range(factors):
                square += np.float64(vectors[row, c]) * np.float64(vectors[row, c])
            norm = np.sqrt(square)
            norms[row] = norm
            inverse = 1.0 / norm if norm > 0.0 else 0.0
        for c in range(factors):
            x = np.float64(vectors[row, c]) * inverse if inverse > 0.0 else 0.0
            units[c * _LANES + lane] = np.float32(x)


@njit(cache=True, nogil=True)
def _project(units, frame, bits, factors, out):
    """Write W'x of sixteen vectors: out (bits, 16), flat."""
    for k in range(bits):
        total = spread(_ZERO)
        for c in range(factors):
            x = load(units, c * _LANES)
            total = add(total, multiply(x, spread(frame[c * bits + k])))
        store(out, k * _LANES, total)


@njit(cache=True, nogil=True)
def _image(signs, frame, bits, factors, out):
    """Write Wb of sixteen codes: out (factors, 16), flat."""
    for c in range(factors):
        total = spread(_ZERO)
        for k in range(bits):
            s = load(signs, k * _LANES)
            total = add(total, multiply(s, spread(frame[c * bits + k])))
        store(out, c * _LANES, total)


@njit(cache=True, nogil=True)
def _product(a, b, factors):
    """Return the inner products of sixteen pairs."""
    total = spread(_ZERO)
    for c in range(factors):
        total = add(total, multiply(load(a, c * _LANES), load(b, c * _LANES)))
    return total


@njit(cache=True, nogil=True)
def _row(gram, table, k, flipped):
    """Return G_kj with j = `flipped`, lane by lane; gram: (bits, table) with zeros at its end."""
    found = look_up(gram, k * table, flipped)
    rest = flipped
    for part in range(16, table, 16):
        rest = subtract(rest, spread(np.float32(16)))
        inside = above(rest, spread(_MINUS_ONE))
        place = choose(inside, rest, spread(_ZERO))
        found = choose(inside, look_up(gram, k * table + part, place), found)
    return found


@njit(cache=True, nogil=True)
def _choose_flip(A, Y, signs, diagonal, bits, num, den):
    """Return the flip of each lane that raises n^2 / e most, -1 where none does: (j, n, e, s_j)."""
    valid = both(above(num, spread(_ZERO)), above(den, spread(_SMALLEST)))
    square = choose(valid, multiply(multiply(num, num), spread(_GAIN)), spread(_ZERO))
    length = choose(valid, den, spread(_ONE))
    flip, sign, best_num, best_den = spread(_MINUS_ONE), spread(_ZERO), num, den
    for k in range(bits):
        s = load(signs, k * _LANES)
        twice = add(s, s)
        n = subtract(num, multiply(twice, load(A, k * _LANES)))
        step = subtract(multiply(add(twice, twice), load(Y, k * _LANES)), spread(diagonal[k]))
        e = subtract(den, step)
        nn = multiply(n, magnitude(n))
        better = both(above(multiply(nn, length), multiply(square, e)), above(e, spread(_SMALLEST)))
        square, length = choose(better, nn, square), choose(better, e, length)
        flip, sign = choose(better, spread(np.float32(k)), flip), choose(better, s, sign)
        best_num, best_den = choose(better, n, best_num), choose(better, e, best_den)
    return flip, sign, best_num, best_den


@njit(cache=True, nogil=True)
def _make_flip(Y, signs, gram, table, bits, flip, sign):
    """Flip bit `flip`, whose sign is `sign`, of each lane; none where `flip` is -1."""
    step = add(sign, sign)
    place = choose(above(flip, spread(_MINUS_ONE)), flip, spread(_ZERO))
    for k in range(bits):
        entry = _row(gram, table, k, place)
        store(Y, k * _LANES, subtract(load(Y, k * _LANES), multiply(step, entry)))
        s = load(signs, k * _LANES)
        turned = equal(flip, spread(np.float32(k)))
        store(signs, k * _LANES, choose(turned, subtract(spread(_ZERO), s), s))


@njit(cache=True, nogil=True)
def _least_certain(A, bits, count, out):
    """Write the numbers of the bits of lowest |A_k|, lane by lane: out (count, 16), flat."""
    for place in range(count):
        lowest, number = spread(_INFINITE), spread(_MINUS_ONE)
        for k in range(bits):
            value = magnitude(load(A, k * _LANES))
            this = spread(np.float32(k))
            for before in range(place):
                taken = equal(load(out, before * _LANES), this)
                value = choose(taken, spread(_INFINITE), value)
            lower = above(lowest, value)
            lowest, number = choose(lower, value, lowest), choose(lower, this, number)
        store(out, place * _LANES, number)


@njit(cache=True, nogil=True)
def _begin(A, bits, start, uncertain, count, signs):
    """Write the signs of A, those of the least certain bits flipped that `start` names."""
    for k in range(bits):
        s = choose(above(spread(_ZERO), load(A, k * _LANES)), spread(_MINUS_ONE), spread(_ONE))
        for place in range(count):
            if (start >> place) & 1:
                named = equal(load(uncertain, place * _LANES), spread(np.float32(k)))
                s = choose(named, subtract(spread(_ZERO), s), s)
        store(signs, k * _LANES, s)


@njit(cache=True, nogil=True)
def encode(vectors, frame, gram, diagonal, flips, starts, codes, norms, lengths, objectives):
    """Write the code of each vector's direction, |vector|, |Wb| and L(b).

    vectors: (n, d); frame W: (d * L,), flat; gram G: (L * table,), flat, `table` the next multiple
    of 16, zeros between; diagonal 4 G_kk: (L,); all float32. codes: (n, 1) uint64; the rest (n,)
    float32. `starts` is at most 2^L.
    """
    factors, bits = vectors.shape[1], diagonal.size
    table = gram.size // bits
    units, image = np.empty(factors * _LANES, np.float32), np.empty(factors * _LANES, np.float32)
    A, Y = np.empty(bits * _LANES, np.float32), np.empty(bits * _LANES, np.float32)
    signs, kept = np.empty(bits * _LANES, np.float32), np.empty(bits * _LANES, np.float32)
    results = np.empty(2 * _LANES, np.float32)
    words = np.empty((MOST_BITS // _PART) * _LANES, np.float32)
    count = 0
    while 1 << count < starts:
        count += 1
    uncertain = np.empty(max(count, 1) * _LANES, np.float32)
    for first in range(0, vectors.shape[0], _LANES):
        _fill(vectors, first, units, norms)
        _project(units, frame, bits, factors, A)
        _least_certain(A, bits, count, uncertain)
        kept_num, kept_den = spread(_ZERO), spread(_ONE)
        for start in range(starts):
            _begin(A, bits, start, uncertain, count, signs)
            _image(signs, frame, bits, factors, image)
            _project(image, frame, bits, factors, Y)
            num, den = _product(units, image, factors), _product(image, image, factors)
            for _ in range(flips):
                flip, sign, num, den = _choose_flip(A, Y, signs, diagonal, bits, num, den)
                if not occurs(above(flip, spread(_MINUS_ONE))):
                    break
                _make_flip(Y, signs, gram, table, bits, flip, sign)
            valid = both(above(num, spread(_ZERO)), above(den, spread(_SMALLEST)))
            square = multiply(multiply(num, num), kept_den)
            better = both(above(square, multiply(multiply(kept_num, kept_num), den)), valid)
            if start == 0:
                better = equal(kept_num, kept_num)
            for k in range(bits):
                place = k * _LANES
                store(kept, place, choose(better, load(signs, place), load(kept, place)))
            kept_num, kept_den = choose(better, num, kept_num), choose(better, den, kept_den)
        for part in range(0, bits, _PART):
            word, weight = spread(_ZERO), _ONE
            for k in range(part, min(part + _PART, bits)):
                one = above(load(kept, k * _LANES), spread(_ZERO))
                word = choose(one, add(word, spread(weight)), word)
                weight *= _TWO
            store(words, (part // _PART) * _LANES, word)
        store(results, 0, kept_num)
        store(results, _LANES, kept_den)
        for lane in range(min(_LANES, vectors.shape[0] - first)):
            word = np.uint64(0)
            for part in range(0, bits, _PART):
                half = np.uint64(words[(part // _PART) * _LANES + lane])
                word |= half << np.uint64(part)
            codes[first + lane, 0] = word
            num, den = results[lane], results[_LANES + lane]
            length = np.sqrt(max(den, _ZERO))
            lengths[first + lane] = length
            good = num > _ZERO and den > _SMALLEST
            objectives[first + lane] = num / length if good else _ZERO

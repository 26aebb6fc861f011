"""Exact samplers, the textbook way: an independent reference for the tables of counts.

Nothing here uses floating point; a rational parameter and a stream of 64-bit words give a law that
is exact, not near. They are slow and their running time depends on what they draw, which is why a
device draws from a table instead (`stream_app.privacy.exact.integer_tables`) and these are for
checks.

    bern_exp(g)            1 with probability e^-g: K the first k at which Bernoulli(g / k) is 0,
                           K odd; g > 1 is reduced in ones        (Canonne, Kamath, Steinke 2020,
                                                                      algorithm 1; Forsythe 1972)
    bit_flip(g)            1 with probability 1 / (1 + e^g):  f a fair coin, a = bern_exp(g), until
                           f = 0 or a = 1
    response(x, d, g)      y uniform in 0 .. d-1, a = bern_exp(g), until y = x or a = 1, so that
                           P(y) is proportional to e^(-g [y != x]); a is drawn in every round
    discrete_laplace(s)    P(x) proportional to e^(-|x| / s)         (CKS 2020, algorithm 2)
    discrete_gaussian(v)   P(x) proportional to e^(-x^2 / 2 v)       (CKS 2020, algorithm 3)

`Words` hands out single words of a source; `below(n)` is uniform on 0 .. n-1 by rejection, exact
for every n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from stream_app.privacy.exact.integer_tables import TOTAL
from stream_app.privacy.randomness import RandomSource

_FETCHED = 256


class Words:
    """Words of a source, fetched in batches. Not for a device: fetched words stay in memory."""

    def __init__(self, source: RandomSource) -> None:
        self._words = self._stream(source)

    def below(self, limit: int) -> int:
        """Return a uniform number in 0 .. limit-1; ValueError for a limit below 1."""
        if limit < 1:
            raise ValueError(f"limit {limit}: a draw needs at least one possibility")
        digits = max(1, -(-(limit - 1).bit_length() // 64))
        whole = TOTAL**digits
        while True:
            number = 0
            for _ in range(digits):
                number = number * TOTAL + next(self._words)
            if number < whole - whole % limit:
                return number % limit

    def bernoulli(self, part: int, whole: int) -> bool:
        """Return True with probability part / whole, 0 <= part <= whole."""
        if not 0 <= part <= whole:
            raise ValueError(f"probability {part} / {whole}: 0 to 1")
        return self.below(whole) < part

    @staticmethod
    def _stream(source: RandomSource) -> Iterator[int]:
        while True:
            yield from source.words(_FETCHED).tolist()


def bern_exp(g: Fraction, words: Words) -> bool:
    """Return True with probability e^-g, g >= 0."""
    if g < 0:
        raise ValueError(f"exponent {g}: must be >= 0")
    part, whole = g.numerator, g.denominator
    while part > whole:
        if not bern_exp(Fraction(1), words):
            return False
        part -= whole
    k = 1
    while words.bernoulli(part, whole * k):
        k += 1
    return k % 2 == 1


def bit_flip(g: Fraction, words: Words) -> bool:
    """Return True with probability 1 / (1 + e^g), g >= 0."""
    while True:
        flipped, accepted = words.below(2) == 1, bern_exp(g, words)
        if not flipped or accepted:
            return flipped


def response(x: int, symbols: int, g: Fraction, words: Words) -> int:
    """Return x, or another of 0 .. symbols-1, each e^-g times as likely as x."""
    if not 0 <= x < symbols:
        raise ValueError(f"symbol {x}: there are 0 to {symbols - 1}")
    while True:
        y, accepted = words.below(symbols), bern_exp(g, words)
        if y == x or accepted:
            return y


def discrete_laplace(scale: Fraction, words: Words) -> int:
    """Return x with P(x) proportional to e^(-|x| / scale), scale > 0; variance 2a / (1 - a)^2."""
    if scale <= 0:
        raise ValueError(f"scale {scale}: must be above 0")
    t, s = scale.numerator, scale.denominator
    while True:
        u = words.below(t)
        if not bern_exp(Fraction(u, t), words):
            continue
        v = 0
        while bern_exp(Fraction(1), words):
            v += 1
        y = (u + t * v) // s
        negative = words.below(2) == 1
        if not (negative and y == 0):
            return -y if negative else y


def discrete_gaussian(variance: Fraction, words: Words) -> int:
    """Return x with P(x) proportional to e^(-x^2 / 2 variance), variance > 0."""
    if variance <= 0:
        raise ValueError(f"variance {variance}: must be above 0")
    t = math.isqrt(math.floor(variance)) + 1
    while True:
        y = discrete_laplace(Fraction(t), words)
        if bern_exp((abs(y) - variance / t) ** 2 / (2 * variance), words):
            return y

"""Gaussian noise that (epsilon, delta) requires, proved with rational bounds.

Noise N(0, sigma^2) on a query of sensitivity 1 satisfies (Balle and Wang 2018)

    delta(epsilon) = Phi(a) - e^epsilon Phi(b),   a = 1/(2 sigma) - epsilon sigma,  b = a - 1/sigma

and no smaller delta. G(mu) is N(0, 1) against N(mu, 1), mu = 1 / sigma; G(a) with G(b) is
G(sqrt(a^2 + b^2)) (Dong, Roth and Su 2022, Cor. 3.3).

A function that returns `Bounds` gives rationals below and above the named quantity; floats serve
only as first guesses of searches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from stream_app.privacy.exact.integer_tables import exp_bounds

Bounds = tuple[Fraction, Fraction]

_STEPS = 2**30
_BITS = 320
_FAR = 30  # beyond it the series is long and cancels completely
_ONE = 1 << _BITS
_PI_DIGITS = 31415926535897932384626433832795028841971693993751058209749445923078164062862089
_PI = (Fraction(_PI_DIGITS, 10**79), Fraction(_PI_DIGITS + 1, 10**79))


def exponential(x: Fraction) -> Bounds:
    """Return bounds of e^x for any rational x."""
    low, high = exp_bounds(abs(x))
    return (low, high) if x >= 0 else (_down(1 / high), _up(1 / low))


def root(x: Fraction) -> Bounds:
    """Return bounds of the square root of x >= 0."""
    floor = math.isqrt((x.numerator << 2 * _BITS) // x.denominator)
    return Fraction(floor, _ONE), Fraction(floor + 1, _ONE)


def density(square: Fraction) -> Bounds:
    """Return bounds of phi(x) = exp(-x^2 / 2) / sqrt(2 pi), given `square` = x^2."""
    low, high = exponential(-square / 2)
    return _down(low / root(2 * _PI[1])[1]), _up(high / root(2 * _PI[0])[0])


def normal(x: Fraction) -> Bounds:
    """Return bounds of Phi(x), tight to some 60 digits of the smaller tail.

    For x > 0, Phi(-x) = 1/2 - phi(x) * sum_n x^(2n+1) / (2n+1)!!; where that cancels too much,
    phi(x) x / (1 + x^2) <= Phi(-x) <= phi(x) / x.
    """
    at = abs(x)
    if at == 0:
        return Fraction(1, 2), Fraction(1, 2)
    phi = density(at * at)
    low, high = phi[0] * at / (1 + at * at), phi[1] / at
    if at < _FAR:
        series = _series(at)
        low = max(low, Fraction(1, 2) - phi[1] * series[1])
        high = min(high, Fraction(1, 2) - phi[0] * series[0])
    low, high = _down(low), _up(high)
    return (low, high) if x < 0 else (1 - high, 1 - low)


def _series(x: Fraction) -> Bounds:
    """Return bounds of sum_n x^(2n+1) / (2n+1)!!, x > 0."""
    square = x * x
    top, bottom = square.numerator, square.denominator
    low = (x.numerator << _BITS) // x.denominator
    high, n, total_low, total_high = low + 1, 1, 0, 0
    # The terms rise while 2n + 1 < x^2; from 2 x^2 on each is below half of its predecessor.
    while high > 1 or n * bottom < 2 * top:
        total_low, total_high, n = total_low + low, total_high + high, n + 2
        low, high = low * top // (bottom * n), -(-high * top // (bottom * n))
    return Fraction(total_low, _ONE), Fraction(total_high + 2 * high, _ONE)


def _down(x: Fraction) -> Fraction:
    return Fraction((x.numerator << _BITS) // x.denominator, _ONE)


def _up(x: Fraction) -> Fraction:
    return Fraction(-((-x.numerator << _BITS) // x.denominator), _ONE)


# --- delta of a given noise -----------------------------------------------------------------------


def analytic_delta(epsilon: Fraction, variance: Fraction) -> Bounds:
    """Return bounds of the least delta of N(0, variance) at sensitivity 1 (Balle and Wang 2018)."""
    sigma = root(variance)
    first = [1 / (2 * s) - epsilon * s for s in sigma[::-1]]  # decreases in sigma
    second = [-1 / (2 * sigma[0]) - epsilon * sigma[1], -1 / (2 * sigma[1]) - epsilon * sigma[0]]
    power = exponential(epsilon)
    low = normal(_down(first[0]))[0] - power[1] * normal(_up(second[1]))[1]
    high = normal(_up(first[1]))[1] - power[0] * normal(_down(second[0]))[0]
    return max(Fraction(0), _down(low)), max(Fraction(0), _up(high))


def gaussian_delta(epsilon: Fraction, square: Fraction) -> Bounds:
    """Return rational bounds of the delta of G(mu) at epsilon, given `square` = mu^2."""
    return analytic_delta(epsilon, 1 / square)


def gaussian_epsilon(delta: Fraction, square: Fraction) -> Fraction:
    """Return the least multiple of 2^-30 that bounds epsilon of G(mu) at delta > 0."""
    if not square or gaussian_delta(Fraction(0), square)[1] <= delta:
        return Fraction(0)
    mu = math.sqrt(square)
    guess = mu * mu / 2 + mu * math.sqrt(2 * max(0.0, -math.log(delta)))
    steps = least_steps(
        lambda n: gaussian_delta(Fraction(n, _STEPS), square)[1] <= delta,
        math.ceil(guess * _STEPS),
    )
    return Fraction(steps, _STEPS)


# --- the noise for a given delta ------------------------------------------------------------------


def least_steps(enough: Callable[[int], bool], guess: int) -> int:
    """Return the least number of steps >= 1 for which `enough` is true; `enough` is monotone.

    The guess may come from floating point: the result does not depend on it.
    """
    high, width = max(1, guess), 1
    while not enough(high):
        high, width = high + width, 2 * width
    low, width = high - 1, 1
    while low > 0 and enough(low):
        high, low, width = low, max(0, low - width), 2 * width
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def analytic_variance(epsilon: Fraction, delta: Fraction, steps: int = 10**9) -> Fraction:
    """Return the least multiple of 1/steps that proves (epsilon, delta) at sensitivity 1.

    It is a variance; sigma is 3.7306 at (1, 1e-5) and 4.2247 at (1, 1e-6).
    """
    sigma = _guess(lambda s: _float_delta(float(epsilon), s), float(delta))
    return Fraction(
        least_steps(
            lambda n: analytic_delta(epsilon, Fraction(n, steps))[1] <= delta,
            math.ceil(sigma * sigma * steps),
        ),
        steps,
    )


def _float_delta(epsilon: float, sigma: float) -> float:
    a = 1 / (2 * sigma) - epsilon * sigma
    b = a - 1 / sigma
    return (math.erfc(-a / 2**0.5) - math.exp(epsilon) * math.erfc(-b / 2**0.5)) / 2


def _guess(delta: Callable[[float], float], wanted: float) -> float:
    """Return the sigma at which a decreasing `delta` is `wanted`, by floating-point bisection."""
    low, high = 1e-6, 1e9
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if delta(middle) > wanted else (low, middle)
    return high

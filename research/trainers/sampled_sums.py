"""What noisy sums over random samples cost one event, and how much noise a budget asks for.

In each of `steps` steps every event is sampled with probability `rate`, by bits that stay secret,
and the sum of the sampled events' integer vectors is released with discrete Gaussian noise. The
neighbours: one event there, or a null event in its place (a vector of zeros).

With a, b of `certificate.py` the law of a step is within e^(-size a) and e^(size b) of a
post-processing of the continuous step, for either input; a mixture over samples keeps both bounds.
Over all steps N = steps * size coordinates, as in step 5 of `certificate.py`:

    delta(epsilon) <= e^(N a) D(epsilon - N (a + b)),     D the curve of `sampled_gaussian.py`
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from research.trainers.sampled_gaussian import sampled_delta, sampled_epsilon
from stream_app.privacy.gaussian.certificate import SMOOTHING, NoisySum, unevenness
from stream_app.privacy.gaussian.sampling import LEAST_VARIANCE

_ROUNDING = 1e-12
_LEAST = 1e-300
_BRACKET = math.log(2) / 3  # of ln sigma
_MARGIN = 0.001  # the noise is within about .2 % of the least
_TRIALS = 3


@dataclass(frozen=True)
class SampledSums:
    """`steps` noisy sums of one kind, each over a sample of the events at this `rate`."""

    each: NoisySum
    rate: Fraction
    steps: int

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate {self.rate} of a sample: above 0, at most 1")
        if self.steps < 1:
            raise ValueError(f"steps {self.steps}: 1 or more")

    def epsilon(self, delta: Fraction) -> float:
        """Return an upper bound of epsilon at 0 < delta < 1."""
        if not 0 < delta < 1:
            raise ValueError(f"delta {delta}: must be above 0 and below 1")
        grown, both = self._slack
        left = float(delta) * math.exp(-grown) * (1 - _ROUNDING)
        found = sampled_epsilon(self.rate, self.each.square, self.steps, left)
        return (found + both) * (1 + _ROUNDING)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of delta at an epsilon above what the integers alone cost."""
        grown, both = self._slack
        if epsilon <= both:
            return 1.0
        left = (epsilon - both) * (1 - _ROUNDING)
        found = sampled_delta(self.rate, self.each.square, self.steps, left)
        return min(1.0, found * math.exp(grown) * (1 + _ROUNDING))

    @property
    def _slack(self) -> tuple[float, float]:
        """Return N a and N (a + b)."""
        h, size = unevenness(), self.steps * self.each.size
        return float(size * h), float(size * (h + 2 * h / (1 - h)))


@lru_cache(maxsize=64)
def sampled_variance(
    bound: int, size: int, rate: Fraction, steps: int, budget: tuple[Fraction, Fraction]
) -> Fraction:
    """Return a whole variance for which all steps cost at most `budget`, (epsilon, delta).

    ValueError where the noise would be beyond the sampler's.
    """
    epsilon, delta = budget
    goal = math.log(delta)

    def excess(log_sigma: float) -> float:
        noise = NoisySum(bound, _variance(bound, math.exp(log_sigma)), size)
        found = SampledSums(noise, rate, steps).delta(float(epsilon))
        return math.log(max(found, _LEAST)) - goal

    high = math.log(_guess(float(epsilon), float(delta), float(rate), steps))
    while (below := excess(high)) > 0:
        high += _BRACKET
    low = high - _BRACKET
    while (above := excess(low)) <= 0:
        low, high, below = low - _BRACKET, low, above
    for _ in range(_TRIALS):  # the curve is nearly straight, and the margin keeps above it
        middle = low + (high - low) * above / (above - below) + _MARGIN
        if middle >= high:
            break
        value = excess(middle)
        if value <= 0:
            high, below = middle, value
        else:
            low, above = middle, value
    return _variance(bound, math.exp(high))


def _variance(bound: int, sigma: float) -> Fraction:
    return max(Fraction(math.ceil((bound * sigma) ** 2 + float(SMOOTHING))), LEAST_VARIANCE)


def _guess(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return about the noise of the central limit, mu = rate sqrt(steps (e^(1/s^2) - 1))."""
    mu = epsilon / (math.sqrt(-2 * math.log(delta)) + math.sqrt(epsilon))
    return 0.8 / math.sqrt(math.log1p((mu / rate) ** 2 / steps))

"""What a campaign of noisy sums costs a person: one curve delta(epsilon), proved for the integers.

Every stage releases  s + x,  s the sum of integer vectors of L2 norm at most `bound`, x `size`
discrete Gaussians of variance parameter V. Neighbours: a person's vectors in all stages, or zeros
in their place (that a person takes part is public). What a vector and the next stage depend on may
be anything that was released before.

1. Poisson summation: with phi_r the density of N(0, r^2), sum_n phi_r(n - y) is within 1 +- h for
   every real y, h = 2 sum_{k>=1} e^(-2 pi^2 r^2 k^2) (Micciancio and Regev 2007, Lemma 4.4).
2. Let Y = s + N(0, V - r^2) in every coordinate, and round Y to an integer z with probability
   phi_r(z - Y) / sum_n phi_r(n - Y) (Peikert 2010, Theorem 3.1). The convolution of the two
   densities is f = phi(z - s) of variance V, so the law P of z is between f / (1 + h) and
   f / (1 - h). The law D of s + x is f / sum_n phi(n), between f / (1 + h) and f.
3. So D <= (1 + h) P <= e^a P and P <= (1 + h) / (1 - h) D <= e^b D,  a = h,  b = 2h / (1 - h),
   in a coordinate; over all N coordinates of all stages e^(N a) and e^(N b), for every outcome.
4. Y is a Gaussian mechanism of mu = bound / sqrt(V - r^2), and z is computed from Y alone. Stages
   compose adaptively by adding mu^2 (Dong, Roth and Su 2022, Corollary 3.3).
5. With G the curve of that sum (Balle and Wang 2018, Theorem 8), e = epsilon - N (a + b):
       D(S) <= e^(Na) P(S) <= e^(Na) (e^e P'(S) + G(e)) <= e^epsilon D'(S) + e^(Na) G(e)

r^2 = 9/4 makes h < 2e-19, so N (a + b) is below 1e-12 up to a million coordinates; its price is
that V counts as V - 9/4. In split mode V is the noise of one party: the other one may know its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b

from stream_app.privacy.exact.gaussian_calibration import (
    analytic_variance,
    exponential,
    gaussian_delta,
    gaussian_epsilon,
)
from stream_app.privacy.gaussian.sampling import LARGEST_VARIANCE, LEAST_VARIANCE, gaussian_table

SMOOTHING = Fraction(9, 4)  # r^2
_PI_SQUARE = Fraction(98696, 10**4)  # below pi^2
LARGEST_BOUND = 2**31 - 1
# Of a curve that is computed exactly: beyond these nothing is protected, and exact exponentials of
# what an outsider wrote would take days.
LARGEST_SQUARE = 10**4
LARGEST_POINT = 10**4


def unevenness(smoothing: Fraction = SMOOTHING) -> Fraction:
    """Return an upper bound of h = 2 sum_k e^(-2 pi^2 r^2 k^2), r^2 = `smoothing` >= 1/4."""
    first = exponential(-2 * _PI_SQUARE * smoothing)[1]
    return 2 * first / (1 - first**3)  # k^2 >= 1 + 3 (k - 1)


@dataclass(frozen=True)
class NoisySum:
    """A sum of integer vectors of `size` coordinates, each of L2 norm at most `bound`, and noise.

    variance: the parameter V of the discrete Gaussian in every coordinate, in squared units of the
    grid. Raises ValueError for values out of range.
    """

    bound: int
    variance: Fraction
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.bound <= LARGEST_BOUND:
            raise ValueError(f"bound {self.bound} of a vector: must be 1 to {LARGEST_BOUND}")
        if not 1 <= self.size <= 2**31:
            raise ValueError(f"a sum of {self.size} coordinates: must be 1 to {2**31}")
        if not LEAST_VARIANCE <= self.variance <= LARGEST_VARIANCE:
            raise ValueError(
                f"variance {float(self.variance):.6g} of the noise: must be {LEAST_VARIANCE} to "
                f"{LARGEST_VARIANCE} squared units; choose another bound"
            )

    @property
    def square(self) -> Fraction:
        """mu^2 = bound^2 / (V - r^2)."""
        return self.bound**2 / (self.variance - SMOOTHING)

    def __str__(self) -> str:
        return f"{self.bound}:{self.variance}:{self.size}"


@dataclass(frozen=True)
class CampaignCertificate:
    """The cost of all noisy sums of a campaign together, to a person who is in every one."""

    sums: tuple[NoisySum, ...]

    @property
    def square(self) -> Fraction:
        """mu^2 of all stages together."""
        return sum((each.square for each in self.sums), Fraction(0))

    @property
    def size(self) -> int:
        """N, the coordinates of all stages together."""
        return sum(each.size for each in self.sums)

    def delta(self, epsilon: Fraction) -> Fraction:
        """Return a proved delta at epsilon >= 0, at most 1; ValueError beyond `check_cost`."""
        self.check_cost()
        if epsilon > LARGEST_POINT:
            raise ValueError(f"epsilon above {LARGEST_POINT:,}: protects nothing")
        return proved_delta(self.square, self.size, epsilon)

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return a proved epsilon at 0 < delta < 1, within 2^-30 of the least that is proved;
        ValueError beyond `check_cost`."""
        _check_delta(delta)
        self.check_cost()
        if not self.sums:
            return Fraction(0)
        grown, both = slack(self.size)
        return both + gaussian_epsilon(delta * exponential(-grown)[0], self.square)

    def check_cost(self) -> None:
        """Raise ValueError where mu^2 is above `LARGEST_SQUARE`, without computing its epsilon."""
        if self.square > LARGEST_SQUARE:
            raise ValueError(
                f"mu^2 of the noisy sums is above {LARGEST_SQUARE:,}: noise so small beside the "
                "bounds protects nothing; take more noise"
            )

    def of_people(self, people: int) -> CampaignCertificate:
        """Return what the vectors of so many people together cost: a bound of `people` vectors."""
        if people < 1:
            raise ValueError(f"{people} people: must be 1 or more")
        return CampaignCertificate(
            tuple(NoisySum(people * each.bound, each.variance, each.size) for each in self.sums)
        )

    def check(self) -> None:
        """Compute again what the noise is drawn from; ValueError where it is not the law."""
        for variance in {each.variance: None for each in self.sums}:
            gaussian_table(variance).check()

    @cached_property
    def digest(self) -> str:
        """The blake2b-64 of the stages and of the tables that their noise is drawn from."""
        tables = [gaussian_table(each.variance).digest for each in self.sums]
        text = "+".join(f"{each}:{table}" for each, table in zip(self.sums, tables, strict=True))
        return blake2b(text.encode(), digest_size=8).hexdigest()


def proved_delta(square: Fraction, size: int, epsilon: Fraction) -> Fraction:
    """Return a proved delta, at most 1, at epsilon >= 0, of `size` integers with this mu^2."""
    if epsilon < 0:
        raise ValueError(f"epsilon {epsilon}: must be >= 0")
    if not square:
        return Fraction(0)
    grown, both = slack(size)
    found = exponential(grown)[1] * gaussian_delta(max(Fraction(0), epsilon - both), square)[1]
    if epsilon < both:  # what is missing in e^epsilon, for a set of probability 1
        found += exponential(both)[1] - exponential(epsilon)[0]
    return min(Fraction(1), found)


def largest_square(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """Return the mu^2 that (epsilon, delta) allows for sums of `size` coordinates altogether.

    It is the largest whose reciprocal is a multiple of 10^-9. ValueError where none is possible.
    """
    _check_delta(delta)
    grown, both = slack(size)
    if epsilon <= both:
        raise ValueError(
            f"epsilon {float(epsilon):.3g}: must be above {float(both):.3g}, which {size} integer "
            "coordinates cost by themselves"
        )
    return 1 / analytic_variance(epsilon - both, delta * exponential(-grown)[0])


def least_variance(bound: int, square: Fraction) -> Fraction:
    """Return the least whole variance with which a sum of this bound costs at most `square`.

    A stage that has the share f of a campaign: `least_variance(bound, f * largest_square(...))`.
    ValueError if the noise would be wider than the sampler's tables.
    """
    if square <= 0:
        raise ValueError(f"share {square} of mu^2: must be above 0")
    found = max(Fraction(math.ceil(bound**2 / square + SMOOTHING)), LEAST_VARIANCE)
    if found > LARGEST_VARIANCE:
        raise ValueError(
            f"a bound of {bound} needs noise of {math.sqrt(found):,.0f} units, above "
            f"{math.isqrt(int(LARGEST_VARIANCE))}; take a coarser grid or a larger share"
        )
    return found


def slack(size: int) -> tuple[Fraction, Fraction]:
    """Return N a and N (a + b) of step 3."""
    h = unevenness()
    return size * h, size * (h + 2 * h / (1 - h))


def _check_delta(delta: Fraction) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta {delta}: must be above 0 and below 1")

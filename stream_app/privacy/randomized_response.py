"""Randomized response over rating levels: the true one with a bounded advantage, else any other.

    P(z | v) = e^eps / (e^eps + d - 1)   for z = v        = p
               1     / (e^eps + d - 1)   for z != v       = q          v, z in 0 .. d-1

S001 Def. 3 without the symbol "missing": that a rating exists, of which item and when, is public;
its value is protected. Two values of one rating are told apart by at most e^eps, whatever the
adversary knows besides. n ratings of one user cost n * eps in sum.

An unbiased estimate of g(v) from one report is unique, because the channel is an invertible matrix:

    g_hat(z) = (g(z) - q * sum_v g(v)) / (p - q)

The device samples from integer counts of 2^64 (`stream_app.privacy.tables`) and everything here is
computed from those counts, not from the formula above: `log_likelihood` is exact for what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.certificates import Certificate, certify
from stream_app.privacy.mechanism import check_inputs, without_masks
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.tables import TOTAL, Table, compile_table, compiled_ratio
from stream_app.privacy.ticket import admitted

SMALLEST_EPSILON = Fraction(1, 1_000_000)
LARGEST_EPSILON = Fraction(64)
LARGEST_DENOMINATOR = 1_000_000


@dataclass(frozen=True)
class RandomizedResponse:
    """Report the true level with probability e^eps / (e^eps + levels - 1), any other uniformly.

    Adjacency: value (that a rating exists is public). Pure epsilon-DP per rating, certified on
    construction: `certificate` holds the proof. Raises ValueError outside 2 <= levels <= 256 and
    1/1000000 <= epsilon <= 64.

    >>> RandomizedResponse(5, Fraction(2)).id
    'rr:5:2'
    """

    levels: int
    epsilon: Fraction
    certificate: Certificate = field(init=False, repr=False, compare=False)
    _table: Table = field(init=False, repr=False, compare=False)
    _log: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _estimates: NDArray[np.float64] = field(init=False, repr=False, compare=False)

    family: ClassVar[str] = "rr"
    adjacency: ClassVar[Adjacency] = Adjacency.VALUE

    def __post_init__(self) -> None:
        if type(self.levels) is not int or not 2 <= self.levels <= 256:
            raise ValueError(f"levels {self.levels!r}: randomized response needs 2 to 256 levels")
        _check_epsilon(self.epsilon)
        ratio, others = compiled_ratio(self.epsilon), range(self.levels)
        table = compile_table([[ratio if z == v else 1 for z in others] for v in others])
        proof = certify(table, self.id, self.epsilon, self.adjacency)
        object.__setattr__(self, "certificate", proof)
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_log", table.log_probabilities())
        object.__setattr__(self, "_estimates", self._unbiased())

    @property
    def id(self) -> str:
        """The wire id, `rr:levels:epsilon`."""
        return f"{self.family}:{self.levels}:{self.epsilon}"

    @property
    def alphabet(self) -> int:
        """Number of different reports: as many as levels."""
        return self.levels

    @property
    def keep(self) -> Fraction:
        """The exact probability p that the report is the true level."""
        return Fraction(self._table.counts[0][0], TOTAL)

    @property
    def change(self) -> Fraction:
        """The exact probability q of each other level."""
        return Fraction(self._table.counts[0][1], TOTAL)

    @property
    def inputs(self) -> int:
        """Number of inputs: the levels."""
        return self.levels

    @property
    def masks(self) -> range:
        """There is no such column."""
        return range(0)

    def table(self, mask: int = 0) -> Table:  # noqa: ARG002 (the protocol's signature)
        """Return the integer table that is sampled from."""
        return self._table

    def certify(self) -> tuple[Certificate, ...]:
        """Prove the claim anew on the table that is sampled from."""
        return (certify(self._table, self.id, self.epsilon, self.adjacency),)

    def release(
        self,
        inputs: NDArray[np.uint8],
        source: RandomSource,
        masks: NDArray[np.uint16] | None = None,
    ) -> NDArray[np.uint8]:
        """Turn (n,) uint8 level indices into (n,) reports; one word and the same work for each."""
        without_masks(masks)
        check_inputs(inputs, self.levels)
        return self._table.sample(inputs, admitted(source, self, len(inputs)).words(len(inputs)))

    def log_likelihood(
        self,
        reports: NDArray[np.integer],
        given: NDArray[np.integer],
        mask: int = 0,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return ln P(report | level) of the integer table; broadcasts."""
        return np.asarray(self._log[reports, given], np.float64)

    def likelihood(self, mask: int = 0) -> NDArray[np.float64]:  # noqa: ARG002
        """Return P(z | v) of the integer table, shape (levels, levels)."""
        return self._table.probabilities()

    def presence(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return ones: that there is a rating is public."""
        return np.ones(np.shape(reports))

    def value(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return an unbiased estimate of the level index behind each report."""
        return np.asarray(self._estimates[0][reports], np.float64)

    def square(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return an unbiased estimate of the square of the level index behind each report."""
        return np.asarray(self._estimates[1][reports], np.float64)

    def variance(self) -> NDArray[np.float64]:
        """Return Var[value(report) | level], shape (levels,), in squared levels."""
        value = [self.unbiased(z, power=1) for z in range(self.levels)]
        total = sum(x * x for x in value)
        p, q = self.keep, self.change
        return np.array(
            [float((p - q) * value[v] ** 2 + q * total - v * v) for v in range(self.levels)]
        )

    def unbiased(self, report: int, power: int) -> Fraction:
        """Return the exact g_hat(report) for g(v) = v^power."""
        p, q = self.keep, self.change
        total = sum((Fraction(v) ** power for v in range(self.levels)), Fraction(0))
        return (Fraction(report) ** power - q * total) / (p - q)

    def _unbiased(self) -> NDArray[np.float64]:
        reports = range(self.levels)
        return np.array([[float(self.unbiased(z, power)) for z in reports] for power in (1, 2)])


def _check_epsilon(epsilon: Fraction) -> None:
    if not isinstance(epsilon, Fraction):
        raise ValueError(  # noqa: TRY004 (one error for bad input)
            f"epsilon {epsilon!r}: give an exact number, Fraction(2) or Fraction(1, 2); at most 64"
        )
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ValueError(
            f"epsilon {_short(epsilon)}: must be above 0 (at least 1/1000000) and at most 64; "
            "use the family `none` to protect nothing"
        )
    if epsilon.denominator > LARGEST_DENOMINATOR:
        raise ValueError(
            f"epsilon {_short(epsilon)}: at most 64 and with a denominator of at most 1000000; "
            "write it with at most six decimals"
        )


def _short(epsilon: Fraction) -> str:
    text = str(epsilon) if max(abs(epsilon.numerator), epsilon.denominator) < 10**20 else ""
    return text or "with more than twenty digits"

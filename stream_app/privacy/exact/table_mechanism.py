"""Mechanisms defined by one integer table, which is compiled, certified, sampled and inverted.

    weights(v, z)  --compile_table-->  c[v][z] of 2^64  --certify-->  certificate, or ValueError
                                          |
                       release, log_likelihood, likelihood, presence, value, square, variance

A family is a subclass that defines its weights. Everything else is computed from the counts, not
from the family's formula, so it is exact for the reports sent. An estimator g_hat that is unbiased
for a function g of the input solves

    sum_z c[v][z] * g_hat(z) = 2^64 * g(v)            for every input v

in rational arithmetic (`stream_app.privacy.exact.debiasing`), with the same bits on every machine.

Where presence is protected there is one more input, `levels`, for "no rating"; the last report
means "nothing to report". Reports may be thinned: any other report is replaced by "nothing to
report" with probability 1 - thinning, which is public. Thinning is post-processing of the release,
so it costs no epsilon and the claim still holds; only volume and accuracy fall.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import Certificate, certify
from stream_app.privacy.exact.debiasing import spread, unbiased
from stream_app.privacy.exact.integer_tables import Table, compile_table
from stream_app.privacy.mechanism import (
    VALUE_LIMIT,
    VALUE_OBSERVED,
    VALUE_PROTECTED,
    Mechanism,
    check_epsilon,
    check_inputs,
    check_levels,
    short,
    without_masks,
)
from stream_app.privacy.privacy_map import Adjacency, InputMetric, OutputMeasure
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import admitted

LEAST_THINNING = Fraction(1, 1000)
Weights = Sequence[Sequence[Fraction | int]]


@dataclass(frozen=True)
class TableMechanism(Mechanism):
    """One table for all inputs, compiled and certified on construction."""

    levels: int
    epsilon: Fraction
    certificate: Certificate = field(init=False, repr=False, compare=False)
    _table: Table = field(init=False, repr=False, compare=False)

    family: ClassVar[str]
    adjacency: ClassVar[Adjacency] = Adjacency.VALUE
    output_measure: ClassVar[OutputMeasure] = OutputMeasure.PURE
    protected: ClassVar[str] = VALUE_PROTECTED
    observed: ClassVar[str] = VALUE_OBSERVED
    limit: ClassVar[str] = VALUE_LIMIT
    no_estimate: ClassVar[frozenset[str]] = frozenset()
    most_levels: ClassVar[int] = 256

    def __post_init__(self) -> None:
        check_levels(self.levels, self.most_levels, self.family)
        check_epsilon(self.epsilon)
        object.__setattr__(self, "_table", compile_table(self._weights()))
        object.__setattr__(self, "certificate", self.certify()[0])

    @abstractmethod
    def _weights(self) -> Weights:
        """Return w[v][z], proportional to P(z | v) in each row."""

    @property
    def inputs(self) -> int:
        """Number of inputs: `levels`, or one more where presence is protected."""
        return self._table.inputs

    @property
    def alphabet(self) -> int:
        """Number of distinct reports."""
        return self._table.outputs

    def table(self, mask: int = 0) -> Table:  # noqa: ARG002 (the protocol's signature)
        """Return the integer table that `release` samples from."""
        return self._table

    def certify(self) -> tuple[Certificate, ...]:
        """Prove the claim again on the table that `release` samples from."""
        return (certify(self._table, self.id, self.epsilon, self.adjacency),)

    def release(
        self,
        inputs: NDArray[np.uint8],
        source: RandomSource,
        masks: NDArray[np.uint16] | None = None,
    ) -> NDArray[np.uint8]:
        """Turn (n,) uint8 inputs into (n,) reports; each takes one word and the same steps."""
        without_masks(masks)
        check_inputs(inputs, self.inputs)
        return self._table.draw(inputs, admitted(source, self, len(inputs)))

    def value(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return an unbiased estimate of the level behind each report."""
        return np.asarray(self._estimates[0][reports], np.float64)

    def square(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return an unbiased estimate of the square of the level behind each report."""
        return np.asarray(self._estimates[1][reports], np.float64)

    def variance(self) -> NDArray[np.float64]:
        """Return Var[value(report) | input], shape (inputs,), in squared levels."""
        return spread(self._table.counts, self.unbiased(self._targets(1)))

    def unbiased(self, targets: list[Fraction]) -> list[Fraction] | None:
        """Return the exact g_hat(z) with E[g_hat | v] = targets[v]; None if there is none."""
        return unbiased(self._table.counts, targets)

    def _targets(self, power: int) -> list[Fraction]:
        """Return level^power for each input; where presence is protected, of the level counted from
        the middle of the scale, and 0 where there is no rating."""
        if self.adjacency is Adjacency.VALUE:
            return [Fraction(v) ** power for v in range(self.levels)]
        middle = Fraction(self.levels - 1, 2)
        return [*((v - middle) ** power for v in range(self.levels)), Fraction(0)]

    def presence(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return an unbiased estimate of 1[there is a rating] for each report; 1 where presence is
        public, NaN without an estimate."""
        if self.adjacency is Adjacency.VALUE:
            return super().presence(reports)
        return np.asarray(self._presence[reports], np.float64)

    @cached_property
    def _presence(self) -> NDArray[np.float64]:
        return self._column(0)

    @cached_property
    def _estimates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._column(1), self._column(2)

    def _column(self, power: int) -> NDArray[np.float64]:
        found = self.unbiased(self._targets(power))
        return np.full(self.alphabet, np.nan) if found is None else np.array(found, np.float64)


@dataclass(frozen=True)
class PresenceMechanism(TableMechanism):
    """A mechanism that also protects whether a rating exists; it may publish a part of its reports.

    `thinning` is the fraction of reports other than "missing" that is published.

    Unbiased estimates are of the level counted from the middle of the scale, s(v) = v - (levels -
    1) / 2, of its square, and of presence; all three have mean 0 where there is no rating.
    """

    thinning: Fraction = Fraction(1)

    adjacency: ClassVar[Adjacency] = Adjacency.CELL
    input_metric: ClassVar[InputMetric] = InputMetric.CELL
    protected: ClassVar[str] = "whether there is a rating, and its value"
    observed: ClassVar[str] = "that the device took part in the epoch, and the public scope"
    limit: ClassVar[str] = (
        "many published ratings are fakes: a report multiplies the odds that the rating exists by "
        "at most e^epsilon"
    )
    most_levels: ClassVar[int] = 255

    def __post_init__(self) -> None:
        if not isinstance(self.thinning, Fraction) or not LEAST_THINNING <= self.thinning <= 1:
            raise ValueError(
                f"thinning {short(self.thinning)}: the published fraction is an exact number from "
                f"{LEAST_THINNING} to 1, such as 1/4"
            )
        if self.thinning.denominator > LEAST_THINNING.denominator:
            raise ValueError(
                f"thinning {short(self.thinning)}: its denominator is at most 1000, such as 1/4"
            )
        super().__post_init__()

    @property
    def id(self) -> str:
        """The wire id, `family:levels:epsilon`, and the thinning rate where it is not 1."""
        return super().id if self.thinning == 1 else f"{super().id}:{self.thinning}"

    @abstractmethod
    def _unthinned(self) -> Weights:
        """Return w[v][z] without thinning; the last row and column are "missing"."""

    def _weights(self) -> Weights:
        rows = self._unthinned()
        if self.thinning == 1:
            return rows
        return [
            [*(self.thinning * w for w in row[:-1]), sum(row) - self.thinning * sum(row[:-1])]
            for row in rows
        ]

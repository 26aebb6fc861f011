"""The contract of local mechanisms over ratings: inputs, reports, ids and exact channels.

A mechanism over ratings turns an input into a report, 0 .. alphabet-1. An input is the index of a
rating level, 0 .. levels-1. A mechanism that protects presence has one more input, `levels`, for a
missing rating, and its last report, alphabet-1, means "missing". Its exact channel is

    L[z, v] = P(report = z | input = v)          shape (alphabet, inputs), columns sum to 1

The device samples from this channel, the server decodes with it, the tests and attacks examine it.
The id `family:levels:epsilon` (epsilon an exact rational, `inf` for no noise; some families append
more fields) names the channel completely, so a server's allow-list of ids is a list of channels. A
mechanism over a public partition of the levels has one channel for each mask (`masks`), and the
mask is sent beside the report.

Debiasing. If a channel can be inverted, the estimates from its reports have these means:

    value protected      E[value | v] = v            E[square | v] = v^2
    presence protected   E[presence | v] = 1 if v is a rating, else 0
                         E[value | v] = s(v) if v is a rating, else 0
                         E[square | v] = s(v)^2 if v is a rating, else 0

with s(v) = v - (levels - 1) / 2, the level counted from the middle of the scale: a fake rating then
contributes 0 on average.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.exact.integer_tables import Table
from stream_app.privacy.privacy_map import NO_LOSS, Adjacency, InputMetric, Loss, OutputMeasure
from stream_app.privacy.randomness import RandomSource


class Mechanism(ABC):
    """A local mechanism over rating levels, a frozen value; with what most of them share: the
    existence of a rating is public, there is no mask, and each level is an input and a report."""

    levels: int
    epsilon: Fraction | None  # the exact claim per report under `adjacency`; None: no claim
    family: ClassVar[str]
    adjacency: ClassVar[Adjacency]
    input_metric: ClassVar[InputMetric] = InputMetric.VALUE  # how far apart two inputs are
    output_measure: ClassVar[OutputMeasure]  # how far apart two releases are
    protected: ClassVar[str]  # text of docs/privacy.md: information hidden by epsilon
    observed: ClassVar[str]  # information that an observer still sees
    limit: ClassVar[str]  # limits of the protection, or its cost
    no_estimate: ClassVar[frozenset[str]]  # which of presence, value, square may be NaN

    @property
    def id(self) -> str:
        """The wire id, `family:levels:epsilon`."""
        return f"{self.family}:{self.levels}:{'inf' if self.epsilon is None else self.epsilon}"

    @property
    def inputs(self) -> int:
        """Number of inputs: `levels`, or one more where presence is protected."""
        return self.levels

    @property
    def alphabet(self) -> int:
        """Number of different reports over all masks."""
        return self.levels

    @property
    def masks(self) -> range:
        """The valid masks beside a report; empty for a mechanism without masks."""
        return range(0)

    def privacy_map(self, distance: int) -> Loss:
        """Return the most by which two releases of inputs at this `input_metric` distance, 0 or 1,
        differ in `output_measure`; ValueError for another distance."""
        if distance not in (0, 1):
            raise ValueError(f"distance {distance}: two inputs are equal (0) or differ (1)")
        return Loss(self.epsilon) if distance else NO_LOSS

    @abstractmethod
    def table(self, mask: int = 0) -> Table | None:
        """Return the integer table of the sampler; None for a mechanism without noise."""

    @abstractmethod
    def certify(self) -> tuple[Certificate, ...]:
        """Prove the claim again on every table of the sampler; ValueError if the proof fails."""

    @abstractmethod
    def release(
        self,
        inputs: NDArray[np.uint8],
        source: RandomSource,
        masks: NDArray[np.uint16] | None = None,
    ) -> NDArray[np.uint8]:
        """Turn (n,) inputs into (n,) reports; no other method draws noise.

        The source is a ticket of the device's journal, or a source that marks its reports as tests;
        any other source is refused (`ticket.admitted`).
        """

    def log_likelihood(
        self, reports: NDArray[np.integer], given: NDArray[np.integer], mask: int = 0
    ) -> NDArray[np.float64]:
        """Return ln P(report | input), exact up to float64; broadcasts."""
        if (table := self.table(mask)) is None:
            return np.where(np.equal(reports, given), 0.0, -np.inf)
        return np.asarray(table.log_probabilities()[reports, given], np.float64)

    def likelihood(self, mask: int = 0) -> NDArray[np.float64]:
        """Return the whole channel, shape (alphabet, inputs); fewer reports under some masks."""
        table = self.table(mask)
        return np.eye(self.levels) if table is None else table.probabilities()

    def presence(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return for each report an unbiased estimate of 1[there is a rating]."""
        return np.ones(np.shape(reports))

    @abstractmethod
    def value(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return for each report an unbiased estimate of the level; NaN without one."""

    @abstractmethod
    def square(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return for each report an unbiased estimate of the level squared; NaN without one."""

    @abstractmethod
    def variance(self) -> NDArray[np.float64]:
        """Return Var[value(report) | input], shape (inputs,), in squared levels."""


VALUE_PROTECTED = "the value of a rating"
VALUE_OBSERVED = "user, item, day and number of ratings"
VALUE_LIMIT = "at epsilon 4 and above a report nearly always is the rating"
SMALLEST_EPSILON = Fraction(1, 1_000_000)
LARGEST_EPSILON = Fraction(64)
LARGEST_DENOMINATOR = 1_000_000


def check_levels(levels: int, most: int, family: str) -> None:
    """Raise ValueError unless a scale of a family has 2 to `most` levels."""
    if type(levels) is not int or not 2 <= levels <= most:
        raise ValueError(f"levels {short(levels)}: the family {family} takes 2 to {most} levels")


def check_epsilon(epsilon: Fraction) -> None:
    """Raise ValueError unless epsilon is an exact number within the range of the tables."""
    if not isinstance(epsilon, Fraction):
        raise ValueError(  # noqa: TRY004 (one error for bad input)
            f"epsilon {epsilon!r}: give an exact number, Fraction(2) or Fraction(1, 2); at most 64"
        )
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ValueError(
            f"epsilon {short(epsilon)}: must be above 0 (at least 1/1000000) and at most 64; "
            "use the family `none` to protect nothing"
        )
    if epsilon.denominator > LARGEST_DENOMINATOR:
        raise ValueError(
            f"epsilon {short(epsilon)}: at most 64 and with a denominator of at most 1000000; "
            "write it with at most six decimals"
        )


def short(number: object) -> str:
    """Return a number as text for a message, without the digits of a very long number."""
    text = str(number) if not isinstance(number, Fraction) or _few_digits(number) else ""
    return text[:40] or "with more than twenty digits"


def _few_digits(number: Fraction) -> bool:
    # Checked first: writing out an integer of a million digits takes Python minutes.
    return max(abs(number.numerator), number.denominator) < 10**20


def check_inputs(inputs: NDArray[np.uint8], count: int) -> None:
    """Raise ValueError unless `inputs` is (n,) uint8 below `count`; it names only a row."""
    if not isinstance(inputs, np.ndarray) or inputs.dtype != np.uint8 or inputs.ndim != 1:
        raise ValueError("levels: give a one-dimensional uint8 array of level indices")
    if len(inputs) and int(inputs.max()) >= count:
        raise ValueError(f"row {int((inputs >= count).argmax())}: not one of the {count} inputs")


def without_masks(masks: NDArray[np.uint16] | None) -> None:
    """Raise ValueError if masks are given to a mechanism without masks."""
    if masks is not None:
        raise ValueError(
            "masks: this mechanism does not report over a partition of the levels; leave them out"
        )

"""Composition of releases: exact sums per adjacency, and explicit conversions between them.

    (eps1, delta1) + (eps2, delta2) = (eps1 + eps2, delta1 + delta2)     the same adjacency only

Basic composition (Dwork and Roth 2014, Thm 3.16) also holds if later mechanisms depend on earlier
reports. At delta 0 the sum is tight; at a small delta the loss of many reports together is far
smaller (`loss_distribution.py`: 100 reports at 1/2 cost 20.9, not 50). An epsilon per cell and an
epsilon per user protect different things, so a sum over different adjacencies is refused; the
conversions are

    cell -> value   the same numbers: two values of one rating are two states of one cell
    cell -> user    k cells change:  (k eps, (1 + e^eps + .. + e^((k-1) eps)) delta)
                    k = min(n, 2 c) where a record of at most c ratings is replaced by another,
                    k = min(n, c) where it is replaced by an empty one; n cells are in scope
    value -> user   the same with k = min(n, c), all values replaced; which items the user rated
                    stays public, so an empty record is no neighbour and is refused

where the factor of delta is rounded up to a rational. Sums are `fractions.Fraction`: exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from stream_app.privacy.exact.integer_tables import exp_bounds
from stream_app.privacy.privacy_map import Adjacency

Neighbours = Literal["replace", "empty"]


@dataclass(frozen=True)
class PrivacyLoss:
    """An (epsilon, delta) under one adjacency; exact, never below 0, delta at most 1."""

    epsilon: Fraction
    delta: Fraction
    adjacency: Adjacency

    def __post_init__(self) -> None:
        for name, amount in (("epsilon", self.epsilon), ("delta", self.delta)):
            if not isinstance(amount, Fraction):
                raise ValueError(  # noqa: TRY004 (one error for bad input)
                    f"{name} {amount!r}: give an exact number, as Fraction(1, 2)"
                )
            if amount < 0:
                raise ValueError(f"{name} {amount}: must be 0 or more")
        if self.delta > 1:
            raise ValueError(f"delta {self.delta}: a probability is at most 1")
        if self.adjacency is Adjacency.NOTHING:
            raise ValueError("adjacency nothing: nothing is protected, so nothing is spent")

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Return the composition of both; ValueError for different adjacencies."""
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        if other.adjacency is not self.adjacency:
            raise ValueError(
                f"epsilons of two kinds, {self.adjacency} and {other.adjacency}, have no sum; "
                "convert one of them first"
            )
        delta = min(Fraction(1), self.delta + other.delta)
        return PrivacyLoss(self.epsilon + other.epsilon, delta, self.adjacency)

    def times(self, count: int) -> PrivacyLoss:
        """Return the composition of `count` such losses."""
        if count < 0:
            raise ValueError(f"count {count}: 0 or more releases")
        delta = min(Fraction(1), self.delta * count)
        return PrivacyLoss(self.epsilon * count, delta, self.adjacency)

    def per_user(self, n: int, c_max: int, neighbours: Neighbours = "replace") -> PrivacyLoss:
        """Convert this loss on each of `n` cells to a user with at most `c_max` ratings.

        ValueError for a loss that is neither per cell nor per value, and for an empty neighbour if
        presence is public.
        """
        if self.adjacency not in (Adjacency.CELL, Adjacency.VALUE):
            raise ValueError(f"adjacency {self.adjacency}: only cell or value converts to this")
        if n < 0 or c_max < 0:
            raise ValueError(f"n {n}, c_max {c_max}: numbers of cells and ratings are 0 or more")
        if neighbours not in ("replace", "empty"):
            raise ValueError(f"neighbours {neighbours!r}: choose replace or empty")
        if self.adjacency is Adjacency.VALUE and neighbours == "empty":
            raise ValueError(
                "neighbours empty: an epsilon per value leaves presence public; "
                "no epsilon hides a whole record"
            )
        both = self.adjacency is Adjacency.CELL and neighbours == "replace"
        changed = min(n, 2 * c_max if both else c_max)
        return PrivacyLoss(self.epsilon * changed, self._grouped(changed), Adjacency.USER)

    def _grouped(self, changed: int) -> Fraction:
        if not self.delta:
            return Fraction(0)
        factor, high, power = Fraction(0), exp_bounds(self.epsilon)[1], Fraction(1)
        for _ in range(changed):
            factor += power
            if factor * self.delta >= 1:
                return Fraction(1)
            power = Fraction(
                -(-power * high * 2**64 // 1), 2**64
            )  # rounded up; exact powers would double their digits
        return factor * self.delta

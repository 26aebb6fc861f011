"""Mechanisms that are wrong on purpose, each in one way, and the checks of this folder that notice.

A statistical check misses one of these with probability below 1e-6; the others are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.exact.integer_tables import Table, compile_table
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource, SystemSource
from stream_app.privacy.ratings.item_sampling import ItemSample
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary
from stream_app.privacy.ticket import TicketIssuer, admitted
from tests.naive.exact_samplers import Words, bit_flip, discrete_laplace
from tests.stream_app.privacy.checks import (
    ALPHA,
    check_budget,
    check_certificate,
    check_intervals,
    check_loss,
    departs,
    dependent,
    repeats,
)

TWO = Fraction(2)
FAMILIES = (RandomizedResponse, RandomizedResponseWithMissing, Ternary, ModifiedLaplace, Like)


class Mutant:
    """Passes for an honest mechanism in everything but what it releases."""

    def __init__(self, honest: Mechanism) -> None:
        self.honest = honest

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    def release(
        self, inputs: np.ndarray, source: RandomSource, masks: np.ndarray | None = None
    ) -> np.ndarray:
        return self.changed(inputs, self.honestly(inputs, source, masks))

    def honestly(
        self, inputs: np.ndarray, source: RandomSource, masks: np.ndarray | None
    ) -> np.ndarray:
        """Use its own ticket up, and release through the honest one with a ticket for that."""
        admitted(source, self, len(inputs))
        issuer = TicketIssuer(SystemSource())
        issuer.admit(self.honest)
        return self.honest.release(inputs, issuer.ticket(self.honest, len(inputs)), masks)

    def changed(self, inputs: np.ndarray, reports: np.ndarray) -> np.ndarray:
        return reports


def noticed(mutant: Mutant, mask: int = 0) -> bool:
    return departs(mutant.honest, mutant, ALPHA, mask=mask)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_noise_of_another_scale_is_not_even_made(family: type[Any]) -> None:
    class TooLoud(family):  # type: ignore[misc]
        def _weights(self) -> Any:
            return family(self.levels, self.epsilon * 5 / 4)._weights()

    with pytest.raises(ValueError, match="above the claimed epsilon"):
        TooLoud(5, TWO)


@pytest.mark.parametrize("times", [Fraction(5, 4), Fraction(3, 4)], ids=["more", "less"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_noise_of_another_scale_with_a_borrowed_certificate_is_noticed(
    family: type[Any], times: Fraction
) -> None:
    class Borrowed(family):  # type: ignore[misc]
        def _weights(self) -> Any:
            return family(self.levels, self.epsilon * times)._weights()

        def certify(self) -> tuple[Certificate, ...]:
            return family(self.levels, self.epsilon).certify()  # type: ignore[no-any-return]

    mutant = Borrowed(5, TWO)
    with pytest.raises((AssertionError, ValueError)):
        check_certificate(mutant)
    if times > 1:
        with pytest.raises(AssertionError):
            check_loss(mutant)
    assert departs(family(5, TWO), mutant, ALPHA)


@pytest.mark.parametrize(
    "family",
    [RandomizedResponseWithMissing, Ternary, ModifiedLaplace, Like],
    ids=lambda family: family.family,
)
def test_missing_that_is_never_emitted_is_noticed(family: type[Any]) -> None:
    class Talkative(Mutant):
        def changed(self, inputs: np.ndarray, reports: np.ndarray) -> np.ndarray:
            return np.where(reports == self.honest.alphabet - 1, np.uint8(0), reports)

    assert noticed(Talkative(family(5, TWO)))


@pytest.mark.parametrize(
    "family",
    [RandomizedResponseWithMissing, Ternary, ModifiedLaplace, Like],
    ids=lambda family: family.family,
)
def test_a_missing_cell_that_never_becomes_a_fake_is_noticed(family: type[Any]) -> None:
    class Silent(Mutant):
        def changed(self, inputs: np.ndarray, reports: np.ndarray) -> np.ndarray:
            last = np.uint8(self.honest.alphabet - 1)
            return np.where(inputs == self.honest.levels, last, reports)

    assert noticed(Silent(family(5, TWO)))


def test_noise_that_is_clamped_before_it_is_added_is_noticed() -> None:
    """An end of the scale is out of reach of the other then: no table, and a strange law."""
    with pytest.raises(ValueError, match="weight above 0"):
        compile_table([[1, 1, 0], [1, 1, 1], [0, 1, 1]])

    class ClampedBefore(Mutant):
        def release(
            self, inputs: np.ndarray, source: RandomSource, masks: np.ndarray | None = None
        ) -> np.ndarray:
            words = Words(admitted(source, self, len(inputs)))  # type: ignore[arg-type]
            scale = 4 / self.honest.epsilon  # type: ignore[operator]

            def released_level(v: int) -> int:
                shown = bit_flip(self.honest.epsilon / 2, words) == (v == 5)  # type: ignore[operator]
                noise = max(-2, min(2, discrete_laplace(scale, words)))
                return max(0, min(4, (2 if v == 5 else v) + noise)) if shown else 5

            return np.array([released_level(v) for v in inputs.tolist()], np.uint8)

    mutant = ClampedBefore(ModifiedLaplace(5, TWO))
    assert departs(mutant.honest, mutant, ALPHA, draws=5000, inputs=(0,))  # type: ignore[arg-type]


def test_an_epsilon_per_item_that_is_taken_for_the_users_is_noticed() -> None:
    @dataclass(frozen=True)
    class Generous(ItemSample):
        @property
        def epsilon(self) -> Fraction:
            return self.budget

    catalogue = np.arange(100, dtype=np.uint64)
    check_budget(ItemSample.from_budget(Fraction(10)), catalogue)
    with pytest.raises(AssertionError):
        check_budget(Generous.from_budget(Fraction(10)), catalogue)


def test_noise_that_is_used_twice_is_noticed() -> None:
    class Twice(Mutant):
        def changed(self, inputs: np.ndarray, reports: np.ndarray) -> np.ndarray:
            return reports[::2].repeat(2)[: len(reports)]

    assert dependent(Twice(RandomizedResponseWithMissing(5, TWO)), 3, ALPHA)  # type: ignore[arg-type]


def test_noise_that_is_used_in_two_releases_is_noticed() -> None:
    class Remembers(Mutant):
        def changed(self, inputs: np.ndarray, reports: np.ndarray) -> np.ndarray:
            return self.__dict__.setdefault("kept", reports)  # type: ignore[no-any-return]

    assert repeats(Remembers(RandomizedResponseWithMissing(5, TWO)), 3)  # type: ignore[arg-type]
    assert not repeats(RandomizedResponseWithMissing(5, TWO), 3)


class AtLeast(Table):
    """`>=` where `>` belongs: one word of 2^64 in each interval goes to the next."""

    def _search(self, inputs: np.ndarray, u: np.ndarray) -> np.ndarray:
        return super()._search(inputs, u + (u < 2**64 - 1))


class LastMissing(Table):
    """The last output is never reached."""

    def _search(self, inputs: np.ndarray, u: np.ndarray) -> np.ndarray:
        return np.minimum(super()._search(inputs, u), self.outputs - 2)


class Signed(Table):
    """Words read as signed numbers."""

    def _search(self, inputs: np.ndarray, u: np.ndarray) -> np.ndarray:
        return super()._search(inputs, u ^ np.uint64(2**63))


class Short(Table):
    """Words of 32 bits: some counts are off by up to 2^32."""

    def _search(self, inputs: np.ndarray, u: np.ndarray) -> np.ndarray:
        return super()._search(inputs, u >> np.uint64(32) << np.uint64(32))


class OneRow(Table):
    """The input does not matter: private, and useless."""

    def _search(self, inputs: np.ndarray, u: np.ndarray) -> np.ndarray:
        return super()._search(np.zeros_like(inputs), u)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
@pytest.mark.parametrize("wrong", [AtLeast, LastMissing, Signed, Short, OneRow])
def test_a_search_that_is_off_by_one_word_is_noticed(wrong: type[Table], family: type[Any]) -> None:
    table = family(5, TWO).table()
    check_intervals(table)
    with pytest.raises(AssertionError):
        check_intervals(wrong(table.counts))


def test_a_last_output_that_never_comes_is_noticed_from_outside() -> None:
    class Cut(Mutant):
        def changed(self, inputs: np.ndarray, reports: np.ndarray) -> np.ndarray:
            return np.minimum(reports, self.honest.alphabet - 2).astype(np.uint8)

    for family in FAMILIES:
        assert noticed(Cut(family(5, TWO)))


def test_a_mask_that_is_not_applied_is_noticed() -> None:
    class Finest(Mutant):
        def release(
            self, inputs: np.ndarray, source: RandomSource, masks: np.ndarray | None = None
        ) -> np.ndarray:
            finest = np.full(len(inputs), self.honest.masks[-1], np.uint16)
            return self.honestly(inputs, source, finest)

    mutant = Finest(PartitionResponse(5, TWO))
    assert noticed(mutant, mask=0b0100)
    assert not noticed(mutant, mask=0b1111)


def test_thinning_that_spares_the_true_reports_is_noticed() -> None:
    class Sparing(Mutant):
        def changed(self, inputs: np.ndarray, reports: np.ndarray) -> np.ndarray:
            return np.where((inputs % 2 == 0) & (inputs < 5), inputs, reports)

    assert noticed(Sparing(RandomizedResponseWithMissing(5, TWO, Fraction(1, 4))))


def test_one_rating_in_twenty_that_slips_through_is_noticed() -> None:
    class Leaking(Mutant):
        def changed(self, inputs: np.ndarray, reports: np.ndarray) -> np.ndarray:
            slipped = np.arange(len(reports)) % 20 == 0
            return np.where(slipped, inputs, reports)

    assert noticed(Leaking(RandomizedResponse(5, TWO)))


def test_the_honest_ones_pass_every_check() -> None:
    """False alarm below 1e-6 each."""
    for honest in (*(family(5, TWO) for family in FAMILIES), PartitionResponse(5, TWO)):
        check_loss(honest)
        check_certificate(honest)
        assert not noticed(Mutant(honest), mask=0b0100 if honest.masks else 0)
    assert not dependent(RandomizedResponseWithMissing(5, TWO), 3, ALPHA)

"""The cap of a profile: which items are kept, what one item changes, and what a person pays."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.privacy.accounting.budget_plans import fits
from stream_app.privacy.accounting.profile_cap import profile_cost, within
from stream_app.privacy.accounting.whole_person import report_loss, sum_cost
from stream_app.privacy.exact.discrete_gaussian import DeltaCertificate
from stream_app.privacy.exact.integer_tables import exp_bounds
from stream_app.privacy.profiles import profile_registry as registry
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.codebook import first_items
from stream_app.privacy.profiles.jlt import Jlt, JltPaper
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS
from stream_app.privacy.randomness import SeededSource

MICRO = Fraction(1, 10**6)
ITEMS = np.array([1, 2, 3, 7, 11], np.uint64)
SMALL = Blip(8, 2, Fraction(2), 2)
EVERY = [ITEMS[list(pick)] for n in range(6) for pick in itertools.combinations(range(5), n)]


def changed(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
    return len(set(first.tolist()) ^ set(second.tolist()))


def exact(mechanism: Blip, items: NDArray[np.uint64]) -> list[int]:
    """P(output | items) of all 256 outputs as integers, bit by bit from the counts of the table."""
    table = mechanism._table
    assert table is not None
    clear = mechanism.filter(items).tolist()
    return [
        math.prod(table.counts[was][output >> bit & 1] for bit, was in enumerate(clear))
        for output in range(256)
    ]


def worst(mechanism: Blip, distance: int) -> Fraction:
    """The worst quotient of two of all profiles at a distance, at any of all outputs."""
    laws = [exact(mechanism, profile) for profile in EVERY]
    pairs = [
        (laws[i], laws[j])
        for i, j in itertools.permutations(range(len(EVERY)), 2)
        if changed(EVERY[i], EVERY[j]) == distance
    ]
    return max(
        Fraction(a, b) for first, second in pairs for a, b in zip(first, second, strict=True)
    )


def test_an_over_full_profile_keeps_the_first_of_a_public_order_whatever_its_own_order() -> None:
    many = np.arange(1000, dtype=np.uint64)
    kept = first_items(many, 20)
    assert len(kept) == 20
    np.testing.assert_array_equal(first_items(many[::-1].copy(), 20), kept)
    np.testing.assert_array_equal(first_items(kept, 20), kept)
    # A sample: half of the items have half of the places, and what they keep is in the whole's.
    half = first_items(many[500:], 20)
    assert set(kept[kept >= 500].tolist()) <= set(half.tolist())
    assert 3 <= (kept >= 500).sum() <= 17
    assert first_items(many[:5], 5).tolist() == [0, 1, 2, 3, 4]
    assert len(first_items(many[:0], 5)) == 0


def test_one_item_more_changes_two_items_of_what_is_kept_at_most() -> None:
    most = {changed(first_items(a, 2), first_items(b, 2)) for a in EVERY for b in EVERY
            if changed(a, b) == 1}  # fmt: skip
    assert most == {0, 1, 2}


def test_no_output_of_a_capped_filter_distinguishes_neighbours_by_more_than_epsilon() -> None:
    """All profiles of five items with a cap of two, all outputs, in fractions."""
    assert worst(SMALL, 1) == SMALL.certify()[0].worst_ratio  # tight: an exchange of two items
    assert worst(SMALL, 1) <= exp_bounds(Fraction(2))[0]
    # With the noise of a filter without a cap an exchange would cost twice epsilon.
    assert worst(Blip(8, 2, Fraction(2)), 1) ** 2 > exp_bounds(Fraction(3))[1]
    mutant = Blip(8, 2, Fraction(2), 2)
    object.__setattr__(mutant, "_table", Blip(8, 2, Fraction(2))._table)
    assert worst(mutant, 1) > exp_bounds(Fraction(2))[1]
    with pytest.raises(ValueError, match="above the claimed epsilon 2"):
        mutant.certify()


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5])
def test_the_map_of_a_capped_filter_bounds_every_pair_of_profiles(distance: int) -> None:
    bound = SMALL.privacy_map(distance).epsilon
    assert bound == min(distance, 2) * Fraction(2)
    assert worst(SMALL, distance) <= exp_bounds(bound)[0]


def test_a_capped_profile_of_any_size_costs_the_person_the_cap() -> None:
    empty, bound = exact(SMALL, ITEMS[:0]), sum_cost(SMALL.id)[0]
    assert bound == 2  # two items of epsilon 1
    quotients = [
        Fraction(a, b) for each in EVERY for a, b in zip(exact(SMALL, each), empty, strict=True)
    ]
    highest = max(*quotients, *(1 / each for each in quotients))
    assert exp_bounds(bound - Fraction(1, 10**6))[1] < highest <= exp_bounds(bound)[0]
    assert report_loss(SMALL.id).epsilon(0.0) == pytest.approx(2, rel=1e-9)
    for cap in (1, 10, 100, 1000):
        id, total = f"blip:500:2:2:{cap}", min(cap, 250)  # no more than 500 bits of 1/2
        assert sum_cost(id) == (total, 0)
        assert report_loss(id).epsilon(0.0) == pytest.approx(total, rel=1e-9)
    assert report_loss("blip:500:2:2:9", "rating").epsilon(0.0) == pytest.approx(2, rel=1e-9)


@pytest.mark.parametrize(
    ("family", "epsilon"), [("blip", "1/2"), ("blip", "2"), ("blip", "8"), ("jlt", "2")]
)
def test_the_cap_of_a_budget_is_the_largest_with_which_a_profile_fits(
    family: str, epsilon: str
) -> None:
    budget = Fraction(20), MICRO
    made = partial(registry.mechanism, family, epsilon, length=200, hashes=2)
    found = within(made, *budget)
    assert found.most > 1
    assert fits(((found.id, 1),), *budget, MOST_ITEMS)
    assert profile_cost(found, MICRO) <= 20
    more = made(most=found.most + 1)
    assert not fits(((more.id, 1),), *budget, MOST_ITEMS)
    assert not fits(((made().id, 1),), *budget, MOST_ITEMS)


def test_where_every_profile_fits_or_none_does_the_cap_is_none_or_one() -> None:
    budget = Fraction(20), MICRO
    assert within(partial(Blip, 20, 2, Fraction(1)), *budget).id == "blip:20:2:1"
    assert within(partial(Blip, 20, 2, None), *budget).id == "blip:20:2:inf"
    assert within(partial(JltPaper, 100, Fraction(2), Fraction(1, 10)), *budget).most == MOST_ITEMS
    assert within(partial(Blip, 5000, 4, Fraction(64)), *budget).id == "blip:5000:4:64:1"


def test_the_noise_of_a_capped_projection_pays_for_an_exchange() -> None:
    capped, whole = Jlt(64, Fraction(2), MICRO, 5), Jlt(64, Fraction(2), MICRO)
    (proof,) = capped.certify()
    assert isinstance(proof, DeltaCertificate)
    assert Fraction(9, 10) * MICRO < proof.delta_bound <= MICRO
    # Moving all coordinates by 2 is what the uncapped mechanism with half the noise proves.
    assert 1.9 < capped.sigma / whole.sigma < 2.2
    each = capped.of_released_item(Fraction(2))
    assert each[0] == 1
    assert each[1] * (1 + exp_bounds(Fraction(1))[1]) == MICRO
    assert capped.privacy_map(1).delta <= MICRO
    assert capped.privacy_map(5) == capped.privacy_map(500)
    mutant = Jlt(64, Fraction(2), MICRO, 5)
    object.__setattr__(mutant, "_table", whole.noise)
    with pytest.raises(ValueError, match="above the claimed 1/1000000"):
        mutant.certify()


@pytest.mark.parametrize("made", [Blip(64, 2, Fraction(2), 3), Jlt(64, Fraction(2), MICRO, 3)],
                         ids=lambda made: made.id)  # fmt: skip
def test_items_over_the_cap_are_never_released(made: Blip | Jlt) -> None:
    kept = first_items(ITEMS, 3)
    released = made.release(ITEMS, SeededSource(5))
    np.testing.assert_array_equal(released, made.release(kept, SeededSource(5)))
    assert made.log_likelihood(released, ITEMS) == made.log_likelihood(released, kept)
    assert made.log_likelihood(released, ITEMS) != made.log_likelihood(released, ITEMS[:2])
    assert made.sizes(made.coordinates(released[None])).max() <= 3


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("blip:64:2:2:0", "at most 0 items in a profile: 1 to 16384"),
        ("blip:64:2:2:16385", "at most 16385 items"),
        ("blip:64:2:2:16384", "write 'blip:64:2:2'"),
        ("blip:64:2:2:007", "write 'blip:64:2:2:7'"),
        ("blip:64:2:inf:7", "leave the cap out"),
        ("jlt:64:2:1/1000000:7:7", "an id is"),
        ("jltpaper:64:2:1/10:7", "which has no cap"),
    ],
)
def test_a_cap_that_is_none_is_refused(id: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        registry.parse(id)

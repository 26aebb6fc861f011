"""Which cells are reported: each once in a life, by a rule that no rating has a part in."""

from __future__ import annotations

import inspect
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.ratings.item_sampling import ItemSample, Scope
from tests.stream_app.privacy.checks import allowed, check_budget

CATALOGUE = np.arange(5000, dtype=np.uint64) * np.uint64(7919)


def test_every_item_is_in_scope_in_exactly_one_epoch_of_its_life() -> None:
    scope = Scope(key=99, period=7, first=20_000)
    found = [scope.items(CATALOGUE, epoch) for epoch in range(19_900, 20_100)]
    together = np.concatenate(found)
    assert sorted(together.tolist()) == sorted(CATALOGUE.tolist())
    sizes = [len(items) for items in found if len(items)]
    assert len(sizes) == 7
    assert max(sizes) < 1.2 * len(CATALOGUE) / 7 < 1.4 * min(sizes)


def test_more_rounds_are_asked_for_and_repeat_the_schedule() -> None:
    once, thrice = Scope(1, 4), Scope(1, 4, rounds=3)
    for epoch in range(12):
        found = thrice.items(CATALOGUE, epoch)
        np.testing.assert_array_equal(found, once.items(CATALOGUE, epoch % 4))
    assert len(thrice.items(CATALOGUE, 12)) == len(once.items(CATALOGUE, 4)) == 0


def test_a_new_item_changes_nothing_for_the_others() -> None:
    scope = Scope(5, 10)
    before, after = scope.items(CATALOGUE[:-1], 3), scope.items(CATALOGUE, 3)
    assert set(before.tolist()) <= set(after.tolist()) <= {*before.tolist(), int(CATALOGUE[-1])}


def test_another_key_is_another_schedule() -> None:
    first, other = (set(Scope(key, 10).items(CATALOGUE, 0).tolist()) for key in (1, 2))
    assert len(first & other) < 0.3 * len(first)


def test_what_is_in_scope_has_no_argument_that_could_hold_a_rating() -> None:
    assert list(inspect.signature(Scope.items).parameters) == ["self", "catalogue", "epoch"]
    assert list(inspect.signature(ItemSample.items).parameters) == ["self", "catalogue", "key"]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [({"key": -1}, "key"), ({"key": 2**64}, "key"), ({"period": 0}, "period"),
     ({"period": 2**40}, "period"), ({"first": -1}, "first"), ({"rounds": 0}, "rounds")],
)  # fmt: skip
def test_a_schedule_out_of_range_is_refused(wrong: dict[str, int], match: str) -> None:
    with pytest.raises(ValueError, match=f"scope {match}"):
        Scope(**({"key": 1, "period": 4} | wrong))


@pytest.mark.parametrize(
    ("budget", "reports", "each"),
    [("1/2", 1, "1/2"), ("4", 1, "4"), ("5", 2, "5/2"), ("20", 8, "5/2"), ("21", 8, "21/8")],
)
def test_a_budget_is_spent_on_a_few_clear_reports(budget: str, reports: int, each: str) -> None:
    sample = ItemSample.from_budget(Fraction(budget))
    assert (sample.reports, sample.epsilon) == (reports, Fraction(each))


@pytest.mark.parametrize("budget", ["1/2", "5", "21"])
def test_what_is_sampled_costs_the_user_the_budget_and_no_more(budget: str) -> None:
    sample = ItemSample.from_budget(Fraction(budget))
    items = sample.items(CATALOGUE, key=1)
    assert len(items) == sample.reports
    check_budget(sample, CATALOGUE)
    assert len(items) * sample.epsilon == Fraction(budget)


def test_the_sample_is_the_devices_own_and_stays_the_same() -> None:
    sample = ItemSample.from_budget(Fraction(25))
    own = sample.items(CATALOGUE, key=17)
    np.testing.assert_array_equal(sample.items(CATALOGUE[::-1], key=17), own)
    assert set(own.tolist()) != set(sample.items(CATALOGUE, key=18).tolist())
    assert len(set(own.tolist())) == 10
    assert len(sample.items(CATALOGUE[:3], key=17)) == 3


@pytest.mark.statistical
def test_every_item_is_as_likely_to_be_sampled() -> None:
    """2000 devices pick 10 of 50 items: Bernstein, false alarm 1e-6; 15 % too often is seen."""
    sample, items = ItemSample.from_budget(Fraction(25)), CATALOGUE[:50]
    counts = {int(item): 0 for item in items}
    for device in range(2000):
        for item in sample.items(items, key=device * 104_729).tolist():
            counts[item] += 1
    most = allowed(2000, np.array(0.2), 1e-6 / 50)
    assert max(abs(count - 400) for count in counts.values()) < most < 115


@pytest.mark.parametrize("budget", [Fraction(0), Fraction(-1)])
def test_no_budget_has_no_sample(budget: Fraction) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ItemSample.from_budget(budget)

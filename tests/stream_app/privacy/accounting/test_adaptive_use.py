"""What a strategy can gain that chooses mechanisms and inputs by what it has seen: exactly nothing.

`worst_delta` tries every strategy, in fractions. The last test shows a stopping rule that is often
taken for granted, and a strategy that breaks it.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest

from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import fits, pin, read_plan
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.exact.gaussian_calibration import exponential
from stream_app.privacy.privacy_map import Adjacency
from tests.naive.losses import within, worst_delta

MECHANISMS = ("rr:2:1/2", "rr:2:1", "rr:2:2")
EPSILON, DELTA = Fraction(5, 2), Fraction(1, 5)
RATIO = exponential(EPSILON)


def pairs_of(id: str):
    """Return all pairs of inputs that are neighbours, under every mask."""
    mechanism = registry.parse(id)
    found = []
    for mask in mechanism.masks or (0,):
        counts = mechanism.table(mask).counts
        if mechanism.adjacency is Adjacency.CELL:
            found += [(row, counts[-1]) for row in dict.fromkeys(counts[:-1])]
        else:
            found += permutations(dict.fromkeys(counts), 2)
    return found


@pytest.mark.parametrize(
    ("ids", "counts"),
    [
        (("rr:2:1/2", "rr:2:2"), (3, 2)),
        (("rr:3:1",), (3,)),
        (("partition:3:1", "rr:2:1"), (2, 1)),
        (("cell:2:1:1/3", "like:2:1"), (2, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("share", [Fraction(1, 4), Fraction(3, 4)])
def test_any_order_and_any_inputs_of_a_plan_stay_within_its_curve(ids, counts, share):
    composed = report_loss(ids[0]).self_composed(0)
    for id, count in zip(ids, counts, strict=True):
        composed = composed.compose(report_loss(id).self_composed(count))
    kinds = [pairs_of(id) for id in ids]
    directions = (kinds, [[(b, a) for a, b in kind] for kind in kinds])
    epsilon = share * Fraction(composed.epsilon(0.0))
    found = composed.delta(float(epsilon))
    for direction in directions:
        assert worst_delta(direction, within(counts), exponential(epsilon)[1]) <= found
    # The bound at epsilon is no worse than the worst strategy at .999 epsilon.
    nearer = exponential(epsilon * Fraction(999, 1000))[0]
    worst = max(worst_delta(direction, within(counts), nearer) for direction in directions)
    assert found <= float(worst) + 1e-12


def strategies(admits) -> Fraction:
    """Return the largest delta at EPSILON over all strategies within a rule."""
    one_pair = [pairs_of(id)[:1] for id in MECHANISMS]  # the exchanged pair is the same relabelled
    return worst_delta(one_pair, admits, RATIO[1])


def by_id(counts) -> dict[str, int]:
    return {id: count for id, count in zip(MECHANISMS, counts, strict=True) if count}


def test_the_renyi_filter_holds_for_every_strategy():
    plan = read_plan(pin("adaptive", EPSILON, DELTA), EPSILON, DELTA)
    rooms = [plan.room({}, id) for id in MECHANISMS]
    assert rooms[0] > rooms[1] > rooms[2] >= 1

    def admits(counts, k):
        return plan.room(by_id(counts), MECHANISMS[k]) >= 1

    found = strategies(admits)
    assert DELTA / 2 < found <= DELTA


def test_a_plan_holds_for_every_strategy():
    plan = read_plan(pin("rr:2:2*1,rr:2:1/2", EPSILON, DELTA), EPSILON, DELTA)

    def admits(counts, k):
        return plan.room(by_id(counts), MECHANISMS[k]) >= 1

    assert DELTA / 2 < strategies(admits) <= DELTA


def test_a_sum_holds_for_every_strategy():
    plan = read_plan("sum", EPSILON, DELTA)

    def admits(counts, k):
        return plan.room(by_id(counts), MECHANISMS[k]) >= 1

    assert strategies(admits) == 0


def test_the_curve_of_the_counts_so_far_is_no_stopping_rule():
    """Why a plan states its counts: a rule that composes what was used, and admits what still fits,
    is broken by a strategy that takes a strong mechanism after a lucky report and weak ones else.
    """

    def admits(counts, k):
        after = tuple(n + (i == k) for i, n in enumerate(counts))
        return sum(after) <= 6 and fits(tuple(by_id(after).items()), EPSILON, DELTA)

    assert strategies(admits) > DELTA * Fraction(6, 5)

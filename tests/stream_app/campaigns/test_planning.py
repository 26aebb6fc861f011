"""The noise of a plan fits its budget, and a plan that exceeds it is refused."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from stream_app.campaigns.learning import can_learn
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import (
    Wanted,
    certificate,
    check_budget,
    check_stages,
    stages,
)

DELTA = Fraction(1, 10**6)
THREE = (
    Wanted("bias", 700, Fraction(1, 5)),
    Wanted("head", 300, Fraction(1, 5)),
    Wanted("refine", 900, Fraction(3, 5)),
)


def campaign(epsilon: Fraction, wanted=THREE) -> Campaign:
    planned = stages(epsilon, DELTA, wanted)
    return Campaign(
        number=1, epsilon=epsilon, delta=DELTA, parties=1, scope=(1, 2), stages=planned
    )  # fmt: skip


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)])
def test_a_plan_costs_what_it_states_and_hardly_less(epsilon):
    planned = campaign(epsilon)
    check_budget(planned)
    cost = certificate(planned.stages)
    assert cost.delta(epsilon) <= DELTA < cost.delta(epsilon * Fraction(999, 1000))


def test_a_stage_of_a_quarter_has_twice_the_noise_of_the_whole():
    (whole,) = stages(Fraction(2), DELTA, [Wanted("together", 100, Fraction(1))])
    (quarter,) = stages(Fraction(2), DELTA, [Wanted("together", 100, Fraction(1, 4))])
    assert quarter.variance == pytest.approx(4 * whole.variance, rel=1e-4)
    assert whole.variance == pytest.approx((2.230 * whole.bound) ** 2, rel=2e-3)


def test_a_plan_over_its_budget_is_refused():
    planned = campaign(Fraction(2))
    check_budget(planned)
    cheaper = msgspec.structs.replace(planned, epsilon=Fraction(199, 100))
    with pytest.raises(ValueError, match=r"cost epsilon 2\.0000 .* more than the 1.99"):
        check_budget(cheaper)
    less_noise = msgspec.structs.replace(
        planned.stages[0], variance=planned.stages[0].variance // 2
    )
    with pytest.raises(ValueError, match="add noise or leave stages out"):
        check_budget(msgspec.structs.replace(planned, stages=(less_noise, *planned.stages[1:])))


def test_shares_above_the_whole_are_refused():
    with pytest.raises(ValueError, match="shares of the stages add up to 6/5"):
        stages(Fraction(1), DELTA, [*THREE, Wanted("more", 5, Fraction(1, 5))])


@pytest.mark.parametrize("bound", [0, 2**16])
def test_a_bound_off_the_grid_is_refused(bound):
    with pytest.raises(ValueError, match=f"bound {bound}"):
        stages(Fraction(1), DELTA, THREE, bound=bound)


def test_a_stage_of_a_tiny_share_has_a_coarser_grid():
    wanted = [Wanted("moment", 3, Fraction(1, 1000)), Wanted("refine", 900, Fraction(999, 1000))]
    small, large = stages(Fraction(1), DELTA, wanted)
    assert small.bound < large.bound == 2048
    assert small.variance <= 2**32
    assert small.variance > 2**32 * 0.99


@pytest.mark.parametrize(
    ("changed", "stage", "sentence"),
    [
        ({"epsilon": Fraction(10**20 - 1)}, {}, "is above 64"),
        ({"epsilon": Fraction(65)}, {}, "is above 64"),
        ({}, {"bound": 2**24, "variance": 4}, "is above 10,000"),
    ],
)
def test_a_plan_whose_cost_would_take_days_is_refused_at_once(changed, stage, sentence):
    planned = campaign(Fraction(2))
    found = tuple(msgspec.structs.replace(each, **stage) for each in planned.stages)
    with pytest.raises(ValueError, match=f"campaign 1: .*{sentence}"):
        check_budget(msgspec.structs.replace(planned, stages=found, **changed))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({}, ""),
        ({"kind": "stars"}, "is of no kind that is learned from"),
        ({"size": 6}, "6 integers; s items of the 2"),
        ({"size": 1}, "1 integers; s items"),
        ({"size": 4}, "no triangle"),
    ],
)
def test_a_stage_that_workers_do_not_learn_from_is_refused(changed, sentence):
    planned = campaign(Fraction(2), [Wanted("together", 3, Fraction(1))])
    stage = msgspec.structs.replace(planned.stages[0], **changed)
    planned = msgspec.structs.replace(planned, stages=(stage,))
    assert can_learn(planned) is (not sentence)
    if not sentence:
        check_stages(planned)
        return
    with pytest.raises(ValueError, match=sentence):
        check_stages(planned)


def test_a_bound_that_no_device_contributes_with_is_refused():
    planned = campaign(Fraction(2), [Wanted("together", 3, Fraction(1))])
    wide = msgspec.structs.replace(planned.stages[0], bound=2**15 + 1)
    with pytest.raises(ValueError, match="has the bound 32769; give 32768 at most"):
        check_stages(msgspec.structs.replace(planned, stages=(wide,)))

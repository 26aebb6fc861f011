"""Plans of whole campaigns: within their budget, of sizes that every part of the system takes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from stream_app.campaigns import together
from stream_app.campaigns.planning import Outline, check_budget, plan
from stream_app.wire.campaigns.plan import decode_plan, encode_plan

DELTA = Fraction(1, 10**6)


def outline(epsilon: Fraction | int = 2, **changes: Any) -> Outline:
    return Outline(Fraction(epsilon), DELTA, 2, **changes)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2), Fraction(8)])
@pytest.mark.parametrize("most", [None, 2**22])
def test_a_campaign_is_within_its_budget(epsilon: Fraction, most: int | None) -> None:
    campaign = plan(outline(epsilon, most=most), range(3706))
    check_budget(campaign)
    assert decode_plan(encode_plan(campaign)) == campaign
    (stage,) = campaign.stages
    assert (stage.kind, stage.size, stage.share) == ("together", together.size(300), 1)


@pytest.mark.parametrize("most", [10**6, 2**22])
def test_so_many_contributions_fit_every_sum(most: int) -> None:
    campaign = plan(outline(most=most), range(400))
    assert min(stage.most for stage in campaign.stages) >= most


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"parties": 3}, "parties 3: 1"),
        ({"epsilon": Fraction(65)}, "epsilon 65 and delta"),
        ({"epsilon": Fraction(0)}, "epsilon 0 and delta"),
        ({"delta": Fraction(1)}, "and delta 1:"),
        ({"together_items": 1}, "1 items for together: give 2 at least"),
        ({"least": 1}, "least 1 and most"),
        ({"least": 9, "most": 8}, "least 9 and most 8"),
        ({"most": 2**22 + 1}, "most 4194305 contributions"),
        ({"deadline_cuts": 0}, "a deadline of 0 cuts"),
    ],
)
def test_an_outline_out_of_range_is_refused(changes: dict[str, Any], sentence: str) -> None:
    fields = {"epsilon": Fraction(2), "delta": DELTA, "parties": 2} | changes
    with pytest.raises(ValueError, match=sentence):
        Outline(**fields)


def test_a_scope_that_no_contribution_holds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"together over 2000 items has .* give fewer items"):
        plan(outline(together_items=2000), range(2000))
    with pytest.raises(ValueError, match="a scope of 1 item: a campaign is over 2 at least"):
        plan(outline(), range(1))

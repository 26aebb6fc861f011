"""Plans of whole campaigns: within their budget, of sizes that every part of the system takes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from stream_app.campaigns import together
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import Outline, check_budget, check_stages, plan
from stream_app.campaigns.stars.shape import Shape, shape_of
from stream_app.wire.campaigns.plan import decode_plan, encode_plan

DELTA = Fraction(1, 10**6)
BOTH = ("together", "stars")
SEVEN = ["bias", "bias", "head", "moment", "refine", "moment", "refine"]


def outline(epsilon: Fraction | int = 2, **changes: Any) -> Outline:
    return Outline(Fraction(epsilon), DELTA, 2, **({"kinds": BOTH} | changes))


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2), Fraction(8)])
@pytest.mark.parametrize("most", [None, 2**22])
def test_a_campaign_of_both_kinds_is_within_its_budget(epsilon: Fraction, most: int | None) -> None:
    campaign = plan(outline(epsilon, most=most), range(3706))
    check_budget(campaign)
    assert decode_plan(encode_plan(campaign)) == campaign
    assert [stage.kind for stage in campaign.stages] == ["together", *SEVEN]
    assert sum(stage.share for stage in campaign.stages) == 1
    assert campaign.stages[0].size == together.size(300)
    found = shape_of(campaign.stages, 3706)
    assert found is not None
    assert found.items == 3706
    assert [found.size(kind) for kind in SEVEN] == [stage.size for stage in campaign.stages[1:]]


def test_a_campaign_of_one_kind_has_the_whole_budget() -> None:
    for kind, stages in (("together", ["together"]), ("stars", SEVEN)):
        campaign = plan(outline(kinds=(kind,)), range(100))
        assert [stage.kind for stage in campaign.stages] == stages
        assert sum(stage.share for stage in campaign.stages) == 1


def test_a_half_of_a_budget_has_the_recipe_of_less() -> None:
    whole = plan(outline(8, kinds=("stars",)), range(500))
    half = plan(outline(8), range(500))
    little = plan(outline(8, together_share=Fraction(9, 10)), range(500))
    shapes = [shape_of(each.stages, 500) for each in (whole, half, little)]
    assert shapes == [Shape(500, 173, 3), Shape(500, 120, 3), Shape(500, 86, 2)]


@pytest.mark.parametrize("most", [10**6, 2**22])
def test_so_many_contributions_fit_every_sum(most: int) -> None:
    campaign = plan(outline(most=most), range(400))
    assert min(stage.most for stage in campaign.stages) >= most


def test_a_scope_smaller_than_the_head_is_all_head() -> None:
    assert shape_of(plan(outline(8), range(10)).stages, 10) == Shape(10, 10, 3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kinds": ()}, "choose together, stars, or both"),
        ({"kinds": ("stars", "stars")}, "choose together, stars, or both"),
        ({"kinds": ("lists",)}, "kinds lists: choose"),
        ({"parties": 3}, "parties 3: 1"),
        ({"epsilon": Fraction(65)}, "epsilon 65 and delta"),
        ({"epsilon": Fraction(0)}, "epsilon 0 and delta"),
        ({"delta": Fraction(1)}, "and delta 1:"),
        ({"together_share": Fraction(1)}, "together_share 1: above 0, below 1"),
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
    with pytest.raises(ValueError, match=r"refine over 20000 items has 60000 integers.* 48000"):
        plan(outline(), range(20_000))
    with pytest.raises(ValueError, match=r"together over 2000 items has .* give fewer items"):
        plan(outline(together_items=2000), range(2000))
    with pytest.raises(ValueError, match="a scope of 1 item: a campaign is over 2 at least"):
        plan(outline(kinds=("stars",)), range(1))
    with pytest.raises(ValueError, match="stars over 2 items: it has 3 factors"):
        plan(outline(kinds=("stars",), epsilon=Fraction(16)), range(2))


PLANNED = plan(outline(kinds=("stars",)), range(30))
STAGES = dict(zip("bchmrns", PLANNED.stages, strict=True))


def arranged(names: str, **sizes: int) -> Campaign:
    found = [STAGES[name] for name in names]
    for index, size in sizes.items():
        at = int(index.removeprefix("at_"))
        found[at] = msgspec.structs.replace(found[at], size=size)
    return msgspec.structs.replace(PLANNED, stages=tuple(found))


@pytest.mark.parametrize(
    ("campaign", "sentence"),
    [
        (arranged("b"), "the order is bias, bias, head"),
        (arranged("bch"), "the order is"),
        (arranged("bchm"), "the order is"),
        (arranged("bchrm"), "the order is"),
        (arranged("bmrch"), "the order is"),
        (arranged("bchmrn"), "the order is"),
        (arranged("bchmr", at_0=58), "stage bias has 58 integers; .* it has 60"),
        (arranged("bchmr", at_2=434), "stage head has 434 integers"),
        (arranged("bchmr", at_2=496), "a head of 32 items and 2 factors"),
        (arranged("bchmr", at_2=1), None),
        (arranged("bchmr", at_3=4), "stage moment has 4 integers"),
        (arranged("bchmrns", at_4=91), "stage refine has 91 integers"),
        (arranged("bchmr", at_4=29), "and -1 factors"),
        (arranged("bchmr", at_4=30), "and 0 factors"),
        (arranged("bchmr", at_4=30 * 34), "and 33 factors"),
    ],
)
def test_stages_of_no_shape_are_refused(campaign: Campaign, sentence: str | None) -> None:
    if sentence is None:
        check_stages(campaign)
        return
    with pytest.raises(ValueError, match=f"campaign 1: .*{sentence}"):
        check_stages(campaign)

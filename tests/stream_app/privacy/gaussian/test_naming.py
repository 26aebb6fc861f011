"""Ids of campaigns: one form each, and a sentence for everything else."""

from __future__ import annotations

from fractions import Fraction

import pytest

from stream_app.privacy.gaussian.certificate import CampaignCertificate, NoisySum
from stream_app.privacy.gaussian.naming import MOST_STAGES, name, parse, within

STAGES = (NoisySum(100, Fraction(31_809), 300), NoisySum(7, Fraction(63_617, 2), 9000))


def test_an_id_names_the_stages_in_their_order():
    id = "gaussian:100:31809:300+7:63617/2:9000"
    assert parse(id).sums == STAGES
    assert name(CampaignCertificate(STAGES)) == id
    assert parse("gaussian:7:63617/2:9000+100:31809:300").sums == STAGES[::-1]


def test_a_campaign_has_a_limit_of_stages():
    most = "gaussian:" + "+".join(["1:4:1"] * MOST_STAGES)
    assert len(parse(most).sums) == MOST_STAGES
    with pytest.raises(ValueError, match="at most 64 stages"):
        parse(most + "+1:4:1")


@pytest.mark.parametrize("epsilon", ["1/10", "1", "8"])
def test_a_claim_alone_names_the_sum_with_the_least_noise_for_it(epsilon):
    claim, delta = Fraction(epsilon), Fraction(1, 10**6)
    (stage,) = within(claim, delta).sums
    assert within(claim, delta).delta(claim) <= delta
    less = NoisySum(stage.bound, stage.variance - 1, stage.size)
    assert CampaignCertificate((less,)).delta(claim) > delta


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("gaussian", "an id is gaussian:bound:variance:size"),
        ("gaussian:", "an id is"),
        ("gaussian:1:4", "an id is"),
        ("gaussian:1:4:1+", "an id is"),
        ("gaussian:1:4:1:1", "an id is"),
        ("gaussian:-1:4:1", "an id is"),
        ("gaussian:1:4.5:1", "an id is"),
        ("gaussian:1:4:1 ", "an id is"),
        ("gauss:1:4:1", "an id is"),
        ("gaussian:1:٤:1", "an id is"),
        ("gaussian:1:4/0:1", "denominator 0"),
        ("gaussian:01:4:1", "write 'gaussian:1:4:1'"),
        ("gaussian:1:8/2:1", "write 'gaussian:1:4:1'"),
        ("gaussian:0:4:1", "bound 0"),
        ("gaussian:1:3:1", "must be 4 to"),
        ("gaussian:1:4:0", "0 coordinates"),
        ("gaussian:16777216:4:3", "is above 10,000"),
    ],
)
def test_any_other_text_is_refused_in_a_sentence(id, message):
    with pytest.raises(ValueError, match=message):
        parse(id)


def test_a_curve_that_would_take_days_is_refused_at_once():
    loud = CampaignCertificate((NoisySum(2**24, Fraction(4), 3),))
    with pytest.raises(ValueError, match="is above 10,000"):
        loud.epsilon(Fraction(1, 10**6))
    with pytest.raises(ValueError, match="is above 10,000"):
        loud.delta(Fraction(1))
    with pytest.raises(ValueError, match="epsilon above 10,000"):
        CampaignCertificate(STAGES).delta(Fraction(10**20))

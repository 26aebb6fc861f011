"""The loss of campaigns beside other releases, against the exact curve of campaigns alone."""

from __future__ import annotations

from fractions import Fraction

import pytest

from stream_app.privacy.accounting.budget_plans import fits, largest_count
from stream_app.privacy.accounting.whole_person import renyi_cost, report_loss, sum_cost
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_loss import delta_of

ONE = "gaussian:100:236107:21"
TWO = "gaussian:100:400000:300+100:63617/2:9000"
DELTA = Fraction(1, 10**6)


@pytest.mark.parametrize("id", [ONE, TWO])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(5, 2)])
def test_the_grid_is_above_the_exact_curve_and_close_to_it(id, count, epsilon):
    exact = float(delta_of([(naming.parse(id), count)], epsilon))
    bound = report_loss(id).self_composed(count).delta(float(epsilon))
    assert exact <= bound <= 1.01 * exact + 1e-20


def test_several_kinds_compose_as_one_sum_of_squares():
    pair = report_loss(ONE).compose(report_loss(TWO))
    exact = delta_of([(naming.parse(ONE), 1), (naming.parse(TWO), 1)], Fraction(2))
    assert float(exact) <= pair.delta(2.0) <= 1.01 * float(exact)


def test_beside_randomized_response_both_count():
    rr = report_loss("rr:5:1/2").self_composed(4)
    both = rr.compose(report_loss(ONE))
    alone = max(rr.epsilon(1e-6), report_loss(ONE).epsilon(1e-6))
    # On the grid of randomized response, whose spacing is its epsilon, the sum is rounded up.
    assert alone < both.epsilon(1e-6) < 1.03 * (4 / 2 + report_loss(ONE).epsilon(1e-6))


def test_a_campaign_fits_the_epsilon_that_its_certificate_proves():
    epsilon = naming.parse(TWO).epsilon(DELTA)
    assert fits(((TWO, 1),), epsilon, DELTA)
    assert not fits(((TWO, 1),), epsilon - Fraction(1, 10**6), DELTA)
    assert largest_count(TWO, epsilon, DELTA) == 1


def test_another_record_of_the_person_is_twice_the_distance():
    assert report_loss(ONE, "replaced").epsilon(1e-6) == pytest.approx(
        float(naming.parse("gaussian:200:236107:21").epsilon(DELTA)), rel=1e-4
    )


def test_sums_and_renyi_divergences_are_those_of_the_gaussian():
    epsilon, delta = sum_cost(ONE)
    assert naming.parse(ONE).delta(epsilon) <= delta == Fraction(1, 10**7)
    cost = renyi_cost(ONE, Fraction(8))
    assert cost / 2**40 == pytest.approx(4 * float(naming.parse(ONE).square), rel=1e-9)
    with pytest.raises(ValueError, match="canonical"):
        report_loss("gaussian:0100:31809:300")

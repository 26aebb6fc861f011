"""What protects presence: the laws, variances and volumes of the literature, and of ours.

The figures are the formulas of Zheng 2016 evaluated by hand, in stars from 1 to 5 or on -1 .. 1.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.exact.integer_tables import TOTAL
from stream_app.privacy.exact.table_mechanism import PresenceMechanism
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary
from tests.stream_app.privacy.mechanisms import (
    EPSILONS,
    EVERY_PRESENCE,
    LEVELS,
    PRESENCE,
    QUARTER,
    name,
)

every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
every_levels = pytest.mark.parametrize("levels", LEVELS)
every_family = pytest.mark.parametrize("family", PRESENCE, ids=lambda family: family.family)


def scores(levels: int) -> np.ndarray:
    """Return s(v) of each level, and 0 for missing."""
    return np.append(np.arange(levels) - (levels - 1) / 2, 0)


def paper_laplace(epsilon: float, x: float) -> tuple[float, float]:
    """Return Var[z o / p] for a missing cell and for x of -1 .. 1, under Zheng 2016, Def. 2."""
    p = math.exp(epsilon / 2) / (1 + math.exp(epsilon / 2))
    noise = 8 / epsilon**2
    return (1 - p) * noise / p**2, (x**2 + noise) / p - x**2


@every_levels
@every_epsilon
def test_the_law_of_cell_is_the_formula(levels: int, epsilon: Fraction) -> None:
    whole = math.exp(epsilon) + levels
    expected = np.where(np.eye(levels + 1), math.exp(epsilon) / whole, 1 / whole)
    np.testing.assert_allclose(
        RandomizedResponseWithMissing(levels, epsilon).likelihood(), expected, rtol=1e-10
    )


@every_levels
@every_epsilon
def test_the_law_of_ternary_is_the_formula(levels: int, epsilon: Fraction) -> None:
    p, q = math.exp(epsilon) / (math.exp(epsilon) + 2), 1 / (math.exp(epsilon) + 2)
    up = np.append((1 + scores(levels)[:-1] / scores(levels)[-2]) / 2, 0)
    down = np.append(1 - up[:-1], 0)
    expected = [q + (p - q) * down, q + (p - q) * up, np.append(np.full(levels, q), p)]
    np.testing.assert_allclose(Ternary(levels, epsilon).likelihood(), expected, rtol=1e-10)


@every_levels
@every_epsilon
def test_the_law_of_laplace_is_the_formula(levels: int, epsilon: Fraction) -> None:
    mechanism = ModifiedLaplace(levels, epsilon)
    p, grid = math.exp(epsilon / 2) / (1 + math.exp(epsilon / 2)), mechanism.per_level
    span = (levels - 1) * grid
    a = math.exp(-epsilon / span)
    # Noise on an endless grid, folded by summing, around each level and around the middle.
    around = [*range(0, span + 1, grid), span / 2]
    far = np.arange(-int(80 / (1 - a)), int(80 / (1 - a)) + 1)
    noise = (1 - a) / (1 + a) * a ** np.abs(far)
    expected = np.zeros((span + 2, levels + 1))
    for v, at in enumerate(around):
        share = p if v < levels else 1 - p
        np.add.at(expected[:, v], np.clip(far + int(at), 0, span), share * noise)
        expected[-1, v] = 1 - share
    np.testing.assert_allclose(mechanism.likelihood(), expected, rtol=1e-9)


@every_epsilon
@pytest.mark.parametrize("levels", [2, 5, 10])
def test_the_law_on_a_finer_and_longer_grid_is_a_randomization_of_ours(
    levels: int, epsilon: Fraction
) -> None:
    """So whatever can be computed from the paper's reports can be computed from these."""
    ours = ModifiedLaplace(levels, epsilon)
    span, times, tail = (levels - 1) * ours.per_level, 3, 12
    a = math.exp(-epsilon / (span * times))
    places = np.arange(-tail, span * times + tail + 1)

    def noise(at: np.ndarray, step: float) -> np.ndarray:
        return step ** np.abs(at) * (1 - step) / (1 + step)

    fine = np.array([noise(places - v * times, a) for v in range(span + 1)]).T
    fine[0] /= 1 - a  # the rest of each tail
    fine[-1] /= 1 - a
    coarse = np.array([noise(np.arange(span + 1) - v, a**times) for v in range(span + 1)]).T
    coarse[[0, -1]] /= 1 - a**times
    kernel = np.linalg.solve(coarse.T, fine.T).T
    assert kernel.min() >= -1e-9
    np.testing.assert_allclose(kernel.sum(axis=0), 1, atol=1e-9)


@every_levels
@every_epsilon
def test_the_estimates_of_cell_are_the_closed_forms(levels: int, epsilon: Fraction) -> None:
    mechanism, s = RandomizedResponseWithMissing(levels, epsilon), scores(levels)
    p, q = mechanism.likelihood()[:2, 0]
    reports = np.arange(levels + 1)
    reported = (reports < levels).astype(float)
    np.testing.assert_allclose(
        mechanism.presence(reports), (reported - levels * q) / (p - q), rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(mechanism.value(reports), s / (p - q), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("thinning", [Fraction(1), QUARTER], ids=str)
@every_levels
@every_epsilon
def test_the_estimates_of_cell_are_exact_for_any_function_of_the_input(
    levels: int, epsilon: Fraction, thinning: Fraction
) -> None:
    mechanism = RandomizedResponseWithMissing(levels, epsilon, thinning)
    targets = [Fraction(v * v - 3, 7) for v in range(levels + 1)]
    estimate = mechanism.unbiased(targets)
    for row, target in zip(mechanism.table().counts, targets, strict=True):
        assert sum(c * g for c, g in zip(row, estimate, strict=True)) == TOTAL * target


@every_levels
@every_epsilon
def test_the_variances_are_the_closed_forms(levels: int, epsilon: Fraction) -> None:
    s = scores(levels)
    p, q = RandomizedResponseWithMissing(levels, epsilon).likelihood()[:2, 0]
    expected = (q * (s**2).sum() + (p - q) * s**2) / (p - q) ** 2 - s**2
    np.testing.assert_allclose(
        RandomizedResponseWithMissing(levels, epsilon).variance(), expected, rtol=1e-8
    )
    # On three symbols z = -1, +1 or nothing: Var = (P(z != 0) / (p - q)^2) - x^2.
    ternary, unit = Ternary(levels, epsilon), s[-2]
    p, q = ternary.likelihood()[2, [-1, 0]]
    expected = (np.append(np.full(levels, p + q), 2 * q) / (p - q) ** 2) * unit**2 - s**2
    np.testing.assert_allclose(ternary.variance(), expected, rtol=1e-8)


@every_levels
@every_epsilon
def test_the_level_varies_less_under_laplace_than_under_the_papers_estimate(
    levels: int, epsilon: Fraction
) -> None:
    unit = (levels - 1) / 2
    found = ModifiedLaplace(levels, epsilon).variance() / unit**2
    missing, _ = paper_laplace(float(epsilon), 0)
    given = [paper_laplace(float(epsilon), x)[1] for x in scores(levels)[:-1] / unit]
    assert (found < [*given, missing]).all()
    assert found[-1] > missing / 4  # it is the same mechanism, no miracle


@pytest.mark.parametrize(
    ("epsilon", "cell", "five_stars", "paper", "ternary"),
    [(1, 5.11, 6.33, 2.79, 1.79), (2, 1.74, 2.61, 1.00, 0.68), (4, 0.46, 0.81, 0.28, 0.20),
     (8, 0.06, 0.11, 0.05, 0.03)],
)  # fmt: skip
def test_the_deviations_of_five_stars_are_those_of_the_literature(
    epsilon: int, cell: float, five_stars: float, paper: float, ternary: float
) -> None:
    deviation = np.sqrt(RandomizedResponseWithMissing(5, Fraction(epsilon)).variance())
    assert deviation[-1] == pytest.approx(cell, abs=0.005)
    assert deviation[4] == pytest.approx(five_stars, abs=0.005)
    assert math.sqrt(paper_laplace(epsilon, 0)[0]) == pytest.approx(paper, abs=0.005)
    assert np.sqrt(ModifiedLaplace(5, Fraction(epsilon)).variance())[-1] / 2 < paper
    assert np.sqrt(Ternary(5, Fraction(epsilon)).variance())[-1] / 2 == pytest.approx(
        ternary, abs=0.005
    )


@pytest.mark.parametrize(
    ("epsilon", "laplace", "cell", "ternary"),
    [(1, 0.3775, 0.6478, 0.424), (2, 0.2689, 0.4036, 0.213), (4, 0.1192, 0.0839, 0.035),
     (8, 0.0180, 0.0017, 0.0007)],
)  # fmt: skip
def test_fakes_per_missing_cell_and_per_catalogue_are_those_of_the_literature(
    epsilon: int, laplace: float, cell: float, ternary: float
) -> None:
    volumes = {  # per user, for the catalogues of ML-100K, ML-1M and a shop
        1: [(635, 1090), (1399, 2401), (37_754, 64_781)],
        2: [(452, 679), (997, 1496), (26_894, 40_358)],
        4: [(201, 141), (442, 311), (11_920, 8_390)],
        8: [(30, 2.8), (67, 6.2), (1799, 167)],
    }
    found = {family: 1 - family(5, Fraction(epsilon)).likelihood()[-1, -1] for family in PRESENCE}
    assert found[ModifiedLaplace] == pytest.approx(laplace, abs=5e-5)
    assert found[RandomizedResponseWithMissing] == pytest.approx(cell, abs=5e-5)
    assert found[Ternary] == pytest.approx(ternary, abs=5e-4)
    for items, (made_by_laplace, made_by_cell) in zip(
        (1682, 3706, 100_000), volumes[epsilon], strict=True
    ):
        assert items * found[ModifiedLaplace] == pytest.approx(made_by_laplace, abs=0.51)
        assert items * found[RandomizedResponseWithMissing] == pytest.approx(made_by_cell, abs=0.51)


@every_family
@every_epsilon
def test_thinning_is_done_to_what_is_released(
    family: type[PresenceMechanism], epsilon: Fraction
) -> None:
    whole, thinned = family(5, epsilon), family(5, epsilon, QUARTER)
    channel = whole.likelihood()
    after = np.vstack([channel[:-1] / 4, channel[-1:] + 3 / 4 * channel[:-1].sum(axis=0)])
    np.testing.assert_allclose(thinned.likelihood(), after, rtol=1e-12)
    assert thinned.epsilon == whole.epsilon
    assert thinned.adjacency is whole.adjacency
    # Unbiased again, at four times the weight (up to what "nothing to report" weighs).
    reports = np.arange(whole.alphabet)
    lifted = 4 * whole.value(reports) - 3 * whole.value(reports[-1])
    lifted[-1] = whole.value(reports[-1])
    np.testing.assert_allclose(thinned.value(reports), lifted, rtol=1e-6, atol=1e-6)
    assert (thinned.variance() >= whole.variance()).all()


@every_family
@pytest.mark.parametrize(
    "thinning", [Fraction(0), Fraction(-1), Fraction(3, 2), Fraction(1, 1001), 0.5, 1, None,
              Fraction(10**400, 10**400 + 1)]
)  # fmt: skip
def test_a_thinning_out_of_range_is_refused(
    family: type[PresenceMechanism], thinning: object
) -> None:
    with pytest.raises(ValueError, match="thinning") as caught:
        family(5, Fraction(1), thinning)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("levels", [1, 0, 256, True, 5.0])
def test_a_scale_that_is_too_long_is_refused(levels: object) -> None:
    for family in PRESENCE:
        with pytest.raises(ValueError, match="levels"):
            family(levels, Fraction(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 to 32"):
        ModifiedLaplace(33, Fraction(1))


@pytest.mark.parametrize(
    "epsilon", [Fraction(0), Fraction(-1), Fraction(65), math.inf, math.nan, 1, 0.5, None,
                Fraction(10) ** 400]
)  # fmt: skip
@every_family
def test_an_epsilon_without_a_law_is_refused(
    family: type[PresenceMechanism], epsilon: object
) -> None:
    with pytest.raises(ValueError, match="at most 64"):
        family(5, epsilon)  # type: ignore[arg-type]


@every_family
@pytest.mark.parametrize("thinning", [Fraction(1), Fraction(1, 1000)], ids=str)
@pytest.mark.parametrize("epsilon", ["1/1000000", "16", "64"])
@pytest.mark.parametrize("levels", [2, 32])
def test_the_ends_of_every_range_keep_their_claim(
    family: type[PresenceMechanism], levels: int, epsilon: str, thinning: Fraction
) -> None:
    mechanism = family(levels, Fraction(epsilon), thinning)
    assert mechanism.certificate.slack <= 0
    assert (mechanism.likelihood() > 0).all()


@pytest.mark.parametrize("mechanism", EVERY_PRESENCE, ids=name)
def test_the_last_report_is_missing_and_likeliest_where_nothing_was_rated(
    mechanism: PresenceMechanism,
) -> None:
    nothing = mechanism.likelihood()[-1]
    assert nothing.argmax() == mechanism.levels
    # The report "missing" has the least presence, whatever the levels look like.
    presence = mechanism.presence(np.arange(mechanism.alphabet))
    assert presence.argmin() == mechanism.alphabet - 1

"""Running sums: the factor, which rounds cost most, the cost, and what a reader computes."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from research.continual.running_factor import Factor
from research.continual.running_sums import (
    RunningSum,
    running_certificate,
    running_sum,
)
from stream_app.privacy.accounting.gaussian import gaussian_delta
from stream_app.privacy.gaussian.certificate import CampaignCertificate, NoisySum, largest_square
from stream_app.privacy.gaussian.sampling import LARGEST_VARIANCE
from stream_app.privacy.randomness import SeededSource
from tests.naive import gaussian as naive

F = Fraction
DELTA = F(1, 10**6)


def matrix(factor: Factor) -> np.ndarray:
    found = np.zeros((factor.rounds, factor.rounds))
    for t, row in enumerate(factor.rows):
        found[t, : t + 1] = row
    return found


@pytest.mark.parametrize(
    ("rounds", "growth"), [(1, 1.0), (4, 1.49), (8, 1.72), (128, 2.61), (1000, 3.27)]
)
def test_the_growth_of_the_square_root_is_the_sum_of_its_squared_terms(rounds, growth):
    factor = Factor.square_root(rounds, even=False, scale=2**14)
    assert factor.growth(rounds - 1) == pytest.approx(growth, abs=0.006)
    terms = [math.comb(2 * k, k) / 4**k for k in range(rounds)]
    assert factor.growth(rounds - 1) == pytest.approx(sum(f * f for f in terms), rel=2e-3)


def test_the_square_root_times_itself_is_the_running_sum():
    found = matrix(Factor.square_root(12, even=False, scale=2**14)) / 2**14
    assert np.allclose(found @ found, np.tril(np.ones((12, 12))), atol=1e-3)


@pytest.mark.parametrize("rounds", [2, 4, 8, 16])
def test_even_columns_cost_one_person_the_same_in_every_round_and_have_less_noise(rounds):
    even, plain = Factor.square_root(rounds), Factor.square_root(rounds, even=False)
    squares = [even.square((s,)) for s in range(rounds)]
    assert max(squares) < 1.1 * min(squares)
    assert plain.square((0,)) > 1.2 * plain.square((rounds - 1,))
    assert even.growth(rounds - 1) < 0.95 * plain.growth(rounds - 1)
    exact = Factor.square_root(rounds, even=False, scale=2**12)
    assert plain.growth(rounds - 1) == pytest.approx(exact.growth(rounds - 1), rel=3e-3)


def test_noise_of_its_own_in_every_round_grows_with_their_root():
    factor = Factor.independent(9)
    assert [factor.growth(t) for t in (0, 3, 8)] == pytest.approx([1, 2, 3])


SEARCHED = [
    Factor.square_root(7, even=False),
    Factor.square_root(7),
    Factor.independent(7),
    Factor(((5,), (1, 5), (4, 1, 5), (0, 4, 1, 5), (9, 0, 4, 1, 5), (2, 9, 0, 4, 1, 5))),
    Factor(tuple((4,) * t + (1 + t,) for t in range(6))),
]


@pytest.mark.parametrize("factor", SEARCHED, ids=["root", "even", "own", "uneven", "stairs"])
@pytest.mark.parametrize("times", [1, 2, 3, 9])
@pytest.mark.parametrize("apart", [1, 2, 3])
def test_no_allowed_pattern_costs_more_than_the_worst(factor, times, apart):
    h = matrix(factor)
    most = 0.0
    for count in range(times + 1):
        for pattern in combinations(range(factor.rounds), count):
            if all(b - a >= apart for a, b in pairwise(pattern)):
                ones = np.isin(np.arange(factor.rounds), pattern)
                most = max(most, float(np.square(h @ ones).sum()))
    found = factor.worst(times, apart)
    assert factor.square(found) == most
    assert all(b - a >= apart for a, b in pairwise(found))
    assert len(found) <= times


def test_no_vectors_of_a_person_move_the_rows_further_than_one_vector_each_time():
    factor, random = Factor.square_root(5), np.random.default_rng(4)
    pattern = factor.worst(3, 2)
    most = factor.square(pattern)
    for _ in range(200):
        sent = np.zeros((5, 3))
        vectors = random.normal(size=(len(pattern), 3))
        sent[list(pattern)] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        assert np.square(matrix(factor) @ sent).sum() <= most * (1 + 1e-12)
    sent[list(pattern)] = [0, 0.6, 0.8]
    assert np.square(matrix(factor) @ sent).sum() == pytest.approx(most)


SMALL = Factor(((2,), (1, 2)))


@pytest.mark.parametrize("epsilon", [F(0), F(1), F(5, 2)], ids=str)
@pytest.mark.parametrize("times", [1, 2])
def test_the_cost_is_above_the_enumerated_rows_and_near_them(times, epsilon):
    """A person with the vector 1, in the worst rounds: rows move by H 1_S."""
    noise = NoisySum(1, F(16), 1)
    cost = running_certificate([noise], SMALL, times=times)
    moved = SMALL.moved(SMALL.worst(times))
    assert moved == ((2, 1), (2, 3))[times - 1]
    exact = naive.delta((F(16),) * 2, [(m,) for m in moved], Decimal(float(epsilon)).exp(), 50)
    proved = cost.delta(epsilon)
    assert exact <= Decimal(proved.numerator) / proved.denominator
    # V counts as V - r^2; apart from that the curve is that of the rows.
    square = F(sum(m * m for m in moved), 16)
    assert float(exact) > 0.8 * float(gaussian_delta(epsilon, square)[0])


@pytest.mark.parametrize("second", [1, -1])
def test_a_later_vector_may_depend_on_the_rows_before_it(second):
    """In both rounds, with 1 first and then +-1 by what was released: enumerated."""
    variance, ratio = F(16), Decimal(1).exp()
    law, total = naive._law(variance, 50), Decimal(0)
    for z in range(-50, 51):
        vector = second if z % 3 else 1
        for y in range(-50, 51):
            stays = law.get(z, Decimal(0)) * law.get(y, Decimal(0))
            moves = law.get(z - 2, Decimal(0)) * law.get(y - 1 - 2 * vector, Decimal(0))
            total += max(Decimal(0), stays - ratio * moves)
    proved = running_certificate([NoisySum(1, variance, 1)], SMALL, times=2).delta(F(1))
    assert 0 < total <= Decimal(proved.numerator) / proved.denominator
    if second == 1:  # a cost for one round is not enough for two
        less = running_certificate([NoisySum(1, variance, 1)], SMALL).delta(F(1))
        assert total > Decimal(less.numerator) / less.denominator


@pytest.mark.parametrize(("times", "apart"), [(1, 1), (2, 4)])
@pytest.mark.parametrize("even", [True, False])
def test_the_stages_of_a_budget_use_it_up_and_no_more(even, times, apart):
    factor = Factor.square_root(8, even=even)
    shares, sizes = [F(1, 100), F(39, 100), F(60, 100)], [3, 7000, 11_000]
    square = largest_square(F(2), DELTA, 8 * sum(sizes))
    sums = [
        running_sum(share * square, size, factor, most=2048, times=times, apart=apart)
        for share, size in zip(shares, sizes, strict=True)
    ]
    cost = running_certificate(sums, factor, times=times, apart=apart)
    assert cost.delta(F(2)) <= DELTA
    assert float(cost.square) == pytest.approx(float(square), rel=1e-6)
    assert all(each.variance <= LARGEST_VARIANCE for each in sums)
    assert sums[0].bound < sums[1].bound < sums[2].bound <= 2048
    less = [NoisySum(each.bound, each.variance * F(999, 1000), each.size) for each in sums]
    assert running_certificate(less, factor, times=times, apart=apart).delta(F(2)) > DELTA
    again = running_certificate(sums, factor, times=times + 1)
    assert again.square > cost.square


def test_one_round_costs_what_one_noisy_sum_costs():
    noise = NoisySum(100, F(31_809), 300)
    cost = running_certificate([noise], Factor.independent(1))
    assert cost == CampaignCertificate((noise,))


def test_a_reader_has_the_running_sums_with_the_noise_that_is_stated():
    """400 coordinates in 30 runs: variances within 7 %, four of their standard deviations."""
    factor, noise = Factor.square_root(6), NoisySum(1, F(900), 400)
    sums = [np.arange(400) * (t + 1) - 7 * t for t in range(6)]
    errors: list[list[np.ndarray]] = [[] for _ in sums]
    stated = []
    for seed in range(30):
        source, running, exact = SeededSource(seed), RunningSum(factor, noise, 2), np.zeros(400)
        for t, each in enumerate(sums):
            released = running.add(each, source)
            assert released.dtype == np.int64
            exact += each
            errors[t].append(running.estimate() - exact)
            stated.append(running.variance)
    for t in range(6):
        assert np.var(errors[t]) == pytest.approx(stated[t], rel=0.07)
        assert abs(np.mean(errors[t])) < 5 * math.sqrt(stated[t] / 12_000)
    assert stated[5] == pytest.approx(2 * 900 * factor.gain(5))


def test_the_rows_are_whole_sums_of_the_factor():
    factor, noise = Factor.square_root(3), NoisySum(1, F(900), 2)
    sums = [np.array([5, -3]), np.array([100, 0]), np.array([0, 41])]
    zeros = [np.zeros(2, np.int64)] * 3
    with_sums, alone = (RunningSum(factor, noise, 1) for _ in range(2))
    first, second = SeededSource(3), SeededSource(3)
    moved = [
        with_sums.add(each, first) - alone.add(nothing, second)
        for each, nothing in zip(sums, zeros, strict=True)
    ]
    assert np.array_equal(np.array(moved), matrix(factor) @ np.array(sums))


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ((), "0 rounds"),
        (((1,), (0,)), "row 1"),
        (((0,),), "row 0"),
        (((1,), (-1, 1)), "entries"),
        (((1,), (2**21, 1)), "entries"),
    ],
)
def test_a_matrix_that_is_no_factor_is_refused(rows, match):
    with pytest.raises(ValueError, match=match):
        Factor(rows)


def test_what_cannot_be_counted_is_refused():
    factor = Factor.square_root(40)
    with pytest.raises(ValueError, match="patterns to search"):
        factor.worst(10)
    assert Factor.square_root(40, even=False).worst(10, 4) == tuple(range(0, 40, 4))
    with pytest.raises(ValueError, match="1 or more"):
        factor.worst(0)
    for rounds in (0, 1025):
        with pytest.raises(ValueError, match="give 1 to 1024"):
            Factor.square_root(rounds)
    with pytest.raises(ValueError, match="above 0"):
        running_sum(F(0), 3, factor, most=1)


def test_a_round_too_many_or_of_another_length_is_refused():
    running = RunningSum(Factor.square_root(1), NoisySum(1, F(9), 3), 1)
    assert running.variance == 0.0
    assert not running.estimate().any()
    with pytest.raises(ValueError, match="must have 3"):
        running.add(np.zeros(4, np.int64), SeededSource(1))
    running.add(np.zeros(3, np.int64), SeededSource(1))
    with pytest.raises(ValueError, match="round 2 of 1"):
        running.add(np.zeros(3, np.int64), SeededSource(1))

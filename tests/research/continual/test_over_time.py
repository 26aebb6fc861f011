"""Campaigns over time: within one budget, from the past alone, better than the means of items."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from research.continual import evaluate_over_time, forms
from research.continual.forms import Rounds, again_stages, running_noise
from research.continual.over_time import predicted
from research.continual.running_factor import Factor
from research.continual.running_sums import running_certificate
from research.continual.timeline import Timeline
from stream_app.campaigns.features import Features, features_of
from stream_app.campaigns.planning import certificate
from stream_app.campaigns.stars.side import StarsSide
from stream_app.evaluation import EvaluationData, TrueRatings
from stream_app.evaluation.campaigns import DELTA, Budget
from stream_app.privacy.randomness import SeededSource
from tests.stream_app.evaluation.campaigns.worlds import columns

pytestmark = pytest.mark.nightly

BUDGET = Budget(Fraction(24), DELTA, "central")


def world(users: int) -> EvaluationData:
    """People come one after the other and rate all they ever rate."""
    by_user, by_item, stars = columns(users)
    order = np.argsort(by_user, kind="stable")
    truth = TrueRatings(stars[order].astype(np.float64), 1, 5)
    return EvaluationData(by_user[order].astype(np.uint64), by_item[order].astype(np.uint64), truth)


def groups(keys: np.ndarray) -> Features:
    """The group of each item, which is what people differ in, as a genre."""
    return features_of([(("abc"[int(key) % 3],), None) for key in keys])


@pytest.fixture(scope="module")
def found():
    return evaluate_over_time(world(900), BUDGET, 3, seed=4)


@pytest.mark.thorough
def test_many_people_predict_better_than_the_means_of_items(found):
    assert found.rmse < found.rmse_baseline - 0.05
    assert found.rmse_again < found.rmse_baseline - 0.02
    assert (found.people, found.items, found.events, found.rounds) == (900, 60, 2700, 3)


@pytest.mark.thorough
def test_the_figures_are_those_of_the_parts(found):
    assert [form.name for form in found.forms] == ["again", "running", "item means"]
    fifths = [form.last_fifth for form in found.forms]
    assert fifths == [found.rmse_again, found.rmse, found.rmse_baseline]
    for form in found.forms:
        assert len(form.rmse) == 10
        last = np.sqrt(np.mean(np.square(form.rmse[-2:])))
        assert form.last_fifth == pytest.approx(float(last))
    again, running, _ = found.forms
    assert again.rmse[:3] == running.rmse[:3]  # before the first round ends
    assert again.rmse[-1] < again.rmse[0]
    assert running.rmse[-1] < running.rmse[0]


def rounds(data: EvaluationData, parts: int) -> Rounds:
    n = len(data.users)
    line = Timeline(data, 60)
    ends = tuple(n * (k + 1) // parts for k in range(parts))
    return Rounds(line, ends, None, lambda people: None)


@pytest.mark.parametrize("form", ["again", "running"])
def test_nothing_is_predicted_from_what_comes_later(form):
    """Other stars in the last third change no prediction before, and some within; everybody rates
    in all three."""
    by_user, by_item, stars = columns(90)
    truth = TrueRatings(stars.astype(np.float64), 1, 5)
    data = EvaluationData(by_user.astype(np.uint64), by_item.astype(np.uint64), truth)
    n, parts = len(data.users), 3
    other = data.truth.ratings.copy()
    other[n * 2 // 3 :] = 6 - other[n * 2 // 3 :]
    errors = []
    for ratings in (data.truth.ratings, other):
        terms = rounds(data._replace(truth=TrueRatings(ratings, 1, 5)), parts)
        source = SeededSource(2)
        sides = (
            forms.again(terms, BUDGET, source)
            if form == "again"
            else forms.running(terms, BUDGET, source, Factor.square_root(parts))
        )
        errors.append(predicted(terms, sides))
    half = n * 2 // 3
    assert np.array_equal(errors[0][: half + 1], errors[1][: half + 1])
    assert not np.array_equal(errors[0][half:], errors[1][half:])


@pytest.mark.parametrize("mode", ["central", "split"])
@pytest.mark.parametrize("parts", [1, 4, 7])
def test_all_rounds_together_cost_a_person_the_budget(mode, parts):
    budget = Budget(Fraction(2), DELTA, mode)
    whole = certificate([stage for each in again_stages(budget, 50, parts) for stage in each])
    assert whole.delta(budget.epsilon) <= DELTA
    assert float(whole.epsilon(DELTA)) == pytest.approx(2, rel=1e-4)
    factor = Factor.square_root(parts)
    _, noises = running_noise(budget, 50, factor)
    cost = running_certificate(noises, factor)
    assert cost.delta(budget.epsilon) <= DELTA
    assert float(cost.epsilon(DELTA)) == pytest.approx(2, rel=1e-4)


@pytest.mark.thorough
def test_a_person_contributes_in_every_round_or_in_one():
    terms, made = rounds(world(40), 3), []
    terms = terms._replace(contributed=made.append)
    stages = 7
    for _ in forms.again(terms, BUDGET, SeededSource(2)):
        pass
    assert sum(made) == stages * (14 + 27 + 40)
    made.clear()
    for _ in forms.running(terms, BUDGET, SeededSource(2), Factor.square_root(3)):
        pass
    assert made == [14] * stages + [13] * 2 * stages


@pytest.mark.parametrize("known", [False, True], ids=["ids", "meta"])
def test_the_side_of_one_round_of_running_sums_is_that_of_a_campaign(known):
    """With noise that hardly matters, and one round: the same stages from the same people."""
    data = world(120)
    terms = rounds(data, 1)
    terms = terms._replace(features=groups(terms.line.scope) if known else None)
    wide = Budget(Fraction(64), DELTA, "central")
    (one,) = forms.again(terms, wide, SeededSource(2))
    (same,) = forms.running(terms, wide, SeededSource(2), Factor.independent(1))
    assert isinstance(one, StarsSide)
    assert np.corrcoef(one.biases, same.biases)[0, 1] > 0.9


def test_turned_directions_are_those_before():
    random = np.random.default_rng(3)
    last = random.normal(size=(30, 2))
    turn = np.array([[0.6, 0.8], [0.8, -0.6]])
    assert np.allclose(forms._turned(last @ turn, last), last)
    noisy = last @ turn + random.normal(scale=0.1, size=last.shape)
    assert np.abs(forms._turned(noisy, last) - last).mean() < 0.12


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_figures():
    data = world(45)
    first, again, other = (
        evaluate_over_time(data, Budget(Fraction(24), DELTA, "split"), 3, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first.forms[1] != other.forms[1]


@pytest.mark.thorough
def test_features_take_part(found):
    data = world(900)
    seen = evaluate_over_time(data, BUDGET, 3, features=groups, seed=4)
    assert seen.meta
    assert not found.meta
    assert seen.forms[1].rmse[0] < found.forms[1].rmse[0] - 0.05  # before any round ended
    assert seen.rmse < seen.rmse_baseline - 0.05


@pytest.mark.parametrize(("parts", "sentence"), [(1, "give 2 to 32"), (33, "give 2 to 32")])
def test_rounds_out_of_range_are_refused(parts, sentence):
    with pytest.raises(ValueError, match=sentence):
        evaluate_over_time(world(20), BUDGET, parts)


def test_few_ratings_are_refused():
    few = EvaluationData(*np.zeros((2, 3), np.uint64), TrueRatings(np.ones(3), 1, 5))
    with pytest.raises(ValueError, match="at least 10"):
        evaluate_over_time(few, BUDGET, 2)

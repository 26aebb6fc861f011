"""No model is worse than means of users and items, on any data set and at any epsilon from 1/2 up.

The data sets are those of $MURMUREC_DATA; a set that is absent is skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_app.evaluation.results import split
from stream_app.evaluation.scope_errors import ScopeCells, learn_cells, most_rated_items
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from tests.fixtures import data_sets
from tests.fixtures.bias_models import cell_bias_model, running_bias_model
from tests.fixtures.data_sets import DataSet

EPSILONS = ("1/2", "1", "2", "4")
SCOPE = 300
pytestmark = pytest.mark.nightly
every_data_set = pytest.mark.parametrize("name", data_sets.FILES)


def loaded(name: str) -> DataSet:
    found = data_sets.load(name)
    if found is None:
        pytest.skip(f"{data_sets.FILES[name]}: not under $MURMUREC_DATA")
    return found


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def rr(data: DataSet, epsilon: str, model: str, seed: int = 1) -> tuple[float, float]:
    """Return the prequential RMSE of a model and of the running bias model, on the same reports."""
    name = f"none:{data.count}:inf" if epsilon == "inf" else f"rr:{data.count}:{epsilon}"
    mechanism = registry.parse(name)
    channels, n = Channels.from_mechanisms([mechanism]), len(data.users)
    reports = mechanism.release(data.levels, SeededSource(seed))
    learner = build(model, channels, LearnerSpec(seed=seed))
    columns = data.users, data.items, reports, np.zeros(n, np.uint16), np.ones(n, np.bool_)
    found = learner.learn_many(*columns).predicted
    values = channels.value[channels.starts[0] + reports]
    biases = running_bias_model(data.users, data.items, values)
    return rms(found - data.stars), rms(biases - data.stars)


def cell(data: DataSet, epsilon: str, seed: int = 1) -> tuple[float, float]:
    """Return the RMSE on the last 10 % of a pass over a scope, and that of the bias model."""
    mechanism = registry.parse(f"cell:{data.count}:{epsilon}")
    channels = Channels.from_mechanisms([mechanism])
    scope = most_rated_items(data.items, SCOPE)
    inside = np.isin(data.items, scope)
    learned, _, tested = (part[inside[part]] for part in split(len(data.users), seed))
    rated = data.users[learned], data.items[learned], data.levels[learned]
    cells = ScopeCells.holding(np.unique(data.users), scope, rated, data.count)
    learner: Learner = build("hybrid", channels, LearnerSpec(seed=seed))
    presence, sent = PresenceRates(channels, 4 << 20, seed), []
    for batch in cells.sent(mechanism, SeededSource(seed), seed):
        learn_cells(learner, presence, mechanism.alphabet - 1, batch)
        rows = channels.starts[0] + batch[3]
        sent.append((batch[1], batch[2], channels.value[rows], channels.weight[rows]))
    users, items, y, w = (np.concatenate(column) for column in zip(*sent, strict=True))
    wanted, truth = (data.users[tested], data.items[tested]), data.stars[tested]
    biases = cell_bias_model((users, items, y, w), wanted)
    return rms(learner.predict_many(*wanted) - truth), rms(biases - truth)


@every_data_set
@pytest.mark.parametrize("epsilon", [*EPSILONS, "inf"])
@pytest.mark.parametrize("model", ["hybrid", "dense"])
def test_no_model_is_worse_than_running_means_of_users_and_items(
    name: str, epsilon: str, model: str
) -> None:
    """One pass in time order; both see the same reports, and the truth is only what they miss."""
    found, biases = rr(loaded(name), epsilon, model)
    assert found <= biases


# The mean of books is .03 stars further off (1.029 against 1.027).
TOO_THIN = {("1", "amazon books")}


def cells_of() -> list[Any]:
    """Return every (data set, epsilon); those that fail must go on failing, or leave the table."""
    return [
        pytest.param(
            name,
            epsilon,
            marks=pytest.mark.xfail(reason="a known weakness", strict=True)
            if (epsilon, name) in TOO_THIN
            else (),
        )
        for name in data_sets.FILES
        for epsilon in EPSILONS
    ]


@pytest.mark.parametrize(("name", "epsilon"), cells_of())
def test_where_presence_is_hidden_no_model_is_worse_than_debiased_means(
    name: str, epsilon: str
) -> None:
    found, biases = cell(loaded(name), epsilon)
    assert found <= biases

"""Names in the settings against what a worker serves, and the table of learners."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.deployment import new_replica, spec_from_settings
from stream_app.errors import UserError
from stream_app.models.factorization.factory import LEARNERS
from stream_app.settings import SERVED_LEARNERS, Settings
from tests.fixtures.replicas import ALL
from tests.fixtures.rounds import digests, play, records_of
from tests.stream_app.models.example_learner import ItemMeans
from tests.stream_app.models.learners import ForgettingItemMeans


@pytest.mark.parametrize("model", LEARNERS)
def test_a_worker_serves_the_learners_of_kill_tests_and_refuses_the_others(model: str) -> None:
    from tests.chaos import test_kills

    (table,) = (m for m in test_kills.test_no_kill_leaves_a_wrong_state.pytestmark if m.args[1:])
    rows = [getattr(row, "values", row) for row in table.args[1]]  # some carry a mark
    killed = {setup.model for setup, _ in rows}
    assert killed == set(SERVED_LEARNERS)
    if model in killed:
        assert spec_from_settings(Settings(model=model)).model == model
        return
    with pytest.raises(UserError) as refused:
        spec_from_settings(Settings(model=model))
    assert str(refused.value) == (
        f"model {model!r}: workers serve hybrid, sketch; this one is for evaluation alone"
    )


def test_an_unknown_name_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(UserError) as refused:
        spec_from_settings(Settings(model="bloom"))
    assert str(refused.value) == "model 'bloom': workers serve hybrid, sketch"


def test_a_new_row_has_a_replica_and_a_learner_that_cannot_forget_is_refused(monkeypatch) -> None:
    for learner in (ItemMeans, ForgettingItemMeans):
        monkeypatch.setitem(LEARNERS, learner.name, learner)
    spec = replace(ALL, model=ForgettingItemMeans.name)
    assert new_replica(spec).learner.name == ForgettingItemMeans.name
    with pytest.raises(UserError, match="'item-means': it cannot forget a user"):
        new_replica(replace(ALL, model="item-means"))


def test_a_replica_with_the_example_learner_is_a_function_of_the_log(monkeypatch) -> None:
    """Durability for nothing: digests of two replicas agree, and a loaded state goes on."""
    monkeypatch.setitem(LEARNERS, ForgettingItemMeans.name, ForgettingItemMeans)
    spec, records = replace(ALL, model=ForgettingItemMeans.name), records_of(1)
    whole, first, second = new_replica(spec), new_replica(spec), new_replica(spec)
    play(whole, records, 1, 6)
    play(first, records, 1, 3)
    model = {name: array.copy() for name, array in first.model_arrays().items()}
    second.load(model, first.ledger.arrays(), first.cut, first.end_offsets, first.origin)
    play(second, records, 4, 6)
    assert digests(second) == digests(whole)

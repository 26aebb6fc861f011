"""Names in the settings against what a worker serves, and the table of learners."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.deployment import listed_by, new_replica, spec_from_settings
from stream_app.errors import UserError
from stream_app.models.factorization.factory import LEARNERS
from stream_app.settings import LISTS_BY_CO_RATINGS, SERVED_LEARNERS, SERVED_MODELS, Settings
from stream_app.wire import key
from tests.fixtures.replicas import ALL
from tests.fixtures.rounds import digests, play, records_of
from tests.stream_app.models.example_learner import ItemMeans
from tests.stream_app.models.learners import ForgettingItemMeans


@pytest.mark.parametrize("model", [*LEARNERS, *LISTS_BY_CO_RATINGS])
def test_a_worker_serves_the_models_of_kill_tests_and_refuses_the_others(model: str) -> None:
    from tests.chaos import test_kills

    (table,) = (m for m in test_kills.test_no_kill_leaves_a_wrong_state.pytestmark if m.args[1:])
    rows = [getattr(row, "values", row) for row in table.args[1]]  # some carry a mark
    killed = {setup.model for setup, _ in rows}
    assert killed == set(SERVED_MODELS)
    if model in killed:
        learner = model if model in SERVED_LEARNERS else "hybrid"
        assert spec_from_settings(Settings(model=model, co_ratings=True)).model == learner
        return
    with pytest.raises(UserError) as refused:
        spec_from_settings(Settings(model=model))
    assert str(refused.value) == (
        f"model {model!r}: workers serve hybrid, sketch, slope-one, cosine; this one is for "
        "evaluation alone"
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"model": "bloom"},
            "model 'bloom': workers serve hybrid, sketch, slope-one, cosine",
        ),
        (
            {"model": "cosine"},
            "model = cosine: its lists are made from co-ratings; set co_ratings = true",
        ),
        (
            {"co_ratings": True, "head_items": 0},
            "co_ratings with head_items 0: they are counted between items of the head; give it 1 "
            "to 4096 items, or leave co_ratings off",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_all_that_are_known(wrong, sentence) -> None:
    with pytest.raises(UserError) as refused:
        spec_from_settings(Settings(**wrong))
    assert str(refused.value) == sentence


def test_a_public_scope_is_read_from_its_file_and_is_part_of_the_design(tmp_path: Path) -> None:
    file = tmp_path / "scope.txt"
    file.write_text("7\n3\n\n7\nHeat\n", encoding="utf-8")
    settings = Settings(co_ratings=True, list_scope=file)
    spec, plain = spec_from_settings(settings), spec_from_settings(Settings(co_ratings=True))
    assert spec.list_scope == (3, 7, key("Heat"))
    assert spec.digest != plain.digest
    assert spec.settings["list_scope"].startswith("3 items, ")
    assert "list_scope is none there and 3 items, " in spec.difference(plain.headers)
    # A deployment without one keeps the design that it had before there was the setting.
    assert "list_scope" not in plain.settings
    for more, sentence in (
        ({"co_ratings": False}, "list_scope without co_ratings: .* leave list_scope out"),
        ({"head_items": 2}, r"list_scope has 3 items: give 2 to 2 \(head_items, 4,096 at most\)"),
        ({"list_scope": tmp_path / "none.txt"}, "none.txt: cannot be read"),
    ):
        with pytest.raises(UserError, match=sentence):
            spec_from_settings(settings.model_copy(update=more))


@pytest.mark.parametrize("model", LISTS_BY_CO_RATINGS)
def test_lists_by_co_ratings_have_the_state_of_the_default_learner(model: str) -> None:
    """A worker can change how it ranks without another state."""
    settings = Settings(model=model, co_ratings=True)
    plain = Settings(co_ratings=True)
    assert spec_from_settings(settings).digest == spec_from_settings(plain).digest
    assert (listed_by(settings), listed_by(plain)) == (model, None)


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

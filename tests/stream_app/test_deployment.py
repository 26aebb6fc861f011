"""Names in the settings against the tables of learners and indexes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.deployment import listed_by, new_replica, spec_from_settings
from stream_app.errors import UserError
from stream_app.models.factorization.factory import LEARNERS
from stream_app.models.retrieval.factory import INDEXES
from stream_app.settings import LISTS_BY_CO_RATINGS, Settings
from tests.fixtures.replicas import ALL
from tests.fixtures.rounds import digests, play, records_of
from tests.stream_app.models.example_index import SortedIndex
from tests.stream_app.models.example_learner import ItemMeans
from tests.stream_app.models.learners import ForgettingItemMeans


@pytest.mark.parametrize("model", LEARNERS)
@pytest.mark.parametrize("index", INDEXES)
def test_every_name_of_the_tables_is_a_setting(model: str, index: str) -> None:
    assert spec_from_settings(Settings(model=model, index=index)).model == model


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"model": "bloom"},
            "model 'bloom': must be one of hybrid, sketch, literal, hashing, dense, "
            "slope-one, cosine",
        ),
        (
            {"model": "cosine"},
            "model = cosine: its lists are made from co-ratings; set co_ratings = true",
        ),
        ({"index": "hnsw"}, "index 'hnsw': must be one of auto, exact, pca, qolsh"),
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


@pytest.mark.parametrize("model", LISTS_BY_CO_RATINGS)
def test_lists_by_co_ratings_have_the_state_of_the_default_learner(model: str) -> None:
    """A worker can change how it ranks without another state."""
    settings = Settings(model=model, co_ratings=True)
    plain = Settings(co_ratings=True)
    assert spec_from_settings(settings).digest == spec_from_settings(plain).digest
    assert (listed_by(settings), listed_by(plain)) == (model, None)


def test_a_new_row_is_a_setting_and_a_learner_that_cannot_forget_is_refused(monkeypatch) -> None:
    for learner in (ItemMeans, ForgettingItemMeans):
        monkeypatch.setitem(LEARNERS, learner.name, learner)
    monkeypatch.setitem(INDEXES, "sorted", SortedIndex)
    spec = spec_from_settings(Settings(model=ForgettingItemMeans.name, index="sorted"))
    assert new_replica(spec).learner.name == ForgettingItemMeans.name
    with pytest.raises(UserError, match="'item-means': it cannot forget a user"):
        new_replica(spec_from_settings(Settings(model="item-means")))


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

"""Top-k: seen and withdrawn items are left out, unknown users get popular items, and the index
follows the learner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.state.replica import Replica
from stream_app.wire import CatalogueEntry, Event, decode_many, encode_message
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import publish, run_of

METHODS = ("exact", "qolsh", "auto")
ANN, BEA, EVE = (bytes([i]) * 16 for i in (1, 2, 3))


def rated(device: bytes, seq: int, ratings: dict[int, int]) -> Event:
    items = np.array(list(ratings), np.uint64)
    levels = np.array([r - 1 for r in ratings.values()], np.uint8)
    return Event(device, seq, "none:5:inf", 0, items, levels)


def recommender(method: str, *made: Event, catalogue: Catalogue | None = None) -> Recommender:
    spec = replace(SMALL, held_out=0.0, seen_bytes=1 << 16, head_items=0)
    replica = Replica(spec)
    found = Recommender(replica, catalogue or Catalogue(), method)
    for event in made:
        record = publish(event)
        batch = decode_many(run_of([record], 0, 1, record.partition), SMALL.intake)
        found.mark_stale(replica.apply(batch).rows)
    replica.end_round(1, replica.end_offsets)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_seen_items_are_not_recommended_even_where_they_were_held_out(method: str) -> None:
    found = recommender(
        method, rated(ANN, 1, {1: 5, 2: 1}), rated(BEA, 1, dict.fromkeys(range(1, 9), 4))
    )
    answer = found.answer(ANN, 10)
    assert sorted(answer.items.tolist()) == [3, 4, 5, 6, 7, 8]
    assert answer.method.startswith("factors/")
    assert (np.diff(answer.scores) <= 1e-6).all()
    assert answer.as_of == 1
    assert found.answer(BEA, 10).items.size == 0


@pytest.mark.parametrize("method", METHODS)
def test_an_unknown_user_gets_popular_items(method: str) -> None:
    found = recommender(
        method,
        rated(ANN, 1, {1: 5, 2: 5, 3: 5}),
        rated(BEA, 1, {2: 1, 3: 1}),
        rated(EVE, 1, {3: 2}),
    )
    answer = found.answer(bytes(16), 2)
    assert answer.method == "popular"
    assert answer.items.tolist() == [3, 2]


@pytest.mark.parametrize("method", METHODS)
def test_a_withdrawn_item_is_never_recommended(method: str) -> None:
    catalogue = Catalogue()
    catalogue.learn(b"3", encode_message(CatalogueEntry(3, withdrawn=True)))
    found = recommender(
        method, rated(ANN, 1, {1: 5}), rated(BEA, 1, {1: 4, 2: 4, 3: 4}), catalogue=catalogue
    )
    assert found.answer(ANN, 10).items.tolist() == [2]
    assert 3 not in found.answer(bytes(16), 10).items


def test_an_untrained_replica_recommends_nothing() -> None:
    answer = recommender("auto").answer(ANN, 10)
    assert (answer.items.size, answer.method) == (0, "popular")


def test_scores_are_the_learners_predictions(rng: np.random.Generator) -> None:
    found = recommender(
        "exact", rated(ANN, 1, {1: 5, 2: 1}), rated(BEA, 1, {1: 5, 2: 1, 3: 5, 4: 1})
    )
    answer = found.answer(ANN, 2)
    users = np.full(2, int.from_bytes(ANN[:8], "little"), np.uint64)
    expected = found.replica.learner.predict_many(users, answer.items)
    assert answer.scores.tolist() == expected.tolist()


def test_the_index_is_brought_up_to_date_piece_by_piece(rng: np.random.Generator) -> None:
    ratings = {int(i): int(rng.integers(1, 6)) for i in range(300)}
    found = recommender("exact", rated(ANN, 1, ratings), rated(BEA, 1, {0: 3}))
    while found.index.size < 300:
        assert found.refresh(64) <= 64 + 1
    keys = found.replica.items.keys
    vectors, biases = found.replica.learner.items(keys)
    rows, scores = found.index.search(vectors[0], 300, lambda r: np.ones(len(r), bool))
    assert sorted(rows.tolist()) == list(range(300))
    assert scores == pytest.approx((vectors @ vectors[0] + biases)[rows], abs=1e-4)


@pytest.mark.parametrize("times", [1, 50], ids=["few reports", "more reports than items"])
def test_every_reported_item_is_refreshed_first_and_those_without_a_row_are_not(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = recommender("exact", rated(ANN, 1, dict.fromkeys(range(6), 4)))
    found.refresh(10)
    noted: list[np.ndarray] = []
    monkeypatch.setattr(found._popular, "note", noted.append)
    found.mark_stale(np.tile(np.array([5, 0, -1, 3]), times))
    assert np.flatnonzero(found._factors._stale[:6]).tolist() == [0, 3, 5]
    assert sorted({row for row in noted[0].tolist() if row >= 0}) == [0, 3, 5]
    found.mark_stale(np.full(7 * times, -1))
    assert np.flatnonzero(found._factors._stale[:6]).tolist() == [0, 3, 5]


def test_recall_is_that_of_the_exact_best(rng: np.random.Generator) -> None:
    ratings = {int(i): int(rng.integers(1, 6)) for i in range(200)}
    found = recommender("exact", rated(BEA, 1, ratings), rated(ANN, 1, {0: 5}))
    found.answer(ANN, 10)
    assert found.recall(ANN, 10) == 1.0
    assert np.isnan(found.recall(bytes(16), 10))

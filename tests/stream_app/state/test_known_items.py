"""The items that have a row, against lists and dictionaries, however the log is cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.kernels.stream.item_rows import HAND, OUTSIDE
from stream_app.state.known_items import Admission, KnownItems
from stream_app.state.replica import Replica
from tests.fixtures.replicas import ALL, SMALL, played
from tests.fixtures.streams import EVERY_FAMILY, events, publish
from tests.naive.known_items import Items

RULE = Admission(threshold=3, width=16, waiting=4, steps=12)
KEYS = st.one_of(st.integers(0, 12), st.integers(2**64 - 4, 2**64 - 1))
ROUNDS = st.lists(
    st.tuples(st.lists(KEYS, max_size=60), st.sets(st.integers(0, 5), max_size=2)), max_size=8
)


def same(known: KnownItems, naive: Items) -> None:
    assert known.keys.tolist() == naive.keys
    assert known.arrays()["credit"].tolist() == naive.credit
    assert known.arrays()["outside"].tolist() == naive.cells
    numbers = known.arrays()["numbers"]
    assert (numbers[HAND], numbers[OUTSIDE]) == (naive.hand, naive.outside)
    keys = [*range(14), *(2**64 - n for n in range(1, 6))]
    rows = [naive.keys.index(key) if key in naive.keys else -1 for key in keys]
    assert known.rows(np.array(keys, np.uint64)).tolist() == rows


@settings(deadline=None, max_examples=200)
@given(most=st.integers(1, 9), rounds=ROUNDS, cuts=st.lists(st.integers(0, 60), max_size=4))
def test_rows_are_those_of_the_obvious_version_for_any_batches(most, rounds, cuts):
    known, naive = KnownItems(most, 5, RULE), Items(most, 5, RULE)
    for keys, pins in rounds:
        wanted = [naive.enter(key) for key in keys]
        borders = sorted(min(cut, len(keys)) for cut in cuts)
        parts = [known.enter(part) for part in np.split(np.array(keys, np.uint64), borders)]
        assert np.concatenate(parts).tolist() == wanted
        pinned = np.full(9, -1, np.int16)
        pinned[list(pins)] = 0
        assert known.end_round(pinned).tolist() == naive.end_round(list(pins))
        same(known, naive)


def test_a_state_that_was_loaded_goes_on_as_the_one_it_was_taken_from():
    random = np.random.default_rng(1)
    left, right = KnownItems(20, 1, RULE), KnownItems(20, 1, RULE)
    for _ in range(50):
        keys = random.integers(0, 40, 30).astype(np.uint64)
        right.load({name: array.copy() for name, array in left.arrays().items()})
        for each in (left, right):
            each.enter(keys)
            each.end_round(np.empty(0, np.int16))
        for name, array in left.arrays().items():
            assert array.tobytes() == right.arrays()[name].tobytes(), name


def test_one_report_each_takes_no_row_from_an_item_and_eight_do():
    known = KnownItems(64)
    known.enter(np.arange(64, dtype=np.uint64))
    known.end_round(np.empty(0, np.int16))
    flood = np.random.default_rng(1).integers(2**32, 2**63, 50_000).astype(np.uint64)
    known.enter(flood)
    assert not len(known.end_round(np.empty(0, np.int16)))
    wanted = np.repeat(np.arange(100, 110, dtype=np.uint64), 8)
    known.enter(wanted)
    known.end_round(np.empty(0, np.int16))
    assert (known.rows(wanted) >= 0).all()
    assert len(known) == 64


def test_an_item_that_is_still_reported_keeps_its_row():
    known, random = KnownItems(64), np.random.default_rng(1)
    known.enter(np.arange(64, dtype=np.uint64))
    for _ in range(200):
        known.enter(np.arange(8, dtype=np.uint64))
        known.enter(np.repeat(random.integers(2**32, 2**63, 20).astype(np.uint64), 8))
        known.end_round(np.empty(0, np.int16))
    assert known.rows(np.arange(8, dtype=np.uint64)).tolist() == list(range(8))
    assert (known.rows(np.arange(8, 64, dtype=np.uint64)) < 0).all()


def test_what_does_not_fit_is_refused():
    known = KnownItems(4, 1, RULE)
    known.enter(np.arange(4, dtype=np.uint64))
    good = {name: array.copy() for name, array in known.arrays().items()}
    for changed, words in (
        ({"keys": np.array([1, 2, 3, 1], np.uint64)}, "occurs twice"),
        ({"credit": np.zeros(3, np.uint8)}, "one of each"),
        ({"numbers": np.array([4, 0])}, "hand at row 4"),
        ({name: np.resize(good[name], 5) for name in ("keys", "reports", "credit")}, "at most 4"),
    ):
        with pytest.raises(ValueError, match=words):
            known.load(good | changed)
    with pytest.raises(ValueError, match="items_most 0"):
        KnownItems(0)


@pytest.mark.parametrize("model", ["hybrid", "sketch"])
def test_a_replica_with_few_rows_is_a_function_of_the_log(model, monkeypatch):
    rng = np.random.default_rng(1)
    monkeypatch.setattr("stream_app.state.known_items.Admission", lambda: RULE)
    spec = replace(ALL, model=model, items_most=30)
    records = [publish(event) for event in events(rng, 400, families=EVERY_FAMILY)]
    whole = played(records, rng, spec, rounds=12)
    for most in (1, 9):
        again = played(records, rng, spec, most, rounds=12)
        assert again.model_digest() == whole.model_digest()
    assert len(whole.items) == 30
    first = played(records, rng, spec, rounds=1).items.keys.tolist()
    assert whole.items.keys.tolist() != first


def test_an_item_without_a_row_is_learned_counted_and_seen(rng):
    spec = replace(SMALL, items_most=5, held_out=0.0)
    made = events(rng, 100, mechanism="rr:5:2")
    replica = played([publish(event) for event in made], rng, spec)
    assert len(replica.items) == 5
    assert replica.ledger.counts()["applied"] == 100
    assert replica.frequencies.total == replica.ledger.counts()["ratings_learned"] > 200
    outside = np.setdiff1d(np.concatenate([event.items for event in made]), replica.items.keys)
    assert len(outside) > 5
    assert (replica.frequencies.estimate_many(outside) > 0).all()
    fresh, _ = Replica(spec).learner.items(outside)
    learned, _ = replica.learner.items(outside)
    assert (fresh != learned).any(axis=1).all()

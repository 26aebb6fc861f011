"""A number that a device uses again for other contents is counted, and changes nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_app.kernels.stream.event_columns import digest_events
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import Event, decode_many
from tests.fixtures.replicas import ALL, SMALL
from tests.fixtures.rounds import digests
from tests.fixtures.streams import events, publish, run_of
from tests.naive.statistics import Marks, event_digest

SIGNED = replace(SMALL, devices="signed")
RATING = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 255), st.integers(0, 2**16 - 1))
SENT = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 8) | st.just(200), st.integers(0, 2)), max_size=40
)


def applied(replica: Replica, made: list[Event]) -> list[bool]:
    """Apply events in the order given and return which are counted as reused."""
    found: list[bool] = []
    for event in made:
        record = publish(event)
        run = run_of([record], 0, 1, record.partition)
        found += replica.apply(decode_many(run, replica.spec.intake)).reused.tolist()
    return found


def event(device: int, seq: int, content: int) -> Event:
    """Return an event of one of three contents."""
    columns = np.array([7], np.uint64), np.array([content // 2], np.uint8)
    return Event(bytes([device]) * 16, seq, "rr:5:2", 20_000 + content % 2, *columns)


@settings(deadline=None)
@given(
    made=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.lists(RATING, max_size=5)), max_size=8),
    salt=st.integers(0, 2**64 - 1),
)
def test_the_kernel_digests_events_as_the_formula_says(made: list[Any], salt: int) -> None:
    ratings = [rating for _, each in made for rating in each]
    columns = [
        np.array([rating[n] for rating in ratings], dtype)
        for n, dtype in enumerate((np.uint64, np.uint8, np.uint16))
    ]
    found = np.empty(len(made), np.uint32)
    counts = np.array([len(each) for _, each in made], np.int64)
    epochs = np.array([epoch for epoch, _ in made], np.int64)
    digest_events(epochs, counts, *columns, np.uint64(salt), found)
    assert found.tolist() == [event_digest(epoch, each, salt) for epoch, each in made]


@pytest.mark.parametrize("spec", [SMALL, SIGNED], ids=["open", "signed"])
@settings(deadline=None, max_examples=60)
@given(sent=SENT)
@example(sent=[(0, 1, 0), (0, 3, 1), (0, 2, 0), (0, 3, 2), (0, 3, 1)])  # 2 joins 1 and 3
@example(sent=[(0, 1, 0), (0, 200, 1), (0, 2, 0), (0, 200, 0), (0, 2, 1)])  # both runs
def test_a_number_used_again_is_counted_and_nothing_else_changes(
    sent: list[tuple[int, int, int]], spec: StateSpec
) -> None:
    open_spec = replace(spec, devices="open")
    replica, slow = Replica(open_spec), Marks(64)
    if spec.signed:  # the rules of signed numbers, without envelopes
        replica.marks, slow = Replica(spec).marks, Marks(64, signed=True)
    expected = []
    for device, seq, content in sent:
        slow.advance((device, device), seq, True, 0, content)
        expected.append(slow.reused)
    assert applied(replica, [event(*each) for each in sent]) == expected
    assert replica.ledger.counts()["seq_reused"] == sum(expected)


def test_a_restored_journal_shows_and_a_resend_does_not(rng: np.random.Generator) -> None:
    """The device sends 1 .. 9, is restored to 6, and draws 7 .. 12 again; then it resends these."""
    made = events(rng, 9, devices=1, mechanism="rr:5:2")
    again = [replace(each, seq=6 + n) for n, each in enumerate(events(rng, 6, devices=1), 1)]
    again = [
        replace(each, device=made[0].device, mechanism="rr:5:2", reports=each.reports % 5)
        for each in again
    ]
    once, twice = Replica(SMALL), Replica(SMALL)
    assert applied(once, made) == [False] * 9
    assert applied(twice, [*made, *made[6:]]) == [False] * 12, "a resend of the same bytes"
    assert applied(twice, again) == [False, False, True, False, False, False]
    applied(once, again[3:])
    assert once.model_digest() == twice.model_digest(), "counted, and nothing else"
    assert applied(twice, again[3:]) == [False] * 3
    assert twice.ledger.counts()["seq_reused"] == 1


def test_the_masks_and_the_day_belong_to_the_contents(rng: np.random.Generator) -> None:
    made = events(rng, 1, mechanism="partition:5:2", most=3)[0]
    assert made.masks is not None
    replica = Replica(ALL)
    masks = np.where(made.masks == 1, 2, 1).astype(np.uint16)
    other = replace(made, masks=masks, reports=np.zeros_like(made.reports))
    same = replace(made, reports=np.zeros_like(made.reports))
    assert applied(replica, [same, same, other]) == [False, False, True]
    assert applied(replica, [replace(same, seq=2), replace(same, seq=2, epoch=20_001)]) == [
        False,
        True,
    ]


def test_the_count_is_part_of_the_state_and_survives_a_checkpoint(rng: np.random.Generator) -> None:
    made = events(rng, 60, devices=4, mechanism="rr:5:2")
    newest = {each.device: each for each in made}
    other = [replace(each, epoch=each.epoch + 1) for each in newest.values()]
    whole, loaded = Replica(SMALL), Replica(SMALL)
    applied(whole, made)
    arrays = {name: array.copy() for name, array in whole.model_arrays().items()}
    ledger = {name: array.copy() for name, array in whole.ledger.arrays().items()}
    loaded.load(arrays, ledger, 0, tuple(ledger["ends"].tolist()), whole.origin)
    for replica in (whole, loaded):
        assert sum(applied(replica, other)) == len(newest)
    assert digests(whole) == digests(loaded)


def test_a_forgotten_device_leaves_no_digest(rng: np.random.Generator) -> None:
    made = events(rng, 3, devices=1, mechanism="rr:5:2")
    replica = Replica(SMALL)
    applied(replica, made)
    assert replica.marks.arrays()["digests"].any()
    replica.clear(made[0].device)
    assert not replica.marks.arrays()["digests"].any()

"""A copy of the state as of a cut: exact, at rest while the replica goes on, and a state to go on
from."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.checkpoints.protocol.recovery import Found
from stream_app.checkpoints.protocol.writer import (
    Acked,
    Durable,
    Freeze,
    Frozen,
    LeaseAcquired,
    Writer,
)
from stream_app.checkpoints.replica_pages import ReplicaPages
from stream_app.checkpoints.shadow_copy import Snapshot
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import decode_many
from stream_app.wire.state_records import PAGE_BYTES, StateOrigin, page_digest
from tests.fixtures.replicas import ALL
from tests.fixtures.rounds import ROUNDS, digests, every_model, play, records_of
from tests.fixtures.state_topic import recovered
from tests.fixtures.streams import run_of

BIG = replace(
    ALL, sketch_bytes=1 << 18, scalars_bytes=1 << 18, seen_bytes=1 << 18, presence_bytes=1 << 18
)


def taken(snapshot: Snapshot) -> tuple[str, str, int, tuple[int, ...]]:
    return snapshot.model, snapshot.ledger, snapshot.cut, snapshot.end_offsets


class Topic:
    """A state topic in memory, with the real protocol on both sides."""

    def __init__(self) -> None:
        self.offset, self.values = 0, {}  # type: int, dict[bytes, tuple[int, bytes | None]]
        self.writer = Writer()
        self._drive(LeaseAcquired(bytes(16), "a worker"))

    def _drive(self, event: LeaseAcquired | Freeze) -> None:
        outputs = self.writer.step(event)
        while outputs:
            output = outputs.pop(0)
            if isinstance(output, Durable):
                continue
            self.offset += 1
            self.values[output.key] = self.offset, output.value
            outputs += self.writer.step(Acked(output.token, self.offset))

    def write(self, frozen: Frozen) -> None:
        self._drive(Freeze(frozen))

    def found(self, design: StateSpec) -> tuple[Found, Replica]:
        records = sorted((offset, key, value) for key, (offset, value) in self.values.items())
        found = recovered(records, design, "topic")
        assert found is not None
        return found


@every_model
@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**32), cuts=st.sets(st.integers(0, ROUNDS), min_size=1), data=st.data())
def test_the_digests_of_a_copy_are_those_of_the_replica_at_its_cut(
    model: str, seed: int, cuts: set[int], data: st.DataObject
) -> None:
    """However many freezes lie between two hashes, and whatever was applied meanwhile."""
    replica, records, at = Replica(replace(BIG, model=model)), records_of(seed), 0
    snapshot = Snapshot(replica)
    for cut in sorted(cuts):
        play(replica, records, at + 1, cut)
        at, wanted = cut, digests(replica)
        snapshot.freeze()
        if cut < ROUNDS and data.draw(st.booleans()):
            play(replica, records, cut + 1, cut + 1)
            at = cut + 1
        if data.draw(st.booleans()):
            snapshot.hash()
            assert taken(snapshot) == wanted
    snapshot.freeze()
    snapshot.hash()
    assert taken(snapshot) == digests(replica)
    assert not any(copy.waiting for copy in snapshot._copies), "a page is hashed once"


@every_model
@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 2**32),
    written=st.sets(st.integers(0, ROUNDS), min_size=1),
    other=st.integers(0, ROUNDS),
)
def test_a_replica_that_starts_from_a_checkpoint_goes_on_as_its_writer(
    model: str, seed: int, written: set[int], other: int
) -> None:
    """Bit for bit, through the real protocol; whatever the replica had held before is gone."""
    design, records, topic = replace(BIG, model=model), records_of(seed), Topic()
    first, second = Replica(design), Replica(design)
    snapshot, at = Snapshot(first), 0
    for cut in sorted(written):
        play(first, records, at + 1, cut)
        snapshot.freeze()
        snapshot.hash()
        topic.write(snapshot.frozen("topic", 10 * cut))
        at = cut
    play(second, records_of(seed + 1), 1, other)
    found, replica = topic.found(design)
    assert (found.manifest.cut, found.manifest.cut_offset) == (at, 10 * at)
    second.take(replica)
    assert digests(second) == digests(first)
    again = Snapshot(second)
    again.freeze()
    again.hash()
    assert taken(again) == digests(first)
    for replica in (first, second):
        play(replica, records, at + 1, ROUNDS)
    assert digests(second) == digests(first)
    again.freeze()
    again.hash()
    assert taken(again) == digests(first)


def test_pages_that_never_changed_are_not_written_and_are_there_after_a_recovery() -> None:
    design, topic = replace(BIG, seen_bytes=1 << 22), Topic()
    replica = Replica(design)
    snapshot = Snapshot(replica)
    play(replica, records_of(1, count=4), 1, ROUNDS)
    snapshot.freeze()
    snapshot.hash()
    topic.write(snapshot.frozen("topic", 0))
    written = sum(len(value or b"") for _, value in topic.values.values())
    assert written < sum(array.nbytes for array in replica.model_arrays().values()) / 2
    other = Replica(design)
    other.take(topic.found(design)[1])
    assert digests(other) == digests(replica)
    # A replica that continues from here finds the same pages from the arrays alone.
    present_pages = {a.name: a.present for a in snapshot.frozen("topic", 0).arrays}
    again = Snapshot(other)
    again.freeze()
    again.hash()
    assert {a.name: a.present for a in again.frozen("topic", 0).arrays} == present_pages
    assert any(0 in present for present in present_pages.values())


def test_a_frozen_state_keeps_its_pages_while_others_are_frozen() -> None:
    replica, records = Replica(replace(BIG, model="dense")), records_of(2, 400, devices=300)
    snapshot, kept = Snapshot(replica), []
    for cut in range(1, ROUNDS + 1):
        play(replica, records, cut, cut)
        snapshot.freeze()
        snapshot.hash()
        kept.append(snapshot.frozen("topic", cut))
    for cut, frozen in enumerate(kept, 1):
        assert frozen.cut == cut
        for number, array in enumerate(frozen.arrays):
            pages = [page_digest(frozen.page(number, n)) for n in range(len(array.present))]
            assert b"".join(pages) == array.digests
    assert len({frozen.model for frozen in kept}) == ROUNDS


def test_a_page_is_copied_in_place_once_the_frozen_state_is_released() -> None:
    replica, records = Replica(BIG), records_of(3)
    snapshot = Snapshot(replica)
    pages = snapshot._copies[0].pages
    play(replica, records, 1, 1)
    snapshot.freeze()
    snapshot.hash()
    held, first = snapshot.frozen("topic", 0), [id(page) for page in pages]
    play(replica, records, 2, 2)
    snapshot.freeze()
    second = [id(page) for page in pages]
    assert second != first
    play(replica, records, 3, 3)
    snapshot.freeze()
    assert sum(a != b for a, b in zip(second, [id(p) for p in pages], strict=True)) < len(pages)
    del held
    gc.collect()
    third = [id(page) for page in pages]
    play(replica, records, 4, ROUNDS)
    snapshot.freeze()
    assert [id(page) for page in pages] == third


def test_what_has_changed_adds_up_until_a_checkpoint_is_written() -> None:
    replica, records = Replica(BIG), records_of(4, count=60)
    snapshot = Snapshot(replica)
    snapshot.hash()
    assert snapshot.frozen("topic", 0).changed == frozenset()
    dirty = []
    for cut in range(1, ROUNDS + 1):
        play(replica, records, cut, cut)
        before = {name for name, bits in replica.dirty_pages().items() if bits.any()}
        snapshot.freeze()
        dirty.append(before)
        assert not any(bits.any() for bits in replica.dirty_pages().values())
    snapshot.hash()
    frozen = snapshot.frozen("topic", 0)
    names = {frozen.arrays[number].name for number, _ in frozen.changed}
    assert names == set().union(*dirty)
    assert snapshot.frozen("topic", 0).changed == frozenset()


def test_the_bytes_to_copy_are_reported_before_and_after() -> None:
    replica = Replica(BIG)
    snapshot = Snapshot(replica)
    assert snapshot.dirty_bytes == snapshot.freeze() == 0
    play(replica, records_of(5), 1, 1)
    dirty = snapshot.dirty_bytes
    assert dirty > 0
    assert dirty % PAGE_BYTES == 0
    assert 0 < snapshot.freeze() <= dirty
    assert snapshot.dirty_bytes == 0


def test_the_copy_is_not_worked_on_twice_at_a_time() -> None:
    """A freeze while pages are hashed would mix two cuts."""
    snapshot = Snapshot(Replica(ALL))
    entered, leave = threading.Event(), threading.Event()

    def busy() -> None:
        with snapshot._alone("hash"):
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=busy)
    thread.start()
    assert entered.wait(10)
    try:
        for work in (snapshot.freeze, snapshot.hash, lambda: snapshot.frozen("topic", 0)):
            with pytest.raises(RuntimeError, match="another thread"):
                work()
    finally:
        leave.set()
        thread.join(10)
    snapshot.freeze()


def test_a_state_is_hashed_before_it_is_written() -> None:
    snapshot = Snapshot(Replica(ALL))
    with pytest.raises(RuntimeError, match="call hash"):
        snapshot.frozen("topic", 0)
    snapshot.hash()
    snapshot.frozen("topic", 0)
    snapshot.freeze()
    with pytest.raises(RuntimeError, match="call hash"):
        snapshot.frozen("topic", 0)


# --- taking over a state ------------------------------------------------------------------------


def held(replica: Replica) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return (
        {name: array.copy() for name, array in replica.model_arrays().items()},
        {name: array.copy() for name, array in replica.ledger.arrays().items()},
    )


def test_a_state_of_another_form_is_refused_and_nothing_is_replaced() -> None:
    first, second = Replica(BIG), Replica(BIG)
    play(first, records_of(6), 1, 3)
    model, ledger = held(first)
    before = digests(second)
    origin, end_offsets = StateOrigin(0, (0,) * 4), first.end_offsets
    wrong = {
        "marks.marks": model["marks.marks"].astype(np.int32),
        "learner.vectors": model["learner.vectors"][:-1],
        "seen.blocks": model["seen.blocks"].reshape(-1),
        "extra": np.zeros(1),
    }
    for name, array in wrong.items():
        with pytest.raises(ValueError, match=name):
            second.load(model | {name: array}, ledger, 3, end_offsets, origin)
    less = {name: array for name, array in model.items() if name != "learner.vectors"}
    with pytest.raises(ValueError, match=r"learner\.vectors"):
        second.load(less, ledger, 3, end_offsets, origin)
    with pytest.raises(ValueError, match="gaps"):
        second.load(model, ledger | {"gaps": np.zeros(3, np.int64)}, 3, end_offsets, origin)
    with pytest.raises(ValueError, match="the state goes from"):
        second.load(model, ledger, 3, (0,) * 4, origin)
    with pytest.raises(ValueError, match="the state goes from"):
        second.load(model, ledger, 3, end_offsets, StateOrigin(0, (1,) * 4))
    assert digests(second) == before
    second.load(model, ledger, 3, end_offsets, origin)
    assert digests(second) == digests(first)


def test_a_checkpoint_of_other_first_values_is_refused() -> None:
    """Unwritten pages are not in the topic: they have the first values of this worker."""
    replica, topic = Replica(BIG), Topic()
    snapshot = Snapshot(replica)
    snapshot.hash()
    topic.write(snapshot.frozen("topic", 0))
    found, _ = topic.found(BIG)
    arrays = [
        msgspec.structs.replace(a, digests=bytes(len(a.digests)))
        if a.name == "learner.vectors"
        else a
        for a in found.manifest.arrays
    ]
    manifest = msgspec.structs.replace(found.manifest, arrays=tuple(arrays))
    store = ReplicaPages(BIG)
    store.shape(manifest)
    with pytest.raises(ValueError, match=r"learner\.vectors, page 0"):
        store.finished(Found(manifest, []))


@every_model
def test_a_replica_that_starts_over_is_as_a_fresh_one(model: str) -> None:
    design, records = replace(BIG, model=model), records_of(7)
    replica = Replica(design)
    play(replica, records, 1, ROUNDS)
    origin = StateOrigin(2, (5, 0, 7, 1), excluded=("00" * 16,))
    replica.restart(origin)
    assert digests(replica) == digests(Replica(design, origin))
    assert replica.origin == origin
    assert (replica.cut, replica.end_offsets) == (2, (5, 0, 7, 1))
    assert replica.ledger.absent.tolist() == [0] * 4


@every_model
def test_an_adopted_model_predicts_as_before_and_is_counted_afresh(model: str) -> None:
    design, records = replace(BIG, model=model), records_of(8)
    first, second = Replica(design), Replica(design)
    play(first, records, 1, 4)
    origin = StateOrigin(0, (0,) * 4, snapshot="ab" * 16)
    second.adopt(*held(first), origin)
    assert second.model_digest() == first.model_digest()
    assert second.ledger_digest() != first.ledger_digest()
    assert second.ledger.counts() == Replica(design).ledger.counts()
    assert second.ledger.forgotten.tolist() == first.ledger.forgotten.tolist() != []
    assert (second.cut, second.end_offsets, second.origin) == (0, (0,) * 4, origin)
    again = run_of([r for r in records if r.key == records[3].key], 0, 1, records[3].partition)
    outcome = second.apply(decode_many(again, design.intake))
    assert outcome.reasons.tolist() != [0], "who was forgotten there is forgotten here"

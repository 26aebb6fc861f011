"""The image of a state as of a cut: exact, at rest while the replica goes on, and a state to go on
from."""

from __future__ import annotations

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
from stream_app.checkpoints.state_image import StateImage
from stream_app.models.paged_arrays import is_dirty
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import decode_many
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.replicas import ALL
from tests.fixtures.rounds import ROUNDS, digests, every_model, play, records_of
from tests.fixtures.state_topic import recovered
from tests.fixtures.streams import run_of

BIG = replace(
    ALL, sketch_bytes=1 << 18, scalars_bytes=1 << 18, seen_bytes=1 << 18, presence_bytes=1 << 18,
)  # fmt: skip


def taken(image: StateImage) -> tuple[str, str, int, tuple[int, ...]]:
    return image.model, image.ledger, image.cut, image.end_offsets


def frozen(image: StateImage, *, write: bool = True, full: bool = False) -> StateImage:
    image.freeze(write=write, full=full)
    image.hash()
    return image


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
def test_the_digests_of_an_image_are_those_of_the_replica_at_its_cut(
    model: str, seed: int, cuts: set[int], data: st.DataObject
) -> None:
    """Whatever is applied before it is hashed, forgotten devices included."""
    replica, records, at = Replica(replace(BIG, model=model)), records_of(seed), 0
    image = StateImage(replica)
    for cut in sorted(cuts):
        if cut < at:
            continue
        play(replica, records, at + 1, cut)
        at, wanted = cut, digests(replica)
        image.freeze(write=data.draw(st.booleans()), full=data.draw(st.booleans()))
        if cut < ROUNDS:
            play(replica, records, cut + 1, cut + 1)
            at = cut + 1
        image.hash()
        assert taken(image) == wanted
        image.release().close()
    play(replica, records, at + 1, ROUNDS)
    assert image.digest() == digests(replica)[:2]


@every_model
def test_a_page_is_hashed_again_only_if_it_was_marked(model: str) -> None:
    replica, records = Replica(replace(BIG, model=model)), records_of(1)
    image = StateImage(replica)
    image.digest()
    play(replica, records, 1, 1)
    marked = {
        n: np.flatnonzero(is_dirty(bits)).tolist() for n, bits in replica.dirty_pages().items()
    }
    image.freeze()
    found = {n: np.flatnonzero(array.which).tolist() for n, array in image._frozen.items()}
    assert found == {name: pages for name, pages in marked.items() if pages}
    image.release().close()


@every_model
@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 2**32),
    written=st.sets(st.integers(0, ROUNDS - 1), min_size=1),
    other=st.integers(0, ROUNDS),
    data=st.data(),
)
def test_a_replica_that_starts_from_a_checkpoint_goes_on_as_its_writer(
    model: str, seed: int, written: set[int], other: int, data: st.DataObject
) -> None:
    """Bit for bit, through the real protocol, while the writer applies the next round; whatever
    the replica had held before is gone."""
    design, records, topic = replace(BIG, model=model), records_of(seed), Topic()
    first, second = Replica(design), Replica(design)
    image, at = StateImage(first), 0
    for cut in sorted(written):
        play(first, records, at + 1, cut)
        if data.draw(st.booleans()):
            image.digest()  # of a request: what it hashed is still to be written
        image.freeze(write=True, full=topic.writer.full)
        wanted = digests(first)
        play(first, records, cut + 1, cut + 1)
        image.hash()
        topic.write(image.frozen("topic", 10 * cut))
        image.release(durable=True).close()
        at = cut + 1
    play(second, records_of(seed + 1), 1, other)
    found, replica = topic.found(design)
    assert (found.manifest.cut, found.manifest.cut_offset) == (at - 1, 10 * (at - 1))
    second.take(replica)
    assert digests(second) == wanted
    again = StateImage(second, found.manifest)
    assert again.digest() == wanted[:2]
    play(second, records, at, ROUNDS)
    play(first, records, at + 1, ROUNDS)
    assert digests(second) == digests(first)
    assert again.digest() == digests(first)[:2]


def test_what_a_manifest_says_is_neither_hashed_nor_frozen_again() -> None:
    topic, replica = Topic(), Replica(BIG)
    play(replica, records_of(1), 1, ROUNDS)
    topic.write(frozen(StateImage(replica), full=True).frozen("topic", 0))
    found, other = topic.found(BIG)
    image = StateImage(other, found.manifest)
    image.freeze()
    assert not image._frozen
    image.hash()
    assert taken(image) == digests(replica)
    image.release().close()


def test_pages_that_never_changed_are_not_written_and_are_there_after_a_recovery() -> None:
    design, topic = replace(BIG, seen_bytes=1 << 22), Topic()
    replica = Replica(design)
    image = StateImage(replica)
    play(replica, records_of(1, count=4), 1, ROUNDS)
    topic.write(frozen(image, full=True).frozen("topic", 0))
    written = sum(len(value or b"") for _, value in topic.values.values())
    assert written < sum(array.nbytes for array in replica.model_arrays().values()) / 2
    found, other = topic.found(design)
    assert digests(other) == digests(replica)
    # A replica that continues from here knows the same pages from the manifest.
    again = frozen(StateImage(other, found.manifest), full=True)
    present_pages = {a.name: a.present for a in image.frozen("topic", 0).arrays}
    assert {a.name: a.present for a in again.frozen("topic", 0).arrays} == present_pages
    assert any(0 in present for present in present_pages.values())


def test_what_has_changed_adds_up_until_a_checkpoint_is_durable() -> None:
    """Also where a checkpoint was given up, and where requests were hashed in between."""
    replica, records = Replica(BIG), records_of(4, count=60)
    image, topic = StateImage(replica), Topic()
    topic.write(frozen(image, full=True).frozen("topic", 0))
    image.release(durable=True).close()
    for cut in range(1, ROUNDS + 1):
        play(replica, records, cut, cut)
        if cut % 2:
            image.digest()
        else:
            frozen(image).release().close()
    topic.write(frozen(image).frozen("topic", ROUNDS))
    image.release(durable=True).close()
    assert topic.found(BIG)[0].manifest.model == replica.model_digest()
    image.freeze(write=True)
    assert not image._frozen
    image.release().close()


def test_a_second_image_of_a_replica_knows_what_was_written() -> None:
    replica, topic = Replica(BIG), Topic()
    play(replica, records_of(1), 1, ROUNDS)
    StateImage(replica).digest()
    topic.write(frozen(StateImage(replica), full=True).frozen("topic", 0))
    assert digests(topic.found(BIG)[1]) == digests(replica)


def test_one_freeze_at_a_time() -> None:
    image = StateImage(Replica(ALL))
    with pytest.raises(RuntimeError, match="freeze first"):
        image.release()
    image.freeze()
    with pytest.raises(RuntimeError, match="still frozen"):
        image.freeze()
    with pytest.raises(RuntimeError, match="call hash"):
        image.frozen("topic", 0)
    image.release().close()
    image.freeze()
    image.hash()
    image.frozen("topic", 0)
    image.release().close()


@every_model
def test_a_checkpoint_is_hashed_and_written_by_a_thread_while_its_owner_learns(model: str) -> None:
    design, records = replace(BIG, model=model), records_of(9, 600, devices=300)
    replica, topic = Replica(design), Topic()
    image = StateImage(replica)
    for cut in range(1, ROUNDS, 2):
        play(replica, records, cut, cut)
        wanted = digests(replica)
        image.freeze(write=True, full=topic.writer.full)

        def work(cut: int = cut) -> None:
            image.hash()
            topic.write(image.frozen("topic", cut))

        thread = threading.Thread(target=work)
        thread.start()
        play(replica, records, cut + 1, cut + 1)
        thread.join()
        assert taken(image) == wanted
        image.release(durable=True).close()
        assert digests(topic.found(design)[1]) == wanted


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
    topic.write(frozen(StateImage(replica), full=True).frozen("topic", 0))
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

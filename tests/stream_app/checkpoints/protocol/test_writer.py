"""The writer sends in the order that makes a checkpoint durable, and nothing that it must not."""

from __future__ import annotations

import pytest

from stream_app.checkpoints.protocol.writer import (
    Acked,
    Durable,
    Freeze,
    FrozenArray,
    LeaseAcquired,
    LeaseReleased,
    Send,
    Writer,
)
from stream_app.wire.state_records import (
    PAGE_BYTES,
    UNCHANGED,
    ClaimKey,
    ManifestKey,
    PageKey,
    decode_manifest,
    decode_page,
    decode_state_key,
)
from tests.simulation.broker import Topic
from tests.simulation.peaceful import drive, frozen, owner, placed, read, write

FULL = b"\1" * PAGE_BYTES
EMPTY = bytes(PAGE_BYTES)


def sends(outputs: list[Send | Durable]) -> list[Send]:
    return [output for output in outputs if isinstance(output, Send)]


def names(topic: Topic) -> list[object]:
    return [decode_state_key(record.key) for record in topic.records]


def test_a_generation_is_the_offset_of_its_claim() -> None:
    writer = Writer()
    (claim,) = sends(writer.step(LeaseAcquired(b"a" * 16, "w")))
    assert decode_state_key(claim.key) == ClaimKey(b"a" * 16)
    assert (writer.generation, writer.ready) == (None, False)
    assert writer.step(Acked(claim.token, 77)) == []
    assert (writer.generation, writer.ready, writer.full) == (77, True, True)


def test_a_claim_whose_offset_is_unknown_is_repeated() -> None:
    writer = Writer()
    (claim,) = sends(writer.step(LeaseAcquired(b"a" * 16, "w")))
    (again,) = sends(writer.step(Acked(claim.token, -1)))
    assert (again.key, again.value) == (claim.key, claim.value)
    writer.step(Acked(again.token, 5))
    assert writer.generation == 5


def test_the_first_checkpoint_writes_all_that_differs_from_the_start() -> None:
    topic = Topic()
    writer = owner(topic)
    manifest = write(writer, topic, frozen({"a": FULL + EMPTY + FULL, "b": EMPTY}, 1))
    pages = [name for name in names(topic) if isinstance(name, PageKey)]
    generation = writer.generation
    assert pages == [PageKey(0, 0, 0, generation), PageKey(0, 2, 0, generation)]
    assert [array.slots for array in manifest.arrays] == [bytes([0, UNCHANGED, 0]), b"\xff"]
    assert not writer.full


def test_a_later_checkpoint_writes_what_has_changed_to_the_other_slot() -> None:
    topic = Topic()
    writer = owner(topic)
    write(writer, topic, frozen({"a": FULL + EMPTY + FULL}, 1))
    second = write(writer, topic, frozen({"a": FULL + FULL + b"\2" * 9}, 2))
    third = write(writer, topic, frozen({"a": FULL + FULL + b"\3" * 9}, 3))
    assert second.arrays[0].slots == bytes([0, 0, 1])
    assert third.arrays[0].slots == bytes([0, 0, 0])
    assert (second.number, third.number) == (2, 3)


def test_a_page_that_is_again_as_at_the_start_needs_no_record() -> None:
    topic = Topic()
    writer = owner(topic)
    write(writer, topic, frozen({"a": FULL}, 1))
    before = topic.end
    manifest = write(writer, topic, frozen({"a": EMPTY}, 2))
    assert manifest.arrays[0].slots == bytes([UNCHANGED])
    assert topic.end == before + 1


def test_an_array_may_grow_and_one_may_come() -> None:
    topic = Topic()
    writer = owner(topic)
    write(writer, topic, frozen({"a": b"\1" * 10}, 1))
    manifest = write(writer, topic, frozen({"a": b"\1" * (PAGE_BYTES + 1), "b": b"\2"}, 2))
    assert [array.slots for array in manifest.arrays] == [bytes([1, 0]), bytes([0])]
    found = read(topic).newest()
    assert found is not None
    assert (placed(topic)[1].page(0, 1), placed(topic)[1].page(1, 0)) == (b"\1", b"\2")


def test_the_manifest_waits_for_every_page_and_durable_for_the_manifest() -> None:
    writer = owner(Topic())
    pages = sends(writer.step(Freeze(frozen({"a": FULL + FULL}, 1))))
    assert [type(decode_state_key(page.key)) for page in pages] == [PageKey, PageKey]
    assert writer.step(Acked(pages[1].token, 9)) == []
    (manifest,) = sends(writer.step(Acked(pages[0].token, 10)))
    assert decode_state_key(manifest.key) == ManifestKey(1, writer.generation)
    assert not writer.ready
    (durable,) = writer.step(Acked(manifest.token, 11))
    assert durable == Durable(decode_manifest(manifest.value or b""))
    assert writer.ready


@pytest.mark.parametrize(("bound", "at_once"), [(1, 1), (3 * PAGE_BYTES, 2), (8 << 20, 5)])
def test_pages_on_their_way_stay_within_the_bound(bound: int, at_once: int) -> None:
    writer = owner(Topic(), bound=bound)
    asked: list[int] = []
    state = frozen({"a": 5 * FULL}, 1)
    object.__setattr__(state, "page", lambda array, page: asked.append(page) or FULL)
    pages = sends(writer.step(Freeze(state)))
    assert len(pages) == at_once
    assert asked == list(range(at_once)), "a page is asked for when it is sent"
    waiting, offset = [page.token for page in pages], 100
    while not writer.ready:
        offset += 1
        waiting += [s.token for s in sends(writer.step(Acked(waiting.pop(0), offset)))]
        assert len(waiting) <= at_once
    assert asked == list(range(5))


def test_a_page_carries_the_number_of_its_checkpoint() -> None:
    topic = Topic()
    writer = owner(topic)
    write(writer, topic, frozen({"a": b"\1"}, 1))
    write(writer, topic, frozen({"a": b"\2"}, 2))
    values = [r.value or b"" for r in topic.records if r.key[:1] == b"P"]
    assert [(n, bytes(data)) for n, data in map(decode_page, values)] == [(1, b"\1"), (2, b"\2")]


def test_a_freeze_before_its_time_is_refused() -> None:
    writer = Writer()
    with pytest.raises(ValueError, match="not ready"):
        writer.step(Freeze(frozen({}, 1)))
    writer = owner(Topic())
    writer.step(Freeze(frozen({"a": b"\1"}, 1)))
    with pytest.raises(ValueError, match="not ready"):
        writer.step(Freeze(frozen({"a": b"\1"}, 2)))


def test_disowning_stops_everything_and_late_acknowledgements_change_nothing() -> None:
    writer = owner(Topic(), bound=1)
    (page,) = sends(writer.step(Freeze(frozen({"a": FULL + FULL}, 1))))
    assert writer.step(LeaseReleased()) == []
    assert (writer.generation, writer.ready) == (None, False)
    assert writer.step(Acked(page.token, 70)) == []
    (claim,) = sends(writer.step(LeaseAcquired(b"b" * 16, "w")))
    assert writer.step(Acked(page.token, 71)) == []
    assert writer.generation is None
    writer.step(Acked(claim.token, 80))
    assert (writer.generation, writer.ready, writer.full) == (80, True, True)


def test_an_acknowledgement_of_nothing_is_a_defect() -> None:
    with pytest.raises(ValueError, match="no record was sent"):
        Writer().step(Acked(0, 0))


def test_a_new_generation_removes_what_is_older_than_the_previous_one() -> None:
    topic = Topic()
    writers = []
    for name in range(3):
        writers.append(owner(topic, name))
        write(writers[-1], topic, frozen({"a": b"\1", "b": b"\2"}, 1 + name))
    first, second, third = (writer.generation for writer in writers)
    live = {decode_state_key(key) for key in read(topic).keys}
    generations = {name.generation for name in live if not isinstance(name, ClaimKey)}
    assert (first, generations) == (64, {second, third})
    assert ClaimKey(b"\2" * 16) in live
    assert sum(isinstance(name, ClaimKey) for name in live) == 1


def test_a_generation_without_a_manifest_is_not_the_previous_one() -> None:
    topic = Topic()
    whole = owner(topic, 0)
    write(whole, topic, frozen({"a": b"\1"}, 1))
    broken = owner(topic, 1)
    for page in sends(broken.step(Freeze(frozen({"a": b"\2"}, 2)))):
        topic.append(page.key, page.value)  # and it dies
    write(owner(topic, 2), topic, frozen({"a": b"\3"}, 3))
    held = {getattr(decode_state_key(key), "generation", None) for key in read(topic).keys}
    assert whole.generation in held


def test_a_writer_removes_what_it_wrote_under_earlier_ownerships_too() -> None:
    topic, writer = Topic(), Writer()
    generations = []
    for turn in range(3):
        drive(writer, topic, LeaseAcquired(bytes([turn]) * 16, "w"))
        write(writer, topic, frozen({"a": bytes([turn + 1])}, turn + 1))
        generations.append(writer.generation)
    held = {getattr(decode_state_key(key), "generation", None) for key in read(topic).keys}
    assert held - {None} == set(generations[1:])


def test_a_strangers_key_is_left_alone() -> None:
    topic = Topic()
    topic.append(b"stranger", b"1")
    for name in range(3):
        writer = Writer()
        drive(writer, topic, LeaseAcquired(bytes([name]) * 16, "w", [r.key for r in topic.records]))
        write(writer, topic, frozen({"a": b"\1"}, 1 + name))
    assert [r.value for r in topic.records if r.key == b"stranger"] == [b"1"]


def test_nothing_is_written_behind_a_checkpoint_that_the_topic_holds() -> None:
    topic = Topic()
    write(owner(topic, 0), topic, frozen({"a": b"\1"}, 5))
    writer = Writer()
    reach = max(manifest.cut for manifest in read(topic).manifests)
    drive(writer, topic, LeaseAcquired(b"b" * 16, "w", read(topic).keys, reach))
    assert reach == 5
    assert writer.step(Freeze(frozen({"a": b"\2"}, 4))) == []
    assert writer.ready
    assert write(writer, topic, frozen({"a": b"\2"}, 5)).number == 1


def test_what_cannot_be_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match="3 bytes"):
        LeaseAcquired(b"abc", "w")
    with pytest.raises(ValueError, match="most_in_flight_bytes 0"):
        Writer(0)
    with pytest.raises(ValueError, match="15 bytes of digests for 1 pages"):
        FrozenArray("a", "|u1", (1,), bytes(15), b"\1")

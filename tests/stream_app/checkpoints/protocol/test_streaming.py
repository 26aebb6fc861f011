"""A recovery puts the pages of the manifest that the rules choose in place, whatever was hinted."""

from __future__ import annotations

import pytest

from stream_app.checkpoints.protocol.recovery import (
    GENERATIONS,
    CheckpointRefused,
    Found,
    Recovery,
)
from stream_app.checkpoints.protocol.streaming import StreamedRecovery
from stream_app.checkpoints.protocol.writer import Acked, Freeze, LeaseAcquired, Send, Writer
from stream_app.wire.state_records import PAGE_BYTES, Manifest
from tests.simulation.broker import FIRST_OFFSET, Topic
from tests.simulation.pages import BytePages
from tests.simulation.peaceful import DESIGN, TOPIC_ID, damage, drive, frozen, owner, placed, write

ONE, TWO = b"\1" * PAGE_BYTES, b"\2" * PAGE_BYTES


def streamed() -> tuple[StreamedRecovery, BytePages]:
    store = BytePages()
    return StreamedRecovery(Recovery(DESIGN, TOPIC_ID, 2), store), store


def read_from(recovery: StreamedRecovery, topic: Topic, start: int = FIRST_OFFSET) -> None:
    for record in topic.read(start, topic.end, 10**6):
        recovery.read(*record)


@pytest.mark.parametrize("hints", [0, 1, 64])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": ONE + TWO + b"\3"}, {"a": ONE}),
        ({"a": ONE}, {"a": ONE + TWO + b"\3"}),
        ({"a": ONE + b"\3"}, {"a": ONE + b"\3\4"}),
        ({"a": ONE, "b": TWO}, {"a": bytes(PAGE_BYTES), "b": TWO}),
    ],
    ids=["shorter", "longer", "longer page", "empty again"],
)
def test_pages_of_an_unfinished_checkpoint_do_not_stay(first, second, hints: int) -> None:
    """The newest manifest lost a page; its other pages were put in place before that is known."""
    topic = Topic()
    writer = owner(topic)
    write(writer, topic, frozen(second, 1))
    good = placed(topic)[1].arrays
    newer = owner(topic, 1)
    write(newer, topic, frozen(first, 2))
    page = next(n for n, r in enumerate(topic.records) if r.offset > (newer.generation or 0))
    damage(topic, page, b"")
    found, store = placed(topic, hints)
    assert found.manifest.cut == 1
    assert store.arrays == good == [bytearray(data) for _, data in sorted(second.items())]


def test_a_right_hint_needs_one_reading_and_none_needs_two() -> None:
    topic = Topic()
    write(owner(topic), topic, frozen({"a": ONE + TWO}, 1))
    for hints, again in ((topic.records, False), ([], True)):
        recovery, store = streamed()
        assert recovery.hint(hints) is not again
        read_from(recovery, topic)
        found = recovery.decide()
        assert isinstance(found, int) is again
        if again:
            assert found == topic.records[1].offset, "from the first page on"
            read_from(recovery, topic, found)
            found = recovery.decide()
        assert isinstance(found, Found)
        assert store.arrays == [bytearray(ONE + TWO)]


def test_only_what_changed_during_the_reading_is_read_again() -> None:
    topic = Topic()
    writer = owner(topic)
    write(writer, topic, frozen({"a": ONE + TWO}, 1))
    recovery, store = streamed()
    recovery.hint(topic.records)
    read_from(recovery, topic)
    before = topic.end
    write(writer, topic, frozen({"a": ONE + ONE}, 2))
    read_from(recovery, topic, before)
    assert recovery.decide() == before
    read_from(recovery, topic, before)
    found = recovery.decide()
    assert isinstance(found, Found)
    assert (found.manifest.cut, store.arrays) == (2, [bytearray(ONE + ONE)])


def test_a_page_that_is_gone_at_the_second_reading_is_not_used() -> None:
    topic = Topic()
    writer = owner(topic)
    write(writer, topic, frozen({"a": ONE + TWO}, 1))
    recovery, store = streamed()
    read_from(recovery, topic)
    start = recovery.decide()
    assert isinstance(start, int)
    write(writer, topic, frozen({"a": TWO + ONE}, 2))
    write(writer, topic, frozen({"a": ONE + b"\7" * PAGE_BYTES}, 3))
    newest = {record.key: record for record in topic.records}
    topic.records = [record for record in topic.records if newest[record.key] is record]
    read_from(recovery, topic, start)
    again = recovery.decide()
    while isinstance(again, int):
        read_from(recovery, topic, again)
        again = recovery.decide()
    assert isinstance(again, Found)
    assert (again.manifest.cut, store.arrays) == (3, [bytearray(ONE + b"\7" * PAGE_BYTES)])


def test_a_topic_that_gives_nothing_at_the_second_reading_does_not_hang() -> None:
    topic = Topic()
    write(owner(topic), topic, frozen({"a": ONE}, 1))
    recovery, _ = streamed()
    recovery.rules.rewind = lambda _: None  # type: ignore[method-assign]
    read_from(recovery, topic)
    assert isinstance(recovery.decide(), int)
    with pytest.raises(CheckpointRefused, match="other records at each reading"):
        recovery.decide()


class Refusing(BytePages):
    """Refuses every manifest, as a replica refuses those that do not fit its spec."""

    def shape(self, manifest: Manifest) -> None:
        raise ValueError(f"cut {manifest.cut}")


def test_a_hint_that_does_not_fit_is_no_hint_and_a_chosen_one_is_refused() -> None:
    topic = Topic()
    write(owner(topic), topic, frozen({"a": ONE}, 1))
    recovery = StreamedRecovery(Recovery(DESIGN, TOPIC_ID, 2), Refusing())
    assert not recovery.hint(topic.records)
    read_from(recovery, topic)
    with pytest.raises(ValueError, match="cut 1"):
        recovery.decide()


def test_a_hint_without_its_pages_is_passed_over() -> None:
    topic = Topic()
    write(owner(topic), topic, frozen({"a": ONE}, 1))
    other = owner(topic, 1)
    for output in other.step(Freeze(frozen({"a": TWO}, 2))):
        if isinstance(output, Send):
            topic.append(output.key, output.value)
    found, store = placed(topic)
    assert (found.manifest.cut, store.arrays) == (1, [bytearray(ONE)])


def test_a_second_reading_drops_no_generation_whose_newest_manifest_is_yet_to_come() -> None:
    """A slow owner reached the highest cut; at the second reading its manifest comes late again."""
    topic = Topic()
    slow = owner(topic)
    write(slow, topic, frozen({"a": ONE}, 1))
    sent = [
        output for output in slow.step(Freeze(frozen({"a": TWO}, 5))) if isinstance(output, Send)
    ]
    offsets = [topic.append(output.key, output.value) for output in sent]
    for number in (1, 2):  # they do not know what there is to remove
        other = Writer()
        drive(other, topic, LeaseAcquired(bytes([number]) * 16, "another"))
        write(other, topic, frozen({"a": bytes(PAGE_BYTES)}, 1))
    for output, offset in zip(sent, offsets, strict=True):
        for manifest in slow.step(Acked(output.token, offset)):
            assert isinstance(manifest, Send)
            topic.append(manifest.key, manifest.value)
    for number in range(3, 3 + GENERATIONS):
        for output in owner(topic, number).step(Freeze(frozen({"a": ONE}, 9))):
            assert isinstance(output, Send)
            topic.append(output.key, output.value)
    found, store = placed(topic, hints=0)
    assert (found.manifest.cut, store.arrays) == (5, [bytearray(TWO)])

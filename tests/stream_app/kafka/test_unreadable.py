"""The end of a batch that no reader can take, found by questions alone."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from stream_app.kafka.failures.unreadable import end_of_batch, is_unreadable
from stream_app.log.partition_buffer import PartitionBuffer
from stream_app.wire import UNREADABLE, Intake, Reason, RecordRun, WireError, decode, decode_many
from stream_app.wire.limits import MAX_BATCH_BYTES
from stream_app.wire.reasons import REASON_CODE


@given(
    first=st.integers(0, 1000),
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=6),
    behind=st.data(),
)
def test_the_end_is_that_of_the_batch_and_not_of_the_next_one(
    first: int, sizes: list[int], behind: st.DataObject
) -> None:
    asked = []
    firsts = {}
    place = first
    for size in sizes:  # every batch of the stretch is unreadable
        firsts |= dict.fromkeys(range(place, place + size), place)
        place += size

    def batch_at(offset: int) -> int | None:
        asked.append(offset)
        return firsts.get(offset)

    inside = first + behind.draw(st.integers(0, sizes[0] - 1))
    assert end_of_batch(batch_at, first, inside, 10**9) == first + sizes[0]
    assert len(asked) <= 2 * sizes[0].bit_length() + 2


@given(size=st.integers(1, 10**8), most=st.integers(1, 1000))
def test_the_end_of_a_huge_batch_is_found_piece_by_piece(size: int, most: int) -> None:
    def batch_at(offset: int) -> int | None:
        return 0 if offset < size else None

    place = 0
    for _ in range(3):
        end = end_of_batch(batch_at, 0, place, place + most)
        assert place < end <= min(size, place + 2 * most)
        if end == size:
            return
        assert end >= place + most
        place = end


@pytest.mark.parametrize(
    ("code", "words", "unreadable"),
    [
        (KafkaError._BAD_COMPRESSION, "Decompression (codec 0x4) of message at 3 failed", True),
        (KafkaError._BAD_MSG, "Decompression (codec 0x3) of message at 3 failed", True),
        (KafkaError._BAD_MSG, "MessageSet at offset 3 failed CRC32C check", False),
        (KafkaError._TRANSPORT, "the broker is away", False),
    ],
)
def test_damage_is_not_taken_for_a_batch_that_was_sent_like_that(
    code: int, words: str, unreadable: bool
) -> None:
    assert is_unreadable(KafkaError(code, words)) is unreadable


def test_an_unreadable_record_is_rejected_as_that_and_an_empty_one_as_empty() -> None:
    intake = Intake({"rr:5:2": 5})
    with pytest.raises(WireError) as refusal:
        decode(None, UNREADABLE, 0, intake)
    assert refusal.value.reason is Reason.UNREADABLE
    batch = decode_many(RecordRun(0, [7, 8, 9], [None] * 3, [UNREADABLE, b"", None]), intake)
    wanted = [Reason.UNREADABLE, Reason.EMPTY, Reason.EMPTY]
    assert batch.reasons.tolist() == [REASON_CODE[reason] for reason in wanted]


def test_a_buffer_knows_its_bytes_and_lets_go_of_what_was_taken() -> None:
    buffer, value = PartitionBuffer(), bytes(MAX_BATCH_BYTES)
    for offset in range(20):
        buffer.append(offset, None, value, -1)
    assert buffer.size == 20 * MAX_BATCH_BYTES
    for _ in range(16):
        buffer.take(20, 1024, 1)
    assert buffer.size == 4 * MAX_BATCH_BYTES
    assert len(buffer) == 4
    assert len(buffer._values) <= 4 + 5  # a megabyte of what was taken, and no more

"""The bytes of a journal file: what was written is read, a torn end is cut, damage is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from producers.journal.frames import (
    FRAME_BYTES,
    HEADER_BYTES,
    CorruptJournalError,
    Kind,
    NotAJournalError,
    frame,
    header,
    scan,
)

KEY = bytes(range(32))
BODIES = st.lists(st.binary(max_size=40), max_size=6)


def written(bodies: list[bytes]) -> tuple[bytes, list[int]]:
    """Return a file in which every frame was synced before the next, and where each begins."""
    data, places = header(KEY, HEADER_BYTES), []
    for body in bodies:
        places.append(len(data))
        data += frame(Kind.COMMIT, body, len(data))
    return data, places


@given(BODIES)
def test_what_was_written_is_read(bodies: list[bytes]) -> None:
    data, places = written(bodies)
    found = scan(data)
    assert (found.key, found.end) == (KEY, len(data))
    assert [bytes(one.body) for one in found.frames] == bodies
    assert [one.position for one in found.frames] == places


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.data())
def test_a_torn_end_is_cut_wherever_it_is_torn(bodies: list[bytes], data: st.DataObject) -> None:
    whole, places = written(bodies)
    end = data.draw(st.integers(places[-1], len(whole) - 1))
    rest = data.draw(st.sampled_from([b"", bytes(len(whole) - end), bytes(5000)]))
    assume(not (whole[:end] + rest).startswith(whole))  # the torn bytes may be zeros themselves
    found = scan(whole[:end] + rest)
    assert found.end == places[-1]
    assert len(found.frames) == len(bodies) - 1


@given(st.lists(st.binary(max_size=40), min_size=2, max_size=5), st.data())
def test_a_flipped_bit_before_the_last_frame_is_refused_with_its_position(
    bodies: list[bytes], data: st.DataObject
) -> None:
    whole, places = written(bodies)
    bit = data.draw(st.integers(0, 8 * places[-1] - 1))
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises((CorruptJournalError, NotAJournalError)) as caught:
        scan(bytes(flipped))
    if isinstance(caught.value, CorruptJournalError) and bit // 8 >= HEADER_BYTES:
        assert caught.value.position == max(p for p in places if p <= bit // 8)


def test_a_compacted_file_vouches_for_itself() -> None:
    frames = frame(Kind.ACCOUNTS, b"everything", 0) + frame(Kind.PENDING, b"the rest", 0)
    whole = header(KEY, HEADER_BYTES + len(frames)) + frames
    assert len(scan(whole).frames) == 2
    for place in (HEADER_BYTES + FRAME_BYTES, len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        with pytest.raises(CorruptJournalError):
            scan(bytes(flipped))
    with pytest.raises(CorruptJournalError):
        scan(whole[:-1])
    torn = scan(whole + frame(Kind.ACKS, b"torn", 0)[:-1])
    assert torn.end == len(whole)


def test_damage_is_distinguished_from_a_torn_end_also_far_before_the_next_valid_frame() -> None:
    data, places = written([b"first", b"x" * 3_000_000, b"last"])
    flipped = bytearray(data)
    flipped[places[0] + FRAME_BYTES] ^= 1
    with pytest.raises(CorruptJournalError) as caught:
        scan(bytes(flipped))
    assert caught.value.position == places[0]


def test_unsynced_frames_behind_a_hole_do_not_make_damage_of_a_torn_end() -> None:
    data, places = written([b"durable"])
    durable = len(data)
    # Two frames that no sync has followed; the machine dies and only the second reaches the disk.
    first, second = frame(Kind.ACKS, b"a" * 40, durable), frame(Kind.ACKS, b"b" * 40, durable)
    found = scan(data + bytes(len(first)) + second)
    assert (found.end, len(found.frames)) == (durable, len(places))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [(b"", "not a device journal"), (b"user,item\n1,2\n", "not a device journal"),
     (b"SQLite format 3\0" + bytes(100), "device store of an earlier murmurec"),
     (np.random.default_rng(1).bytes(1000), "not a device journal")],
    ids=["empty", "text", "sqlite", "noise"],
)  # fmt: skip
def test_a_file_that_is_no_journal_is_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(NotAJournalError, match=sentence):
        scan(data)


def test_a_later_format_and_a_later_record_are_named() -> None:
    import struct
    import zlib

    later = bytearray(header(KEY, HEADER_BYTES))
    later[8:10] = struct.pack("<H", 9)
    later[-4:] = zlib.crc32(later[:-4]).to_bytes(4, "little")
    with pytest.raises(NotAJournalError, match="format 9, this murmurec reads 2"):
        scan(bytes(later))
    unknown = frame(99, b"", 0)  # type: ignore[arg-type]
    with pytest.raises(NotAJournalError, match="kind 99, of a later murmurec"):
        scan(header(KEY, HEADER_BYTES) + unknown)

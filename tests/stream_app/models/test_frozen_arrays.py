"""A frozen array is what it was at the cut, whatever is done to its part meanwhile and however a
thread reads it; and nothing of a change is forgotten for the next cut."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import stream_app
from stream_app.kernels.machine.dirty_pages import (
    CHANGED,
    CLEAN,
    DIRTY,
    FROZEN,
    PAGE_BYTES,
    PIECE_BYTES,
    WRITTEN,
    touch_bytes,
)
from stream_app.models.cooccurrence.item_pairs import ItemPairs, RecordColumns
from stream_app.models.cooccurrence.like_weights import like_weights
from stream_app.models.frozen_arrays import FrozenArray, NoRoom, Room, frozen_arrays
from stream_app.models.paged_arrays import dirty_map, grown_map, is_dirty, mark_dirty
from tests.stream_app.models.learners import CHANNELS
from tests.stream_app.models.learners import CLEAN as CLEAN_CHANNEL
from tests.stream_app.models.test_pages import GROWING, STEPS, changed, every_part, pages

Image = dict[str, list[bytes]]


def test_memory_that_the_system_does_not_grant_is_one_sentence_with_its_limit_and_fix() -> None:
    """2^50 bytes are more than a process can address, whatever the system's limit is."""
    huge = np.broadcast_to(np.uint8(0), 1 << 50)
    with pytest.raises(NoRoom) as refused:
        Room([huge])
    for words in ("1,07", " MiB", "vm.overcommit_memory", "ulimit -v", "sketch_bytes"):
        assert words in str(refused.value)


def image(part) -> Image:
    return {name: pages(array) for name, array in part.arrays().items()}


def all_pages(part) -> dict[str, np.ndarray]:
    return {name: np.ones(len(bits), bool) for name, bits in part.dirty_pages().items()}


def frozen(part, which=None):
    return frozen_arrays(part.arrays(), part.dirty_pages(), which or all_pages(part))


def assert_equal(found: dict[str, FrozenArray], wanted: Image) -> None:
    for name, array in found.items():
        for number in np.flatnonzero(array.which).tolist():
            assert array.page(number).tobytes() == wanted[name][number], f"{name}, page {number}"


@every_part
@settings(deadline=None, max_examples=10)
@given(before=STEPS, while_frozen=STEPS, after=STEPS, data=st.data())
@example(before=GROWING, while_frozen=[(3, 30), (6, 9000)], after=[(4, 30)], data=None)
def test_what_is_frozen_is_what_was_there_at_the_cut(
    make, before, while_frozen, after, data
) -> None:
    """Every page of every part, under learning, forgetting, erasing, electing and growing."""
    part, feed = make()
    for seed, events in before:
        feed(seed, events)
    which = all_pages(part)
    if data is not None and data.draw(st.booleans()):
        which = {name: is_dirty(bits) for name, bits in part.dirty_pages().items()}
    wanted = image(part)
    found, room = frozen(part, which)
    for seed, events in while_frozen:
        feed(seed, events)
        assert_equal(found, wanted)
    for array in found.values():
        array.release()
    room.close()
    # What was written meanwhile is dirty, as if the marks had been cleared at the cut.
    now = image(part)
    for name, bits in part.dirty_pages().items():
        assert changed(wanted[name], now[name]) <= set(np.flatnonzero(is_dirty(bits)).tolist())
        assert set(np.unique(bits).tolist()) <= {CLEAN, DIRTY, WRITTEN}
    again, room = frozen(part)
    for seed, events in after:
        feed(seed, events)
    assert_equal(again, now)
    for array in again.values():
        array.release()
    room.close()


@every_part
def test_what_is_loaded_leaves_what_is_frozen(make) -> None:
    part, feed = make()
    feed(1, 300)
    other, feed_other = make()
    feed_other(2, 100)
    wanted = image(part)
    found, room = frozen(part)
    part.load({name: array.copy() for name, array in other.arrays().items()})
    assert image(part) == image(other)
    assert_equal(found, wanted)
    for array in found.values():
        array.release()
    room.close()


def test_a_report_that_replaces_another_leaves_the_list_of_the_cut() -> None:
    """Nothing else is written to the block, which other ratings would have kept already."""
    made = ItemPairs(CHANNELS, like_weights(CHANNELS), 4, 16, one=15, in_order=False)
    made.extend(1, 1)

    def rate(report: int) -> None:
        zero = np.zeros(1, np.int64)
        made.count(
            RecordColumns(
                zero, zero + 1, zero, zero, np.full(1, CLEAN_CHANNEL, np.uint16),
                np.full(1, report, np.uint8), np.full(1, 3.0), np.zeros(1, np.bool_),
            )
        )  # fmt: skip

    rate(4)
    lists = made.parts()["lists"]
    wanted = image(lists)
    found, room = frozen(lists)
    rate(0)
    assert image(lists) != wanted
    assert_equal(found, wanted)
    for array in found.values():
        array.release()
    room.close()


@every_part
def test_a_thread_reads_whole_pages_while_the_owner_writes(make) -> None:
    """Many rounds of writes against a reader that takes the pages in a random order, twice."""
    part, feed = make()
    feed(1, 9000)
    for turn in range(3):
        wanted = image(part)
        found, room = frozen(part)
        wrong: list[str] = []

        def read(found=found, wanted=wanted, wrong=wrong, turn=turn) -> None:
            random = np.random.default_rng(turn)
            places = [(n, k) for n, array in found.items() for k in range(len(array.which))]
            for at in (*random.permutation(len(places)), *random.permutation(len(places))):
                name, number = places[at]
                if found[name].page(number).tobytes() != wanted[name][number]:
                    wrong.append(f"{name}, page {number}")

        reader = threading.Thread(target=read)
        reader.start()
        seed = 2
        while reader.is_alive():
            feed(100 * turn + seed, 300)
            seed += 1
        reader.join()
        assert not wrong
        for array in found.values():
            array.release()
        room.close()


@settings(deadline=None, max_examples=200)
@given(
    size=st.integers(1, 3 * PAGE_BYTES + 17),
    writes=st.lists(
        st.tuples(st.integers(0, 4 * PAGE_BYTES), st.integers(1, PAGE_BYTES)), max_size=8
    ),
)
def test_a_mark_keeps_the_pieces_that_it_covers_and_no_others(
    size: int, writes: list[tuple[int, int]]
) -> None:
    """An array in a larger room, as rows in use are; against a copy."""
    whole = np.random.default_rng(size).integers(0, 256, 4 * PAGE_BYTES, np.uint8)
    held, array, bits = whole.copy(), whole[:size], dirty_map(whole)
    bits[-1] = DIRTY
    used = bits[: len(dirty_map(array))]
    room = Room([array])
    found = FrozenArray(array, used, np.ones(len(used), bool), room)
    covered: set[int] = set()
    for first, many in writes:
        stop = min(first + many, len(whole))
        if stop > first:
            touch_bytes(bits, first, stop - first)
            whole[first:stop] += np.uint8(1)
            covered |= set(range(first // PAGE_BYTES, (stop - 1) // PAGE_BYTES + 1))
    data = b"".join(found.page(n).tobytes() for n in range(len(used)))
    assert data == held[:size].tobytes()
    for number, bit in enumerate(used.tolist()):
        assert bit & ~WRITTEN == (FROZEN | CHANGED if number in covered else FROZEN)
    found.release()
    room.close()
    assert set(np.flatnonzero(is_dirty(used)).tolist()) == covered & set(range(len(used)))


def test_a_page_that_is_not_frozen_is_not_given() -> None:
    array = np.arange(3 * PAGE_BYTES // 8)
    bits = dirty_map(array)
    room = Room([array])
    found = FrozenArray(array, bits, np.array([True, False, True]), room)
    assert bits.tolist() == [FROZEN, CLEAN, FROZEN]
    with pytest.raises(RuntimeError, match="page 1 is not frozen"):
        found.page(1)
    mark_dirty(bits, 0, array.nbytes)
    assert bits.tolist() == [FROZEN | CHANGED, DIRTY, FROZEN | CHANGED]
    found.release()
    assert bits.tolist() == [DIRTY, DIRTY, DIRTY]
    room.close()


def test_an_array_that_grows_leaves_what_is_frozen_behind() -> None:
    old = np.arange(2 * PAGE_BYTES // 8)
    wanted, bits = pages(old), dirty_map(old)
    room = Room([old])
    found = FrozenArray(old, bits, np.array([True, True]), room)
    mark_dirty(bits, PAGE_BYTES, PAGE_BYTES + 8)
    old[PAGE_BYTES // 8] = -1
    new = np.zeros(2 * len(old), old.dtype)
    new[: len(old)] = old
    grown = grown_map(bits, new)
    assert grown.tolist() == [CLEAN, DIRTY, CLEAN, CLEAN]
    mark_dirty(grown, 0, 8)
    new[0] = -1
    del old
    assert [found.page(n).tobytes() for n in range(2)] == wanted
    found.release()
    room.close()


def test_that_a_page_was_written_is_never_forgotten() -> None:
    array = np.zeros(3 * PAGE_BYTES, np.uint8)
    bits = dirty_map(array)
    mark_dirty(bits, 0, 1)
    for which in ([True] * 3, [False] * 3):
        room = Room([array])
        found = FrozenArray(array, bits, np.array(which), room)
        found.release()
        room.close()
        assert bits.tolist() == [WRITTEN, CLEAN, CLEAN]
    assert grown_map(bits, np.zeros(4 * PAGE_BYTES, np.uint8)).tolist() == [WRITTEN, 0, 0, 0]
    mark_dirty(bits, 1, 2)
    assert bits.tolist() == [DIRTY, CLEAN, CLEAN]


def test_what_is_dropped_is_released() -> None:
    array = np.arange(3 * PAGE_BYTES // 8)
    bits = dirty_map(array)
    for _ in range(3):
        found = FrozenArray(array, bits, np.array([True, False, True]), Room([array]))
        mark_dirty(bits, 0, 8)
        array[0] += 1
        assert bits[0] == FROZEN | CHANGED
        assert not bits[1] & FROZEN
        assert found.page(0).tobytes() != array.tobytes()[:PAGE_BYTES]
        del found
        assert is_dirty(bits).tolist() == [True, False, False]
        mark_dirty(bits, 0, array.nbytes)
        assert is_dirty(bits).all()
        array[:] += 1


def test_marks_are_set_by_the_functions_that_keep_what_is_frozen_and_by_nothing_else() -> None:
    """But where a whole state is loaded, and nothing of it is frozen."""
    by_hand = re.compile(r"pages(\(.*\))?\[[^]]*\] \|?= ")
    loading = {"high_water_marks.py"}
    found = {
        f"{path.name}: {line.strip()}"
        for part in ("kernels", "models", "state")
        for path in (Path(stream_app.__file__).parent / part).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if by_hand.search(line) and not (path.name in loading and line.endswith("[:] = 1"))
    }
    assert found == {
        "frozen_arrays.py: pages[:] = frozen(pages, which)",
        "frozen_arrays.py: self._pages[:] = released(self._pages)",
        "paged_arrays.py: pages[number] = CLEAN",  # of a state that a command writes
    }


def test_memory_is_used_for_what_is_written_alone() -> None:
    array = np.zeros(64 * PAGE_BYTES, np.uint8)
    bits, room = dirty_map(array), Room([array])
    found = FrozenArray(array, bits, np.ones(64, bool), room)
    for at in (5, PIECE_BYTES - 1, 9 * PAGE_BYTES):
        mark_dirty(bits, at, at + 1)
        array[at] = 1
    assert found.kept_bytes == 2 * PIECE_BYTES
    found.release()
    room.close()

"""Co-ratings against the obvious version and against their definition, after every step."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.kernels.cooccurrence.co_rating_sums import MOST_DEVICES, counted
from stream_app.models.cooccurrence.co_ratings import CoRatings
from stream_app.models.cooccurrence.item_pairs import RecordColumns
from stream_app.models.cooccurrence.report_values import ReportValues
from stream_app.models.factorization.channels import Channels
from stream_app.privacy import registry
from tests.naive import co_ratings as naive

CHANNELS = Channels.from_mechanisms([registry.parse("rr:5:1"), registry.parse("none:5:inf")])
VALUES = ReportValues.from_channels(CHANNELS).fixed.tolist()
DEVICES = 7
Record = tuple[int, list[tuple[int, int]]]  # device, (item, row of the report)


def columns(records: list[Record], skipped: list[bool] | None = None) -> RecordColumns:
    """Return records as columns; an item is its own row, a report's row is 5 channel + report."""
    ratings = [rating for _, part in records for rating in part]
    items, rows = (np.array([r[c] for r in ratings], np.int64) for c in (0, 1))
    return RecordColumns(
        np.array([device for device, _ in records], np.int64),
        np.array([len(part) for _, part in records], np.int64),
        np.zeros(len(records), np.int64),
        items,
        (rows // 5).astype(np.uint16),
        (rows % 5).astype(np.uint8),
        np.full(len(items), 3.0),
        np.array(skipped or [False] * len(items), np.bool_),
    )


def stream(rng: np.random.Generator, records: int, items: int, most: int = 12) -> list[Record]:
    """Return records of 1 to `most` ratings; lower numbers are rated more."""
    made = []
    for _ in range(records):
        size = int(rng.integers(1, most + 1))
        drawn = np.minimum(rng.zipf(1.4, size), items) - 1
        pairs = zip(drawn.tolist(), rng.integers(0, 10, size).tolist(), strict=True)
        made.append((int(rng.integers(DEVICES)), list(pairs)))
    return made


def state(co: CoRatings) -> dict[str, bytes]:
    parts = co.parts().items()
    return {f"{p}.{n}": a.tobytes() for p, held in parts for n, a in held.arrays().items()}


def tables(co: CoRatings) -> tuple[dict[tuple[int, ...], int], dict[tuple[int, ...], int]]:
    """Return the cells by (low, high, column) and the moments by (slot, column), without zeros."""
    arrays = co.parts()["sums"].arrays()
    high, low = np.tril_indices(len(arrays["moments"]), -1)
    cells = np.stack(counted(arrays["cells"]), axis=1)
    found = {
        (int(low[at]), int(high[at]), int(column)): int(cells[at, column])
        for at, column in np.argwhere(cells)
    }
    moments = arrays["moments"]
    return found, {(int(s), int(c)): int(moments[s, c]) for s, c in np.argwhere(moments)}


def held(co: CoRatings) -> list[list[naive.Entry]]:
    """Return the lists of all devices as (slot, row of the report)."""
    lists = [co.lists.of_device(device) for device in range(DEVICES)]
    return [list(zip(s.tolist(), (r - 1).tolist(), strict=True)) for s, r in lists]


def without_zeros(counter: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    return {key: value for key, value in counter.items() if value}


def equal(fast: CoRatings, slow: naive.CoRatings) -> None:
    """Assert that both hold the same lists and the sums of these lists."""
    lists = held(fast)
    assert lists == [slow.devices[device].entries for device in range(DEVICES)]
    defined = naive.sums(lists, VALUES)
    for own, incremental, wanted in zip(
        tables(fast), (slow.cells, slow.moments), defined, strict=True
    ):
        assert own == without_zeros(dict(incremental)) == without_zeros(dict(wanted))


def made(size: int, recent: int) -> CoRatings:
    fast = CoRatings(CHANNELS, size, recent)
    fast.extend(DEVICES)
    return fast


@pytest.mark.parametrize("recent", [16, 48])
@pytest.mark.parametrize("size", [1, 12, 40])
def test_every_step_leaves_the_sums_of_the_present_lists(
    size: int, recent: int, rng: np.random.Generator
) -> None:
    """Lists wrap around, items come twice, slots change hands, devices are cleared and released."""
    fast, slow = made(size, recent), naive.CoRatings(recent // 16, VALUES)
    slots = np.full(60, -1, np.int16)
    slots[:size] = np.arange(size)  # slot 0 .. size - 1; other items have none
    for _ in range(25):
        records = stream(rng, 25, 60)
        skipped = (rng.random(sum(len(part) for _, part in records)) < 0.1).tolist()
        fast.count(columns(records, skipped), slots)
        left = iter(skipped)
        for device, part in records:
            for item, row in part:
                if not next(left) and slots[item] >= 0:
                    slow.rate(device, int(slots[item]), row)
        if rng.random() < 0.3:
            gone = np.sort(rng.choice(size, 1 + size // 4, replace=False))
            fast.clear_slots(gone)
            slow.clear_slots(gone.tolist())
        if rng.random() < 0.3:
            device = int(rng.integers(DEVICES))
            fast.clear(device) if rng.random() < 0.5 else fast.release(np.array([device]))
            slow.clear(device)
        equal(fast, slow)


@pytest.mark.parametrize("at_a_time", [1, 3, 100])
def test_the_state_does_not_depend_on_how_records_are_cut_up(
    at_a_time: int, rng: np.random.Generator
) -> None:
    records, slots = stream(rng, 400, 30, 40), np.arange(30, dtype=np.int16)
    whole, parts = made(30, 32), made(30, 32)
    for co, step in ((whole, 400), (parts, at_a_time)):
        for start in range(0, 400, step):
            co.count(columns(records[start : start + step]), slots)
    assert state(parts) == state(whole)
    assert any(tables(whole)[0])


def test_the_tables_of_a_forgotten_device_are_those_of_a_log_without_it(
    rng: np.random.Generator,
) -> None:
    records, slots = stream(rng, 300, 40, 20), np.arange(40, dtype=np.int16)
    whole, without = made(40, 32), made(40, 32)
    whole.count(columns(records), slots)
    without.count(columns([record for record in records if record[0] != 3]), slots)
    assert tables(whole) != tables(without)
    whole.clear(3)
    assert state(whole)["sums.cells"] == state(without)["sums.cells"]
    assert state(whole)["sums.moments"] == state(without)["sums.moments"]
    assert len(whole.history(3)[0]) == 0
    for unknown in (-1, DEVICES, 10**6):
        whole.clear(unknown)


def test_a_rating_again_replaces_the_value_and_keeps_the_place() -> None:
    co, slots = made(4, 16), np.arange(4, dtype=np.int16)
    co.count(columns([(0, [(0, 5), (1, 9), (2, 7)])]), slots)
    co.count(columns([(0, [(0, 8)])]), slots)
    found, stars = co.history(0)
    assert found.tolist() == [0, 1, 2]
    assert stars.tolist() == [4, 5, 3]
    table = co.snapshot(np.arange(3, dtype=np.uint64) + 7, 11).table()
    assert table.version == 11
    assert table.keys.tolist() == [7, 8, 9]
    assert table.counts.tolist() == np.ones((3, 3)).tolist()
    assert table.differences.tolist() == [[0, -1, 1], [1, 0, 2], [-1, -2, 0]]
    assert table.products.tolist() == [[16, 20, 12], [20, 25, 15], [12, 15, 9]]
    assert table.sums.tolist() == [4, 5, 3]
    assert table.variance.tolist() == [0, 0, 0]


def test_one_rating_is_co_rated_with_nothing() -> None:
    co = made(4, 16)
    co.count(columns([(0, [(1, 9)]), (1, [(2, 9)])]), np.arange(4, dtype=np.int16))
    table = co.snapshot(np.arange(4, dtype=np.uint64), 1).table()
    assert table.counts.tolist() == np.diag([0, 1, 1, 0]).tolist()
    assert not table.differences.any()


def test_lists_that_name_no_slot_or_no_report_are_not_loaded() -> None:
    """The kernels look up the cell and the value of every entry."""
    co = made(4, 16)
    co.count(columns([(0, [(1, 9), (3, 2)])]), np.arange(4, dtype=np.int16))
    good = {name: array.copy() for name, array in co.lists.arrays().items()}
    co.lists.load(good)
    for entry in (4 << 20 | 1, 1 << 20, 1 << 20 | 11):
        bad = {**good, "blocks": good["blocks"].copy()}
        bad["blocks"][0, 0] = entry
        with pytest.raises(ValueError, match="4 slots and 10 different reports"):
            co.lists.load(bad)


def test_a_count_marks_every_page_that_it_changes(rng: np.random.Generator) -> None:
    co, slots = made(400, 32), np.arange(400, dtype=np.int16)
    co.count(columns(stream(rng, 50, 400, 30)), slots)
    for change in ("count", "clear", "slots"):
        arrays = {(p, n): a for p, held in co.parts().items() for n, a in held.arrays().items()}
        before = {name: array.tobytes() for name, array in arrays.items()}
        maps = {(p, n): m for p, held in co.parts().items() for n, m in held.dirty_pages().items()}
        for pages in maps.values():
            pages[:] = 0
        if change == "count":
            drawn = rng.permutation(400)[:40].tolist()
            co.count(columns([(2, [(item, item % 10) for item in drawn])]), slots)
        elif change == "clear":
            co.clear(2)
        else:
            co.clear_slots(np.array([0, 127, 399]))
        for part, held in co.parts().items():
            for name, array in held.arrays().items():
                old = np.frombuffer(before[part, name].ljust(array.nbytes, b"\0"), np.uint8)
                changed = np.flatnonzero(array.reshape(-1).view(np.uint8) != old) >> 16
                dirty = np.flatnonzero(held.dirty_pages()[name])
                assert set(changed.tolist()) <= set(dirty.tolist()), (change, name)
                assert name != "cells" or len(changed)


@pytest.mark.parametrize("side", [1, -1])
def test_the_sums_of_as_many_devices_as_have_lists_do_not_meet(side: int) -> None:
    """Every device but one gives the largest difference and product; a last one follows."""
    most = MOST_DEVICES - 1
    co, slots = made(2, 16), np.arange(2, dtype=np.int16)
    cells = co.parts()["sums"].arrays()["cells"]
    cells[0] = (most << 40) + side * most * 2**16, most * 2**30
    assert [int(each[0]) for each in counted(cells)] == [most, side * most * 2**16, most * 2**30]
    co.count(columns([(0, [(0, 9), (1, 5)])]), slots)
    v, w = VALUES[9][0], VALUES[5][0]
    wanted = [most + 1, side * most * 2**16 + v - w, most * 2**30 + v * w]
    assert [int(each[0]) for each in counted(cells)] == wanted
    assert MOST_DEVICES * 2**16 < 2**39
    assert MOST_DEVICES * 2**40 + MOST_DEVICES * 2**16 < 2**63


def test_devices_beyond_the_bound_have_no_list_and_the_others_go_on() -> None:
    co = CoRatings(CHANNELS, 4, 16, most_devices=2)
    co.extend(4)
    slots = np.arange(4, dtype=np.int16)
    co.count(columns([(device, [(0, 9), (1, 5)]) for device in range(4)]), slots)
    assert [len(co.history(device)[0]) for device in range(4)] == [2, 2, 0, 0]
    table = co.snapshot(np.arange(2, dtype=np.uint64), 1).table()
    assert table.counts.tolist() == [[2, 2], [2, 2]]
    co.clear(3)
    co.release(np.array([1, 2]))
    assert co.snapshot(np.arange(2, dtype=np.uint64), 1).table().counts.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match="most_devices 8388608: at most 8388607"):
        CoRatings(CHANNELS, 4, 16, most_devices=MOST_DEVICES + 1)


def test_a_slot_that_changes_hands_marks_the_page_of_every_list() -> None:
    """3,000 lists of one block of 64 bytes: three pages."""
    co = CoRatings(CHANNELS, 4, 16)
    co.extend(3000)
    co.count(columns([(d, [(3, 7), (1, 7)]) for d in range(3000)]), np.arange(4, dtype=np.int16))
    pages = co.lists.dirty_pages()["blocks"]
    pages[:] = 0
    co.clear_slots(np.array([3]))
    assert pages.tolist() == [1, 1, 1]
    assert co.history(2999)[0].tolist() == [1]

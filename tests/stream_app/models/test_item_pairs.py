"""Pairs of items on one device, against the obvious version: every array, after every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_app.models.cooccurrence.item_pairs import ItemPairs, RecordColumns, check_pairs
from stream_app.models.cooccurrence.like_weights import like_level
from stream_app.models.factorization.channels import Channels
from stream_app.privacy import registry
from tests.naive import pairs as naive

CHANNELS = Channels.from_mechanisms([registry.parse("none:16:inf"), registry.parse("rr:16:1")])
LIKES = [int(report >= like_level(16)) for report in range(16)]
DEVICES = 7
# The report is the weight, at any prediction and of either channel: reports 0 .. 15.
WEIGHTS = np.repeat(np.tile(np.arange(16, dtype=np.uint8), 2)[:, None], 21, axis=1)
Record = tuple[int, list[tuple[int, int]]]


def columns(
    records: list[Record],
    skipped: list[bool] | None = None,
    days: list[int] | None = None,
    channels: list[int] | None = None,
) -> RecordColumns:
    """Return records of (device, [(item, weight)]), each of a day and a channel, as columns; an
    item is its own row."""
    ratings = [rating for _, part in records for rating in part]
    items, reports = (np.array([r[c] for r in ratings], np.int64) for c in (0, 1))
    return RecordColumns(
        np.array([device for device, _ in records], np.int64),
        np.array([len(part) for _, part in records], np.int64),
        np.array(days or [0] * len(records), np.int64),
        items,
        np.repeat(
            np.array(channels or [0] * len(records), np.uint16),
            [len(part) for _, part in records],
        ),
        reports.astype(np.uint8),
        np.linspace(1, 5, len(items)),
        np.array(skipped or [False] * len(items), np.bool_),
    )


def stream(rng: np.random.Generator, records: int, items: int, most: int = 12) -> list[Record]:
    """Return records of 1 to `most` ratings, or of one; popular items are low numbers that move."""
    made = []
    for n in range(records):
        size = 1 if rng.random() < 0.4 else int(rng.integers(1, most + 1))
        shift = items * n // records
        drawn = (np.minimum(rng.zipf(1.4, size), items) + shift) % items
        weights = rng.integers(0, 16, size)
        pairs = list(zip(drawn.tolist(), weights.tolist(), strict=True))
        made.append((int(rng.integers(DEVICES)), pairs))
    return made


def sums_of(arrays: dict[str, Any], name: str) -> np.ndarray:
    """Return the sums of a table from their two halves."""
    return (arrays[f"{name}_high"].astype(np.int64) << 16) + arrays[name]


def equal(fast: ItemPairs, slow: naive.Pairs, items: int) -> None:
    """Assert that two versions hold the same."""
    arrays: dict[str, Any] = {
        name: array for part in fast.parts().values() for name, array in part.arrays().items()
    }
    used = len(slow.head)
    assert fast.head.used == used
    assert arrays["rows"].tolist() == slow.head + [-1] * (slow.size - used)
    assert arrays["counts"].tolist() == [slow.counts.get(i, 0) for i in range(items)]
    assert arrays["recent"].tolist() == [slow.recent.get(i, 0) for i in range(items)]
    assert arrays["totals"].tolist() == [
        slow.total, slow.elected, slow.decayed, slow.steps, slow.day, slow.elected_day,
        slow.changes,
    ]  # fmt: skip
    assert arrays["numbers"].tolist() == [len(slow.devices), *slow.after]
    for name in ("pairs", "between", "within"):
        if name in arrays:
            whole = sums_of(arrays, name)
            nonzero = {(i, j): int(whole[i, j]) for i, j in np.argwhere(whole).tolist()}
            assert nonzero == {pair: n for pair, n in getattr(slow, name).items() if n}
    wanted = [slow.moments.get(slot, [0, 0, 0]) for slot in range(slow.size)]
    assert arrays["moments"].tolist() == wanted
    for number in range(DEVICES):
        own = slow.devices.get(number, naive.Device())
        slots, weights = fast.lists.of_device(number)
        held = [(entry.slot, entry.weight) for entry in own.entries if entry.slot >= 0]
        assert list(zip(slots.tolist(), weights.tolist(), strict=True)) == held
        if fast.visits is not None:
            visits_equal(fast, slow, number, own)


def visits_equal(fast: ItemPairs, slow: naive.Pairs, device: int, own: naive.Device) -> None:
    """Assert that two versions hold the same visits of a device."""
    assert fast.visits is not None
    visit, likes = (fast.visits.room(name)[device] for name in ("visits", "likes"))
    present, before = own.of_visit(own.visit), own.of_visit(own.visit - 1)
    channel = own.channels.copy().pop() if len(own.channels) == 1 and present else -1
    wanted = [own.day, len(present), len(before), len(own.singles()), channel, own.step]
    wanted.append(len(own.singles(1)))
    if device in slow.devices:
        assert visit.tolist()[:4] == wanted[:4]
        if present:
            assert visit.tolist()[4:] == wanted[4:]
    newest = own.entries[::-1][:64]
    assert [int(likes) >> k & 1 for k in range(len(newest))] == [e.like for e in newest]
    history = fast.history(device)
    live = [entry for entry in own.entries if entry.slot >= 0]
    assert history.items.tolist() == [slow.head[entry.slot] for entry in live]
    assert history.visits_ago.tolist() == [min(own.visit - entry.visit, 2) for entry in live]
    singles = [entry for entry in own.singles() if entry.slot >= 0]
    common = [len(singles) + (entry.visit < own.visit) for entry in live]
    ages = [*common[: len(live) - len(singles)], *range(len(singles))[::-1]]
    assert history.ages.tolist() == ages


def made(size: int, recent: int, *, in_order: bool = True) -> tuple[ItemPairs, naive.Pairs]:
    fast = ItemPairs(CHANNELS, WEIGHTS, size, recent, one=15, in_order=in_order)
    return fast, naive.Pairs(size, recent // 16, in_order=in_order, likes=LIKES)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("recent", [16, 48])
@pytest.mark.parametrize("size", [1, 12, 40])
def test_every_step_leaves_what_the_obvious_version_has(
    size: int, recent: int, in_order: bool, rng: np.random.Generator
) -> None:
    """Lists wrap around, items come twice, slots change hands, devices are cleared."""
    fast, slow = made(size, recent, in_order=in_order)
    keys, day = np.arange(60, dtype=np.uint64), 0
    for _ in range(30):
        records = stream(rng, 25, 60)
        skipped = (rng.random(sum(len(part) for _, part in records)) < 0.1).tolist()
        days = np.maximum(day + rng.integers(-2, 2, 25), 0).tolist()
        channels = (rng.random(25) < 0.1).astype(int).tolist()
        day += int(rng.integers(3))
        fast.extend(60, DEVICES)
        fast.count(columns(records, skipped, days, channels))
        left = iter(skipped)
        for (device, part), own_day, channel in zip(records, days, channels, strict=True):
            # A skipped rating is part of its record and of nothing else.
            kept = [rating for rating in part if not next(left)]
            slow.count(device, kept, alone=len(part) == 1, day=own_day, channel=channel)
        if rng.random() < 0.5:
            accepted = None if rng.random() < 0.5 else (day - 3, day)
            fast.elect(keys, accepted)
            slow.end_round(60, accepted)
        if rng.random() < 0.3:
            gone = int(rng.integers(DEVICES))
            fast.clear(gone)
            slow.clear(gone)
        equal(fast, slow, 60)
    assert slow.elected > 0
    assert slow.steps > 0


@pytest.mark.parametrize("first", [0, 2**16 - 1])
def test_sums_carry_into_their_upper_half_and_stay_at_their_limit(first: int) -> None:
    """A fixed stream: that a sum reaches its limit depends on what is drawn."""
    fast, slow = made(12, 32)
    fast.extend(60, DEVICES)
    tables = fast.parts()["moments"].arrays()
    for name in ("pairs", "between", "within"):
        tables[name][:], tables[f"{name}_high"][:] = 2**16 - 4, first
        for pair in np.ndindex(12, 12):
            getattr(slow, name)[pair] = (first << 16) + 2**16 - 4
    for n, record in enumerate(stream(np.random.default_rng(1), 100, 12)):
        for device in range(DEVICES if n % 25 == 0 else 0):
            fast.clear(device)
            slow.clear(device)
        fast.count(columns([record], days=[n // 5]))
        slow.count(*record, day=n // 5)
    equal(fast, slow, 60)
    for name in ("pairs", "between", "within"):
        assert sums_of(tables, name).max() == naive.MOST if first else tables[f"{name}_high"].any()


@pytest.mark.parametrize("weight", [14, 15])
def test_an_item_rated_more_often_than_16_bits_can_sum_up(weight: int) -> None:
    """1,000 devices rate item 0, then item 1 at a weight whose sums pass 2^16 several times."""
    fast, slow = made(4, 16)
    fast.extend(60, DEVICES)
    for n in range(1000):
        device = n % DEVICES
        records = [(device, [(0, 15), (1, weight)])]
        fast.count(columns(records))
        slow.count(*records[0], alone=False)
        fast.clear(device)
        slow.clear(device)
    equal(fast, slow, 60)
    assert sums_of(fast.parts()["moments"].arrays(), "pairs")[1, 0] == 1000 * 15 * weight


def test_ratings_that_wait_are_in_the_state_that_is_read_and_in_none_that_is_loaded(
    rng: np.random.Generator,
) -> None:
    feed, other = made(24, 32)[0], made(24, 32)[0]
    for each in (feed, other):
        each.extend(60, DEVICES)
    feed.count(columns(stream(rng, 50, 60)))
    before = {
        name: {key: array.copy() for key, array in part.arrays().items()}
        for name, part in feed.parts().items()
    }
    other.count(columns(stream(rng, 50, 60)))
    for name, part in other.parts().items():
        part.load(before[name])
    assert state(other) == state(feed)
    assert sums_of(before["moments"], "pairs").any()


def state(feed: ItemPairs) -> dict[str, bytes]:
    return {
        f"{part}.{name}": array.tobytes()
        for part, held in feed.parts().items()
        for name, array in held.arrays().items()
    }


@pytest.mark.parametrize("at_a_time", [1, 3, 100])
def test_the_state_does_not_depend_on_how_records_are_cut_up(
    at_a_time: int, rng: np.random.Generator
) -> None:
    records, days = stream(rng, 400, 60), np.sort(rng.integers(0, 20, 400)).tolist()
    whole, parts = made(24, 32)[0], made(24, 32)[0]
    for feed, step in ((whole, 400), (parts, at_a_time)):
        for start in range(0, 400, step):
            part = slice(start, start + step)
            feed.extend(60, DEVICES)
            feed.count(columns(records[part], days=days[part]))
        feed.elect(np.arange(60, dtype=np.uint64))
    assert state(parts) == state(whole)


@pytest.mark.parametrize("most", [1, 40])
def test_more_entries_than_the_window_holds_leave_the_same_state(
    most: int, rng: np.random.Generator
) -> None:
    """7,000 lists of up to 48 items, and 2^17 entries of scratch."""
    whole, parts = made(50, 48)[0], made(50, 48)[0]
    counted_alike(stream(rng, 7000, 60, most), whole, parts, 60)


def test_more_ratings_than_may_wait_leave_the_same_state(rng: np.random.Generator) -> None:
    """40 records of 1,000 items each, and room for 2^15 waiting ratings."""
    records = [
        (n % DEVICES, [(item, 1 + item % 15) for item in rng.permutation(1000).tolist()])
        for n in range(40)
    ]
    counted_alike(records, made(1000, 16)[0], made(1000, 16)[0], 1000)


def counted_alike(records: list[Record], whole: ItemPairs, parts: ItemPairs, items: int) -> None:
    """Assert that counting all records at once and few at a time leaves the same state."""
    days = [3 * n // 10 for n in range(len(records))]
    for feed, step in ((whole, len(records)), (parts, len(records) // 20)):
        feed.extend(items, DEVICES)
        for start in range(0, len(records), step):
            part = slice(start, start + step)
            feed.count(columns(records[part], days=days[part]))
    assert state(parts) == state(whole)


def test_a_carry_marks_the_page_of_the_upper_half() -> None:
    """Slot 0 in the first page, slot 599 in the last of eleven."""
    feed, _ = made(600, 16)
    feed.extend(600, 1)
    feed.count(columns([(0, [(item, 15) for item in range(600)])]))
    part = feed.parts()["moments"]
    arrays, pages = part.arrays(), part.dirty_pages()
    for name in ("pairs", "between", "within"):
        arrays[name][:] = 2**16 - 1
    for bits in pages.values():
        bits[:] = 0
    feed.clear(0)
    feed.count(columns([(0, [(599, 15)]), (0, [(0, 15)]), (0, [(598, 15)])], days=[0, 1, 2]))
    feed.clear(0)
    feed.count(columns([(0, [(599, 15)]), (0, [(0, 15)]), (0, [(598, 15)])]))
    part.arrays()  # nothing waits any more
    for name in ("pairs_high", "between_high", "within_high"):
        changed = np.flatnonzero(arrays[name].reshape(-1)) * 2 // 2**16
        assert set(changed.tolist()) == set(np.flatnonzero(pages[name]).tolist()) == {0, 10}


def test_the_order_within_a_device_of_one_list_does_not_change_the_sum_of_both_directions(
    rng: np.random.Generator,
) -> None:
    """Without a bound, an election or a repeated item, S = D + D^T is that of any order."""
    weights = rng.integers(1, 16, 40)
    sums = []
    for _ in range(2):
        feed = made(40, 48, in_order=False)[0]
        feed.extend(40, DEVICES)
        order = rng.permutation(40)
        feed.count(columns([(i % DEVICES, [(i, int(weights[i]))]) for i in order.tolist()]))
        keys = feed.head.rows.astype(np.uint64)
        counts = feed.snapshot(np.arange(40, dtype=np.uint64), 1, 0.0, None).counts()
        back = np.argsort(keys)
        sums.append(counts.pairs[back][:, back])
    assert (sums[0] == sums[1]).all()
    of_device = [(w / 15) * (i % DEVICES == np.arange(DEVICES)) for i, w in enumerate(weights)]
    expected = np.array(of_device) @ np.array(of_device).T
    assert np.allclose(sums[0], expected, atol=1e-5)


def test_a_list_keeps_its_newest_items_in_order() -> None:
    feed, _ = made(64, 32)
    feed.extend(64, 1)
    for item in range(60):
        feed.count(columns([(0, [(item, 1 + item % 15)])]))
        rows, weights, *_ = feed.history(0)
        assert rows.tolist() == list(range(item + 1 - len(rows), item + 1))
        assert min(item + 1, 17) <= len(rows) <= 32
        assert (weights * 15).round().astype(int).tolist() == [1 + r % 15 for r in rows.tolist()]
        assert np.count_nonzero(feed.lists.arrays()["blocks"]) == len(rows), "dropped, not hidden"


def test_a_repeated_item_keeps_its_place_and_takes_the_new_weight() -> None:
    feed, _ = made(8, 16)
    feed.extend(8, 1)
    feed.count(columns([(0, [(0, 3), (1, 5)])]))
    before = feed.parts()["moments"].arrays()["pairs"].copy()
    feed.count(columns([(0, [(0, 15)])]))
    arrays = feed.parts()["moments"].arrays()
    assert (arrays["pairs"] == before).all()
    assert arrays["moments"][0].tolist() == [2, 15, 225]
    assert feed.lists.of_device(0)[1].tolist() == [15, 5]


def test_a_rating_repeated_with_its_weight_writes_no_list() -> None:
    """Otherwise each cell of a repeated message would cost a copy of a list of up to 4,096."""
    feed, _ = made(8, 16)
    feed.extend(8, 1)
    feed.count(columns([(0, [(0, 3), (1, 5)])]))
    feed.lists.pages("blocks")[:] = 0
    feed.count(columns([(0, [(0, 3)])]))
    assert not feed.lists.pages("blocks").any()
    assert feed.parts()["moments"].arrays()["moments"][0].tolist() == [2, 3, 9]
    feed.count(columns([(0, [(0, 4)])]))
    assert feed.lists.pages("blocks")[0]


def test_lists_that_are_longer_than_their_blocks_are_not_loaded() -> None:
    """The kernels copy as many entries as a list says that it has."""
    feed, _ = made(40, 32)
    feed.extend(40, 2)
    feed.count(columns([(0, [(i, 15) for i in range(30)])]))
    good = {name: array.copy() for name, array in feed.lists.arrays().items()}
    feed.lists.load(good)
    for change in ([0, 33, 2], [0, 30, 3]):
        bad = {**good, "ends": good["ends"].copy()}
        bad["ends"][0] = change
        with pytest.raises(ValueError, match="a list is longer than its blocks"):
            feed.lists.load(bad)
    bad = {**good, "ends": good["ends"].copy()}
    bad["ends"][0] = [-9, 0, -1]
    with pytest.raises(ValueError, match="a link leads nowhere"):
        feed.lists.load(bad)
    for free in ([0, 1], [2, 0], [-1, 0], [0, -1]):  # both blocks are those of the list
        with pytest.raises(ValueError, match="free blocks from"):
            feed.lists.load({**good, "free": np.array(free, np.int32)})
    assert feed.history(0)[0].tolist() == list(range(30))


def test_a_cleared_list_leaves_nothing_of_the_device_and_its_blocks_are_used_again() -> None:
    feed, _ = made(40, 32)
    feed.extend(40, 2)
    feed.count(columns([(0, [(i, 15) for i in range(30)]), (1, [(i, 15) for i in range(3)])]))
    blocks = feed.lists.arrays()["blocks"]
    feed.clear(0)
    assert np.count_nonzero(feed.lists.arrays()["blocks"]) == 3
    assert len(feed.history(0)[0]) == 0
    assert feed.history(1)[0].tolist() == [0, 1, 2]
    feed.count(columns([(0, [(i, 15) for i in range(40)])]))
    assert feed.lists.arrays()["blocks"].shape == blocks.shape
    assert feed.history(0)[0].tolist() == list(range(16, 40))
    feed.clear(9)
    feed.clear(-1)


def test_the_head_goes_to_the_items_reported_most_with_a_margin() -> None:
    feed, _ = made(2, 16)
    feed.extend(4, 1)
    keys = np.array([7, 6, 5, 4], np.uint64)

    def rated(item: int, times: int) -> None:
        feed.count(columns([(0, [(item, 15)])] * times))

    rated(0, 10)
    rated(1, 10)
    rated(2, 20)
    feed.elect(keys, (1, 1))
    assert feed.head.rows.tolist() == [0, 1], "20 is not 1.25 x 10 + 8 = 20.5"
    rated(2, 30)
    feed.elect(keys, (1, 1))
    assert feed.head.rows.tolist() == [0, 1], "30 reports on the same day are too few"
    feed.elect(keys, (2, 2))
    assert feed.head.rows.tolist() == [2, 1], "of equal counts the higher key leaves"
    rated(3, 21)
    feed.elect(keys, (2, 2))
    assert feed.head.rows.tolist() == [2, 1]
    rated(2, 512 - 21)
    feed.elect(keys, (2, 2))
    assert feed.head.rows.tolist() == [2, 3], "an election after 2^13 / 16 reports"


@pytest.mark.parametrize(
    ("head", "recent", "message"),
    [
        (-1, 128, "head_items -1: from 0"),
        (4097, 128, "head_items 4097: from 0, which counts no pairs, to 4096"),
        (2048, 0, "recent_items 0: a multiple of 16"),
        (2048, 100, "recent_items 100: a multiple of 16"),
        (2048, 1040, "recent_items 1040: a multiple of 16, 16 to 1024"),
    ],
)
def test_impossible_sizes_are_refused(head: int, recent: int, message: str) -> None:
    check_pairs(0, 16)
    check_pairs(4096, 1024)
    with pytest.raises(ValueError, match=message):
        check_pairs(head, recent)


def test_the_largest_head_fits_its_entries() -> None:
    feed = ItemPairs(CHANNELS, WEIGHTS, 4096, 1024, one=15, in_order=False)
    feed.extend(4100, 1)
    feed.count(columns([(0, [(i, 15) for i in range(4100)])]))
    assert feed.history(0)[0].tolist() == list(range(3072, 4096))
    pairs = feed.parts()["moments"].arrays()["pairs"]
    assert pairs[4095].nonzero()[0].tolist() == list(range(3072, 4095))

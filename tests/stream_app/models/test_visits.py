"""Visits: what one day brings has no order, however it is packed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.models.cooccurrence.item_pairs import ItemPairs
from stream_app.models.cooccurrence.like_weights import like_rates
from stream_app.models.cooccurrence.visit_lists import VisitLists, VisitSample
from tests.naive import pairs as naive
from tests.naive import visit_samples
from tests.stream_app.models.test_item_pairs import (
    CHANNELS,
    DEVICES,
    Record,
    columns,
    made,
    stream,
    sums_of,
)

ITEMS = 40
Visits = list[tuple[int, list[int]]]  # device, items of a day


def packed(visits: Visits, draw: st.DataObject) -> tuple[list[Record], list[int]]:
    """Return visits, each of a later day, as records in an order of their own, and their days: the
    first of a visit has its day, the others that or an earlier one."""
    records, days = [], []
    for day, (device, items) in enumerate(visits, 1):
        order, first = draw.draw(st.permutations(items)), True
        while order:
            size = draw.draw(st.integers(1, len(order)))
            records.append((device, [(item, 15) for item in order[:size]]))
            days.append(day if first else draw.draw(st.integers(0, day)))
            order, first = order[size:], False
    return records, days


def counted(records: list[Record], days: list[int]) -> ItemPairs:
    feed = made(ITEMS, 64)[0]
    feed.extend(ITEMS, DEVICES)
    feed.count(columns(records, days=days))
    return feed


def by_item(feed: ItemPairs, name: str) -> dict[tuple[int, int], int]:
    """Return a table by items [later, earlier]."""
    whole, rows = sums_of(feed.parts()["moments"].arrays(), name), feed.head.rows
    return {(int(rows[i]), int(rows[j])): int(whole[i, j]) for i, j in np.argwhere(whole)}


VISITS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=8, unique=True),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(VISITS, st.data())
def test_any_packing_and_order_of_a_visit_leaves_the_same_pairs_between_visits(
    visits: Visits, data: st.DataObject
) -> None:
    one, other = (counted(*packed(visits, data)) for _ in range(2))
    assert by_item(one, "between") == by_item(other, "between")
    expected: dict[tuple[int, int], int] = {}
    for device in range(3):
        seen: set[int] = set()
        before: set[int] = set()
        for items in (set(items) for own, items in visits if own == device):
            for pair in ((i, j) for i in items - seen for j in before):
                expected[pair] = expected.get(pair, 0) + 1
            before, seen = items - seen, seen | items
    assert by_item(one, "between") == expected
    for device in range(3):
        found = [feed.history(device) for feed in (one, other)]
        ago = [dict(zip(h.items.tolist(), h.visits_ago.tolist(), strict=True)) for h in found]
        assert ago[0] == ago[1]


@settings(max_examples=30, deadline=None)
@given(VISITS, st.data())
def test_records_of_several_ratings_add_nothing_to_what_follows_within_a_visit(
    visits: Visits, data: st.DataObject
) -> None:
    records, days = packed(visits, data)
    several = [n for n, (_, part) in enumerate(records) if len(part) > 1]
    feed = counted([records[n] for n in several], [days[n] for n in several])
    assert not by_item(feed, "within")
    assert feed.snapshot(np.arange(ITEMS, dtype=np.uint64), 1, 0.0, None).within is None


@pytest.mark.parametrize("singles", [False, True])
@pytest.mark.parametrize("most", [2, 100])
def test_a_sample_has_the_newest_visits_of_one_channel(
    most: int, singles: bool, rng: np.random.Generator
) -> None:
    """Lists that are full, slots that change hands, more devices than are asked for."""
    fast, slow = made(30, 96)
    lengths = set()
    for day in range(12):
        records = [(int(rng.integers(40)), part) for _, part in stream(rng, 150, 60, 20)]
        channels = (rng.random(150) < 0.03).astype(int).tolist()
        fast.extend(60, 40)
        fast.count(columns(records, days=[day] * 150, channels=channels))
        for (device, part), channel in zip(records, channels, strict=True):
            slow.count(device, part, day=day, channel=channel)
        fast.elect(np.arange(60, dtype=np.uint64))
        slow.end_round(60)
        wanted = visit_samples.sample(slow, most, singles=singles)
        found = fast.visit_samples(most)[singles]
        # The fast version takes `most` first and then leaves out those whose items have left.
        kept = listed(found)
        assert [each for each in wanted if each in kept] == kept
        assert len(kept) >= min(len(wanted), most) - 2
        lengths.add(len(kept))
    assert max(lengths) > 0


def listed(sample: VisitSample) -> list[visit_samples.Sampled]:
    found = []
    rates = like_rates(CHANNELS)
    for n, numbers in enumerate(np.stack(sample[4:9], 1).tolist()):
        part = slice(sample.starts[n], sample.starts[n + 1])
        weights = (15 * sample.weights[part]).round().astype(int).tolist()
        entries = zip(
            sample.slots[part].tolist(), weights, sample.likes[part].astype(bool).tolist(),
            strict=True,
        )  # fmt: skip
        (channel,) = np.flatnonzero((rates == (sample.positive[n], sample.false[n])).all(1))
        found.append(visit_samples.Sampled(list(entries), *numbers, int(channel)))
    return found


def test_a_device_that_is_released_leaves_no_visits_to_the_next_one() -> None:
    feed = made(ITEMS, 16)[0]
    feed.extend(ITEMS, DEVICES)
    for day in (3, 4):
        feed.count(columns([(1, [(day, 15)]), (2, [(day, 15)])], days=[day, day]))
    lists = feed.visits
    assert lists is not None
    assert lists.room("visits")[1].tolist() == [4, 1, 1, 1, 0, 0, 1]
    feed.release(np.array([1]))
    feed.clear(2)
    assert not lists.room("visits")[:DEVICES].any()
    assert not lists.room("likes")[:DEVICES].any()
    feed.count(columns([(1, [(9, 15)])], days=[2]))
    assert feed.history(1).visits_ago.tolist() == [0]


@pytest.mark.parametrize(
    ("column", "value"), [(0, -1), (1, 3), (2, 2), (3, 2), (4, 98), (4, -2), (5, -1), (6, 2)]
)
def test_a_visit_that_is_longer_than_its_list_is_not_loaded(column: int, value: int) -> None:
    feed = counted([(0, [(0, 15)]), (0, [(1, 15)])], [1, 2])
    lists = feed.visits
    assert lists is not None
    good = {name: array.copy() for name, array in lists.arrays().items()}
    lists.load(good)
    bad = {**good, "visits": good["visits"].copy()}
    bad["visits"][0, column] = value
    with pytest.raises(ValueError, match="one is longer than its list, or of none"):
        VisitLists(4, len(CHANNELS)).load(bad)
    with pytest.raises(ValueError, match="use one of each for a device"):
        VisitLists(4, len(CHANNELS)).load({**good, "likes": good["likes"][:1]})


def test_a_day_beyond_32_bits_is_the_last_one() -> None:
    feed = counted([(0, [(0, 15)]), (0, [(1, 15)]), (0, [(2, 15)])], [1, 2**32 - 1, 2**32 - 1])
    assert feed.history(0).visits_ago.tolist() == [1, 0, 0]


def test_the_obvious_version_knows_what_a_visit_is() -> None:
    slow = naive.Pairs(8, 4, in_order=True)
    for day, items in ((1, [0, 1]), (4, [2]), (2, [3]), (5, [4])):
        slow.count(0, [(item, 1) for item in items], day=day)
    assert slow.between == {(2, 0): 1, (2, 1): 1, (3, 0): 1, (3, 1): 1, (4, 2): 1, (4, 3): 1}

"""Components of an event against tables that were counted without its device."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.ranking import ease, visit_events
from stream_app.ranking.histories import MEMORY
from stream_app.ranking.pair_counts import likes_of
from stream_app.ranking.visit_events import (
    LENGTHS,
    LIKING_PRIOR,
    NOW_TARGETS,
    ORDER_DECAY,
    events_of,
)
from tests.stream_app.ranking.populations import RIDGE, Record, counted, counts_of, tables_of

ITEMS, DEVICES = 24, 30
WAYS = pytest.mark.parametrize("now", [False, True], ids=["next", "now"])


def population(seed: int = 4) -> list[Record]:
    """Return three visits of each device, one by one, packed, or packed and then one by one."""
    rng, records = np.random.default_rng(seed), []
    for device in range(1, DEVICES + 1):
        items, levels = rng.permutation(ITEMS)[:14], rng.integers(0, 5, 14)
        for day, (start, stop) in enumerate(((0, 4), (4, 8), (8, 14)), 1):
            first = start + int(rng.choice([0, 2, stop - start]))
            parts = [(start, first), *((n, n + 1) for n in range(first, stop))]
            records += [
                Record(device, day, items[a:b].tolist(), levels[a:b].tolist())
                for a, b in parts
                if b > a
            ]
    return records


def devices_of(records: list[Record]) -> dict[tuple[int, ...], int]:
    """Return the device of each list of items."""
    items: dict[int, tuple[int, ...]] = {}
    for each in records:
        items[each.device] = (*items.get(each.device, ()), *each.items)
    return {own: device for device, own in items.items()}


@WAYS
def test_components_are_those_of_tables_without_the_device(now: bool) -> None:
    records = population()
    feed, devices = counted(records, ITEMS), devices_of(records)
    whole = counts_of(feed)
    tables, scales = tables_of(whole), visit_events.follow_scales(whole)
    sample = feed.visit_samples()[now]
    counted_B = ease.weights_from(ease.inverse(ease.moments(whole), RIDGE))
    corrected, events = 0.0, events_of(sample, now=now)
    assert len(events) > DEVICES
    for event in events[:24]:
        device = devices[tuple(event.slots.tolist())]
        others = counts_of(counted([each for each in records if each.device != device], ITEMS))
        B = ease.weights_from(ease.inverse(ease.moments(others), RIDGE))
        found, history = tables.components(event), event.history
        shown = np.setdiff1d(np.arange(ITEMS), history.slots)
        for name, a in (
            ("links", np.ones(len(history.slots), np.float32)),
            ("visit", history.last_visit),
            ("place", history.recent),
        ):
            expected = (history.weights * a) @ B[history.slots]
            assert getattr(found, name)[shown] == pytest.approx(expected[shown], abs=1e-3), name
            before = (history.weights * a) @ counted_B[history.slots]
            corrected = max(corrected, float(np.abs(before - expected)[shown].max()))
        targets = event.targets
        likes, mean = np.exp(found.liking[targets]), likes_of(whole).sum() / whole.reports.sum()
        numerators = likes * mean * (others.reports[targets] + LIKING_PRIOR) - LIKING_PRIOR * mean
        assert numerators == pytest.approx(likes_of(others)[targets], abs=1e-3)
        for name, a in (("within", history.recent), ("between", history.last_visit)):
            table = getattr(others, name)[np.ix_(targets, history.slots)]
            weights = a * scales.earlier[history.slots]
            expected = table @ weights * scales.later[targets]
            # `within` is counted in 64ths, rounded.
            room = 1 / 128 if name == "within" else 1e-4
            rounding = float(room * weights.sum() * scales.later[targets].max()) + 1e-5
            assert getattr(found, name)[targets] ** 2 == pytest.approx(expected, abs=rounding), name
    assert corrected > 0.02, "the device must matter, or any tables would do"


@WAYS
def test_targets_are_the_newest_items_and_the_history_is_all_before(now: bool) -> None:
    records = population()
    devices, sample = devices_of(records), counted(records, ITEMS).visit_samples()[now]
    for event in events_of(sample, now=now)[::2]:
        device = devices[tuple(event.slots.tolist())]
        own = [each for each in records if each.device == device]
        last = [each for each in own if each.day == 3]
        alone = 0
        while alone < len(last) and len(last[-1 - alone].items) == 1:
            alone += 1
        many = min(NOW_TARGETS, alone - 1) if now else 6
        items = [item for each in own for item in each.items]
        levels = [level for each in own for level in each.reports]
        assert event.slots.tolist() == items
        assert event.targets.tolist() == items[-many:]
        assert event.history.slots.tolist() == items[:-many]
        assert event.likes.tolist() == [float(level >= 3) for level in levels[-many:]]
        assert event.hidden.tolist() == sorted(items[:-many])
        assert event.whole
        visit = 6 - many if now else 4
        assert event.history.last_visit.tolist() == [0] * (14 - many - visit) + [1] * visit
        singles = alone - many if now else sum(1 for _ in newest_alone(own, 2))
        ages = np.minimum(np.arange(14 - many)[::-1], singles)
        assert event.history.ages.tolist() == ages.tolist()
        recent = event.history.last_visit * np.exp(-ages / MEMORY)
        assert event.history.recent == pytest.approx(recent)
        if now and singles:
            assert event.own_within[0, -1] == pytest.approx(np.exp(-1 / ORDER_DECAY))


def newest_alone(own: list[Record], day: int) -> list[Record]:
    found: list[Record] = []
    for each in reversed([each for each in own if each.day == day]):
        if len(each.items) > 1:
            break
        found.append(each)
    return found


@WAYS
def test_a_cut_history_is_the_newest_part_and_depends_on_the_sample_alone(now: bool) -> None:
    feed = counted(population(), ITEMS)
    tables, sample = tables_of(counts_of(feed)), feed.visit_samples()[now]
    events, again = (events_of(sample, now=now) for _ in range(2))
    lengths = set()
    for whole, cut, other in zip(events[::2], events[1::2], again[1::2], strict=True):
        length = len(cut.history.slots)
        lengths.add(length)
        assert not cut.whole
        for short, long in zip(cut.history, whole.history, strict=True):
            assert short.tolist() == long[len(long) - length :].tolist()
        assert cut.own_within.tolist() == whole.own_within[:, -length or 99 :].tolist()
        assert cut.history.slots.tolist() == other.history.slots.tolist()
        assert (cut.targets == whole.targets).all()
        empty = tables.components(cut.cut_to(0))
        assert not any(part.any() for part in (empty.links, empty.within, empty.between))
    assert {0, 1, 2, 3} & lengths
    assert lengths <= {*LENGTHS, *range(14)}


@pytest.mark.statistical
def test_the_estimate_of_a_like_is_unbiased_under_noise() -> None:
    """1,500 devices report one item of each level at a later visit. A mean is outside 4.9 standard
    errors in 1 of 10^6 draws; reports taken as likes would be off by more than 20."""
    mechanism = registry.parse("rr:5:2")
    levels = np.tile(np.arange(5), 1500)
    reports = mechanism.release(levels.astype(np.uint8), SeededSource(11)).reshape(-1, 5)
    records = []
    for device, own in enumerate(reports.tolist(), 1):
        records.append(Record(device, 1, [5, 6], [0, 4]))
        records.append(Record(device, 2, list(range(5)), own))
    events = events_of(counted(records, 7, "rr:5:2").visit_samples()[0], now=False)[::2]
    likes = np.array([event.likes for event in events])
    assert (likes < 0).any()
    error = likes.std(axis=0) / len(likes) ** 0.5
    assert (np.abs(likes.mean(axis=0) - [0, 0, 0, 1, 1]) < 4.9 * error).all()
    taken = (reports >= 3).mean(axis=0)
    assert (np.abs(taken - [0, 0, 0, 1, 1]) > 20 * error / 3).all()

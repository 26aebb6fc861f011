"""The end of an epoch: what is sent, how large and when, is the same whatever anybody has rated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from producers.datasets.load import Dataset
from producers.device.item_table import ItemTable
from producers.device.requests import ReportSettings
from producers.device.scope import from_file, turn
from producers.fleet.epoch_emission import EpochProgress, emission_time, emit
from producers.fleet.epoch_requests import EmissionOptions, balanced_slices
from producers.fleet.population import Population, populate
from producers.fleet.replay import Pace, ReplayOptions, replay
from producers.journal import Journal, Limits, Message, read_journal
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.item_sampling import ItemSample
from tests.producers.conftest import TOPIC, dataset

CELL, LOUD = registry.parse("cell:5:2"), registry.parse("cell:5:60")  # 60: hardly any noise
RR, OPEN, PARTITION = (registry.parse(id) for id in ("rr:5:2", "none:5:inf", "partition:5:2"))
INTAKE = wire.Intake(
    {m.id: m.alphabet for m in (CELL, LOUD, RR, OPEN, PARTITION)} | {"cell:5:5/2": 6},
    masked={"partition:5:2": 5},
)
SCOPE = np.arange(60, dtype=np.uint64)
MISSING = 5


@dataclass
class Observer:
    """Somebody who sees when messages come, from whom and how large they are."""

    now: float = 0.0
    seen: list[tuple[float, bytes, int]] = field(default_factory=list)
    events: list[wire.Event] = field(default_factory=list)
    journal: Journal | None = None
    intake: wire.Intake = INTAKE

    def send(self, message: Message) -> None:
        self.seen.append((self.now, message.device, len(message.value)))
        where = np.frombuffer(message.key, np.uint8).reshape(1, 32)
        partition = int(wire.partitions_of(where, 4)[0])
        self.events.append(wire.decode(message.key, message.value, partition, self.intake))
        if self.journal is not None:
            self.journal.acknowledge(message.number)

    def pace(self, speed: float) -> Pace:
        def pause(seconds: float) -> None:
            self.now += seconds

        return Pace(speed, lambda: self.now, pause)

    def cells(self) -> dict[tuple[bytes, int], int]:
        found = {
            (event.device, int(item)): int(report)
            for event in self.events
            for item, report in zip(event.items, event.reports, strict=True)
        }
        assert len(found) == sum(len(event.items) for event in self.events), "a cell twice"
        return found


def run(
    population: Population, journal: Journal, seen: Observer, mechanism: Mechanism = CELL,
    **changed: Any,
) -> EpochProgress:  # fmt: skip
    line = ReportSettings(TOPIC, mechanism, table=changed.pop("table", ItemTable()))
    hidden = mechanism in (CELL, LOUD) or "sample" in changed
    scope = changed.pop("scope", SCOPE if hidden else None)
    epoch, make_room = changed.pop("epoch", 20_000), changed.pop("make_room", None)
    options = EmissionOptions(**{"scope": scope, "cells": 300} | changed)
    steps = emit(
        population, line, journal=journal, send=seen.send, epoch=epoch, options=options,
        make_room=make_room,
    )  # fmt: skip
    return list(steps)[-1]


def test_every_device_reports_on_all_of_the_scope_and_says_missing_where_nothing_is(
    small: Dataset, journal: Journal
) -> None:
    seen, population = Observer(), populate(small, journal.key)
    end = run(population, journal, seen, LOUD)
    rated = {
        (population.devices[user], int(item)): int(level)
        for user, item, level in zip(
            population.users, population.items, population.raw_levels, strict=True
        )
    }
    cells = seen.cells()
    assert cells == {
        (device, int(item)): rated.get((device, int(item)), MISSING)
        for device in population.devices
        for item in SCOPE
    }
    assert (end.devices, end.total, end.cells, end.ratings) == (20, 20, 20 * 60, 500)
    assert (end.outside, end.over, end.idle, end.ended) == (0, 0, 0, True)
    assert MISSING in cells.values()


def test_what_is_not_in_scope_is_never_reported(small: Dataset, journal: Journal) -> None:
    seen, scope = Observer(), np.array([3, 7, 100], np.uint64)
    end = run(populate(small, journal.key), journal, seen, LOUD, scope=scope)
    assert {item for _, item in seen.cells()} == {3, 7, 100}
    inside = int(np.isin(small.items, [3, 7, 100]).sum())
    assert (end.ratings, end.outside) == (inside, 500 - inside)


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (4096, [4096]), (4097, [2048, 2049]), (9000, [3000] * 3)]
)
def test_messages_are_as_few_as_hold_the_scope_and_of_nearly_one_size(
    count: int, sizes: list[int], journal: Journal
) -> None:
    parts = balanced_slices(count)
    assert [part.stop - part.start for part in parts] == sizes
    assert [part.start for part in parts][1:] == [part.stop for part in parts][:-1]
    seen, population = Observer(), populate(dataset([1, 2], [5, 6], [1, 5]), journal.key)
    run(population, journal, seen, scope=np.arange(count, dtype=np.uint64))
    assert [len(event.items) for event in seen.events] == sizes * 2


def test_cells_are_shuffled_anew_for_each_device(small: Dataset, journal: Journal) -> None:
    seen = Observer()
    run(populate(small, journal.key), journal, seen)
    orders = {tuple(event.items.tolist()) for event in seen.events}
    assert len(orders) == 20
    assert tuple(SCOPE.tolist()) not in orders


# --- what an observer sees ------------------------------------------------------------------------


def like(population: Population, raw: Callable[[Population], dict[str, Any]]) -> Population:
    return replace(population, **raw(population))


def test_times_sizes_and_order_are_the_same_to_the_byte_whatever_was_rated(
    small: Dataset, tmp_path: Path, rng: np.random.Generator
) -> None:
    with Journal.open(tmp_path / "0") as journal:
        here = populate(small, journal.key)
    one_busy = {
        "users": np.zeros(60, np.int64), "items": SCOPE.copy(), "fresh": np.ones(60, bool),
        "raw_levels": rng.integers(0, 5, 60).astype(np.uint8),
    }  # fmt: skip
    nobody = {"items": here.items + np.uint64(10**6)}
    seen = []
    for i, raw in enumerate(({}, one_busy, nobody, {"raw_levels": 4 - here.raw_levels})):
        with Journal.open(tmp_path / f"{i + 1}") as journal:
            observer = Observer()
            run(replace(here, **raw), journal, observer, pace=observer.pace(1000))
        seen.append(observer.seen)
    assert seen[0] == seen[1] == seen[2] == seen[3]
    assert len({size for _, _, size in seen[0]}) == 1
    span = 20 * 60 / 1000
    for when, device, _ in seen[0]:
        assert when == pytest.approx(span * emission_time(device, 20_000))


def test_the_moment_is_a_public_function_of_pseudonym_and_epoch_alone() -> None:
    names = [i.to_bytes(16, "big") for i in range(4000)]
    first, second = (np.array([emission_time(name, epoch) for name in names]) for epoch in (1, 2))
    assert (
        emission_time(bytes(16), 20_000) == emission_time(bytes(16), 20_000) == 0.16867154012912933
    )
    for shares in (first, second):
        assert 0 <= shares.min() < 0.01
        assert 0.99 < shares.max() < 1
        assert abs(shares.mean() - 0.5) < 0.03
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.08


def features(seen: list[tuple[float, bytes, int]], devices: tuple[bytes, ...]) -> NDArray[Any]:
    """What an observer can make of times and sizes: number, bytes, first, last, gaps, premiere."""
    rows = []
    for device in devices:
        mine = [(when, size) for when, who, size in seen if who == device]
        times = np.array([when for when, _ in mine] or [-1.0])
        sizes = np.array([size for _, size in mine] or [0])
        premiere = np.count_nonzero((times >= 5.0) & (times < 6.0))
        rows.append(
            [len(mine), sizes.sum(), sizes.max(), times.min(), times.max(), np.ptp(times),
             times.mean(), premiere]
        )  # fmt: skip
    return np.array(rows, np.float64)


def accuracy(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Train logistic regression on one half of the rows and return its accuracy on the other."""
    scale = x.std(axis=0)
    x = np.hstack([(x - x.mean(axis=0)) / np.where(scale > 0, scale, 1), np.ones((len(x), 1))])
    half, w = len(x) // 2, np.zeros(x.shape[1])
    for _ in range(500):
        p = 1 / (1 + np.exp(-np.clip(x[:half] @ w, -30, 30)))
        w -= 0.5 * x[:half].T @ (p - y[:half]) / half
    return float(((x[half:] @ w > 0) == y[half:]).mean())


@dataclass
class People:
    """400 people of whom half, at random, have seen the premiere, and half, at random, are busy.

    Who has seen it rates it between 5 and 6 o'clock; everything else is rated before or after.
    """

    data: Dataset
    seen_it: NDArray[np.bool_]
    busy: NDArray[np.bool_]


@pytest.fixture
def people(rng: np.random.Generator) -> People:
    count, rows = 400, []
    seen_it, busy = (rng.permutation(count) < count // 2 for _ in range(2))
    for user in range(count):
        for item in rng.choice(50, 12 if busy[user] else 2, replace=False):
            when = rng.uniform(0, 9)
            rows.append((user, int(item) + 1, when + (when >= 5)))  # not in its hour
        if seen_it[user]:
            rows.append((user, 0, rng.uniform(5, 6)))
    users, items, times = zip(*rows, strict=True)
    stars = rng.integers(1, 6, len(rows)).astype(float).tolist()
    data = dataset(list(users), list(items), stars, [int(1000 * t) for t in times])
    return People(data, seen_it, busy)


def observed(people: People, path: Path, by_epoch: bool) -> tuple[NDArray[Any], Population]:
    observer = Observer()
    with Journal.open(path) as journal:
        observer.journal = journal
        population = populate(people.data, journal.key)
        if by_epoch:
            run(population, journal, observer, pace=observer.pace(2000), scope=SCOPE[:51])
        else:
            ordered = people.data.in_time_order()
            assert ordered.timestamps is not None
            line = ReportSettings(TOPIC, RR)
            steps = replay(
                population, line, journal=journal, send=observer.send, epoch=20_000,
                options=ReplayOptions(chunk=10),
            )  # fmt: skip
            times = iter((ordered.timestamps[::10] / 1000).tolist())
            observer.now = next(times)
            for _ in steps:  # ten rows, at the time when they are rated
                observer.now = next(times, 10.0)
    return features(observer.seen, population.devices), population


BOUND = math.sqrt(math.log(2e6) / (2 * 200))  # Hoeffding, of 200 test people, at 1e-6: 0.19


@pytest.mark.statistical
def test_times_and_sizes_tell_nothing_where_whole_epochs_are_sent(
    people: People, tmp_path: Path
) -> None:
    """Accuracy on 200 people against a coin, by Hoeffding: false alarm 1e-6 for each question.

    Power: an observer whose true accuracy is above 1/2 + 2 * 0.19 is found out with 1 - 1e-6.
    """
    x, _ = observed(people, tmp_path / "j", by_epoch=True)
    for question in (people.seen_it, people.busy):
        assert abs(accuracy(x, question) - 0.5) < BOUND


@pytest.mark.statistical
def test_times_and_sizes_tell_all_where_messages_leave_at_the_moment_of_rating(
    people: People, tmp_path: Path
) -> None:
    """The same observer, the documented weaker mode: each accuracy is far above what chance gives.

    An accuracy of 1/2 + 0.19 would be reached by chance once in a million; power: the observer is
    right for more than 95 in 100, and for less than 0.69 of 200 less than once in a million runs.
    """
    x, _ = observed(people, tmp_path / "j", by_epoch=False)
    for question in (people.seen_it, people.busy):
        assert accuracy(x, question) > 0.5 + BOUND


# --- once in life, all or nothing -----------------------------------------------------------------


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "limited", limits=Limits(Fraction(20))) as journal:
        yield journal


def test_a_sample_is_a_few_items_of_the_scope_that_no_rating_has_chosen(
    small: Dataset, limited: Journal, tmp_path: Path
) -> None:
    journal, sample = limited, ItemSample.of(Fraction(20))
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    seen, population = Observer(), populate(small, journal.key)
    end = run(population, journal, seen, mechanism, scope=SCOPE, sample=sample)
    picked = {
        device: {item for who, item in seen.cells() if who == device} for device, _ in seen.cells()
    }
    assert {len(items) for items in picked.values()} == {8}
    assert end.cells == 8 * len(population.devices)
    assert len({frozenset(items) for items in picked.values()}) > len(picked) // 2
    for device in picked:
        assert journal.spent(device)["cell"].nano == 20 * 10**9
    assert run(population, journal, Observer(), mechanism, scope=SCOPE, sample=sample).idle == 20
    with pytest.raises(ValueError, match="needs epsilon 5/2 for each"):
        run(population, journal, Observer(), CELL, scope=SCOPE, sample=sample)


def test_a_sample_picks_the_same_items_whatever_was_rated(
    small: Dataset, limited: Journal, tmp_path: Path
) -> None:
    sample, picked = ItemSample.of(Fraction(20)), []
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    limited.close()
    population = populate(small, limited.key)
    for number, people in enumerate(
        (population, replace(population, items=population.items[::-1].copy()))
    ):
        copy = tmp_path / f"copy {number}"  # the same key
        copy.touch(0o600)
        copy.write_bytes(limited.path.read_bytes())
        with Journal.open(copy, limits=Limits(Fraction(20))) as journal:
            seen = Observer()
            run(people, journal, seen, mechanism, scope=SCOPE, sample=sample)
        picked.append(set(seen.cells()))
    assert picked[0] == picked[1]
    assert len(picked[0]) == 8 * 20


@pytest.mark.parametrize("whole", [Fraction(20), Fraction(8)], ids=str)  # 8: 3 reports at 8/3
def test_a_sample_spends_its_budget_once_in_life_however_the_scope_grows(
    whole: Fraction, small: Dataset, tmp_path: Path
) -> None:
    sample = ItemSample.of(whole)
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    seen, reports = Observer(), []
    intake = wire.Intake({mechanism.id: 6})
    for epoch, scope in enumerate((SCOPE[:2], SCOPE[:30], SCOPE, SCOPE[5:], SCOPE[40:]), 20_000):
        with Journal.open(tmp_path / "j", limits=Limits(whole)) as journal:
            population = populate(small, journal.key)
            given = {"scope": scope, "sample": sample, "epoch": epoch, "republish": epoch == 20_003}
            seen.intake = intake
            end = run(population, journal, seen, mechanism, **given)
            reports.append(end.cells)
            assert end.idle + end.over in (0, 20)
    assert reports[0] == 2 * 20
    # 8/3 twice is rounded up, so that a third does not fit behind it: less, and never more.
    assert reports[1:] == [(sample.reports - 2 if whole == 20 else 0) * 20, 0, 0, 0]
    for device in population.devices:
        mine = [item for who, item in seen.cells() if who == device]
        assert len(mine) <= sample.reports
        assert Fraction(journal.spent(device)["cell"].nano, 10**9) <= whole


def test_a_sample_that_is_drawn_at_once_spends_all_of_its_budget(
    small: Dataset, tmp_path: Path
) -> None:
    sample = ItemSample.of(Fraction(8))
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    with Journal.open(tmp_path / "j", limits=Limits(Fraction(8))) as journal:
        seen = Observer(intake=wire.Intake({mechanism.id: 6}))
        end = run(populate(small, journal.key), journal, seen, mechanism, sample=sample)
        assert (end.cells, end.over) == (3 * 20, 0)


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(Fraction(30)), Limits(Fraction(20), 7)], ids=str
)
def test_a_sample_without_its_budget_for_life_is_refused(
    limits: Limits, small: Dataset, tmp_path: Path
) -> None:
    sample = ItemSample.of(Fraction(20))
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    with Journal.open(tmp_path / "j", limits=limits) as journal:
        with pytest.raises(ValueError, match="must be the same and for life"):
            run(populate(small, journal.key), journal, Observer(), mechanism, sample=sample)
        assert journal.pending() == []


def test_a_cell_is_drawn_once_in_life_unless_again(small: Dataset, journal: Journal) -> None:
    population, seen = populate(small, journal.key), Observer()
    run(population, journal, seen)
    end = run(population, journal, Observer(), epoch=20_001)
    assert (end.cells, end.messages, end.idle, end.devices, end.ended) == (0, 0, 20, 20, True)
    grown = np.arange(70, dtype=np.uint64)
    end = run(population, journal, seen, epoch=20_001, scope=grown)
    assert end.cells == 20 * 10
    assert len(seen.cells()) == 20 * 70
    again = Observer()
    assert run(population, journal, again, republish=True).cells == 20 * 60
    assert journal.spent(population.devices[0])["cell"].reports == 130


def test_each_item_has_its_turn_once_in_a_period(small: Dataset, journal: Journal) -> None:
    scope = np.arange(1000, dtype=np.uint64)
    turns = [turn(scope, epoch, 7, key=3) for epoch in range(20_000, 20_007)]
    assert sorted(np.concatenate(turns).tolist()) == scope.tolist()
    assert all(100 < len(items) < 190 for items in turns)
    np.testing.assert_array_equal(turn(scope, 20_007, 7, key=3), turns[0])
    assert turn(scope, 20_000, 7, key=4).tolist() != turns[0].tolist()
    np.testing.assert_array_equal(turn(scope, 5), scope)
    seen, population = Observer(), populate(small, journal.key)
    for epoch in range(20_000, 20_007):
        run(population, journal, seen, epoch=epoch, scope=turn(SCOPE, epoch, 7))
    assert len(seen.cells()) == 20 * 60


def test_a_budget_that_does_not_hold_the_scope_sends_nothing_of_it(
    small: Dataset, tmp_path: Path
) -> None:
    with Journal.open(tmp_path / "j", limits=Limits(Fraction(119))) as journal:
        seen = Observer()
        end = run(populate(small, journal.key), journal, seen)
        assert (end.cells, end.over, seen.events) == (0, 20, [])
    with Journal.open(tmp_path / "j", limits=Limits(Fraction(120))) as journal:
        assert run(populate(small, journal.key), journal, seen).cells == 20 * 60


def test_an_interrupted_epoch_goes_on_and_sends_every_cell_once(
    small: Dataset, tmp_path: Path
) -> None:
    path, seen = tmp_path / "j", Observer()
    with Journal.open(path) as journal:
        population = populate(small, journal.key)

        def breaks(message: Message) -> None:
            if len(seen.events) == 7:
                raise KeyboardInterrupt
            seen.send(message)
            journal.acknowledge(message.number)

        line = ReportSettings(TOPIC, CELL)
        with pytest.raises(KeyboardInterrupt):
            list(emit(population, line, journal=journal, send=breaks, epoch=20_000,
                      options=EmissionOptions(SCOPE, cells=300)))  # fmt: skip
    assert read_journal(path).pending == 3
    with Journal.open(path) as journal:
        for message in journal.pending():
            seen.send(message)
        end = run(population, journal, seen)
        assert end.idle == 10
    assert len(seen.cells()) == 20 * 60


# --- value only -----------------------------------------------------------------------------------


def test_where_presence_is_public_each_device_sends_its_new_ratings_at_its_moment(
    small: Dataset, journal: Journal
) -> None:
    seen, population = Observer(), populate(small, journal.key)
    end = run(population, journal, seen, OPEN, pace=seen.pace(100))
    rated = zip(population.users, population.items, population.raw_levels, strict=True)
    assert seen.cells() == {(population.devices[u], int(i)): int(v) for u, i, v in rated}
    assert (end.cells, end.ratings, len(seen.events)) == (500, 500, 20)
    for when, device, _ in seen.seen:
        assert when == pytest.approx(5.0 * emission_time(device, 20_000))
    assert run(population, journal, Observer(), OPEN).idle == 20


def test_masks_stay_beside_their_items_through_the_shuffle(
    small: Dataset, journal: Journal
) -> None:
    table = ItemTable(SCOPE, np.linspace(1.2, 4.8, 60))
    seen = Observer()
    run(populate(small, journal.key), journal, seen, PARTITION, table=table)
    by_item: dict[int, set[int]] = {}
    for event in seen.events:
        assert event.masks is not None
        for item, mask in zip(event.items.tolist(), event.masks.tolist(), strict=True):
            by_item.setdefault(item, set()).add(mask)
    assert all(len(masks) == 1 for masks in by_item.values())
    assert len(set.union(*by_item.values())) > 1


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"scope": None}, "needs a public scope"),
     ({"mechanism": RR, "scope": SCOPE}, "no scope"),
     ({"scope": SCOPE[:0]}, "no item has its turn"),
     ({"mechanism": registry.parse("cell:10:2"), "scope": SCOPE}, "10 levels")],
    ids=["no scope", "scope for a value", "nobody's turn", "levels"],
)  # fmt: skip
def test_what_cannot_be_an_epoch_is_refused_with_the_journal_as_it_was(
    changed: dict[str, Any], said: str, small: Dataset, journal: Journal
) -> None:
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match=said):
        run(populate(small, journal.key), journal, Observer(), **changed)
    assert journal.path.read_bytes() == before


def test_a_file_of_items_is_read_as_ids_are_typed(tmp_path: Path) -> None:
    path = tmp_path / "scope.txt"
    path.write_text("7\n\n  tt01 \n7\n007\n")
    expected = sorted({7, wire.key("tt01")})
    assert from_file(path).tolist() == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "holds no item"), (b"\n \n", "holds no item"), (b"1\n\xff\n", "not text in UTF-8"),
     (b"1\n" + b"x" * 129 + b"\n", "line 2: item of 129 bytes")],
    ids=["empty", "blank", "bytes", "long"],
)  # fmt: skip
def test_a_file_that_is_no_list_of_items_is_one_sentence(
    content: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "scope.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        from_file(path)
    for other in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match="cannot be read"):
            from_file(other)


def test_every_row_of_the_data_is_counted_once(small: Dataset, tmp_path: Path) -> None:
    few = ItemSample.of(Fraction(20))
    sampled = registry.parse("cell:5:5/2")

    def rows(end: EpochProgress) -> int:
        parts = end.ratings, end.outside, end.before, end.unsampled, end.held
        return sum(parts) + end.repeated + end.unreadable

    data = replace(small, refused=2)
    with Journal.open(tmp_path / "j", limits=Limits(Fraction(20))) as journal:
        population = populate(data, journal.key)
        first = run(population, journal, Observer(), CELL, scope=SCOPE[:5])
        assert (first.before, first.unsampled, first.held, first.unreadable) == (0, 0, 0, 2)
        second = run(population, journal, Observer(), CELL, scope=SCOPE[:30])
        assert (second.before, second.ratings) == (first.ratings, 0)
        assert second.held > 0
        assert rows(first) == rows(second) == 502
        third = run(population, journal, Observer(), RR)
        assert third.before == first.ratings
        assert rows(third) == 502
    with Journal.open(tmp_path / "k", limits=Limits(few.budget)) as journal:
        population = populate(data, journal.key)
        of_a_sample = run(population, journal, Observer(), sampled, sample=few)
        assert of_a_sample.unsampled > 0
        assert rows(of_a_sample) == 502

"""The end of an epoch: which reports each device sends, once in its life."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.datasets.load import Dataset
from producers.device.item_means import ItemTable
from producers.device.requests import ReportSettings
from producers.device.scope import turn
from producers.fleet.epoch_emission import emission_time, emit
from producers.fleet.epoch_requests import EmissionOptions, balanced_slices
from producers.fleet.population import populate
from producers.journal import Journal, Message, read_journal
from producers.person.enrolment import NO_LIMIT
from stream_app.privacy import registry
from tests.producers.conftest import TOPIC, dataset
from tests.producers.emissions import (
    CELL,
    LOUD,
    MISSING,
    OPEN,
    PARTITION,
    RR,
    SCOPE,
    Observer,
    run,
)
from tests.producers.journals import Enrolling, at


def test_every_device_reports_each_item_of_the_scope_and_missing_for_unrated_items(
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
    assert (end.outside, end.over, end.idle) == (0, 0, 0)
    assert MISSING in cells.values()


def test_items_outside_the_scope_are_never_reported(small: Dataset, journal: Journal) -> None:
    seen, scope = Observer(), np.array([3, 7, 100], np.uint64)
    end = run(populate(small, journal.key), journal, seen, LOUD, scope=scope)
    assert {item for _, item in seen.cells()} == {3, 7, 100}
    inside = int(np.isin(small.items, [3, 7, 100]).sum())
    assert (end.ratings, end.outside) == (inside, 500 - inside)


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (4096, [4096]), (4097, [2048, 2049]), (9000, [3000] * 3)]
)
def test_the_scope_is_sent_in_the_fewest_messages_of_nearly_equal_size(
    count: int, sizes: list[int], journal: Journal
) -> None:
    parts = balanced_slices(count)
    assert [part.stop - part.start for part in parts] == sizes
    assert [part.start for part in parts][1:] == [part.stop for part in parts][:-1]
    seen, population = Observer(), populate(dataset([1, 2], [5, 6], [1, 5]), journal.key)
    run(population, journal, seen, scope=np.arange(count, dtype=np.uint64))
    assert [len(event.items) for event in seen.events] == sizes * 2


def test_each_device_shuffles_its_cells_independently(small: Dataset, journal: Journal) -> None:
    seen = Observer()
    run(populate(small, journal.key), journal, seen)
    orders = {tuple(event.items.tolist()) for event in seen.events}
    assert len(orders) == 20
    assert tuple(SCOPE.tolist()) not in orders


def test_a_cell_is_drawn_once_in_life_unless_republished(small: Dataset, journal: Journal) -> None:
    population, seen = populate(small, journal.key), Observer()
    run(population, journal, seen)
    end = run(population, journal, Observer(), epoch=20_001)
    assert (end.cells, end.messages, end.idle, end.devices, end.total) == (0, 0, 20, 20, 20)
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


def test_a_device_sends_nothing_if_the_scope_exceeds_its_budget(
    small: Dataset, tmp_path: Path
) -> None:
    with at(tmp_path / "j", epsilon=119) as journal:
        seen = Observer()
        end = run(populate(small, journal.key), journal, seen)
        assert (end.cells, end.over, seen.events) == (0, 20, [])
    with at(tmp_path / "j", epsilon=120) as journal:
        assert run(populate(small, journal.key), journal, seen).cells == 20 * 60


def test_a_budget_for_some_ratings_is_spent_on_other_items_by_each_device(tmp_path: Path) -> None:
    people, items = 40, 30
    users, rated = np.divmod(np.arange(people * items), items)
    with at(tmp_path / "j", epsilon=10) as journal:
        seen = Observer()
        population = populate(dataset(users, rated, np.full(len(users), 3)), journal.key)
        run(population, journal, seen, RR)
        picked: dict[bytes, list[int]] = {}
        for device, item in sorted(seen.cells()):
            picked.setdefault(device, []).append(item)
        assert [len(found) for found in picked.values()] == [5] * people
        assert len({tuple(found) for found in picked.values()}) > people // 2
        assert len({item for found in picked.values() for item in found}) > items // 2
        again = Observer()
        run(population, journal, again, RR, epoch=20_001)
        assert again.events == []


def test_an_interrupted_epoch_continues_and_sends_every_cell_once(
    small: Dataset, tmp_path: Path
) -> None:
    path, seen = tmp_path / "j", Observer()
    with at(path) as journal:
        population = populate(small, journal.key)

        def breaks(message: Message) -> None:
            if len(seen.events) == 7:
                raise KeyboardInterrupt
            seen.send(message)
            journal.acknowledge(message.number)

        journal.meet(population.devices)
        line = ReportSettings(TOPIC, CELL)
        with pytest.raises(KeyboardInterrupt):
            list(emit(population, line, journal=journal, send=breaks, epoch=20_000,
                      options=EmissionOptions(SCOPE, cells=300)))  # fmt: skip
    assert read_journal(path).pending == 3
    with at(path) as journal:
        for message in journal.pending():
            seen.send(message)
        end = run(population, journal, seen)
        assert end.idle == 10
    assert len(seen.cells()) == 20 * 60


def test_where_presence_is_public_each_device_sends_its_new_ratings_at_its_sending_time(
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


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"scope": None}, "needs a public scope"),
     ({"mechanism": RR, "scope": SCOPE}, "no scope"),
     ({"scope": SCOPE[:0]}, "no item has its turn"),
     ({"mechanism": registry.parse("cell:10:2"), "scope": SCOPE}, "10 levels")],
    ids=["no scope", "scope for a value", "no turn", "levels"],
)  # fmt: skip
def test_invalid_emission_options_are_refused_and_leave_the_journal_unchanged(
    changed: dict[str, Any], message: str, small: Dataset, journal: Enrolling
) -> None:
    population = populate(small, journal.key)
    journal.meet(population.devices)
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match=message):
        run(population, journal, Observer(), **changed)
    assert journal.path.read_bytes() == before


def test_all_accounts_of_the_journal_report_and_every_row_is_counted(
    small: Dataset, tmp_path: Path
) -> None:
    """Accounts without a row, and accounts of today."""
    with Journal.open(tmp_path / "j") as journal:
        population = populate(small, journal.key)
        today, *others = population.devices
        stranger = b"s" * 16
        journal.enrol([*others, stranger], NO_LIMIT, 19_999, simulated=True)
        journal.enrol([today], NO_LIMIT, 20_000, simulated=True)

        seen = Observer(journal=journal)
        (*_, end) = emit(
            population, ReportSettings(TOPIC, LOUD), journal=journal, send=seen.send,
            epoch=20_000, options=EmissionOptions(SCOPE),
        )  # fmt: skip
    assert {device for device, _ in seen.cells()} == {*others, stranger}
    assert seen.cells()[stranger, 5] == MISSING
    assert len({size for _, _, size in seen.seen}) == 1
    early = int(np.count_nonzero(population.users == 0))
    assert (end.total, end.early, end.ratings) == (20, early, 500 - early)

"""Samples: a device reports on a few items of the scope, within one budget for its life."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from producers.datasets.load import Dataset
from producers.fleet.epoch_emission import EpochProgress
from producers.fleet.population import populate
from producers.journal import Journal, PersonBudget
from producers.journal.disk import Disk
from producers.person.enrolment import NO_LIMIT
from stream_app import wire
from stream_app.privacy import registry
from stream_app.privacy.ratings.item_sampling import ItemSample
from tests.producers.emissions import (
    CELL,
    RR,
    SCOPE,
    Observer,
    run,
)
from tests.producers.journals import at


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Journal]:
    with at(tmp_path / "limited", epsilon=20) as journal:
        yield journal


def test_a_sample_has_as_many_items_as_its_budget_pays_for(
    small: Dataset, limited: Journal, tmp_path: Path
) -> None:
    journal, sample = limited, ItemSample.from_budget(Fraction(20))
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    seen, population = Observer(), populate(small, journal.key)
    end = run(population, journal, seen, mechanism, scope=SCOPE, sample=sample)
    picked = {
        device: {item for sender, item in seen.cells() if sender == device}
        for device, _ in seen.cells()
    }
    assert {len(items) for items in picked.values()} == {8}
    assert end.cells == 8 * len(population.devices)
    assert len({frozenset(items) for items in picked.values()}) > len(picked) // 2
    for device in picked:
        assert journal.spent(device)["cell"].nano == 20 * 10**9
    assert run(population, journal, Observer(), mechanism, scope=SCOPE, sample=sample).idle == 20
    with pytest.raises(ValueError, match="needs epsilon 5/2 for each"):
        run(population, journal, Observer(), CELL, scope=SCOPE, sample=sample)


def test_the_items_of_a_sample_do_not_depend_on_the_ratings(
    small: Dataset, limited: Journal, tmp_path: Path
) -> None:
    sample, picked = ItemSample.from_budget(Fraction(20)), []
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    limited.close()
    population = populate(small, limited.key)
    for number, people in enumerate(
        (population, replace(population, items=population.items[::-1].copy()))
    ):
        copy = tmp_path / f"copy {number}"  # the same key
        copy.touch(0o600)
        copy.write_bytes(limited.path.read_bytes())
        with at(copy, epsilon=20, disk=Disk()) as journal:  # each a life of its own
            seen = Observer()
            run(people, journal, seen, mechanism, scope=SCOPE, sample=sample)
        picked.append(set(seen.cells()))
    assert picked[0] == picked[1]
    assert len(picked[0]) == 8 * 20


@pytest.mark.parametrize("whole", [Fraction(20), Fraction(8)], ids=str)  # 8: 3 reports at 8/3
def test_a_sample_spends_its_budget_once_in_life_however_the_scope_grows(
    whole: Fraction, small: Dataset, tmp_path: Path
) -> None:
    sample = ItemSample.from_budget(whole)
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    seen, reports = Observer(), []
    intake = wire.Intake({mechanism.id: 6})
    for epoch, scope in enumerate((SCOPE[:2], SCOPE[:30], SCOPE, SCOPE[5:], SCOPE[40:]), 20_000):
        with at(tmp_path / "j", epsilon=whole) as journal:
            population = populate(small, journal.key)
            given = {"scope": scope, "sample": sample, "epoch": epoch, "republish": epoch == 20_003}
            seen.intake = intake
            end = run(population, journal, seen, mechanism, **given)
            reports.append(end.cells)
            assert end.idle + end.over in (0, 20)
    assert reports[0] == 2 * 20
    # Reports are counted, and 8/3 three times is 8 exactly.
    assert reports[1:] == [(sample.reports - 2) * 20, 0, 0, 0]
    for device in population.devices:
        own = [item for sender, item in seen.cells() if sender == device]
        assert len(own) <= sample.reports
        # Rounded up once for each of the two releases.
        assert Fraction(journal.spent(device)["cell"].nano - 2, 10**9) <= whole


def test_a_sample_drawn_in_one_release_spends_its_whole_budget(
    small: Dataset, tmp_path: Path
) -> None:
    sample = ItemSample.from_budget(Fraction(8))
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    with at(tmp_path / "j", epsilon=8) as journal:
        seen = Observer(intake=wire.Intake({mechanism.id: 6}))
        end = run(populate(small, journal.key), journal, seen, mechanism, sample=sample)
        assert (end.cells, end.over) == (3 * 20, 0)


@pytest.mark.parametrize(
    "terms",
    [NO_LIMIT, *(PersonBudget(Fraction(e), d, w) for e, d, w in (
        (30, Fraction(0), None), (20, Fraction(0), 7), (20, Fraction(1, 10**6), None)))],
    ids=str,
)  # fmt: skip
def test_a_sample_without_its_budget_for_life_is_refused(
    terms: PersonBudget, small: Dataset, tmp_path: Path
) -> None:
    sample = ItemSample.from_budget(Fraction(20))
    mechanism = registry.mechanism("cell", 5, sample.epsilon)
    with at(tmp_path / "j") as journal:
        population = populate(small, journal.key)
        journal.terms = terms
        journal.meet(population.devices)
        with pytest.raises(ValueError, match="must have the same, because another scope"):
            run(population, journal, Observer(), mechanism, sample=sample)
        assert journal.pending() == []


def test_every_row_of_the_data_is_counted_once(small: Dataset, tmp_path: Path) -> None:
    few = ItemSample.from_budget(Fraction(20))
    sampled = registry.parse("cell:5:5/2")

    def rows(end: EpochProgress) -> int:
        parts = end.ratings, end.outside, end.before, end.unsampled, end.held
        return sum(parts) + end.repeated + end.unreadable

    data = replace(small, refused=2)
    with at(tmp_path / "j", epsilon=20, plan="adaptive") as journal:
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
    with at(tmp_path / "k", epsilon=few.budget) as journal:
        population = populate(data, journal.key)
        sampled_end = run(population, journal, Observer(), sampled, sample=few)
        assert sampled_end.unsampled > 0
        assert rows(sampled_end) == 502

"""The part of a budget for cells that are reported again: charged, kept, never exceeded."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.device.rating import Rated
from producers.device.requests import ReportSettings
from producers.fleet.epoch_requests import EmissionOptions, EpochRequests
from producers.journal import BudgetExhausted, Journal, Limits, PersonBudget
from producers.journal.frames import HEADER_BYTES, Kind, frame, header, scan
from producers.journal.records import decode_commit
from producers.person.enrolment import NO_LIMIT
from producers.person.remaining_reports import Parts, parts, rooms
from producers.person.reports import Used, room
from stream_app import wire
from stream_app.privacy import registry
from tests.producers.journals import ANN, ask
from tests.producers.journals import HALF as RR_HALF

TODAY = 20_000
CELL = registry.parse("cell:5:1/2")  # (20, 1e-6) holds 109
HALF = Limits(reports=4, share=Fraction(1, 2))
BUDGETS = (
    PersonBudget(),
    PersonBudget(plan="adaptive"),
    PersonBudget(plan="sum"),
    PersonBudget(plan="cell:5:1/2*60"),
    PersonBudget(Fraction(7, 3), Fraction(0), None),
)


def enrolled(path: Path, limits: Limits = HALF, budget: PersonBudget | None = None) -> Journal:
    journal = Journal.open(path, limits=limits)
    if journal.enrolment(ANN) is None:
        journal.enrol([ANN], budget or PersonBudget(), TODAY - 1)
    return journal


def publish(journal: Journal, count: int, day: int = 0, start: int = 0) -> None:
    journal.release(ask(ANN, *range(start, start + count), mechanism=CELL, epoch=TODAY + day))


@given(
    st.sampled_from(BUDGETS),
    st.fractions(0, 1, max_denominator=50).filter(lambda share: 0 < share < 1),
    st.integers(0, 80),
    st.integers(0, 80),
)
def test_both_parts_together_are_what_the_budget_holds(
    budget: PersonBudget, share: Fraction, first: int, again: int
) -> None:
    whole = parts(budget, {}, CELL, share)
    assert whole is not None
    assert whole.first + whole.again == room(budget, {}, CELL)
    assert whole.again <= share * (whole.first + whole.again) < whole.again + 1
    count = first + again
    used = {CELL.id: Used(count, count * 5 * 10**8, 0, again)} if count else {}
    left, free = rooms(budget, used, CELL, share), room(budget, used, CELL)
    assert left is not None
    assert free is not None
    assert left.first == max(0, min(free, whole.first - first))
    assert left.again == max(0, min(free, whole.again - again))


def test_what_has_no_limit_has_no_parts() -> None:
    assert parts(NO_LIMIT, {}, CELL, Fraction(1, 2)) is None
    assert rooms(NO_LIMIT, {}, CELL, Fraction(1, 2)) is None


@pytest.mark.parametrize("share", [0, 1, Fraction(0), Fraction(1), Fraction(-1), 0.5, "1/2"])
def test_a_share_that_is_no_part_is_refused(share: Any) -> None:
    with pytest.raises(ValueError, match=r"share .*above 0 and below 1"):
        Limits(reports=2, share=share)


def test_the_journal_refuses_what_exceeds_a_part_and_draws_nothing(path: Path) -> None:
    with enrolled(path) as journal:
        assert journal.rooms(ANN, CELL, TODAY) == Parts(55, 54)
        with pytest.raises(BudgetExhausted, match=r"55 reports more of items.* 56 and 0"):
            publish(journal, 56)
        publish(journal, 40)
        assert journal.rooms(ANN, CELL, TODAY) == Parts(15, 54)
        publish(journal, 40, day=1)
        assert journal.rooms(ANN, CELL, TODAY + 1) == Parts(15, 14)
        with pytest.raises(BudgetExhausted, match="needs 0 and 15"):
            publish(journal, 15, day=2)
        with pytest.raises(BudgetExhausted, match="needs 16 and 3"):
            publish(journal, 19, day=2, start=37)
        publish(journal, 18, day=2, start=37)  # 3 again, 15 first
        assert journal.rooms(ANN, CELL, TODAY + 2) == Parts(0, 11)
        assert journal.spent(ANN)["cell"].again == 43
        assert journal.room(ANN, CELL, TODAY + 2) == 109 - 98  # the whole person, as without parts


def test_two_requests_of_one_record_count_in_the_part(path: Path) -> None:
    with enrolled(path) as journal:
        asked = [ask(ANN, *range(30), mechanism=CELL, epoch=TODAY) for _ in range(3)]
        with pytest.raises(BudgetExhausted, match="24 reports of others, and this needs 0 and 30"):
            journal.commit(asked)
        journal.commit(asked[:2])
        assert journal.rooms(ANN, CELL, TODAY) == Parts(25, 24)


def test_parts_are_the_same_after_a_restart_and_a_compaction_and_free_with_the_window(
    path: Path,
) -> None:
    with enrolled(path) as journal:
        publish(journal, 40)
        publish(journal, 40, day=100)
    for compacted in (False, True):
        with enrolled(path) as journal:
            assert journal.rooms(ANN, CELL, TODAY + 100) == Parts(15, 14)
            assert journal.rooms(ANN, CELL, TODAY + 364) == Parts(15, 14)
            assert journal.rooms(ANN, CELL, TODAY + 365) == Parts(55, 14)
            assert journal.rooms(ANN, CELL, TODAY + 465) == Parts(55, 54)
            assert not compacted or journal.spent(ANN)["cell"].again == 40
            journal.compact()


def test_a_journal_without_the_column_counts_all_reports_as_first_ones(path: Path) -> None:
    with enrolled(path) as journal:
        publish(journal, 20)
        publish(journal, 20, day=1)
        journal.compact()
    found = scan(path.read_bytes())
    data, at = header(found.key, HEADER_BYTES), HEADER_BYTES
    for each in found.frames:
        body = each.body
        if each.kind is Kind.ACCOUNTS:
            body = msgspec.msgpack.encode(msgspec.msgpack.decode(body)[:-1])
        data += frame(each.kind, body, at)
        at = len(data)
    path.write_bytes(data)
    with enrolled(path) as journal:
        assert journal.rooms(ANN, CELL, TODAY + 1) == Parts(15, 54)
        assert journal.room(ANN, CELL, TODAY + 1) == 69


def test_a_record_without_later_rounds_has_the_bytes_of_an_earlier_murmurec(path: Path) -> None:
    with enrolled(path) as journal:
        publish(journal, 20)
    (commit,) = [
        decode_commit(each.body)
        for each in scan(path.read_bytes()).frames
        if each.kind is Kind.COMMIT
    ]
    assert commit.again == b""


class Nothing:
    def rated(self, device_id: bytes) -> Rated:
        return Rated()


def affordable(journal: Journal, *items: int) -> list[int]:
    keys = np.array([wire.key(item) for item in items], np.uint64)
    scope = np.sort(keys)
    line = ReportSettings("ratings", CELL)
    requests = EpochRequests(Nothing(), line, journal, TODAY + 2, EmissionOptions(scope))
    found = requests.affordable(ANN, scope)
    assert (found[1:] > found[:-1]).all()
    assert found is scope or len(found) < len(scope)  # a column that devices share
    return [item for item, kept in zip(items, np.isin(keys, found), strict=True) if kept]


def test_of_a_scope_each_part_is_reported_whole_or_not_at_all(path: Path) -> None:
    with enrolled(path) as journal:
        assert affordable(journal, *range(56)) == []  # first ones, of which 55 fit
        publish(journal, 50)
        assert affordable(journal, *range(55)) == [*range(55)]  # 5 first ones, 50 of 54 others
        assert affordable(journal, *range(56)) == [*range(50)]
        publish(journal, 50, day=1)
        assert affordable(journal, *range(55)) == [*range(50, 55)]
        assert affordable(journal, *range(46, 55)) == [*range(46, 55)]  # the last 9 of 109
        journal.withdraw([ANN], TODAY + 1)
        assert affordable(journal, *range(55)) == []


def test_both_parts_share_what_another_mechanism_leaves(path: Path) -> None:
    with enrolled(path, budget=PersonBudget(delta=Fraction(0), plan="sum")) as journal:
        publish(journal, 5)
        journal.release(ask(ANN, *range(100, 120), mechanism=RR_HALF, epoch=TODAY))
        assert journal.rooms(ANN, CELL, TODAY) == Parts(15, 15)  # 15 of 40 are left
        assert affordable(journal, *range(15)) == [*range(15)]
        assert affordable(journal, *range(16)) == [*range(5, 16)]

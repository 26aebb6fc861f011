"""The pace of campaigns: what whoever writes the log of rounds can spend of a person."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from producers.campaign.stage_requests import decide_plans
from producers.journal import BudgetExhausted, Journal, Limits, PersonBudget
from producers.person.enrolment import Pace
from producers.person.pace import paced
from producers.person.reports import Used, room
from stream_app.errors import UserError
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_loss import CampaignCost
from tests.producers.journals import ANN, BOB, HALF, ask
from tests.producers.test_campaign import keys_of, opened, plan, take_part

TODAY = 20_000
TWO = CampaignCost(naming.name(naming.within(Fraction(2), Fraction(1, 10**6))))
ADAPTIVE = PersonBudget(plan="adaptive")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal", limits=Limits(trust_clock=True)) as opened:
        opened.enrol([ANN, BOB], PersonBudget(), TODAY - 1)
        yield opened


def drained(journal: Journal, day: int, campaigns: int) -> int:
    """Announce so many campaigns of epsilon 2 in a day; return how many ANN pays for."""
    account, paid = journal._state.accounts[ANN], 0
    decide_plans(journal, [ANN], TWO)
    for _ in range(campaigns):
        if not journal.room(ANN, TWO, day):
            break
        journal._state.epoch = max(day, journal._state.epoch)
        account.spend((day, "user", "campaign", TWO.id), int(TWO.epsilon * 10**9) + 1, 0, 1)
        paid += 1
    return paid


def test_an_owner_of_the_log_spends_the_pace_in_a_day_and_the_share_in_a_year(
    journal: Journal,
) -> None:
    """47 campaigns of epsilon 2, which a budget of 20 would hold: announced on each day."""
    whole = room(ADAPTIVE, {}, TWO) or 0
    assert whole == 47
    days = [drained(journal, TODAY + day, 47) for day in range(365)]
    assert days[0] == 2 == int(whole * Fraction(3, 4) / 12)
    assert max(sum(days[i : i + 30]) for i in range(336)) == 2
    assert sum(days) == 26 <= whole * 3 // 4
    # And the person still reports: a quarter of the budget at least.
    (terms, *_) = journal.enrolled()
    assert terms.budget.plan == "adaptive"
    left = journal.room(ANN, HALF, TODAY + 364)
    assert left is not None
    assert left >= (room(ADAPTIVE, {}, HALF) or 0) // 4
    assert journal.room(BOB, TWO, TODAY + 364) == 3  # has no plan yet: exact, a few more


def test_the_share_holds_where_the_pace_is_the_whole_share(journal: Journal) -> None:
    journal.set_pace([ANN], Pace(Fraction(1, 2), Fraction(1)))
    whole = room(ADAPTIVE, {}, TWO) or 0
    assert sum(drained(journal, TODAY + day, 47) for day in range(365)) == whole // 2
    assert paced(ADAPTIVE, [(TODAY, TWO.id, whole)], TWO, TODAY + 1).next == TODAY + 365


def test_the_pace_of_a_journal_holds_for_vectors_and_says_when(tmp_path: Path) -> None:
    path, keys = tmp_path / "j", keys_of(1)
    with Journal.open(path) as journal:
        journal.enrol([ANN], PersonBudget(), TODAY - 1)
        for parts in range(1, 11):  # of epsilon 1; each of other stages
            take_part(journal, opened(plan(keys, parts=parts)), epoch=TODAY + parts)
        late = opened(plan(keys, parts=11))
        with pytest.raises(BudgetExhausted, match=r"any 30 days.* 0 more .* 2024-11"):
            take_part(journal, late, epoch=TODAY + 11)
        journal.compact()
    with Journal.open(path) as journal:
        before = path.read_bytes()
        with pytest.raises(BudgetExhausted):  # nor with the clock set back
            take_part(journal, late, epoch=TODAY)
        assert path.read_bytes() == before
        # A clock a year ahead is refused before it opens anything.
        with pytest.raises(UserError, match="the clock says day"):
            take_part(journal, late, epoch=TODAY + 31 + 367)
        take_part(journal, late, epoch=TODAY + 31)


def test_two_campaigns_of_one_record_count_together(journal: Journal) -> None:
    journal.set_plan([ANN], "adaptive")
    debits = [(TODAY, TWO.id, 1)]
    assert paced(ADAPTIVE, [], TWO, TODAY).left == 2
    assert paced(ADAPTIVE, debits, TWO, TODAY).left == 1
    found = journal._state.paced(ANN, TODAY, TWO, "adaptive", {TWO.id: Used(2), HALF.id: Used(9)})
    assert (found.left, found.next) == (0, TODAY + 30)


def test_one_campaign_always_fits_and_no_second(journal: Journal) -> None:
    """However small the budget: it holds one campaign of 2 exactly, and the pace does."""
    small = PersonBudget(Fraction(2), plan=TWO.id)
    assert room(small, {}, TWO) == 1
    assert paced(small, [], TWO, TODAY).left == 1
    found = paced(small, [(TODAY, TWO.id, 1)], TWO, TODAY + 1)
    assert (found.left, found.next) == (0, TODAY + 365)
    for_life = PersonBudget(Fraction(2), window=None, plan=TWO.id)
    assert paced(for_life, [(TODAY, TWO.id, 1)], TWO, TODAY + 1).next is None


def test_a_changed_pace_is_kept_and_reports_have_none(tmp_path: Path) -> None:
    path, pace = tmp_path / "j", Pace(Fraction(1, 3), Fraction(1, 5))
    with Journal.open(path) as journal:
        journal.enrol([ANN], ADAPTIVE, TODAY - 1)
        journal.set_pace([ANN], pace)
        journal.enrol([ANN], ADAPTIVE, TODAY)  # again: the pace stays
        journal.release(ask(ANN, *range(50), mechanism=HALF))
        journal.compact()
    with Journal.open(path) as journal:
        assert [each.budget.pace for each in journal.enrolled()] == [pace]


@pytest.mark.parametrize(
    "text", ["", "1", "1/2", "0:1/12", "1/2:0", "2:1/12", "a:b", "1/0:1", "1:1:1"]
)
def test_a_pace_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="pace"):
        Pace.parse(text)


def test_an_earlier_file_has_the_default_pace(tmp_path: Path) -> None:
    import msgspec

    from producers.journal.account_book import BudgetState, enrolments_record
    from producers.journal.records import decode_enrolments, encode
    from producers.person.enrolment import Enrolment

    record = enrolments_record([Enrolment(ANN, TODAY, ADAPTIVE)], test=False)
    row: list[Any] = msgspec.msgpack.decode(encode(record))
    state = BudgetState()
    state.apply_enrolments(decode_enrolments(msgspec.msgpack.encode(row[:-2])))
    assert [each.budget for each in state.enrolments()] == [ADAPTIVE]

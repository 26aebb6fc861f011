"""A device's part in a campaign: what it refuses, what it pays, and what its journal keeps."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import numpy as np
import pytest

from producers.campaign.stage_requests import Sealing, Sending, contribute
from producers.campaign.terms import Pinned
from producers.identities import Identities
from producers.journal import Journal, Limits, PersonBudget, Request
from producers.person.enrolment import Pace
from producers.person.spending_so_far import ALL, spending
from producers.ranking import RatedItem
from stream_app import wire
from stream_app.aggregation.keys import PartyKeys
from stream_app.campaigns import together
from stream_app.campaigns.planning import Wanted, stages
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.errors import BudgetExhausted, UserError
from stream_app.wire.campaigns.contribution import (
    Contribution,
    decode_contribution,
    encode_contribution,
)
from stream_app.wire.campaigns.plan import Campaign, encode_plan
from stream_app.wire.campaigns.round_log import Abort, AbortReason, Open, Planned
from stream_app.wire.ids import partition_of
from stream_app.wire.reasons import WireError
from tests.producers.journals import ANN, BOB, HALF, ask
from tests.stream_app.aggregation.world import keys_of, read_by_all

TOPIC = "murmurec.contributions.v1"
ITEMS = 6
DAY = 20_000
DELTA = Fraction(1, 10**6)
HISTORY = [RatedItem(item, wire.key(item), stars) for item, stars in ((3, 5.0), (1, 2.0), (2, 4.0))]


def plan(keys: tuple[PartyKeys, ...], epsilon: Fraction = Fraction(1), parts: int = 2,
         **changed: Any) -> Campaign:  # fmt: skip
    wanted = [Wanted("together", together.size(ITEMS), Fraction(1, parts))] * parts
    public = tuple(each.public.hex() for each in keys)
    found = stages(epsilon, DELTA, wanted, bound=100)
    given: dict[str, Any] = {"scope": tuple(range(1, ITEMS + 1)), "stages": found} | changed
    return Campaign(number=1, epsilon=epsilon, delta=DELTA, parties=len(keys), keys=public, **given)


def opened(campaign: Campaign, stage: int = 0) -> Rounds:
    """Return the state of a log in which a stage is open and those before it are over."""
    rounds = Rounds()
    assert rounds.apply(Planned(campaign))
    for each in rounds.stages[:stage]:
        each.phase = Phase.RELEASED
    assert rounds.apply(Open(campaign.digest, stage, (0, 0, 0)))
    return rounds


def pinned(campaign: Campaign) -> Pinned:
    return Pinned(campaign.keys, np.array([wire.key(each) for each in campaign.scope], np.uint64))


def take_part(journal: Journal, rounds: Rounds, **changed: Any) -> Any:
    assert rounds.campaign is not None
    given = {"device": ANN, "rated": HISTORY, "pinned": pinned(rounds.campaign), "epoch": DAY}
    given |= changed
    return contribute(
        journal, given["device"], given["rated"], rounds, given["pinned"],
        sending=Sending(TOPIC, given["epoch"], given.get("identities")),
    )  # fmt: skip


@pytest.fixture
def enrolled(tmp_path: Path) -> Callable[..., Journal]:
    def made(epsilon: Fraction = Fraction(20), **terms: Any) -> Journal:
        journal = Journal.open(tmp_path / "journal", limits=Limits())
        journal.enrol([ANN, BOB], PersonBudget(epsilon, DELTA, **terms), DAY - 1)
        return journal

    return made


def read(message: Any) -> Contribution:
    partition = partition_of(message.key, 4)
    return decode_contribution(message.key, message.value, partition, 4)


def cost(journal: Journal, device: bytes = ANN, epoch: int = DAY) -> float:
    terms = journal.enrolment(device)
    assert terms is not None
    return spending(journal._state.used(device, epoch, terms.budget), terms.budget)[ALL].zeros


@pytest.mark.parametrize("parties", [1, 2])
def test_the_parties_together_read_the_vector_of_the_history(enrolled, parties):
    keys = keys_of(parties)
    campaign = plan(keys)
    with enrolled() as journal:
        found = read(take_part(journal, opened(campaign)))
        zeros = take_part(journal, opened(campaign), device=BOB, rated=[])
    assert (found.plan, found.stage, found.device) == (campaign.digest, 0, ANN)
    vector = read_by_all(campaign, found, keys)
    # Items 3 and 2 are liked: 1/2 at each, and sqrt(2)/2 at their pair.
    assert sorted(vector[vector != 0]) == [50, 50, 71 if vector.max() == 71 else 70]
    assert np.flatnonzero(vector[:ITEMS]).tolist() == [1, 2]
    assert not read_by_all(campaign, read(zeros), keys).any()
    assert len(zeros.value) == len(msgspec.msgpack.encode(found))


def test_a_campaign_is_paid_once_a_day_at_what_it_states(enrolled):
    campaign = plan(keys_of(2))
    with enrolled() as journal:
        take_part(journal, opened(campaign))
        first = cost(journal)
        assert 0.99 < first < 1.22  # an odometer: 1 exactly if this was known beforehand
        take_part(journal, opened(campaign, 1))
        assert cost(journal) == first
        life = journal.spent(ANN)
        assert (set(life), life["user"].reports) == ({"user"}, 1)
    other = plan(keys_of(2), parts=2, scope=tuple(range(ITEMS, 0, -1)))
    with enrolled() as journal:
        take_part(journal, opened(other))
        assert journal.spent(ANN)["user"].reports == 2
        take_part(journal, opened(other, 1), epoch=DAY + 1)
        assert journal.spent(ANN)["user"].reports == 3
        assert 1.4 < cost(journal, epoch=DAY + 1) < 2.2  # sqrt(3) and a little


def test_one_rating_costs_at_most_two_records_of_the_person(enrolled):
    """From a record to none, and from none to the record with the other rating."""
    with enrolled() as journal:
        take_part(journal, opened(plan(keys_of(1))))
        paid = journal.spent(ANN)["user"].nano
        assert journal._state.accounts[ANN].worst_rating == 2 * paid > 0


def test_a_budget_of_what_the_plan_states_holds_it_once(enrolled):
    keys = keys_of(1)
    with enrolled(Fraction(1)) as journal:
        take_part(journal, opened(plan(keys, parts=1)))
        before = journal.path.read_bytes()
        again = plan(keys, parts=1, scope=tuple(range(ITEMS, 0, -1)))
        with pytest.raises(BudgetExhausted, match="holds 0 reports more"):
            take_part(journal, opened(again))
        assert journal.path.read_bytes() == before
        take_part(journal, opened(again), epoch=DAY + 365)


def test_a_budget_that_is_smaller_than_the_plan_refuses_it(enrolled):
    with enrolled(Fraction(1, 2)) as journal:
        with pytest.raises(BudgetExhausted):
            take_part(journal, opened(plan(keys_of(1))))
        assert journal.pending() == []


def test_a_campaign_and_reports_share_an_adaptive_budget(enrolled):
    with enrolled(Fraction(2), plan="adaptive") as journal:
        before = journal.room(ANN, HALF, DAY)
        assert before
        take_part(journal, opened(plan(keys_of(1))))
        after = journal.room(ANN, HALF, DAY)
        assert 0 < after < before
        with pytest.raises(BudgetExhausted):
            journal.release(ask(ANN, *range(1, after + 2), mechanism=HALF))
        journal.release(ask(ANN, *range(1, after + 1), mechanism=HALF))
        assert journal.room(BOB, HALF, DAY) == before


def test_other_campaigns_and_reports_follow_a_campaign_in_one_budget(enrolled):
    with enrolled(Fraction(5)) as journal:
        take_part(journal, opened(plan(keys_of(1))))
        with pytest.raises(BudgetExhausted, match=r"today and one from 2024-11-03 on"):
            take_part(journal, opened(plan(keys_of(2), parts=3)))
        journal.set_pace([ANN], Pace(Fraction(1), Fraction(1)))  # knowingly
        take_part(journal, opened(plan(keys_of(2), parts=3)))
        take_part(journal, opened(plan(keys_of(1), parts=1, epsilon=Fraction(1, 2))))
        assert journal.spent(ANN)["user"].reports == 3
        journal.release(ask(ANN, 1, mechanism=HALF))
        terms = journal.enrolment(ANN)
    assert terms is not None
    assert terms.budget.plan == "adaptive"


def test_a_budget_that_holds_a_campaign_only_exactly_is_for_no_other_mechanism(enrolled):
    with enrolled(Fraction(1)) as journal:
        take_part(journal, opened(plan(keys_of(1), parts=1)))
        with pytest.raises(BudgetExhausted, match="planned for another campaign alone, and rr"):
            journal.release(ask(ANN, 1, mechanism=HALF))


def test_a_campaign_leaves_a_plan_until_the_person_changes_it(enrolled):
    with enrolled() as journal:
        journal.release(ask(ANN, 1, mechanism=HALF))
        with pytest.raises(BudgetExhausted, match="this campaign is another mechanism: mur"):
            take_part(journal, opened(plan(keys_of(1))))
        journal.set_plan([ANN], "adaptive", DAY)  # and is not locked out for good
        take_part(journal, opened(plan(keys_of(1))))


def test_a_second_contribution_to_a_stage_is_refused_after_a_restart_too(enrolled):
    rounds = opened(plan(keys_of(2)))
    with enrolled() as journal:
        first = take_part(journal, rounds)
        with pytest.raises(UserError, match="there is no second"):
            take_part(journal, rounds, epoch=DAY + 1)
    with enrolled() as journal:
        assert [each.value for each in journal.pending()] == [first.value]
        with pytest.raises(UserError, match="there is no second"):
            take_part(journal, rounds)


def test_plans_that_the_device_has_not_pinned_are_refused(enrolled):
    keys, others = keys_of(2), keys_of(2)
    campaign = plan(keys)
    items = pinned(campaign).items
    loud = [msgspec.structs.replace(each, variance=each.variance // 2) for each in campaign.stages]
    kinds = [msgspec.structs.replace(campaign.stages[0], kind="bias"), campaign.stages[1]]
    large = [msgspec.structs.replace(campaign.stages[0], size=together.size(ITEMS + 1))]
    wide = [msgspec.structs.replace(each, bound=2**15 + 1) for each in campaign.stages]
    trusted = plan(keys[:1], stages=tuple(wide))  # of two parties the log takes no such plan
    refused = {
        "names the keys": (opened(campaign), Pinned(plan(others).keys, items)),
        "has pinned": (opened(campaign), Pinned(campaign.keys[::-1], items)),
        "of no party": (opened(campaign), Pinned((), items)),
        "not those of the pinned scope": (opened(campaign), Pinned(campaign.keys, items[1:])),
        "in another order, from item 1 on": (
            opened(campaign), Pinned(campaign.keys, items[::-1])),
        "states epsilon 3, and this device allows 2": (
            opened(plan(keys, Fraction(3))), pinned(campaign)),
        "has the bound 32769; give 32768 at most; nothing was contributed": (
            opened(trusted), pinned(trusted)),
        "more than the 1 that it states": (
            opened(plan(keys, stages=tuple(loud))), pinned(campaign)),
        "of no kind that is learned from": (
            opened(plan(keys, stages=tuple(kinds))), pinned(campaign)),
        "s items of the 6 of the scope": (
            opened(plan(keys, stages=tuple(large))), pinned(campaign)),
    }  # fmt: skip
    with enrolled() as journal:
        for sentence, (rounds, terms) in refused.items():
            with pytest.raises(UserError, match=sentence):
                take_part(journal, rounds, pinned=terms)
        with pytest.raises(UserError, match="no campaign is under way"):
            contribute(journal, ANN, [], Rounds(), pinned(campaign), sending=Sending(TOPIC, DAY))
        rounds = opened(campaign)
        rounds.stages[0].phase = Phase.CLOSED
        with pytest.raises(UserError, match="is closed"):
            take_part(journal, rounds)
        assert (journal.pending(), journal.spent(ANN)) == ([], {})


def test_a_plan_of_signed_contributions_is_signed_or_refused(enrolled):
    campaign = plan(keys_of(2), signed=True)
    rounds, terms = opened(campaign), dataclasses.replace(pinned(campaign), signs=True)
    with enrolled() as journal:
        with pytest.raises(UserError, match="contributions that no device has signed"):
            take_part(
                journal,
                opened(msgspec.structs.replace(campaign, signed=msgspec.UNSET)),
                pinned=terms,
            )
        with pytest.raises(UserError, match="counts signed contributions alone, and this device"):
            take_part(journal, rounds)
        assert journal.pending() == []
        identities = Identities(journal.key, signed=True)
        own = identities.pseudonym("ann")
        assert identities.knows(own)
        assert not identities.knows(ANN)
        journal.enrol([own], PersonBudget(Fraction(20), DELTA), DAY - 1)
        sent = take_part(journal, rounds, device=own, pinned=terms, identities=identities)
        partition = partition_of(sent.key, 4)
        found = decode_contribution(sent.key, sent.value, partition, 4, signed=True)
        assert found.device == own
        with pytest.raises(WireError, match="bad_signature"):
            decode_contribution(sent.key, encode_contribution(found), partition, 4, signed=True)


def test_a_campaign_that_was_not_public_for_long_enough_is_refused(enrolled):
    campaign = plan(keys_of(2))
    terms = dataclasses.replace(pinned(campaign), notice=86_400.0)

    def log(*times: float | None) -> Rounds:
        rounds = Rounds()
        for entry, at in zip(
            (Planned(campaign), Open(campaign.digest, 0, (0,))), times, strict=True
        ):
            assert rounds.apply(entry, at)
        return rounds

    # Withdrawn after a day, and announced again under another number.
    again = msgspec.structs.replace(campaign, number=2)
    withdrawn = log(1e9, 1e9 + 86_400)
    withdrawn.apply(Abort(campaign.digest, 0, AbortReason.WITHDRAWN), 1e9 + 86_401)
    with enrolled() as journal:
        with pytest.raises(UserError, match="no campaign is under way"):
            take_part(journal, withdrawn, pinned=terms)
        withdrawn.apply(Planned(again), 1e9 + 86_402)
        withdrawn.apply(Open(again.digest, 0, (0,)), 1e9 + 86_403)
        refused = {
            "was public for 86,399 s before it opened, and .* none below 86,400 s": log(
                1e9, 1e9 + 86_399
            ),
            "was public for 1 s": withdrawn,
            "was public for -86,400 s": log(1e9, 1e9 - 86_400),
            "does not say when its plan was appended": log(None, 1e9),
        }
        for sentence, rounds in refused.items():
            with pytest.raises(UserError, match=sentence):
                take_part(journal, rounds, pinned=terms)
        assert (journal.pending(), journal.spent(ANN)) == ([], {})
        take_part(journal, log(1e9, 1e9 + 86_400), pinned=terms)


def test_a_plan_of_a_larger_epsilon_is_taken_where_the_user_allows_it(enrolled):
    campaign = plan(keys_of(2), Fraction(3))
    allowed = dataclasses.replace(pinned(campaign), most_epsilon=Fraction(3))
    with enrolled() as journal:
        assert take_part(journal, opened(campaign), pinned=allowed)


@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(1, 1000), Fraction(2, 10**6)])
def test_a_plan_cannot_buy_its_epsilon_with_a_large_delta(enrolled, delta):
    wanted = [Wanted("together", together.size(ITEMS), Fraction(1))]
    quiet = plan(keys_of(1), Fraction(2), stages=stages(Fraction(2), delta, wanted, bound=100))
    campaign = msgspec.structs.replace(quiet, delta=delta)
    allowed = dataclasses.replace(pinned(campaign), most_epsilon=Fraction(15))
    with enrolled() as journal:
        with pytest.raises(UserError, match=r"at delta 1e-06 its noise costs .* device allows 2:"):
            take_part(journal, opened(campaign))
        assert (journal.pending(), journal.spent(ANN)) == ([], {})
        assert take_part(journal, opened(campaign), pinned=allowed)


def test_an_owner_cannot_know_under_which_key_a_plan_is_paid(tmp_path):
    """Of 64 bits: in 2^32 plans two would have one key, and the second would pass as paid."""
    campaign, found = plan(keys_of(1)), []
    for name in ("ann", "bob"):
        with Journal.open(tmp_path / name, limits=Limits()) as journal:
            journal.enrol([ANN], PersonBudget(Fraction(20), DELTA), DAY - 1)
            take_part(journal, opened(campaign))
            found.append(set(journal._state.reported_keys(ANN, "campaign").tolist()))
    assert (len(found[0]), len(found[1]), len(found[0] & found[1])) == (2, 2, 0)


def test_a_test_journal_contributes_to_no_campaign(tmp_path):
    campaign = plan(keys_of(2))
    with Journal.open(tmp_path / "test", limits=Limits(), test=True) as journal:
        journal.enrol([ANN], PersonBudget(Fraction(20), DELTA), DAY - 1)
        with pytest.raises(UserError, match="a contribution cannot be marked as a test"):
            take_part(journal, opened(campaign))
        assert (journal.pending(), journal.spent(ANN)) == ([], {})


def test_a_stage_without_a_debit_of_its_day_is_not_covered(enrolled):
    """The journal itself refuses what names a debit that is not there."""
    campaign = plan(keys_of(1))
    with enrolled() as journal:
        take_part(journal, opened(campaign))
        message = "no debit in this epoch covers it"
        for changed in ({"paid_by": 1}, {"paid_by": 1, "epoch": DAY + 1}):
            with pytest.raises(ValueError, match=message):
                journal.release(request_of(campaign, **changed))


def request_of(campaign: Campaign, **changed: Any) -> Any:
    given: dict[str, Any] = {"epoch": DAY} | changed
    return Request(
        device=ANN,
        topic=TOPIC,
        reported_keys=np.array([7], np.uint64),
        mechanism=Sealing.of_stage(campaign, 1),
        raw_inputs=(ANN, np.zeros(campaign.stages[1].size, np.int32)),
        count=1,
        encode=lambda *_: b"",
        scope="campaign",
        **given,
    )


KILLED = """
    import os, signal, sys
    from producers.journal import Journal
    from stream_app.wire.campaigns.plan import decode_plan
    from tests.producers.test_campaign import opened, take_part
    campaign = decode_plan(open(sys.argv[2], "rb").read())
    journal = Journal.open(sys.argv[1])
    take_part(journal, opened(campaign))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_device_that_is_killed_after_its_record_sends_the_same_bytes(enrolled, tmp_path):
    keys = keys_of(2)
    campaign = plan(keys)
    enrolled().close()
    (tmp_path / "plan").write_bytes(encode_plan(campaign))
    arguments = [
        sys.executable,
        "-c",
        dedent(KILLED),
        str(tmp_path / "journal"),
        str(tmp_path / "plan"),
    ]
    done = subprocess.run(arguments, check=False, timeout=60, env={**os.environ})
    assert done.returncode == -signal.SIGKILL
    with enrolled() as journal:
        (message,) = journal.pending()
        assert read(message).plan == campaign.digest
        assert journal.spent(ANN)["user"].reports == 1
        with pytest.raises(UserError, match="there is no second"):
            take_part(journal, opened(campaign))
        assert journal.pending() == [message]

"""A running device in campaigns: once a stage, at a look of its own, whatever was rated."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.campaign.terms import Pinned
from producers.daemon.delivery import Delivery
from producers.daemon.schedule import GRACE_SECONDS, moment
from producers.daemon.scheduled_contributions import LOOK_SECONDS, Contributing, moment_name
from producers.journal import Journal, PersonBudget
from producers.journal.disk import Disk
from producers.ranking import CleanHistory
from producers.scale import Scale
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.campaigns.sealing import open_box
from stream_app.errors import UserError
from stream_app.wire.campaigns.plan import Campaign
from tests.producers.daemon.test_bad_disks import FaultyDisk
from tests.producers.daemon.world import DAY, TODAY, Device, device, pseudonym
from tests.producers.test_campaign import DELTA, ITEMS, opened, pinned, plan, read
from tests.producers.test_campaign import TOPIC as CONTRIBUTIONS
from tests.stream_app.aggregation.world import keys_of

USERS = ("ann", "bob", "cleo")


@dataclass
class Line:
    """The topic of contributions; may be away. `seen`: time, key and value."""

    now: Callable[[], float]
    away: bool = False
    seen: list[tuple[float, bytes, bytes]] = field(default_factory=list)
    waiting: list[tuple[bytes, bytes, Any]] = field(default_factory=list)

    def connect(self) -> Line:
        if self.away:
            raise UserError("no Kafka answers")
        self.waiting = []
        return self

    def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any, **_: Any) -> None:
        assert topic == CONTRIBUTIONS
        self.waiting.append((key, value, on_delivery))

    def poll(self, timeout: float) -> int:
        waiting, self.waiting = ([], self.waiting) if self.away else (self.waiting, [])
        for key, value, report in waiting:
            self.seen.append((self.now(), key, value))
            report(None, None)
        return len(waiting)

    def flush(self, timeout: float) -> int:
        return len(self.waiting) if self.away else self.poll(timeout) * 0


@dataclass
class Running:
    device: Device
    line: Line
    rounds: Rounds

    def minutes(self, count: float) -> None:
        """Run from one moment to the next."""
        clock, daemon = self.device.clock, self.device.daemon
        end = clock.at + 60 * count
        daemon.step()
        while (coming := daemon._coming) is not None and coming <= end:
            clock.at = max(coming, clock.at)
            daemon.step()
        clock.at = end
        daemon.step()


def running(journal: Journal, rounds: Rounds, terms: Pinned, line: Line | None = None) -> Running:
    found = device(journal)
    line = line or Line(lambda: found.clock.at)
    delivery = Delivery(
        journal, CONTRIBUTIONS, line.connect, found.notices.append, lambda: found.clock.at
    )
    daemon = found.daemon
    daemon.campaigns = Contributing(journal, terms, delivery, CONTRIBUTIONS, lambda: rounds)
    daemon.campaigns.start(journal.enrolled(), found.clock.now())
    return Running(found, line, rounds)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Journal.open(tmp_path / "journal") as made:
        devices = [pseudonym(made, user) for user in USERS]
        made.enrol(devices, PersonBudget(Fraction(20), DELTA, plan="adaptive"), TODAY - 1)
    return tmp_path / "journal"


def rate(path: Path) -> None:
    with Journal.open(path) as journal:
        ann, bob = (pseudonym(journal, user) for user in USERS[:2])
    history = CleanHistory(path)
    for item in range(1, ITEMS + 1):
        history.append(ann, item, 5.0, Scale(1, 5, 1), TODAY * DAY)
    history.append(bob, 2, 1.0, Scale(1, 5, 1), TODAY * DAY)


def contributions(found: Running) -> list[tuple[float, bytes, bytes]]:
    return found.line.seen


def test_every_account_contributes_once_to_each_stage_whatever_was_rated(path, tmp_path):
    """Two runs of copies of one journal, of which one has ratings: an observer sees the same."""
    keys = keys_of(2)
    campaign = plan(keys)
    outside = []
    for rated in (True, False):
        copy = Path(shutil.copy(path, tmp_path / f"journal-{rated}"))
        if rated:
            rate(copy)
        with Journal.open(copy, disk=Disk()) as journal:  # each a life of its own
            found = running(journal, opened(campaign), pinned(campaign))
            found.rounds.stages[0].phase = Phase.PLANNED
            found.minutes(3)
            assert contributions(found) == []
            found.rounds.stages[0].phase = Phase.OPEN
            found.minutes(3)
            assert len(contributions(found)) == 3
            found.rounds.stages[0].phase = Phase.CLOSED
            found.minutes(2)
            assert len(contributions(found)) == 3
            found.rounds.stages[0].phase = Phase.RELEASED
            found.rounds.stages[1].phase = Phase.OPEN
            found.minutes(3)
            assert len(contributions(found)) == 6
            assert {journal.spent(pseudonym(journal, each))["user"].reports for each in USERS} == {
                1
            }
        outside.append([(at, key, len(value)) for at, key, value in contributions(found)])
        assert found.device.notices == []
    assert outside[0] == outside[1]
    assert len({at for at, *_ in outside[0]}) == 6


def test_the_vector_is_that_of_the_kept_ratings(path):
    keys = keys_of(1)
    campaign = plan(keys)
    rate(path)
    with Journal.open(path) as journal:
        found = running(journal, opened(campaign), pinned(campaign))
        found.minutes(2)
        ann = pseudonym(journal, "ann")
    vectors = {}
    for _, key, value in contributions(found):
        sent = read(_Message(key, value))
        vectors[sent.device] = open_box(campaign, sent, 0, keys[0].public, keys[0].secret)
    assert {each: bool(vector.any()) for each, vector in vectors.items()} == {
        each: each == ann for each in vectors
    }
    assert np.all(vectors[ann] > 0)


@dataclass
class _Message:
    key: bytes
    value: bytes


def test_a_topic_that_is_away_gets_the_same_bytes_from_the_next_run(path):
    campaign = plan(keys_of(2))
    with Journal.open(path) as journal:
        found = running(journal, opened(campaign), pinned(campaign))
        found.line.away = True
        found.minutes(3)
        assert journal.pending() == []  # nothing is drawn before the topic was reached once
        found.line.away = False
        found.minutes(1)
        found.line.away = True
        found.rounds.stages[0].phase = Phase.RELEASED
        found.rounds.stages[1].phase = Phase.OPEN
        found.minutes(2)
        waiting = [each.value for each in journal.pending()]
        assert len(waiting) == 3
    with Journal.open(path) as journal:
        found = running(journal, found.rounds, pinned(campaign))
        found.minutes(3)
        assert [value for *_, value in contributions(found)] == waiting
        assert journal.pending() == []


def test_what_is_not_pinned_or_not_affordable_is_said_once_and_costs_nothing(path):
    campaign: Campaign = plan(keys_of(2))
    other = Pinned(plan(keys_of(2)).keys, pinned(campaign).items)
    with Journal.open(path) as journal:
        found = running(journal, opened(campaign), other)
        found.minutes(5)
        assert contributions(found) == []
        (sentence,) = found.device.notices
        assert "names the keys" in sentence
    rich = plan(keys_of(2), Fraction(30))
    terms = Pinned(rich.keys, pinned(rich).items, Fraction(30))
    with Journal.open(path) as journal:
        found = running(journal, opened(rich), terms)
        found.minutes(5)
        assert contributions(found) == []
        (sentence,) = found.device.notices
        assert "takes no part in this campaign" in sentence
        assert not any("user" in journal.spent(pseudonym(journal, each)) for each in USERS)


def test_a_budget_without_a_plan_holds_the_next_campaign_too(path):
    with Journal.open(path) as journal:
        dora = pseudonym(journal, "dora")
        journal.enrol([dora], PersonBudget(Fraction(20), DELTA), TODAY - 1)
        for campaign in (plan(keys_of(2)), plan(keys_of(2), parts=3)):
            found = running(journal, opened(campaign), pinned(campaign))
            found.minutes(3)
            assert len(contributions(found)) == 4
            assert found.device.notices == []
        account = journal.enrolment(dora)
    assert account is not None
    assert account.budget.plan == "adaptive"


def test_a_plan_that_no_account_can_name_ends_no_device(path):
    """The owner may write it: everything that is pinned and the budget are right."""
    campaign = plan(keys_of(2), parts=40)
    with Journal.open(path) as journal:
        found = running(journal, opened(campaign), pinned(campaign))
        found.minutes(5)
        assert contributions(found) == []
        (sentence,) = found.device.notices
        assert "its 40 stages are more than an account can name" in sentence


def test_a_withdrawn_account_and_a_clock_that_went_back_contribute_nothing(path):
    campaign = plan(keys_of(2))
    with Journal.open(path) as journal:
        found = running(journal, opened(campaign), pinned(campaign))
        journal.withdraw([pseudonym(journal, "bob")], TODAY)
        found.minutes(3)
        assert len(contributions(found)) == 2
        found.rounds.stages[0].phase = Phase.RELEASED
        found.rounds.stages[1].phase = Phase.OPEN
        found.device.clock.at -= 2 * DAY
        found.minutes(3)
        assert len(contributions(found)) == 2
        found.device.clock.at += 2 * DAY
        journal.withdraw([pseudonym(journal, "cleo")], TODAY)  # who has paid in this campaign
        found.minutes(3)
        assert len(contributions(found)) == 3


@pytest.mark.parametrize("undecided", [False, True])
def test_a_full_disk_delays_a_contribution_to_the_next_look(path, undecided):
    campaign, disk = plan(keys_of(2)), FaultyDisk()
    with Journal.open(path, disk=disk) as journal:
        if undecided:
            account = PersonBudget(Fraction(20), DELTA)
            journal.enrol([pseudonym(journal, "dora")], account, TODAY - 1)
        found = running(journal, opened(campaign), pinned(campaign))
        disk.full = True
        found.minutes(3)
        assert contributions(found) == journal.pending() == []
        assert found.device.notices
        assert all("the disk is full" in sentence for sentence in found.device.notices)
        disk.full = False
        found.minutes(2)
        assert len(contributions(found)) == 3 + undecided


def test_no_line_is_taken_when_a_look_is_near(path):
    """What lines take would show in when the account contributes."""
    campaign = plan(keys_of(2))
    with Journal.open(path) as journal:
        found = running(journal, opened(campaign), pinned(campaign))
        daemon = found.device.daemon
        assert daemon.campaigns is not None
        assert daemon.campaigns.next is not None
        found.device.clock.at = daemon.campaigns.next - 0.3
        assert daemon._quiet()
        found.device.clock.at = daemon.campaigns.next - 0.7
        reports = daemon._schedule.next
        assert daemon._quiet() == (reports is not None and reports < daemon.campaigns.next)


def test_two_looks_that_come_at_once_contribute_once(path):
    """A busy or sleeping machine: both looks of an account are late, and within the grace."""
    campaign = plan(keys_of(2))
    with Journal.open(path) as journal:
        found = running(journal, opened(campaign), pinned(campaign))
        clock, daemon = found.device.clock, found.device.daemon
        ann = pseudonym(journal, "ann")
        name = moment_name(ann, journal.key)
        minute = int(clock.at // LOOK_SECONDS) + 1
        while True:
            first, second = (moment(name, minute + i, LOOK_SECONDS).at for i in (0, 1))
            if second - first <= GRACE_SECONDS:
                break
            minute += 1
        found.rounds.stages[0].phase = Phase.PLANNED
        daemon.step()  # the topic is reached
        clock.at = first - 0.001
        daemon.step()
        found.rounds.stages[0].phase = Phase.OPEN
        clock.at = second
        daemon.step()
        assert [key for _, key, _ in contributions(found)].count(ann.hex().encode()) == 1


def test_the_moments_of_looks_follow_from_no_pseudonym(path):
    """Pseudonyms are public: a relay that computes their moments finds no device by them."""
    with Journal.open(path) as journal:
        found = running(journal, Rounds(), pinned(plan(keys_of(2))))
        campaigns, start = found.device.daemon.campaigns, int(found.device.clock.at // LOOK_SECONDS)
        came = set[float]()
        while campaigns.next < (start + 4) * LOOK_SECONDS:
            came.add(campaigns.next)
            campaigns.requests(campaigns.next, 0, None, None)
        devices, minutes = [pseudonym(journal, user) for user in USERS], range(start, start + 4)
        named = [moment_name(each, journal.key) for each in devices]
        public, keyed = (
            {moment(each, minute, LOOK_SECONDS).at for each in names for minute in minutes}
            for names in (devices, named)
        )
        assert len(came) >= 9
        assert came <= keyed
        assert not came & public

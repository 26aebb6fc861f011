"""A population in a campaign: every device once a stage, through crashes, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from producers.campaign.terms import Pinned
from producers.datasets.load import Dataset
from producers.fleet.campaigning import Fleet, ScopedRatings, StageProgress
from producers.fleet.population import Population, populate
from producers.journal import Journal, Message, PersonBudget
from producers.person.enrolment import NO_LIMIT
from producers.ranking import RatedItem
from stream_app import wire
from stream_app.aggregation.keys import PartyKeys
from stream_app.aggregation.party import Party
from stream_app.campaigns import together
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.errors import UserError
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import Abort, AbortReason
from tests.fixtures.campaigns import vector_of
from tests.producers.conftest import dataset
from tests.producers.test_campaign import DAY, DELTA, TOPIC, plan
from tests.stream_app.aggregation.test_party import noise_of
from tests.stream_app.aggregation.world import Kept, World, keys_of

USERS = 9


class CrashError(Exception):
    pass


def ratings(rng: np.random.Generator) -> Dataset:
    """Items 1 to 6 are in the scope, 7 and 8 are not; user 1 has rated nothing of it."""
    cells = rng.choice(USERS * 8, 30, replace=False)
    users, items = (cells // 8 + 1).tolist(), (cells % 8 + 1).tolist()
    items = [7 if user == 1 else item for user, item in zip(users, items, strict=True)]
    rows = [*((user, 8) for user in range(1, USERS + 1)), (2, 3), *zip(users, items, strict=True)]
    stars = rng.integers(1, 6, len(rows)).astype(float).tolist()
    return dataset(*zip(*rows, strict=True), stars, rng.integers(0, 99, len(rows)).tolist())


@dataclass
class Relay:
    """The way to the topics of a world; crashes at the n-th message."""

    journal: Journal
    world: World
    crash_at: int | None = None
    sent: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> None:
        if self.crash_at is not None and len(self.sent) >= self.crash_at:
            raise CrashError
        self.sent.append(message)
        self.world.put(message.key, message.value)
        self.journal.acknowledge(message.number)

    def make_room(self) -> None:
        raise AssertionError("the outbox is empty")

    def settle(self) -> None:
        assert not self.journal.pending()


@dataclass
class Log:
    """The log of rounds of a world; while it is waited for, the owner and the parties act."""

    world: World
    parties: list[Party]

    def catch_up(self) -> Rounds:
        return self.world.rounds()

    def wait(self, seconds: float) -> None:
        stage = self.world.rounds().current
        assert stage is not None
        if stage.phase is Phase.PLANNED:
            self.world.open(stage.index)
        elif stage.phase is Phase.OPEN:
            self.world.close(stage.index)
        else:
            self.world.settle(self.parties)


@dataclass
class Simulation:
    journal: Journal
    population: Population
    world: World
    log: Log
    keys: tuple[PartyKeys, ...]

    def fleet(self, **changed: Any) -> Fleet:
        campaign = self.world.campaign
        items = np.array([wire.key(each) for each in campaign.scope], np.uint64)
        given: dict[str, Any] = {
            "pinned": Pinned(campaign.keys, items),
            "relay": Relay(self.journal, self.world),
            "epoch": lambda: DAY,
            "batch_bytes": 40_000,  # a few devices
        }
        return Fleet(self.journal, self.population, topic=TOPIC, **given | changed)

    def run(self, **changed: Any) -> dict[int, StageProgress]:
        return {step.stage: step for step in self.fleet(**changed).follow(self.log)}

    def expected(self, stage: int) -> np.ndarray:
        campaign, taken = self.world.campaign, self.world.rounds().stages[stage]
        rated = ScopedRatings(self.population, campaign)
        sent = [
            together.contribution(campaign.stages[stage], rated.rated(each))
            for each in self.population.devices
        ]
        return np.sum(sent, axis=0) + sum(noise_of(each, taken) for each in self.keys)


@pytest.fixture
def simulated(tmp_path: Path, rng: np.random.Generator) -> Iterator[Callable[..., Simulation]]:
    opened: list[Journal] = []
    data = ratings(rng)

    def made(
        campaign: Campaign | None = None, parties: int = 2, budget: PersonBudget = NO_LIMIT
    ) -> Simulation:
        keys = keys_of(parties)
        campaign = campaign or plan(keys)
        campaign = msgspec.structs.replace(campaign, keys=tuple(each.public.hex() for each in keys))
        journal = Journal.open(tmp_path / f"journal-{len(opened)}")
        opened.append(journal)
        population = populate(data, journal.key)
        journal.enrol(population.devices, budget, DAY - 1, simulated=True)
        world = World(campaign)
        world.plan()
        log = Log(world, [Party(each, Kept()) for each in keys])
        return Simulation(journal, population, world, log, keys)

    yield made
    for journal in opened:
        journal.close()


@pytest.mark.parametrize("parties", [1, 2])
def test_every_device_counts_once_in_every_stage(simulated, parties):
    found = simulated(parties=parties)
    steps = found.run()
    stages = found.world.rounds().stages
    assert [each.phase for each in stages] == [Phase.RELEASED] * 2
    for index, stage in enumerate(stages):
        assert stage.contributions == steps[index].sent == len(found.population.devices) == USERS
        assert np.array_equal(stage.result, found.expected(index))
    assert all(step.done == step.total for step in steps.values())
    assert {found.journal.spent(each)["user"].reports for each in found.population.devices} == {1}


def test_a_debit_is_of_the_day_on_which_the_device_contributes(simulated):
    """Midnight comes in the middle of the first stage."""
    found = simulated()
    days = itertools.chain([DAY] * 3, itertools.repeat(DAY + 1))
    found.run(epoch=lambda: next(days))
    assert [each.contributions for each in found.world.rounds().stages] == [USERS] * 2
    spends = [found.journal._state.accounts[each].spends for each in found.population.devices]
    paid = [{epoch for (epoch, *_), row in each.items() if row[2]} for each in spends]
    assert {frozenset(each) for each in paid} == {
        frozenset({DAY, DAY + 1}),  # the first stage before midnight
        frozenset({DAY + 1}),
    }


def test_a_budget_without_a_plan_is_planned_for_other_campaigns_too(simulated):
    found = simulated(budget=PersonBudget(Fraction(20), DELTA))
    found.run()
    terms = [found.journal.enrolment(each) for each in found.population.devices]
    assert {each.budget.plan for each in terms} == {"adaptive"}


def test_a_vector_is_that_of_the_kept_ratings(simulated):
    """Item by item as `device contribute` reads them from the file of clean ratings."""
    found = simulated()
    campaign, population = found.world.campaign, found.population
    rated = ScopedRatings(population, campaign)
    for user, device in enumerate(population.devices):
        rows = np.flatnonzero((population.users == user) & population.fresh)
        kept = [
            RatedItem(item, wire.key(item), 1.0 + population.raw_levels[row])
            for row in rows
            for item in range(1, 9)
            if wire.key(item) == population.items[row]
        ]
        expected = vector_of(campaign, kept)
        assert np.array_equal(
            together.contribution(campaign.stages[0], rated.rated(device)), expected
        )
    assert rated.rows == sum(len(rated.rated(each)) for each in population.devices) > 0
    assert not len(rated.rated(b"\0" * 16))


def test_a_run_that_crashes_at_any_message_is_continued_by_the_next(simulated):
    for crash_at in range(2 * USERS):
        found = simulated()
        journal, path = found.journal, found.journal.path
        broken = Relay(journal, found.world, crash_at)
        with pytest.raises(CrashError):
            found.run(relay=broken)
        waiting = journal.pending()
        journal.close()
        found.journal = Journal.open(path)
        relay = Relay(found.journal, found.world)
        assert [each.value for each in found.journal.pending()] == [each.value for each in waiting]
        for message in found.journal.pending():
            relay.send(message)
        found.run(relay=relay)
        for index, stage in enumerate(found.world.rounds().stages):
            assert stage.contributions == USERS
            assert np.array_equal(stage.result, found.expected(index))
        values = [each.value for each in broken.sent + relay.sent]
        assert len(values) == len(set(values)) == 2 * USERS
        found.journal.close()


def test_order_and_sizes_do_not_depend_on_ratings(simulated):
    found = simulated()
    relay = Relay(found.journal, found.world)
    found.run(relay=relay)
    other = simulated(found.world.campaign)
    data = dataset(list(range(1, USERS + 1)), [3] * USERS, [5.0] * USERS)
    other.population = populate(data, found.journal.key)
    other.journal.enrol(other.population.devices, NO_LIMIT, DAY - 1, simulated=True)
    second = Relay(other.journal, other.world)
    other.run(relay=second)
    assert [(m.device, len(m.value)) for m in relay.sent] == [
        (m.device, len(m.value)) for m in second.sent
    ]
    assert len({len(message.value) for message in relay.sent}) == 1
    assert [m.device for m in relay.sent[:USERS]] != list(found.population.devices)


def test_a_stage_that_closes_takes_no_more_and_the_rest_pays_nothing(simulated):
    found = simulated()
    steps = found.fleet().follow(found.log)
    for step in steps:
        if step.sent:
            found.world.close(0)
            break
    last = {step.stage: step for step in steps}
    assert last[0].late > 0
    assert last[0].sent + last[0].late == USERS
    stages = found.world.rounds().stages
    assert [each.contributions for each in stages] == [last[0].sent, USERS]
    assert last[1].late == 0


def test_devices_without_the_budget_are_left_out(simulated):
    small = PersonBudget(Fraction(1, 2), DELTA)
    found = simulated(budget=small)
    with pytest.raises(UserError, match=r"epsilon 1 at .* no device .* has the budget"):
        found.run()
    assert found.journal.pending() == []
    found.journal.raise_budget(found.population.devices[:4], Fraction(2))
    found.journal.withdraw(found.population.devices[:1], DAY)
    steps = found.run()
    assert [(steps[i].sent, steps[i].over) for i in (0, 1)] == [(3, USERS - 3)] * 2
    assert [each.contributions for each in found.world.rounds().stages] == [3, 3]


def test_a_device_that_was_withdrawn_after_it_paid_contributes_no_more(simulated):
    found = simulated()
    steps = found.fleet().follow(found.log)
    for step in steps:
        if step.stage == 0 and step.done == step.total:
            found.journal.withdraw(found.population.devices[:1], DAY)
    assert [each.contributions for each in found.world.rounds().stages] == [USERS, USERS - 1]


def test_a_campaign_that_is_not_for_this_population_is_refused(simulated):
    found = simulated(plan(keys_of(2), scope=tuple(range(101, 107))))
    with pytest.raises(UserError, match="over 6 items, and the file rates none of them"):
        found.run()
    found = simulated()
    pinned = Pinned(found.world.campaign.keys[::-1], found.fleet().pinned.items)
    with pytest.raises(UserError, match="has pinned"):
        found.run(pinned=pinned)
    found.world.write(Abort(found.world.campaign.digest, 0, AbortReason.WITHDRAWN))
    with pytest.raises(UserError, match="no campaign is under way"):
        found.run()
    found = simulated()
    steps = found.fleet().follow(found.log)
    next(steps)
    found.world.campaign = msgspec.structs.replace(found.world.campaign, number=2)
    found.world.plan()
    with pytest.raises(UserError, match="was replaced by another one"):
        list(steps)
    assert found.journal.spent(found.population.devices[0]) == {}


def test_a_campaign_that_is_aborted_ends_the_run(simulated):
    found = simulated()
    steps = found.fleet().follow(found.log)
    for step in steps:
        if step.done == step.total:
            found.world.write(Abort(found.world.campaign.digest, 0, AbortReason.TIMED_OUT))
    assert found.world.rounds().stages[0].phase is Phase.ABORTED

"""The owner's steps: each has its effect or is refused in one sentence; of two owners one wins."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from stream_app.aggregation.coordinator import Coordinator
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.errors import UserError
from stream_app.wire.campaigns.round_log import AbortReason, Close, Open, Planned, RoundEntry
from tests.stream_app.wire.campaigns.plans import campaign


@dataclass
class Log:
    """A log in memory that several owners share; `before` is what another owner writes first."""

    entries: list[RoundEntry]
    before: list[RoundEntry] = field(default_factory=list)
    rounds: Rounds = field(default_factory=Rounds)
    applied: int = 0

    def catch_up(self) -> Rounds:
        for entry in self.entries[self.applied :]:
            self.rounds.apply(entry)
        self.applied = len(self.entries)
        return self.rounds

    def append(self, entry: RoundEntry) -> None:
        self.entries += [*self.before, entry]
        self.before = []


@dataclass
class Ends:
    ends: tuple[int, ...] = (0, 0)


def owner():
    log, topic = Log([]), Ends()
    return Coordinator(log, topic), log, topic


def test_the_steps_of_a_stage():
    coordinator, log, topic = owner()
    coordinator.begin(campaign())
    topic.ends = (3, 4)
    assert coordinator.open_stage().begins == (3, 4)
    topic.ends = (7, 9)
    stage = coordinator.close_stage([bytes(16)])
    assert (stage.ends, stage.forgotten) == ((7, 9), {bytes(16)})
    assert stage.phase is Phase.CLOSED
    coordinator.abort_stage(AbortReason.TIMED_OUT)
    assert log.rounds.stages[0].aborted is AbortReason.TIMED_OUT


def test_a_campaign_opens_once_it_was_public_for_long_enough():
    coordinator, log, _ = owner()
    unknown, *_ = owner()
    unknown.begin(campaign())
    unknown.notice = 3600.0
    with pytest.raises(UserError, match="does not say when the plan was appended"):
        unknown.open_stage()
    log.rounds.apply(Planned(campaign()), 1e9)
    coordinator.notice, times = 3600.0, [1e9 + 3637, 1e9 - 1e6, 1e9 + 3599, 1e9]
    coordinator.clock = lambda: times[-1]
    while len(times) > 1:
        with pytest.raises(UserError, match=r"public for 3,600 s before it opens .*: open it in "):
            coordinator.open_stage()
        times.pop()
    assert coordinator.open_stage().phase is Phase.OPEN


def test_a_stage_begins_where_the_one_before_it_ended():
    coordinator, log, topic = owner()
    coordinator.begin(campaign())
    coordinator.open_stage()
    topic.ends = (7, 9)
    coordinator.close_stage()
    log.rounds.stages[0].phase = Phase.RELEASED
    topic.ends = (8, 10)
    assert coordinator.open_stage().begins == (7, 9)


def test_a_step_out_of_turn_is_one_sentence():
    coordinator, *_ = owner()
    for step in (coordinator.open_stage, coordinator.close_stage):
        with pytest.raises(UserError, match="no campaign is under way"):
            step()
    with pytest.raises(UserError, match="no campaign is under way"):
        coordinator.abort_stage(AbortReason.WITHDRAWN)
    with pytest.raises(UserError, match="names no keys"):
        coordinator.begin(campaign(keys=()))
    coordinator.begin(campaign(number=5))
    for number in (4, 5):
        with pytest.raises(UserError, match="5 has begun already"):
            coordinator.begin(campaign(number=number))
    with pytest.raises(UserError, match="stage 0 is planned: only one that is open can close"):
        coordinator.close_stage()
    coordinator.open_stage()
    with pytest.raises(UserError, match="stage 0 is open: only one that is planned can open"):
        coordinator.open_stage()


def test_of_two_owners_one_is_refused():
    coordinator, log, topic = owner()
    coordinator.begin(campaign())
    plan = campaign().digest
    log.before = [Open(plan, 0, (1, 1))]
    with pytest.raises(UserError, match="another process owns the clock"):
        coordinator.open_stage()
    log.before = [Close(plan, 0, (2, 2))]
    topic.ends = (5, 5)
    with pytest.raises(UserError, match="another process owns the clock"):
        coordinator.close_stage()
    assert log.rounds.stages[0].ends == (2, 2)


def test_a_plan_that_does_not_fit_is_refused_before_it_is_written():
    coordinator, log, _topic = owner()
    for length in (128, 64):
        scope = tuple(f"{number:0{length}d}" for number in range(10_000))
        with pytest.raises(UserError, match=r"campaign 1: .*name a smaller scope"):
            coordinator.begin(campaign(scope=scope))
    assert log.entries == []

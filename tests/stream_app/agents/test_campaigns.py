"""The owner of the clock runs a campaign: in memory, with owners that are killed at every step, two
at once, and parties that answer late or never."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.agents.campaigns.owner import Owner, Running
from stream_app.agents.campaigns.steps import LEAST_ANSWER_SECONDS, Act, Follows, due
from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.party import Party
from stream_app.aggregation.round_topics import LogChanged
from stream_app.campaigns import learning
from stream_app.campaigns.public_side import encode_side
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.errors import UserError
from stream_app.state.campaigns.part import CampaignPart
from stream_app.state.campaigns.progress import CampaignProgress, Ignored
from stream_app.wire import CampaignEntry, Released
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import AbortReason, Close, RoundEntry, decode_round
from tests.fixtures.campaigns import ITEMS, plan, planned, released
from tests.stream_app.aggregation.world import Kept, World, device_id, keys_of

CUT_SECONDS = 0.1
DEADLINE = 50 * CUT_SECONDS
DEVICES = 4


class MemoryLog:
    """The log of rounds of a world, as one process reads it."""

    def __init__(self, world: World) -> None:
        self._world, self._read = world, 0
        self.rounds = Rounds()

    def catch_up(self) -> Rounds:
        for value in self._world.log[self._read :]:
            self.rounds.apply(decode_round(value), 0.0)
        self._read = len(self._world.log)
        return self.rounds

    def append(self, entry: RoundEntry) -> None:
        self._world.write(entry)


class Live:
    """A deployment: its world, its parties, the cut log, the part of one replica, and time."""

    def __init__(self, parties: int = 1, **changes: object) -> None:
        keys = keys_of(parties)
        public = tuple(each.public.hex() for each in keys)
        self.campaign: Campaign = plan(parties=parties, keys=public, **changes)
        self.world = World(self.campaign)
        self.aggregators = [Party(each, Kept()) for each in keys]
        self.part = CampaignPart(parties)
        self.cut_log: list[CampaignEntry] = []
        self.forgotten: tuple[bytes, ...] = ()
        self.pinned: tuple[str, ...] = ()
        self.signed = False
        self.notice = 0.0
        self.time = 0.0
        self.owing: dict[str, float] = {}
        self._applied = 0
        self._contributed: set[int] = set()

    def owner(self) -> Owner:
        """Return a new owner, as after a kill."""
        return Owner(
            Coordinator(
                MemoryLog(self.world), self.world, self.notice, lambda: self.time
            ), lambda: self.part.standing,
            lambda: self.forgotten, self.cut_log.append,
            Follows(len(self.aggregators), self.pinned, self.signed), CUT_SECONDS,
            lambda owing: setattr(self, "owing", dict(owing)), now=lambda: self.time,
        )  # fmt: skip

    def turn(self, owner: Owner) -> None:
        """Let an owner take a step; devices contribute as soon as a stage is open."""
        owner.turn()
        stage = self.world.rounds().current
        if stage and stage.phase is Phase.OPEN and stage.index not in self._contributed:
            self._contributed.add(stage.index)
            random = np.random.default_rng(stage.index)
            for device in range(DEVICES):
                vector = random.integers(-9, 10, stage.stage.size)
                self.world.contribute(device, vector, stage.index)

    def cut(self) -> None:
        """Apply what was appended to the cut log."""
        for entry in self.cut_log[self._applied :]:
            self.part.apply(entry)
        self._applied = len(self.cut_log)

    def answer(self) -> None:
        """Let every party answer what it owes."""
        self.world.settle(self.aggregators)

    def run(self, owner: Callable[[], Owner], turns: int = 40) -> CampaignProgress:
        """Take turns until nothing is due any more."""
        for _ in range(turns):
            self.turn(owner())
            self.time += 2 * DEADLINE
            self.cut()
            self.answer()
        return self.part.standing

    def check(self) -> None:
        """The state holds what the log of rounds released, each once, and nothing else."""
        rounds, standing = self.world.rounds(), self.part.standing
        ended = [stage for stage in rounds.stages if stage.result is not None]
        assert standing.plan == self.campaign
        assert standing.released == len(ended)
        assert standing.aborted == any(stage.aborted for stage in rounds.stages)
        if ended:
            newest = ended[-1]
            assert newest.result is not None
            assert standing.side is not None
            learned = learning.learn(self.campaign, newest.index, newest.result)
            assert encode_side(standing.side) == encode_side(learned)


@pytest.mark.parametrize("parties", [1, 2])
def test_a_campaign_is_run_to_its_end_by_one_owner(parties: int) -> None:
    live = Live(parties)
    live.world.plan()
    owner = live.owner()
    standing = live.run(lambda: owner)
    live.check()
    assert (standing.released, standing.contributions) == (2, DEVICES)
    assert live.part.ignored == {}
    assert len(live.cut_log) == 3, "the plan and two sums, each once"


def test_an_owner_that_is_killed_after_every_step_changes_nothing() -> None:
    live = Live()
    live.world.plan()
    owner = live.owner()

    def after_a_kill() -> Owner:
        nonlocal owner
        stage = live.world.rounds().current
        # A stage is closed by an owner that has seen it open for its time.
        if stage is None or stage.phase is not Phase.OPEN:
            owner = live.owner()
        return owner

    standing = live.run(after_a_kill)
    live.check()
    assert standing.released == 2
    assert live.part.ignored == {}


STEPS = st.lists(st.sampled_from(["a", "b", "new a", "cut", "answer", "time"]), max_size=40)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([1, 2]))
def test_two_owners_in_any_order_lead_to_what_the_log_of_rounds_states(
    steps: list[str], parties: int
) -> None:
    live = Live(parties)
    live.world.plan()
    owners = {"a": live.owner(), "b": live.owner()}
    for step in steps:
        if step in owners:
            live.turn(owners[step])
        elif step == "new a":
            owners["a"] = live.owner()
        elif step == "time":
            live.time += DEADLINE
        else:
            getattr(live, step)()
    live.run(lambda: owners["b"])
    live.check()
    assert set(live.part.ignored) <= {Ignored.OLD_NUMBER, Ignored.OTHER_STAGE}


def test_a_silent_party_is_given_up_and_the_state_learns_that_nothing_was_released() -> None:
    live = Live(2)
    live.world.plan()
    owner = live.owner()
    for _ in range(12):
        live.turn(owner)
        live.time += DEADLINE
        live.cut()
        live.world.settle(live.aggregators[:1])
    assert live.world.rounds().stages[0].phase is Phase.CLOSED, "a minute at least"
    assert live.owing.keys() == {"b"}
    assert live.owing["b"] >= 5 * DEADLINE
    live.time += LEAST_ANSWER_SECONDS
    live.run(lambda: owner)
    assert live.world.rounds().stages[0].aborted is AbortReason.TIMED_OUT
    assert live.part.standing.aborted
    assert live.part.aborted_total == 1
    assert live.owing == {}
    assert live.part.standing.side is None


def test_a_stage_with_too_few_contributions_ends_in_the_state_too() -> None:
    live = Live()
    live.world.plan()
    live.forgotten = tuple(map(device_id, range(DEVICES - 1)))
    owner = live.owner()
    standing = live.run(lambda: owner)
    closes = [e for value in live.world.log if isinstance(e := decode_round(value), Close)]
    assert [set(each.forgotten) for each in closes] == [set(live.forgotten)]
    assert live.world.rounds().stages[0].aborted is AbortReason.TOO_FEW
    assert (standing.released, standing.aborted) == (0, True)


REFUSED = {
    "of two parties": plan(parties=2),
    "without a learner": plan(scope=tuple(range(ITEMS - 1))),
}


@pytest.mark.parametrize("campaign", REFUSED.values(), ids=REFUSED)
def test_a_plan_that_the_state_would_ignore_is_withdrawn_before_it_opens(
    campaign: Campaign,
) -> None:
    live = Live()
    live.world.campaign = campaign
    live.world.plan()
    owner = live.owner()
    live.run(lambda: owner, turns=5)
    assert live.world.rounds().stages[0].aborted is AbortReason.WITHDRAWN
    assert live.cut_log == []


def test_a_plan_of_other_keys_than_those_that_are_pinned_is_withdrawn() -> None:
    live = Live()
    live.pinned = ("ab" * 32,)
    live.world.plan()
    owner = live.owner()
    live.run(lambda: owner, turns=5)
    assert live.world.rounds().stages[0].aborted is AbortReason.WITHDRAWN
    assert live.cut_log == []
    pinned = Live()
    pinned.pinned = pinned.campaign.keys
    pinned.world.plan()
    owner = pinned.owner()
    assert pinned.run(lambda: owner).released == 2


def test_a_plan_of_unsigned_contributions_is_withdrawn_where_devices_sign() -> None:
    live = Live()
    live.signed = True
    live.world.plan()
    owner = live.owner()
    assert live.run(lambda: owner).plan is None
    assert live.world.rounds().stages[0].aborted is AbortReason.WITHDRAWN
    assert "are not signed, and devices = signed" in owner._withdrawn()


def test_a_plan_of_unknown_age_is_withdrawn_where_devices_want_to_know() -> None:
    live = Live()
    live.world.plan()
    owner = live.owner()
    owner.coordinator.log.rounds.apply(decode_round(live.world.log.pop()))
    owner.coordinator.notice = 60.0
    live.turn(owner)
    live.cut()
    assert owner.coordinator.no_device_joins
    live.turn(owner)
    assert b"withdrawn" in live.world.log[-1]


def test_a_campaign_opens_when_it_was_public_for_long_enough() -> None:
    live = Live()
    live.notice = 30 * DEADLINE
    live.world.plan()
    owner = live.owner()
    for _ in range(15):  # of two deadlines each
        live.turn(owner)
        live.cut()
        assert live.world.rounds().stages[0].phase is Phase.PLANNED
        live.time += 2 * DEADLINE
    assert live.run(lambda: owner).released == 2


def test_what_a_sum_gives_is_computed_once_while_its_cut_is_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live = Live()
    live.world.plan()
    owner, computed = live.owner(), []
    learn = learning.learn
    monkeypatch.setattr(
        learning, "learn", lambda *given: (computed.append(given), learn(*given))[1]
    )
    while live.world.rounds().stages[0].result is None:
        live.turn(owner)
        live.time += DEADLINE
        live.cut()
        live.answer()
    for _ in range(20):
        live.turn(owner)
    assert isinstance(live.cut_log[-1], Released)
    assert len(computed) == 1


def test_a_campaign_of_an_old_number_is_withdrawn() -> None:
    live = Live()
    live.part.apply(planned(plan(5)))
    live.world.plan()
    owner = live.owner()
    live.run(lambda: owner, turns=5)
    assert live.world.rounds().stages[0].aborted is AbortReason.WITHDRAWN
    assert live.part.standing.plan == plan(5)


def test_a_log_of_rounds_that_is_behind_the_state_is_withdrawn() -> None:
    """It was deleted and written again: the sum that the state has is not drawn once more."""
    live = Live()
    live.world.plan()
    live.part.apply(planned(live.campaign))
    live.part.apply(released(live.campaign))
    assert (
        due(live.world.rounds(), live.part.standing, Follows(1), 0.0, CUT_SECONDS) is Act.WITHDRAW
    )


def test_nothing_is_due_without_a_campaign() -> None:
    assert due(Rounds(), CampaignProgress(), Follows(1), 1e9, CUT_SECONDS) is None


def test_what_was_appended_and_not_read_back_is_appended_again_after_a_while() -> None:
    live = Live()
    live.world.plan()
    owner = live.owner()
    for _ in range(3):
        live.turn(owner)
    assert len(live.cut_log) == 1
    live.time += 11
    live.turn(owner)
    assert live.cut_log == [planned(live.campaign)] * 2
    live.cut()
    assert live.part.ignored == {"old_number": 1}


def test_an_owner_that_was_second_says_so_and_goes_on() -> None:
    live = Live()
    live.world.plan()
    live.part.apply(planned(live.campaign))
    first, second = live.owner(), live.owner()
    log = second.coordinator.log
    before = log.catch_up
    second.coordinator.log.catch_up = lambda: (before(), live.turn(first))[0]  # type: ignore[method-assign]
    with pytest.raises(UserError, match="only one that is planned can open"):
        second.turn()
    second.coordinator.log.catch_up = before  # type: ignore[method-assign]
    live.run(lambda: second)
    live.check()


def test_an_owner_whose_log_was_made_again_is_followed_by_a_new_one() -> None:
    live = Live()
    live.world.plan()
    left: list[Owner] = []

    def made() -> Owner:
        owner = live.owner()
        owner.leave = lambda: left.append(owner)
        return owner

    running = Running(made)
    running.turn()
    first = running.owner
    assert first is not None

    def changed() -> Rounds:
        raise LogChanged("the log is shorter")

    first.coordinator.log.catch_up = changed  # type: ignore[method-assign]
    with pytest.raises(LogChanged):
        running.turn()
    assert left == [first]
    running.turn()
    assert running.owner not in (None, first)
    running.leave()
    assert len(left) == 2


def test_the_sum_in_the_cut_log_is_that_of_the_log_of_rounds() -> None:
    live = Live()
    live.world.plan()
    owner = live.owner()
    live.run(lambda: owner)
    sums = [entry for entry in live.cut_log if isinstance(entry, Released)]
    for entry, stage in zip(sums, live.world.rounds().stages, strict=True):
        assert np.array_equal(entry.noisy, stage.result)
        assert entry.contributions == stage.contributions == DEVICES

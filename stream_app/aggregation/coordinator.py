"""The owner's side of a campaign: begin it, open and close its stages, give a silent party up.

    begin -> (open_stage -> devices contribute -> close_stage -> parties answer) for each stage

Each call reads the log to its end, appends one entry and verifies that it had an effect: of two
owners one is refused, in one sentence. The positions of a stage come from the topic of
contributions: a stage after another begins where that one ended, so late records are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from stream_app.aggregation.round_topics import RoundLog
from stream_app.campaigns.rounds import LARGEST_STEP, Phase, StageState
from stream_app.errors import UserError
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import (
    Abort,
    AbortReason,
    Close,
    Open,
    Planned,
    RoundEntry,
    encode_round,
)

_CLOCKS = 1.01


class Positions(Protocol):
    """The topic of contributions, wherever it is."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The end offset of every partition now."""


@dataclass
class Coordinator:
    """Writes plans, openings, closes and aborts; one at a time owns the clock. Devices join a
    campaign that was public for `notice` seconds before it opened, by the times of the broker."""

    log: RoundLog
    contributions: Positions
    notice: float = 0.0
    clock: Callable[[], float] = time.time

    @property
    def notice_left(self) -> float:
        """For how many seconds the campaign is not opened yet, 0 where it may be, in the state that
        was read last. A hundredth more than `notice`, since the broker has another clock."""
        planned = self.log.rounds.planned_at
        return 0.0 if planned is None else max(0.0, planned + _CLOCKS * self.notice - self.clock())

    @property
    def no_device_joins(self) -> bool:
        """Whether devices cannot know how long the campaign was public, and want to."""
        return self.notice > 0 and self.log.rounds.planned_at is None

    def begin(self, campaign: Campaign) -> None:
        """Write a plan; its number is above that of every earlier one."""
        if len(campaign.keys) != campaign.parties:
            raise UserError(
                f"campaign {campaign.number}: the plan names no keys; give the public half of "
                "each party"
            )
        newest = self.log.catch_up().newest
        if campaign.number <= newest:
            raise UserError(
                f"campaign {campaign.number}: {newest} has begun already; choose a number above it "
                f"(murmurec rounds plan --number {newest + 1})"
            )
        if campaign.number > newest + LARGEST_STEP:
            raise UserError(
                f"campaign {campaign.number}: numbers go up by {LARGEST_STEP} at most, here from "
                f"{newest}; choose a smaller one (murmurec rounds plan --number {newest + 1})"
            )
        entry = Planned(campaign)
        try:
            encode_round(entry)
        except ValueError as error:
            raise UserError(f"campaign {campaign.number}: {error}") from None
        self._append(entry)

    def open_stage(self) -> StageState:
        """Open the campaign's next stage and return it."""
        stage = self._stage(Phase.PLANNED, "open")
        if stage.index == 0 and self.no_device_joins:
            raise UserError(
                "the log of rounds does not say when the plan was appended, and devices contribute "
                "to none of unknown age: set message.timestamp.type LogAppendTime on its topic "
                "(murmurec topics apply), and begin another campaign"
            )
        if stage.index == 0 and (left := self.notice_left) > 0:
            raise UserError(
                f"a plan is public for {self.notice:,.0f} s before it opens "
                f"(campaign_notice_seconds): open it in {left:,.0f} s"
            )
        before = self.log.rounds.stages[: stage.index]
        begins = before[-1].ends if before else self.contributions.ends
        return self._append(Open(stage.plan, stage.index, begins))

    def close_stage(self, forgotten: Iterable[bytes] = ()) -> StageState:
        """Close the open stage at the end of the topic and return it; contributions of `forgotten`
        devices do not count."""
        stage = self._stage(Phase.OPEN, "close")
        ends = self.contributions.ends
        return self._append(Close(stage.plan, stage.index, ends, tuple(forgotten)))

    def abort_stage(self, reason: AbortReason) -> None:
        """End the campaign at the stage that it is at."""
        stage = self._stage(None, "abort")
        self._append(Abort(stage.plan, stage.index, reason))

    def _stage(self, phase: Phase | None, verb: str) -> StageState:
        stage = self.log.catch_up().current
        if stage is None:
            raise UserError(f"no campaign is under way, so there is no stage to {verb}")
        if phase is not None and stage.phase is not phase:
            raise UserError(
                f"stage {stage.index} is {stage.phase}: only one that is {phase} can {verb}"
            )
        return stage

    def _append(self, entry: RoundEntry) -> StageState:
        self.log.append(entry)
        rounds = self.log.catch_up()
        index = 0 if isinstance(entry, Planned) else entry.stage
        plan = entry.campaign.digest if isinstance(entry, Planned) else entry.plan
        stage = rounds.stages[index] if index < len(rounds.stages) else None
        if stage is None or stage.plan != plan or not _shows(stage, entry):
            raise UserError(
                "the log of rounds took another entry first: another process owns the clock; end "
                "one of them"
            )
        return stage


def _shows(stage: StageState, entry: RoundEntry) -> bool:
    """Return whether an entry had its effect on a stage."""
    match entry:
        case Open():
            return stage.begins == entry.begins
        case Close():
            return stage.ends == entry.ends and stage.forgotten == frozenset(entry.forgotten)
        case Abort():
            return stage.phase is Phase.ABORTED
    return True

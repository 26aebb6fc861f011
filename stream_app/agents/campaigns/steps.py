"""What the owner of the clock does next for a campaign: a function of two logs and of a duration.

    log of rounds                                   cut log (`CampaignProgress`: what is read)
    planned                 -------------------->   plan
    stage 0 open .. closed .. counted .. released   sum of stage 0
    stage 1 open ..                                 ...
    aborted                 -------------------->   aborted

A stage opens when the state holds the plan and every sum before it, so no device contributes to a
plan that the replicas do not follow. An entry that the state would ignore is never written: the
campaign is withdrawn instead. Killed anywhere, the next owner finds the same step due; a step that
is taken twice has one effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from stream_app.campaigns.rounds import Phase, Rounds, StageState
from stream_app.state.campaigns.progress import CampaignProgress, Ignored, moved
from stream_app.wire import Aborted, CampaignEntry, CampaignPlan, Released
from stream_app.wire.campaigns.round_log import AbortReason

LEAST_ANSWER_SECONDS = 60.0


class Act(Enum):
    """What is written to the log of rounds."""

    OPEN = auto()
    CLOSE = auto()
    TIME_OUT = auto()
    WITHDRAW = auto()


@dataclass
class Follows:
    """Whether a deployment follows an entry of the cut log: its replicas would, a plan names the
    keys that are pinned, if any are, and where devices are `signed` it counts signed contributions.

    What the state learns from a sum takes seconds, and an entry is due until its cut is read: it is
    looked at once.
    """

    parties: int
    pinned: tuple[str, ...] = ()
    signed: bool = False
    _newest: tuple[CampaignProgress, CampaignEntry, bool] | None = field(default=None, init=False)

    def __call__(self, standing: CampaignProgress, entry: CampaignEntry) -> bool:
        """Return whether the entry is followed."""
        if self.other_keys(entry) or self.unsigned(entry):
            return False
        if self._newest is not None and self._newest[0] is standing and self._newest[1] == entry:
            return self._newest[2]
        taken = not isinstance(moved(standing, entry, self.parties), Ignored)
        self._newest = standing, entry, taken
        return taken

    def other_keys(self, entry: CampaignEntry) -> bool:
        """Return whether an entry is a plan of other keys than those that are pinned."""
        return (
            isinstance(entry, CampaignPlan) and bool(self.pinned) and entry.plan.keys != self.pinned
        )

    def unsigned(self, entry: CampaignEntry) -> bool:
        """Return whether an entry is a plan that counts what no device has signed, where all do."""
        return isinstance(entry, CampaignPlan) and self.signed and not entry.plan.is_signed


def due(
    rounds: Rounds, standing: CampaignProgress, follows: Follows, waited: float, cut_seconds: float
) -> CampaignEntry | Act | None:
    """Return the entry of the cut log that is missing, or what the log of rounds needs.

    `waited`: seconds for which the owner has seen the present stage in its present phase. A stage
    closes after the time of its `deadline_cuts`, and the parties have as long to answer, 60 s at
    least: without ratings no cut is written that could be counted.
    """
    entry = _missing(rounds, standing)
    if entry is not None:
        if follows(standing, entry):
            return entry
        return None if rounds.current is None else Act.WITHDRAW
    stage = rounds.current
    if stage is None:
        return None
    if standing.next_stage is None or stage.index != standing.released:
        return Act.WITHDRAW
    return _of_stage(stage, waited, cut_seconds)


def _missing(rounds: Rounds, standing: CampaignProgress) -> CampaignEntry | None:
    """Return the next entry of the cut log that follows from the log of rounds."""
    if rounds.campaign is None:
        return None
    digest = rounds.campaign.digest
    if standing.plan is None or standing.plan.digest != digest:
        return CampaignPlan(plan=rounds.campaign)
    if standing.next_stage is None:
        return None
    stage = rounds.stages[standing.released]
    if stage.aborted is not None:
        return Aborted(plan=digest, stage=stage.index, reason=stage.aborted)
    if stage.result is None:
        return None
    integers = stage.result.astype("<i4").tobytes()
    return Released(
        plan=digest, stage=stage.index, contributions=stage.contributions, integers=integers
    )


def _of_stage(stage: StageState, waited: float, cut_seconds: float) -> Act | None:
    deadline = stage.stage.deadline_cuts * cut_seconds
    match stage.phase:
        case Phase.PLANNED:
            return Act.OPEN
        case Phase.OPEN if waited >= deadline:
            return Act.CLOSE
        case Phase.CLOSED | Phase.OPENED | Phase.COUNTED:
            return Act.TIME_OUT if waited >= max(deadline, LEAST_ANSWER_SECONDS) else None
    return None


def reason_of(act: Act) -> AbortReason:
    """Return the reason that an abort states."""
    return AbortReason.TIMED_OUT if act is Act.TIME_OUT else AbortReason.WITHDRAWN

"""How far the campaigns of a log are: a value, and the rule by which an entry of the log moves it.

    plan        a greater number than before, stages that this release can learn
    released    of the next stage of the plan in force: the public side learns it
    aborted     of the next stage: the campaign is over

Every other entry is ignored for a reason. The side of a campaign stays public until a stage of the
next one is released.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from stream_app.campaigns import learning
from stream_app.campaigns.plan import Campaign, Stage
from stream_app.campaigns.public_side import PublicSide
from stream_app.wire import Aborted, CampaignEntry, CampaignPlan, Released


class Ignored(StrEnum):
    """Why an entry changes nothing; the order is that of the counts in the state."""

    OLD_NUMBER = "old_number"  # of a campaign
    OTHER_PARTIES = "other_parties"  # a plan for another privacy mode
    UNKNOWN_STAGE = "unknown_stage"  # of a kind or size that this release cannot learn
    OTHER_PLAN = "other_plan"  # not that in force
    OTHER_STAGE = "other_stage"  # released before, out of turn, or of a campaign that is over
    WRONG_LENGTH = "wrong_length"
    TOO_FEW = "too_few"  # contributions
    NOT_LEARNED = "not_learned"  # from such a sum


@dataclass(frozen=True, eq=False)
class CampaignProgress:
    """The plan in force, how many of its stages are released, whether it is aborted, and of how
    many contributions the newest sum is; `side` is what is public, maybe of the campaign before."""

    plan: Campaign | None = None
    released: int = 0
    aborted: bool = False
    contributions: int = 0
    side: PublicSide | None = None

    @property
    def next_stage(self) -> Stage | None:
        """The stage that is to be released next; None where no campaign is under way."""
        if self.plan is None or self.aborted or self.released == len(self.plan.stages):
            return None
        return self.plan.stages[self.released]


def moved(
    standing: CampaignProgress, entry: CampaignEntry, parties: int
) -> CampaignProgress | Ignored:
    """Return the standing after an entry, in a deployment of so many parties."""
    match entry:
        case CampaignPlan():
            return _begun(standing, entry.plan, parties)
        case Released():
            return _released(standing, entry)
        case Aborted():
            if reason := _out_of_turn(standing, entry):
                return reason
            return replace(standing, aborted=True)


def _begun(standing: CampaignProgress, plan: Campaign, parties: int) -> CampaignProgress | Ignored:
    if standing.plan is not None and plan.number <= standing.plan.number:
        return Ignored.OLD_NUMBER
    if not plan.parties == len(plan.keys) == parties:
        return Ignored.OTHER_PARTIES
    if not learning.can_learn(plan):
        return Ignored.UNKNOWN_STAGE
    return CampaignProgress(plan, side=standing.side)


def _released(standing: CampaignProgress, entry: Released) -> CampaignProgress | Ignored:
    if reason := _out_of_turn(standing, entry):
        return reason
    plan, stage, noisy = standing.plan, standing.next_stage, entry.noisy
    assert plan is not None
    assert stage is not None
    if len(noisy) != stage.size:
        return Ignored.WRONG_LENGTH
    if entry.contributions < stage.least:
        return Ignored.TOO_FEW
    try:
        learned = learning.learn(plan, entry.stage, noisy)
    except ArithmeticError:
        return Ignored.NOT_LEARNED
    return CampaignProgress(plan, standing.released + 1, False, entry.contributions, learned)


def _out_of_turn(standing: CampaignProgress, entry: Released | Aborted) -> Ignored | None:
    if standing.plan is None or entry.plan != standing.plan.digest:
        return Ignored.OTHER_PLAN
    if standing.next_stage is None or entry.stage != standing.released:
        return Ignored.OTHER_STAGE
    return None

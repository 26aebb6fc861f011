"""One contribution: refused, or paid for, sealed and recorded in the journal before it is sent.

The record holds the debit and the sealed bytes (`stage_requests`), so that after any crash the same
bytes are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from producers.campaign import account_plan, terms
from producers.campaign.stage_requests import StageRequests
from producers.campaign.terms import Pinned
from producers.identities import Identities
from producers.journal import Journal, Message
from producers.ranking import RatedItem
from producers.ranking.in_scope import in_scope
from stream_app.campaigns import together
from stream_app.campaigns.rounds import Rounds
from stream_app.errors import UserError


@dataclass(frozen=True)
class Sending:
    """To which topic, in which epoch (from `Journal.epoch`), and who signs, where devices do."""

    topic: str
    epoch: int
    identities: Identities | None = None


def contribute(
    journal: Journal,
    device: bytes,
    rated: Sequence[RatedItem],
    rounds: Rounds,
    pinned: Pinned,
    sending: Sending,
) -> Message:
    """Pay for, seal and record the contribution of a device to the open stage.

    rated: what the device has kept, oldest first; without ratings it contributes zeros.

    Raises UserError where no stage is open, the plan is not what the device has pinned, the device
    has contributed to the stage, or the journal is a test; `BudgetExhausted`, and as
    `Journal.commit` does.
    """
    campaign, stage = terms.open_stage(rounds)
    terms.check(campaign, pinned)
    terms.check_notice(rounds, pinned)
    requests = StageRequests.of_stage(
        campaign, stage.index, secret=journal.key, topic=sending.topic, epoch=sending.epoch
    )
    requests.check(journal)
    if requests.contributed(journal, device):
        raise UserError(
            f"this device has contributed to stage {stage.index} of campaign {campaign.number}: "
            "the first contribution counts, and there is no second"
        )
    raw_vector = together.contribution(stage.stage, in_scope(campaign.scope, rated))
    account_plan.decide(journal, [device], requests.mechanism)
    return journal.release(requests.request(journal, device, raw_vector, sending.identities))[0]

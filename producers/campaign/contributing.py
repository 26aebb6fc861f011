"""One contribution: refused, or paid for, sealed and recorded in the journal before it is sent.

    key of the campaign   BLAKE2b-64 of plan and epoch: reported with the first stage, and debited
    key of a stage        BLAKE2b-64 of plan and stage: reported once, ever

The whole campaign is debited with the first contribution of an epoch (a day); further stages of
that epoch are parts of what was paid. In a later epoch it is debited again: the person's budget
holds in any window of days, and what a later stage releases must not leave it with an older debit.
The record holds the debit and the sealed bytes, so that after any crash the same bytes are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from producers.campaign import history, terms
from producers.campaign.mechanism import Sealing
from producers.campaign.terms import Pinned
from producers.journal import Journal, Message, Request
from producers.ranking import RatedItem
from stream_app.campaigns.rounds import Rounds
from stream_app.errors import UserError
from stream_app.wire.campaigns.contribution import encode_contribution

SCOPE = "campaign"
_PERSON = b"murmurec.join.1"


def contribute(
    journal: Journal,
    device: bytes,
    rated: Sequence[RatedItem],
    rounds: Rounds,
    pinned: Pinned,
    *,
    topic: str,
    epoch: int,
) -> Message:
    """Pay for, seal and record the contribution of a device to the open stage.

    rated: what the device has kept, maybe nothing, oldest first. epoch: from `Journal.epoch`.
    Raises UserError where no stage is open, the plan is not what the device has pinned, the device
    has contributed to the stage, or the journal is a test; `BudgetExhausted`, and as
    `Journal.commit` does.
    """
    if journal.unsafe:
        raise UserError(
            f"device journal {journal.path}: is a test, and a contribution cannot be marked as a "
            "test: it would count in the sum; give another journal (--journal)"
        )
    campaign, stage = terms.open_stage(rounds)
    terms.check(campaign, pinned)
    of_stage = _key(stage.plan, b"stage", stage.index)
    if journal.reports(device, np.array([of_stage], np.uint64), SCOPE)[0]:
        raise UserError(
            f"this device has contributed to stage {stage.index} of campaign {campaign.number}: "
            "the first contribution counts, and there is no second"
        )
    of_campaign = _key(stage.plan, b"epoch", epoch)
    paid = bool(journal.reports(device, np.array([of_campaign], np.uint64), SCOPE)[0])
    keys = {of_stage} if paid else {of_stage, of_campaign}
    request = Request(
        device=device,
        topic=topic,
        reported_keys=np.array(sorted(keys), np.uint64),
        mechanism=Sealing.of_stage(campaign, stage.index, device),
        raw_inputs=history.vector(campaign, stage.stage, rated),
        count=1,
        encode=lambda seq, part, released, test: encode_contribution(released),  # noqa: ARG005
        epoch=epoch,
        scope=SCOPE,
        paid_by=of_campaign if paid else None,
    )
    return journal.release(request)[0]


def _key(plan: bytes, kind: bytes, number: int) -> int:
    body = plan + kind + number.to_bytes(8, "little")
    return int.from_bytes(blake2b(body, digest_size=8, person=_PERSON).digest(), "little")

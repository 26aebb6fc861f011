"""What the journal is asked for in a stage: the debit of the campaign, and the sealed boxes.

    key of the campaign   BLAKE2b-64 of plan and epoch: reported with the first stage, and debited
    key of a stage        BLAKE2b-64 of plan and stage: reported once, ever

Both are keyed with the secret of the journal. The owner writes the plans, and 2^32 of them hold two
of one plain hash: the device would take the second one as paid.

The whole campaign is debited with the first contribution of an epoch (a day); further stages of
that epoch are parts of what was paid. In a later epoch it is debited again: the person's budget
holds in any window of days, and what a later stage releases must not leave it with an older debit.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.campaign.mechanism import Sealing
from producers.journal import Journal, Request
from stream_app.errors import UserError
from stream_app.wire.campaigns.contribution import encode_contribution
from stream_app.wire.campaigns.plan import Campaign

SCOPE = "campaign"
_PERSON = b"murmurec.join.1"
_Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class StageRequests:
    """The requests of one stage, the same for every device but for the vector.

    `keys` are the reported keys (1,) of a device that has paid in this epoch, `keys_and_debit` (2,)
    those of one that pays with this request, rising; `paid_by` is the key of the campaign.
    """

    mechanism: Sealing
    topic: str
    epoch: int
    keys: _Keys
    keys_and_debit: _Keys
    paid_by: _Keys

    @classmethod
    def of_stage(
        cls, campaign: Campaign, stage: int, *, secret: bytes, topic: str, epoch: int
    ) -> StageRequests:
        """Return the requests of a stage; `secret` is `Journal.key`. UserError for a campaign that
        no account can name."""
        plan = campaign.digest
        once, paid = _key(secret, plan, b"stage", stage), _key(secret, plan, b"epoch", epoch)
        return cls(
            Sealing.of_stage(campaign, stage),
            topic,
            epoch,
            np.array([once], np.uint64),
            np.array(sorted({once, paid}), np.uint64),
            np.array([paid], np.uint64),
        )

    def check(self, journal: Journal) -> None:
        """Raise UserError for a journal that is a test."""
        if journal.unsafe:
            raise UserError(
                f"device journal {journal.path}: is a test, and a contribution cannot be marked as "
                "a test: it would count in the sum; give another journal (--journal)"
            )

    def contributed(self, journal: Journal, device: bytes) -> bool:
        """Return whether a device has contributed to the stage."""
        return bool(journal.reports(device, self.keys, SCOPE)[0])

    def paid(self, journal: Journal, device: bytes) -> bool:
        """Return whether a device has paid for the campaign in this epoch."""
        return bool(journal.reports(device, self.paid_by, SCOPE)[0])

    def request(self, journal: Journal, device: bytes, raw_vector: NDArray[np.int32]) -> Request:
        """Return the request of a device that has not contributed yet."""
        paid = self.paid(journal, device)
        return Request(
            device=device,
            topic=self.topic,
            reported_keys=self.keys if paid else self.keys_and_debit,
            mechanism=self.mechanism,
            raw_inputs=(device, raw_vector),
            count=1,
            encode=_encoded,
            epoch=self.epoch,
            scope=SCOPE,
            paid_by=int(self.paid_by[0]) if paid else None,
        )


def _encoded(seq: int, part: slice, released: Any, test: bool) -> bytes:  # noqa: ARG001
    return encode_contribution(released)


def _key(secret: bytes, plan: bytes, kind: bytes, number: int) -> int:
    body = plan + kind + number.to_bytes(8, "little")
    made = blake2b(body, digest_size=8, key=secret, person=_PERSON)
    return int.from_bytes(made.digest(), "little")

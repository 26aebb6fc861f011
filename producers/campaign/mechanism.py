"""A campaign as the journal sees it: what it costs the person, and what is released in a stage.

The id is that of all its sums, `gaussian:BOUND:VARIANCE:SIZE[+...]`, so the account's exact
accounting composes the campaign with whatever else the person releases. A vector leaves the device
under the seals of the parties alone; the noise of the claim is theirs to add. With one party it is
that party which is trusted with it, with two it is enough that one of them is honest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.planning import certificate, check_budget
from stream_app.campaigns.sealing import seal
from stream_app.errors import UserError
from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_cost import CampaignCost
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import admitted
from stream_app.wire.campaigns.contribution import Contribution
from stream_app.wire.campaigns.plan import Campaign

_LONGEST_ID = 200  # characters: it may become the plan of an account


Inputs = tuple[bytes, NDArray[np.int32]]  # a device, 16 bytes, and its vector (size,)


@dataclass(frozen=True)
class Sealing(CampaignCost):
    """The release of one stage of a campaign, the same value for every device: it is certified
    once for all devices of a journal. The digest `plan` stands for the campaign where two are
    compared."""

    plan: bytes
    stage: int
    campaign: Campaign = field(compare=False, repr=False)

    @classmethod
    def of_stage(cls, campaign: Campaign, stage: int) -> Sealing:
        """Return the release; UserError for a campaign of more stages than an id can name."""
        id = naming.name(certificate(campaign.stages))
        if len(id) > _LONGEST_ID:
            raise UserError(
                f"campaign {campaign.number}: its {len(campaign.stages)} stages are more than an "
                "account can name; nothing was contributed"
            )
        return cls(id, campaign.digest, stage, campaign)

    def certify(self) -> tuple[Certificate, ...]:
        """Prove again that all stages are within what the plan states; ValueError if not."""
        check_budget(self.campaign)
        named = naming.name(certificate(self.campaign.stages)), self.campaign.digest
        if named != (self.id, self.plan):
            raise ValueError(f"campaign {self.campaign.number}: is not {self.id}")
        return ()

    def release(self, inputs: Inputs, source: RandomSource) -> Contribution:
        """Return the vector of a device sealed to the parties; `source` is a ticket for one
        report."""
        words = admitted(source, self, 1)
        device, vector = inputs
        return seal(self.campaign, self.stage, device, vector, words)

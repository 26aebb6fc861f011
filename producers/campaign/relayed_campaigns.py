"""Campaigns as a gateway behind a relay shows them, where no log of rounds is read.

    GET /campaign        plan, stage, phase, notice  ->  Rounds

The gateway's word is which stage is open, for how long its plan was public, and that every device
is shown the same plan. Keys, scope, noise, budget and pace are checked here as by Kafka (`terms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from producers.device.sealed_gateway import Reply, SealedGateway
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.errors import UserError
from stream_app.wire import WireError
from stream_app.wire.campaigns.plan import decode_plan
from stream_app.wire.campaigns.round_log import Planned, decode_round, encode_round

_PATH = "/campaign"


class _Shown(msgspec.Struct):
    plan: bytes
    stage: Annotated[int, msgspec.Meta(ge=0)] | None
    phase: str | None
    notice: float | None


@dataclass(frozen=True)
class RelayedCampaigns:
    """The newest campaign of a gateway, read again at each call; UserError where it cannot be."""

    gateway: SealedGateway

    def rounds(self) -> Rounds:
        """Return the state of the newest campaign; without one, that of an empty log."""
        found = self.gateway.asked("GET", _PATH)
        if found.status not in (200, 204):
            raise UserError(f"the gateway answers {found.status}: {Reply.from_answer(found).error}")
        try:
            return _rounds(found.content) if found.content else Rounds()
        except (ValueError, LookupError, RecursionError, WireError):
            raise UserError(
                f"what the gateway behind the relay {self.gateway.relay} shows at {_PATH} is no "
                "campaign that this release can read: nothing was contributed"
            ) from None


def _rounds(shown: bytes) -> Rounds:
    """Return the state of a log that holds one plan; raises for what no log can hold."""
    found = msgspec.json.decode(shown, type=_Shown)
    campaign = decode_plan(found.plan)
    rounds = Rounds(newest=campaign.number - 1)
    planned = decode_round(encode_round(Planned(campaign)))  # within the limits of the log
    rounds.apply(planned, 0.0)  # a plan that the log ignores has no stages
    rounds.opened_at = found.notice  # only the time between both is known
    for each in rounds.stages[: found.stage]:
        each.phase = Phase.RELEASED
    if found.stage is not None:
        rounds.stages[found.stage].phase = Phase(found.phase or "")
    return rounds

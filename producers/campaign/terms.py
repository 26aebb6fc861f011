"""What a device requires of a campaign before it spends anything.

    keys     those that the user has pinned, in the order of the parties: they alone read the boxes
    scope    exactly the items of the file whose SHA-256 is pinned in the journal, in its order
    notice   the plan was public for as long as the user wants before its first stage opened, by the
             times of the broker: whoever writes the log of rounds can surprise nobody
    signed   a plan that takes signed contributions alone where this device signs, and only there
    noise    every stage together within the (epsilon, delta) that the plan states; that epsilon,
             and the epsilon of the same noise at delta 1e-6, at most what the user allows
    stages   of kinds and sizes that this device knows

The plan is the owner's, who is not trusted: with other keys he reads the vectors, and with a scope
of his choice he aims at something: a stage is over the first items of it, so their order counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_app import wire
from stream_app.campaigns.planning import certificate, check_budget, check_stages
from stream_app.campaigns.rounds import Phase, Rounds, StageState
from stream_app.errors import UserError
from stream_app.privacy.parsing import shorten
from stream_app.wire.campaigns.plan import Campaign

MOST_EPSILON = Fraction(2)
DELTA = Fraction(1, 10**6)  # at which the epsilon that a user allows is meant


@dataclass(frozen=True, eq=False)
class Pinned:
    """Public keys of the parties in hex, the keys (n,) uint64 of the items of the scope in their
    order, and the largest epsilon that a plan may state, or cost at `DELTA`; `signs`: whether the
    device signs what it sends. `notice`: in seconds."""

    keys: tuple[str, ...]
    items: NDArray[np.uint64]
    most_epsilon: Fraction = MOST_EPSILON
    signs: bool = False
    notice: float = 0.0


def open_stage(rounds: Rounds) -> tuple[Campaign, StageState]:
    """Return the campaign and its open stage; UserError where none is open."""
    stage = rounds.current
    if rounds.campaign is None or stage is None:
        raise UserError("no campaign is under way, so there is nothing to contribute to")
    if stage.phase is not Phase.OPEN:
        raise UserError(
            f"stage {stage.index} of campaign {rounds.campaign.number} is {stage.phase}: a device "
            "contributes while it is open; run this again then"
        )
    return rounds.campaign, stage


def check(campaign: Campaign, pinned: Pinned) -> None:
    """Raise UserError for a campaign that the device takes no part in."""
    if not campaign.keys or campaign.keys != pinned.keys:
        raise UserError(
            f"campaign {campaign.number} names the keys {_names(campaign.keys)}, and this device "
            f"has pinned {_names(pinned.keys)}: the holder of a key of the plan reads what is "
            "sealed to it, so nothing was contributed; ask the parties for their public halves"
        )
    if campaign.is_signed and not pinned.signs:
        raise UserError(
            f"campaign {campaign.number} counts signed contributions alone, and this device signs "
            "none (devices = open): nothing was contributed; set devices = signed, as its server "
            "does"
        )
    if pinned.signs and not campaign.is_signed:
        raise UserError(
            f"campaign {campaign.number} counts contributions that no device has signed, so that "
            "others could send one in the name of this device: nothing was contributed; its owner "
            "plans it with devices = signed"
        )
    _check_scope(campaign, pinned.items)
    if campaign.epsilon > pinned.most_epsilon:
        raise UserError(
            f"campaign {campaign.number} states epsilon {float(campaign.epsilon):g}, and this "
            f"device allows {float(pinned.most_epsilon):g}: nothing was contributed; allow more "
            "with --most-epsilon"
        )
    try:
        check_stages(campaign)
        check_budget(campaign)
    except ValueError as error:
        raise UserError(f"{error}; nothing was contributed") from None
    _check_delta(campaign, pinned.most_epsilon)


def check_notice(rounds: Rounds, pinned: Pinned) -> None:
    """Raise UserError for an open campaign that was not public for long enough."""
    assert rounds.campaign is not None
    if not pinned.notice:
        return
    number, public = rounds.campaign.number, rounds.notice
    if public is None:
        raise UserError(
            f"campaign {number}: the log of rounds does not say when its plan was appended, so "
            "nothing was contributed; the topic needs message.timestamp.type LogAppendTime "
            "(murmurec topics apply) before the campaign begins"
        )
    if public < pinned.notice:
        raise UserError(
            f"campaign {number} was public for {math.floor(public):,} s before it opened, and this "
            f"device contributes to none below {math.ceil(pinned.notice):,} s "
            "(campaign_notice_seconds): nothing was contributed; its owner announces one earlier"
        )


def _check_delta(campaign: Campaign, allowed: Fraction) -> None:
    """Raise UserError for noise that costs more than `allowed` at `DELTA`: the owner chooses the
    delta of a plan, and beside one near 1 any noise states a small epsilon."""
    cost = certificate(campaign.stages)
    if cost.delta(allowed) <= DELTA:
        return
    raise UserError(
        f"campaign {campaign.number} states epsilon {float(campaign.epsilon):g} at delta "
        f"{float(campaign.delta):g}; at delta {float(DELTA):g} its noise costs "
        f"{float(cost.epsilon(DELTA)):.4g}, and this device allows {float(allowed):g}: nothing was "
        "contributed; allow more with --most-epsilon"
    )


def _check_scope(campaign: Campaign, items: NDArray[np.uint64]) -> None:
    """Raise UserError unless the plan's scope is the pinned one, item by item."""
    wanted = np.array([wire.key(item) for item in campaign.scope], np.uint64)
    if np.array_equal(wanted, items):
        return
    advice = "nothing was contributed; give the list that the campaign was announced with (--scope)"
    if not np.array_equal(np.sort(wanted), np.sort(items)):
        raise UserError(
            f"campaign {campaign.number} is over {len(wanted)} items, which are not those of the "
            f"pinned scope ({len(items)} items): {advice}"
        )
    place = int(np.flatnonzero(wanted != items)[0])
    raise UserError(
        f"campaign {campaign.number} has the items of the pinned scope in another order, from item "
        f"{place + 1} on ({shorten(campaign.scope[place])} in the plan), and a stage is over the "
        f"first items: {advice}"
    )


def _names(keys: tuple[str, ...]) -> str:
    return " and ".join(f"{key[:16]}..." for key in keys) or "of no party"

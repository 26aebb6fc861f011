"""What became of the contributions of one device, checked against public topics without any key.

    sent       the journal remembers each stage to which it sealed a contribution
    position   i among the stage's contributions in canonical order, read again: their digest is
               that which the parties published (`aggregation/collection.py`)
    counted    bit i of what the log of rounds decides (`campaigns/rounds.py`)

Where records are gone, or are not those that the parties name, the receipt says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

from consumers.audit.campaigns.checks import keyless
from consumers.audit.campaigns.stated import Stated
from stream_app.aggregation.collection import Drop, Record
from stream_app.aggregation.party import RecordsGone
from stream_app.aggregation.round_topics import ContributionTopic
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.rounds import Phase, StageState
from stream_app.wire.campaigns.contribution import decode_contribution
from stream_app.wire.ids import partition_of
from stream_app.wire.reasons import WireError

# sent: nothing is decided yet; unknown: of a plan that the log does not hold.
Outcome = Literal[
    "sent", "counted", "rejected", "aborted", "late", "absent", "unchecked", "unknown"
]


@dataclass(frozen=True)
class Receipt:
    """A contribution: number and digest of its plan, None and empty where the log holds none; what
    became of it; how many `records` of it the topic holds; what its plan costs in a day, and on how
    many days it was paid."""

    campaign: int | None
    plan: str
    stage: int | None
    outcome: Outcome
    reason: str
    records: int = 0
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    paid: int = 0


class Remembered(Protocol):
    """What a journal remembers of a device's campaigns."""

    def paid(self, plan: bytes, stage: int) -> int:
        """Return how often it paid for a plan to whose stage it contributed; 0: it did not."""

    def others(self, plans: Iterable[tuple[bytes, int]]) -> int:
        """Return how many entries belong to none of these plans, (digest, stages)."""


def receipts(
    found: Stated, topic: ContributionTopic, device: bytes, journal: Remembered
) -> Iterator[Receipt]:
    """Yield a receipt for each stage that the device contributed to, in the order of the log, and
    one for what is of no plan of the log."""
    newest = found.campaigns[-1][0] if found.campaigns else None
    for campaign, stage in found.stages:
        if not (paid := journal.paid(stage.plan, stage.index)):
            continue
        if campaign is not newest and stage.phase not in (Phase.RELEASED, Phase.ABORTED):
            outcome: tuple[Outcome, str, int] = "aborted", "another campaign took its place", 0
        else:
            outcome = _looked_up(campaign, stage, topic, device)
        place = campaign.number, stage.plan.hex(), stage.index
        yield Receipt(*place, *outcome, campaign.epsilon, campaign.delta, paid)
    if others := journal.others((each.digest, len(stages)) for each, stages in found.campaigns):
        reason = f"{others} contributions or payments are of plans that this log does not hold"
        yield Receipt(None, "", None, "unknown", reason)


def _looked_up(
    campaign: Campaign, stage: StageState, topic: ContributionTopic, device: bytes
) -> tuple[Outcome, str, int]:
    try:
        return _found(campaign, stage, topic, device)
    except RecordsGone:
        return "unchecked", "its records are kept no longer", 0


def _found(
    campaign: Campaign, stage: StageState, topic: ContributionTopic, device: bytes
) -> tuple[Outcome, str, int]:
    own = list(_own(campaign, stage, topic, device)) if stage.begins else []
    if not own:
        return "absent", "the topic holds no record of it since the stage was opened", 0
    if not stage.ends:
        return *_undecided(stage), len(own)
    if own[0].offset >= stage.ends[own[0].partition]:
        return "late", "its record came after the stage was closed", len(own)
    outcome, reason = _decided(campaign, stage, topic.read(stage), device)
    if len(own) > 1:
        same = len({each.value for each in own}) == 1
        what = "the same bytes" if same else "other bytes, so one of them is not this device's"
        reason += f"; sent {len(own)} times, {what}: the first counts"
    return outcome, reason, len(own)


def _own(
    campaign: Campaign, stage: StageState, topic: ContributionTopic, device: bytes
) -> Iterator[Record]:
    """Yield the records of the device for a stage, those after its end too."""
    key, until = device.hex().encode(), list(stage.begins)
    place = partition_of(key, len(until))
    if place >= len(ends := topic.ends):
        raise RecordsGone
    until[place] = max(until[place], ends[place])
    for record in topic.read(replace(stage, ends=tuple(until))):
        if record.key == key:
            try:
                made = decode_contribution(
                    key, record.value, record.partition, len(until), signed=campaign.is_signed
                )
            except WireError:
                continue
            if (made.plan, made.stage) == (stage.plan, stage.index):
                yield record


def _undecided(stage: StageState) -> tuple[Outcome, str]:
    if stage.aborted is not None:
        return "aborted", f"no sum: {stage.aborted}"
    return "sent", f"the stage is {stage.phase}"


def _decided(
    campaign: Campaign, stage: StageState, records: Iterable[Record], device: bytes
) -> tuple[Outcome, str]:
    """Return what was decided of a device that has a record in time."""
    again, dropped = keyless(campaign, stage), Counter[str]()
    for record in records:
        before = again.dropped.copy() if record.key == device.hex().encode() else None
        again.add(record)
        if before is not None:
            dropped += again.dropped - before
    collected = again.finished()
    if device not in collected.devices:
        others = {Drop.OTHER_PLAN, Drop.EARLY, Drop.LATE}  # its records of other stages
        return "rejected", ", ".join(sorted(set(dropped) - others))
    place = collected.devices.index(device)
    if any(each.records != collected.records for each in stage.opened.values()):
        return "unchecked", "the parties name other records than the topic holds"
    if stage.counted is None:
        return _undecided(stage)
    if not stage.opened_by_all[place]:
        beyond = " or beyond the bound" * (campaign.parties == 1)
        return "rejected", f"{Drop.UNOPENED}{beyond}, says a party"
    if not stage.counted[place]:
        return "rejected", "by the proof: the parties' messages do not agree"
    if stage.aborted is not None:
        return "aborted", f"it counted, and no sum was released: {stage.aborted}"
    total = f"{place + 1} of {len(collected.devices)}, {stage.contributions} count"
    return "counted", f"contribution {total}; the stage is {stage.phase}"

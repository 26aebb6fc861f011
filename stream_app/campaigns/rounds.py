"""The state of a campaign as a function of the log of rounds.

    planned -> open -> closed -> counted -> released        of a stage
                 any of these -> aborted                    which ends the campaign

`Rounds` applies entries in log order. Every reader (aggregators, devices, replicas, the owner of
the clock) applies the same ones, so all agree on which stage is open, which records it has and what
its result is. An entry that does not fit is counted by reason and changes nothing: a second share
of a party, an answer after an abort, or a plan whose number was used.

    counted   every party has named what it opened; with fewer than `least` contributions that all
              of them opened, or where they did not read the same records, the stage is aborted
    released  every party has published its share: result = sum of the shares modulo 2^32, read as
              signed integers
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from stream_app.wire.campaigns.plan import Campaign, Stage
from stream_app.wire.campaigns.round_log import (
    RECORDS_DIGEST_BYTES,
    Abort,
    AbortReason,
    Close,
    NoisyShare,
    Open,
    Opened,
    Planned,
    RoundEntry,
)

_PERSON = b"murmurec.set.1"
# Between the numbers of two campaigns, and of the first one: a date or a time in seconds fits, and
# a writer who wants to use up all numbers needs a thousand million plans.
LARGEST_STEP = 2**32


class Phase(StrEnum):
    """How far a stage is."""

    PLANNED = "planned"
    OPEN = "open"
    CLOSED = "closed"
    COUNTED = "counted"
    RELEASED = "released"
    ABORTED = "aborted"


class Ignored(StrEnum):
    """Why an entry changes nothing."""

    OLD_NUMBER = "old_number"  # of a campaign
    FAR_NUMBER = "far_number"  # above the newest by more than `LARGEST_STEP`
    OTHER_PLAN = "other_plan"
    OTHER_STAGE = "other_stage"
    OTHER_PHASE = "other_phase"
    OTHER_PARTY = "other_party"
    OTHER_OFFSETS = "other_offsets"
    OTHER_RECORDS = "other_records"
    WRONG_LENGTH = "wrong_length"
    TWICE = "twice"


@dataclass(eq=False)
class StageState:
    """What the log states of one stage; `records` and `counted` once it is counted, `result`
    (size,) int64 once it is released."""

    index: int
    plan: bytes
    stage: Stage
    phase: Phase = Phase.PLANNED
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    forgotten: frozenset[bytes] = frozenset()
    opened: dict[int, Opened] = field(default_factory=dict)
    shares: dict[int, NoisyShare] = field(default_factory=dict)
    records: bytes = b""
    contributions: int = 0
    result: NDArray[np.int64] | None = None
    aborted: AbortReason | None = None

    @property
    def opened_by_all(self) -> NDArray[np.bool_]:
        """Whether every party opened contribution i, (count,)."""
        bits = np.bitwise_and.reduce([_bytes(each.opened) for each in self.opened.values()])
        count = next(iter(self.opened.values())).count
        return np.unpackbits(bits, count=count, bitorder="little").astype(np.bool_)

    def abort(self, reason: AbortReason) -> None:
        """End the stage without a result."""
        self.phase, self.aborted = Phase.ABORTED, reason


def _bytes(value: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(value, np.uint8)


def set_digest(records: bytes, opened_by_all: NDArray[np.bool_]) -> bytes:
    """Return what identifies the contributions that count, and their contents."""
    bits = np.packbits(opened_by_all, bitorder="little").tobytes()
    return blake2b(records + bits, digest_size=RECORDS_DIGEST_BYTES, person=_PERSON).digest()


def signed_sum(shares: list[bytes]) -> NDArray[np.int64]:
    """Return the sum of shares of uint32 integers modulo 2^32 as signed integers (size,)."""
    total = np.zeros(len(shares[0]) // 4, np.uint32)
    for share in shares:
        total += np.frombuffer(share, "<u4")
    return total.view(np.int32).astype(np.int64)


@dataclass(eq=False)
class Rounds:
    """The newest campaign of the log and its stages; `newest` is its number, or that of the one
    before the first entry to apply; `ignored` counts entries without effect."""

    campaign: Campaign | None = None
    stages: list[StageState] = field(default_factory=list)
    ignored: Counter[Ignored] = field(default_factory=Counter)
    newest: int = 0

    @property
    def current(self) -> StageState | None:
        """The stage that the campaign is at: the first without a result. None where no campaign is
        under way: none was planned, all stages are released, or one is aborted."""
        unfinished = (each for each in self.stages if each.phase is not Phase.RELEASED)
        found = next(unfinished, None)
        return None if found is None or found.phase is Phase.ABORTED else found

    def apply(self, entry: RoundEntry) -> bool:
        """Apply the next entry of the log; return whether it had an effect."""
        reason = self._planned(entry) if isinstance(entry, Planned) else self._of_stage(entry)
        if reason is not None:
            self.ignored[reason] += 1
        return reason is None

    def _planned(self, entry: Planned) -> Ignored | None:
        campaign = entry.campaign
        if campaign.number <= self.newest:
            return Ignored.OLD_NUMBER
        if campaign.number > self.newest + LARGEST_STEP:
            return Ignored.FAR_NUMBER
        if len(campaign.keys) != campaign.parties:
            return Ignored.OTHER_PARTY
        digest = campaign.digest
        self.campaign, self.newest = campaign, campaign.number
        self.stages = [StageState(i, digest, each) for i, each in enumerate(campaign.stages)]
        return None

    def _of_stage(self, entry: Open | Close | Opened | NoisyShare | Abort) -> Ignored | None:
        if not self.stages or entry.plan != self.stages[0].plan:
            return Ignored.OTHER_PLAN
        stage = self.current
        if stage is None or entry.stage != stage.index:
            return Ignored.OTHER_STAGE
        match entry:
            case Open():
                return _open(stage, entry)
            case Close():
                return _close(stage, entry)
            case Opened():
                return self._opened(stage, entry)
            case NoisyShare():
                return self._shared(stage, entry)
        stage.abort(entry.reason)
        return None

    def _opened(self, stage: StageState, entry: Opened) -> Ignored | None:
        if stage.phase is not Phase.CLOSED:
            return Ignored.OTHER_PHASE
        if reason := self._not_due(stage.opened, entry.party):
            return reason
        stage.opened[entry.party] = entry
        if len(stage.opened) < self._parties:
            return None
        if len({(each.count, each.records) for each in stage.opened.values()}) > 1:
            stage.abort(AbortReason.DISAGREEMENT)
            return None
        counted = stage.opened_by_all
        stage.contributions = int(counted.sum())
        if stage.contributions < stage.stage.least:
            stage.abort(AbortReason.TOO_FEW)
        elif stage.contributions > stage.stage.most:
            stage.abort(AbortReason.TOO_MANY)
        else:
            stage.phase, stage.records = Phase.COUNTED, set_digest(entry.records, counted)
        return None

    def _shared(self, stage: StageState, entry: NoisyShare) -> Ignored | None:
        if stage.phase is not Phase.COUNTED:
            return Ignored.OTHER_PHASE
        if reason := self._not_due(stage.shares, entry.party):
            return reason
        if entry.records != stage.records:
            return Ignored.OTHER_RECORDS
        if len(entry.integers) != 4 * stage.stage.size:
            return Ignored.WRONG_LENGTH
        stage.shares[entry.party] = entry
        if len(stage.shares) == self._parties:
            stage.phase = Phase.RELEASED
            stage.result = signed_sum([each.integers for each in stage.shares.values()])
        return None

    @property
    def _parties(self) -> int:
        return 0 if self.campaign is None else self.campaign.parties

    def _not_due(self, answers: Mapping[int, object], party: int) -> Ignored | None:
        if party >= self._parties:
            return Ignored.OTHER_PARTY
        return Ignored.TWICE if party in answers else None


def _open(stage: StageState, entry: Open) -> Ignored | None:
    if stage.phase is not Phase.PLANNED:
        return Ignored.OTHER_PHASE
    stage.phase, stage.begins = Phase.OPEN, entry.begins
    return None


def _close(stage: StageState, entry: Close) -> Ignored | None:
    if stage.phase is not Phase.OPEN:
        return Ignored.OTHER_PHASE
    pairs = list(zip(stage.begins, entry.ends, strict=False))
    if len(entry.ends) != len(stage.begins) or any(end < begin for begin, end in pairs):
        return Ignored.OTHER_OFFSETS
    stage.phase, stage.ends = Phase.CLOSED, entry.ends
    stage.forgotten = frozenset(entry.forgotten)
    return None

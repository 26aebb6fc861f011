"""The state of a campaign as a function of the log of rounds.

    planned -> open -> closed -> opened -> counted -> released    of a stage, `opened` if of two
                        any of these -> aborted                   which ends the campaign

`Rounds` applies entries in log order. Every reader (aggregators, devices, replicas, the owner of
the clock) applies the same ones, so all agree on which stage is open, which records it has and what
its result is. An entry that does not fit is counted by reason and changes nothing: a second share
of a party, an answer after an abort, or a plan whose number was used.

    opened    both parties have named what they opened, of the same records
    counted   both have said what they find of the proofs: the contributions whose messages agree
              count (`verified/norm_proof.py`), of a trusted party those that it opened; with fewer
              than `least` the stage is aborted
    released  every party has published its share: result = sum of the shares, read as signed
              integers; no coordinate is above counted x bound + 6 sigma, or the stage is aborted
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.verified import field as residues
from stream_app.campaigns.verified.layout import MAX_BOUND
from stream_app.campaigns.verified.norm_proof import accepted
from stream_app.wire.campaigns.plan import Campaign, Stage
from stream_app.wire.campaigns.round_log import (
    CHECK_BYTES,
    RECORDS_DIGEST_BYTES,
    Abort,
    AbortReason,
    Checks,
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
MOST_DEVIATIONS = 6  # of the noise of a coordinate, above what contributions can add up to


class Phase(StrEnum):
    """How far a stage is."""

    PLANNED = "planned"
    OPEN = "open"
    CLOSED = "closed"
    OPENED = "opened"
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
    BEYOND_BOUND = "beyond_bound"  # of what two parties can check


@dataclass(eq=False)
class StageState:
    """What the log states of one stage; once it is counted `records`, and whether contribution i
    counts, `counted` (count,); `result` (size,) int64 once it is released."""

    index: int
    plan: bytes
    stage: Stage
    phase: Phase = Phase.PLANNED
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    forgotten: frozenset[bytes] = frozenset()
    opened: dict[int, Opened] = field(default_factory=dict)
    checks: dict[int, bytes] = field(default_factory=dict)
    counted: NDArray[np.bool_] | None = None
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

    @property
    def rejected(self) -> int:
        """Contributions that both parties opened, and whose proof does not hold."""
        return 0 if self.counted is None else int(self.opened_by_all.sum()) - self.contributions

    def owing(self, parties: int) -> list[int]:
        """Return the parties whose answer the stage waits for."""
        match self.phase:
            case Phase.CLOSED:
                given = set(self.opened)
            case Phase.OPENED:
                most = CHECK_BYTES * int(self.opened_by_all.sum())
                given = {party for party, each in self.checks.items() if len(each) == most}
            case Phase.COUNTED:
                given = set(self.shares)
            case _:
                return []
        return [party for party in range(parties) if party not in given]

    def abort(self, reason: AbortReason) -> None:
        """End the stage without a result."""
        self.phase, self.aborted = Phase.ABORTED, reason


def _bytes(value: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(value, np.uint8)


def set_digest(records: bytes, counted: NDArray[np.bool_]) -> bytes:
    """Return what identifies the contributions that count, and their contents."""
    bits = np.packbits(counted, bitorder="little").tobytes()
    return blake2b(records + bits, digest_size=RECORDS_DIGEST_BYTES, person=_PERSON).digest()


def is_share(integers: bytes, size: int, parties: int) -> bool:
    """Return whether bytes are a share (size,): words of one party, residues of two."""
    if parties == 1:
        return len(integers) == 4 * size
    return len(integers) == residues.ELEMENT_BYTES * size and residues.decode(integers) is not None


def signed_sum(shares: list[bytes]) -> NDArray[np.int64]:
    """Return the sum of shares as signed integers (size,): of one party uint32 integers, of two
    residues."""
    if len(shares) == 1:
        return np.frombuffer(shares[0], "<u4").view(np.int32).astype(np.int64)
    return residues.centered(residues.add(*map(residues.decoded, shares)))


@dataclass(eq=False)
class Rounds:
    """The newest campaign of the log and its stages; `newest` is its number, or that of the one
    before the first entry to apply; `ignored` counts entries without effect. `planned_at` and
    `opened_at`: when the broker appended its plan and the opening of its first stage, in seconds
    since 1970, None where the broker does not say."""

    campaign: Campaign | None = None
    stages: list[StageState] = field(default_factory=list)
    ignored: Counter[Ignored] = field(default_factory=Counter)
    newest: int = 0
    planned_at: float | None = None
    opened_at: float | None = None

    @property
    def current(self) -> StageState | None:
        """The stage that the campaign is at: the first without a result. None where no campaign is
        under way: none was planned, all stages are released, or one is aborted."""
        unfinished = (each for each in self.stages if each.phase is not Phase.RELEASED)
        found = next(unfinished, None)
        return None if found is None or found.phase is Phase.ABORTED else found

    @property
    def notice(self) -> float | None:
        """For how many seconds the plan was public before its first stage opened; None where that
        is not known."""
        if self.planned_at is None or self.opened_at is None:
            return None
        return self.opened_at - self.planned_at

    def apply(self, entry: RoundEntry, appended: float | None = None) -> bool:
        """Apply the next entry of the log, which the broker appended at a time, if it says so;
        return whether it had an effect."""
        reason = self._planned(entry) if isinstance(entry, Planned) else self._of_stage(entry)
        if reason is not None:
            self.ignored[reason] += 1
        elif isinstance(entry, Planned):
            self.planned_at, self.opened_at = appended, None
        elif isinstance(entry, Open) and entry.stage == 0:
            self.opened_at = appended
        return reason is None

    def _planned(self, entry: Planned) -> Ignored | None:
        campaign = entry.campaign
        if campaign.number <= self.newest:
            return Ignored.OLD_NUMBER
        if campaign.number > self.newest + LARGEST_STEP:
            return Ignored.FAR_NUMBER
        if len(campaign.keys) != campaign.parties:
            return Ignored.OTHER_PARTY
        if campaign.parties == 2 and max(each.bound for each in campaign.stages) > MAX_BOUND:
            return Ignored.BEYOND_BOUND
        digest = campaign.digest
        self.campaign, self.newest = campaign, campaign.number
        self.stages = [StageState(i, digest, each) for i, each in enumerate(campaign.stages)]
        return None

    def _of_stage(
        self, entry: Open | Close | Opened | Checks | NoisyShare | Abort
    ) -> Ignored | None:
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
            case Checks():
                return self._checked(stage, entry)
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
        opened = stage.opened_by_all
        if self._parties == 1 or not stage.stage.least <= opened.sum() <= stage.stage.most:
            _count(stage, opened)
        else:
            stage.phase = Phase.OPENED
        return None

    def _checked(self, stage: StageState, entry: Checks) -> Ignored | None:
        if stage.phase is not Phase.OPENED:
            return Ignored.OTHER_PHASE
        if entry.party >= self._parties:
            return Ignored.OTHER_PARTY
        given = stage.checks.get(entry.party, b"")
        if CHECK_BYTES * entry.start != len(given):
            return Ignored.TWICE
        opened = stage.opened_by_all
        if len(given) + len(entry.messages) > CHECK_BYTES * int(opened.sum()):
            return Ignored.WRONG_LENGTH
        stage.checks[entry.party] = given + entry.messages
        if not stage.owing(self._parties):
            opened[opened] = accepted(stage.checks[0], stage.checks[1])
            _count(stage, opened)
        return None

    def _shared(self, stage: StageState, entry: NoisyShare) -> Ignored | None:
        if stage.phase is not Phase.COUNTED:
            return Ignored.OTHER_PHASE
        if reason := self._not_due(stage.shares, entry.party):
            return reason
        if entry.records != stage.records:
            return Ignored.OTHER_RECORDS
        if not is_share(entry.integers, stage.stage.size, self._parties):
            return Ignored.WRONG_LENGTH
        stage.shares[entry.party] = entry
        if len(stage.shares) == self._parties:
            _release(stage)
        return None

    @property
    def _parties(self) -> int:
        return 0 if self.campaign is None else self.campaign.parties

    def _not_due(self, answers: Mapping[int, object], party: int) -> Ignored | None:
        if party >= self._parties:
            return Ignored.OTHER_PARTY
        return Ignored.TWICE if party in answers else None


def _count(stage: StageState, counted: NDArray[np.bool_]) -> None:
    stage.counted, stage.contributions = counted, int(counted.sum())
    if stage.contributions < stage.stage.least:
        stage.abort(AbortReason.TOO_FEW)
    elif stage.contributions > stage.stage.most:
        stage.abort(AbortReason.TOO_MANY)
    else:
        records = next(iter(stage.opened.values())).records
        stage.phase, stage.records = Phase.COUNTED, set_digest(records, counted)


def _release(stage: StageState) -> None:
    terms, result = stage.stage, signed_sum([each.integers for each in stage.shares.values()])
    noise = math.sqrt(len(stage.shares) * terms.variance)
    if np.abs(result).max() > stage.contributions * terms.bound + MOST_DEVIATIONS * noise:
        stage.abort(AbortReason.BEYOND_BOUND)
    else:
        stage.phase, stage.result = Phase.RELEASED, result


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

"""What an outsider can test of campaigns, claim by claim.

The records of a stage are read again in canonical order, so that the digest which the parties
published, and with it which devices count, is computed and not believed. Two claims are
statistical:

    sums     sum z^2 of a released sum is at least that of its noise alone, which is a chi-square
             with a factor (a sum that is not zero adds to it): so noise that is missing is seen
             where people contribute little
    shares   with two parties the share of each is uniform, whatever was contributed: bytes that are
             not were published without the masks of the devices
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from consumers.audit.campaigns.stated import Stated
from consumers.audit.findings import Finding, decided, statistical, untestable
from consumers.audit.observed import Contributed, Sample
from consumers.audit.tail_check import below_chi_square, divergence_tail, several
from stream_app.aggregation.collection import Collected, Collection, Drop, Record, collect
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.aggregation.party import RecordsGone
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import check_budget
from stream_app.campaigns.rounds import Phase, StageState
from stream_app.privacy.gaussian.certificate import NoisySum
from stream_app.wire import EPOCH_SECONDS

Read = Callable[[StageState], Iterable[Record]]
Progress = Callable[[int, int], None]
DEADLINE = "a stage closes at the deadline of its plan"


def campaign_findings(
    found: Stated,
    read: Read,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
    joined: Joined | None = None,
) -> Iterator[Finding]:
    """Yield the findings about a log; `read` gives a closed stage, `joined` takes who sent."""
    if not found.entries:
        yield untestable("campaigns are as their plans state", "no entry in the log of rounds")
        return
    yield decided(
        "every entry of the log of rounds can be read",
        sum(found.unreadable.values()),
        f"{found.entries:,} entries, {found.without_effect:,} without effect"
        + "".join(f"; {count:,} {name}" for name, count in sorted(found.unreadable.items())),
    )
    yield _budgets(found)
    yield from _shares(found)
    yield from _records(found, read, progress, Joined(Sample()) if joined is None else joined)
    yield from _noise(found)
    yield untestable(DEADLINE, "the cuts that it counts stand in another log")


def _budgets(found: Stated) -> Finding:
    beyond = []
    for campaign, _ in found.campaigns:
        try:
            check_budget(campaign)
        except ValueError as error:
            beyond.append(str(error))
    return decided(
        "the stages of a plan are within the epsilon that it states",
        len(beyond),
        f"{len(found.campaigns):,} plans" + (f"; {beyond[0]}" if beyond else ""),
    )


def _shares(found: Stated) -> Iterator[Finding]:
    more = [len(each) for each in found.shares.values() if len(each) > 1]
    yield decided(
        "a party publishes one noisy share of a stage",
        len(more),
        f"{len(found.shares):,} shares" + (f"; one of {max(more)} contents" if more else ""),
    )
    yield decided(
        "noisy shares have the size of their stage",
        found.wrong_sizes + found.unplanned,
        f"{found.wrong_sizes:,} of another size, {found.unplanned:,} of no plan before them",
    )


@dataclass
class Joined:
    """What the accounts of a sample contributed: the first record of each that is well-formed, of
    the plan and in time. What a box holds is not looked at: the account has paid for it."""

    sample: Sample
    found: list[Contributed] = field(default_factory=list)

    def take(self, stage: StageState, devices: Iterable[bytes], times: dict[bytes, int]) -> None:
        """Keep the contributions to a stage; `times`: of the first record of each key, in ms."""
        one = NoisySum(stage.stage.bound, Fraction(stage.stage.variance), stage.stage.size)
        for device in filter(self.sample.holds, devices):
            epoch = times[device.hex().encode()] // (1000 * EPOCH_SECONDS)
            self.found.append(Contributed(device, epoch, one))


@dataclass
class _Recounted:
    """What was computed again from the records."""

    stages: int = 0
    gone: int = 0
    other_digests: list[str] = field(default_factory=list)
    other_counts: list[str] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def take(self, stage: StageState, again: Collected) -> None:
        """Compare a stage with what the parties published about it."""
        self.stages += 1
        self.dropped.update(again.dropped)
        name = f"stage {stage.index} of plan {stage.plan.hex()[:8]}"
        for party, answer in sorted(stage.opened.items()):
            if answer.records != again.records:
                self.other_digests.append(f"{name}, party {party}")
            if answer.count != len(again.opened):
                self.other_counts.append(
                    f"{name}, party {party}: {answer.count:,} of {len(again.opened):,} devices"
                )


def _records(found: Stated, read: Read, progress: Progress, joined: Joined) -> Iterator[Finding]:
    recounted, closed = _Recounted(), [each for each in found.stages if each[1].ends]
    for done, (campaign, stage) in enumerate(closed, 1):
        try:
            recounted.take(stage, _again(campaign, stage, read, joined))
        except RecordsGone:
            recounted.gone += 1
        progress(done, len(closed))
    digests = "the records that count are those of the log"
    once = "a device counts once in a stage"
    sizes = "contributions of a stage have one size"
    if not recounted.stages:
        reason = f"of {len(closed):,} closed stages the records of none are kept"
        yield from (untestable(claim, reason) for claim in (digests, once, sizes))
        return
    read_again = f"{recounted.stages:,} stages read again"
    if recounted.gone:
        read_again += f", the records of {recounted.gone:,} are gone"
    dropped = recounted.dropped
    yield _compared(digests, recounted.other_digests, read_again)
    repeated = f"{read_again}, {dropped[Drop.TWICE]:,} further records of a device left out"
    yield _compared(once, recounted.other_counts, repeated)
    wrong = dropped[Drop.WRONG_LENGTH]
    yield decided(sizes, wrong, f"{read_again}, {wrong:,} records of another size")


def _compared(claim: str, differing: list[str], measured: str) -> Finding:
    first = f"; {differing[0]}" if differing else ""
    return decided(claim, len(differing), measured + first)


def keyless(campaign: Campaign, stage: StageState) -> Collection:
    """Return what reads a stage without any key: which records are contributions, their digest."""
    no_keys = PartyKeys(Role.CENTRAL, b"", b"", b"")
    return Collection(campaign, stage, 0, no_keys, np.zeros(0, np.bool_))


def _again(campaign: Campaign, stage: StageState, read: Read, joined: Joined) -> Collected:
    times: dict[bytes, int] = {}

    def timed() -> Iterator[Record]:
        for record in read(stage):
            times.setdefault(record.key or b"", record.time)
            yield record

    again = collect(keyless(campaign, stage), timed())
    joined.take(stage, again.devices, times)
    return again


def _noise(found: Stated) -> Iterator[Finding]:
    released = [each for each in found.stages if each[1].phase is Phase.RELEASED]
    sums, shares = "released sums have at least the noise of their plan", "a share is uniform"
    if not released:
        yield untestable(sums, "no stage was released")
        yield untestable(shares, "no stage was released")
        return
    tails, least = [], math.inf
    for campaign, stage in released:
        assert stage.result is not None
        squares = float(np.square(stage.result.astype(np.float64)).sum())
        ratio = squares / (campaign.parties * stage.stage.variance * stage.stage.size)
        tails.append(below_chi_square(ratio, stage.stage.size))
        least = min(least, ratio)
    yield statistical(
        sums,
        several(min(tails), len(tails)),
        f"{len(released):,} sums, the smallest with {least:.3f} of the squares of its noise",
    )
    split = [stage for campaign, stage in released if campaign.parties == 2]
    if not split:
        yield untestable(shares, "no stage was released by two parties")
        return
    tails = [_uniform(answer.integers) for stage in split for answer in stage.shares.values()]
    yield statistical(shares, several(min(tails), len(tails)), f"{len(tails):,} shares")


def _uniform(integers: bytes) -> float:
    """Return ln of a bound on the probability of such bytes, were they uniform."""
    counts = np.bincount(np.frombuffer(integers, np.uint8), minlength=256)
    seen = counts[counts > 0]
    divergence = float((seen * np.log(seen * 256 / counts.sum())).sum())
    return divergence_tail(divergence, 256)

"""What a log of rounds states, entry by entry: its campaigns, and every share that was published.

The state of a campaign is that of `stream_app.campaigns.rounds`, as every reader computes it. The
shares are kept beside it, those without effect too: what stands in the log was released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.rounds import Rounds, StageState, is_share
from stream_app.wire.campaigns.round_log import NoisyShare, Planned, RoundEntry, decode_round
from stream_app.wire.reasons import WireError

Place = tuple[bytes, int, int]
"""Digest of the plan, stage, party."""


@dataclass(eq=False)
class Stated:
    """What a log states: `shares` has a digest of each different share, by place."""

    entries: int = 0
    unreadable: Counter[str] = field(default_factory=Counter)
    campaigns: list[tuple[Campaign, list[StageState]]] = field(default_factory=list)
    shares: dict[Place, set[bytes]] = field(default_factory=dict)
    wrong_sizes: int = 0
    unplanned: int = 0
    _rounds: Rounds = field(default_factory=Rounds)
    _sizes: dict[tuple[bytes, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def stages(self) -> list[tuple[Campaign, StageState]]:
        """Every stage of every campaign."""
        return [(campaign, stage) for campaign, found in self.campaigns for stage in found]

    @property
    def without_effect(self) -> int:
        """Entries that changed nothing."""
        return sum(self._rounds.ignored.values())

    def take(self, entry: RoundEntry) -> None:
        """Take the next entry of the log."""
        applied = self._rounds.apply(entry)
        if isinstance(entry, Planned) and applied:
            self.campaigns.append((entry.campaign, self._rounds.stages))
            digest = entry.campaign.digest
            for index, stage in enumerate(entry.campaign.stages):
                self._sizes[digest, index] = stage.size, entry.campaign.parties
        if isinstance(entry, NoisyShare):
            self._share(entry)

    def _share(self, entry: NoisyShare) -> None:
        size = self._sizes.get((entry.plan, entry.stage))
        self.unplanned += size is None
        self.wrong_sizes += size is not None and not is_share(entry.integers, *size)
        place = entry.plan, entry.stage, entry.party
        digest = blake2b(entry.records + entry.integers, digest_size=16).digest()
        self.shares.setdefault(place, set()).add(digest)


def stated(log: Iterable[bytes | None]) -> Stated:
    """Return what the values of the records of a log of rounds state, in the order of the log."""
    found = Stated()
    for value in log:
        found.entries += 1
        try:
            found.take(decode_round(value))
        except WireError as error:
            found.unreadable[str(error.reason)] += 1
    return found

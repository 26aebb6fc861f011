"""A party of a campaign as a function of the log and its keys.

    open      open what has arrived, and say nothing of it
    closed    read the records, publish which contributions could be opened
    opened    of two: publish what is found of the proofs in those that both opened
    counted   sum the shares of those that count, add noise, publish the noisy share

`Party.answer` returns the entry that is due, or None. It holds nothing that the log does not give
back, so a party that was killed anywhere does the same again, to the byte: its noise is derived
from a secret of its own, the plan, the stage and the digest of the records that count. The one
thing kept beside the log is `releases`: a stage, once a share of it was made, is never published
for other records, even if the log should be rewritten.

A share without the other party's is uniform, so a stage in which one party is silent releases
nothing. The sum of both carries the noise of both, and each party's alone is all that the plan
states (`docs/privacy.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.aggregation.collection import Collected, Collection, Record, collect
from stream_app.aggregation.keys import PartyKeys
from stream_app.campaigns.rounds import Phase, Rounds, StageState
from stream_app.campaigns.verified import field as residues
from stream_app.privacy.gaussian.keyed_source import KeyedSource
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import (
    CHECK_BYTES,
    MOST_CHECKS,
    Abort,
    AbortReason,
    Checks,
    NoisyShare,
    Opened,
)

Answer = Opened | Checks | NoisyShare | Abort
Read = Callable[[StageState], Iterable[Record]]
"""Gives the records of a closed stage in canonical order; raises `RecordsGone` without them."""

_SHARE_DIGEST_BYTES = 32
MOST_PREPARED = 1 << 16  # contributions, whose results are kept in memory


class RecordsGone(Exception):
    """The topic does not hold all records of a stage any more."""


class Releases(Protocol):
    """What a party has released, kept beside its keys."""

    def keep(self, plan: bytes, stage: int, released: bytes) -> bool:
        """Keep what a stage is released as, durably; return False, and keep nothing, if it was
        released as something else before."""


@dataclass(eq=False)
class Party:
    """One party; `rounds` is the state of the log that it has read."""

    keys: PartyKeys
    releases: Releases
    rounds: Rounds = field(default_factory=Rounds)
    _collected: tuple[StageState, Collected] | None = field(default=None, init=False)
    _prepared: tuple[Collection, list[int]] | None = field(default=None, init=False)

    def answer(self, read: Read) -> Answer | None:
        """Return the entry that this party owes the log as it stands; None if it owes none.

        To be called with `rounds` at the end of the log: an earlier answer is in it.
        """
        campaign, stage = self.rounds.campaign, self.rounds.current
        party = None if campaign is None else self.keys.party(campaign)
        if campaign is None or stage is None or party is None:
            return None
        if party not in stage.owing(campaign.parties):
            return None
        due = {Phase.CLOSED: self._opened, Phase.OPENED: self._checks, Phase.COUNTED: self._share}
        try:
            return due[stage.phase](campaign, stage, party, read)
        except RecordsGone:
            return Abort(stage.plan, stage.index, AbortReason.RECORDS_GONE)

    @property
    def next_places(self) -> tuple[int, ...]:
        """The offset of each partition from which on nothing is prepared of the open stage; none
        where no stage is open, or enough is prepared."""
        campaign, stage = self.rounds.campaign, self.rounds.current
        party = None if campaign is None else self.keys.party(campaign)
        if campaign is None or stage is None or party is None or stage.phase is not Phase.OPEN:
            return ()
        if self._prepared is None or self._prepared[0].stage is not stage:
            made = Collection(campaign, stage, party, self.keys, ready={})
            self._prepared = made, list(stage.begins)
        collection, places = self._prepared
        return tuple(places) if len(collection.ready or ()) < MOST_PREPARED else ()

    def prepare(self, records: Iterable[Record]) -> None:
        """Open contributions of the stage that is open, from `next_places` on, in the order of each
        partition, so that closing it is cheap; those before, of a stage that was closed since they
        were read, are left out. What counts is decided by the log, afterwards."""
        if self.next_places and self._prepared is not None:
            collection, places = self._prepared
            for record in records:
                if record.offset >= places[record.partition]:
                    collection.add(record)
                    places[record.partition] = record.offset + 1

    @property
    def collected(self) -> Collected | None:
        """What was last read."""
        return None if self._collected is None else self._collected[1]

    def _opened(self, campaign: Campaign, stage: StageState, party: int, read: Read) -> Opened:
        found = self._read(campaign, stage, party, read)
        bits = np.packbits(found.opened, bitorder="little").tobytes()
        return Opened(stage.plan, stage.index, party, len(found.opened), found.records, bits)

    def _checks(self, campaign: Campaign, stage: StageState, party: int, read: Read) -> Answer:
        kept = self._collected
        found = kept[1] if kept and kept[0] is stage else self._read(campaign, stage, party, read)
        opened, own = stage.opened_by_all, stage.opened[party]
        if found.records != own.records or not found.opened[opened].all():
            return Abort(stage.plan, stage.index, AbortReason.OTHER_RECORDS)
        start = len(stage.checks.get(party, b"")) // CHECK_BYTES
        messages = found.checks[opened][start : start + MOST_CHECKS].tobytes()
        return Checks(stage.plan, stage.index, party, start, messages)

    def _read(self, campaign: Campaign, stage: StageState, party: int, read: Read) -> Collected:
        ready = self._prepared[0] if self._prepared and self._prepared[0].stage is stage else None
        collection = Collection(campaign, stage, party, self.keys, prepared=ready)
        found = collect(collection, read(stage))
        if not collection.holds_prepared:  # a forgotten device, one too many, or one too late
            found = collect(Collection(campaign, stage, party, self.keys), read(stage))
        self._collected, self._prepared = (stage, found), None
        return found

    def _share(self, campaign: Campaign, stage: StageState, party: int, read: Read) -> Answer:
        counted = stage.counted
        assert counted is not None
        found = self._sum_of(campaign, stage, party, read, counted)
        if found.records != stage.opened[party].records or not np.array_equal(
            found.opened, counted
        ):
            return Abort(stage.plan, stage.index, AbortReason.OTHER_RECORDS)
        integers = self._with_noise(stage, found.total)
        released = blake2b(stage.records + integers, digest_size=_SHARE_DIGEST_BYTES).digest()
        if not self.releases.keep(stage.plan, stage.index, released):
            return Abort(stage.plan, stage.index, AbortReason.OTHER_RECORDS)
        return NoisyShare(stage.plan, stage.index, party, stage.records, integers)

    def _sum_of(
        self,
        campaign: Campaign,
        stage: StageState,
        party: int,
        read: Read,
        counted: NDArray[np.bool_],
    ) -> Collected:
        """Return the sum over the contributions that count: the one at hand where this party opened
        no other, else that of a second reading."""
        if self._collected is not None:
            read_stage, found = self._collected
            if read_stage is stage and np.array_equal(found.opened, counted):
                return found
        found = collect(Collection(campaign, stage, party, self.keys, counted), read(stage))
        self._collected = stage, found
        return found

    def _with_noise(self, stage: StageState, total: NDArray[np.unsignedinteger]) -> bytes:
        key = self.keys.noise_key(stage.plan, stage.index, stage.records)
        terms = stage.stage
        noise = discrete_gaussian(Fraction(terms.variance), terms.size, KeyedSource(key))
        if total.dtype == np.uint32:
            return (total + noise.astype(np.uint32)).astype("<u4").tobytes()
        return residues.encode(residues.add(total, residues.residues(noise)))

"""One campaign, with one person or without, through the code that devices and parties run.

The attacker owns all that can be owned: the log of rounds, the topic of contributions, every other
device, and in split mode one of the two parties. In each stage

    replay   every record is written twice
    fork     after the release the stage is closed again, for other records, under another log: a
             party that answers has drawn a second noise for the same person

and what was released is reduced by all that is known: the vectors of the others, and the noise of
the curious party. What remains is the person's vector, or zeros, and honest noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_app.aggregation.collection import Record
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.aggregation.party import Party, Releases
from stream_app.campaigns import sealing, together
from stream_app.campaigns.plan import Campaign, Stage
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.rounds import Phase, Rounds, StageState
from stream_app.errors import UserError
from stream_app.privacy.gaussian.keyed_source import KeyedSource
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import RandomSource
from stream_app.wire.campaigns.contribution import encode_contribution
from stream_app.wire.campaigns.round_log import Close, Open, Planned, RoundEntry

Integers = NDArray[np.int64]
Device = Callable[[Stage, RatedItems], NDArray[np.int32]]
MakeParty = Callable[[PartyKeys, Releases], Party]
MakeKeys = Callable[[Role, bytes, bytes, bytes], PartyKeys]


@dataclass(frozen=True)
class Code:
    """What is audited: the devices' function and the parties; tests plant faults in copies."""

    device: Device = together.contribution
    party: MakeParty = Party
    keys: MakeKeys = PartyKeys


@dataclass
class KeptReleases:
    """What a party has released, in memory."""

    kept: dict[tuple[bytes, int], bytes] = field(default_factory=dict)

    def keep(self, plan: bytes, stage: int, released: bytes) -> bool:
        """Keep what a stage is released as; return False if it was something else before."""
        return self.kept.setdefault((plan, stage), released) == released


@dataclass(frozen=True, eq=False)
class Seen:
    """What the attacker has of one stage.

    vector (n,): what the person sends, or would send. released: what is left of each sum that was
    published, (n,) each: the first, and one more for every second noise that a party drew.
    """

    vector: NDArray[np.int32]
    released: tuple[Integers, ...]


@dataclass(eq=False)
class Run:
    """One campaign; `curious` is the place of the party that the attacker is, or None.

    own: the ratings of everybody, the person's last. `present`: whether the person has them, or
    none.
    """

    code: Code
    campaign: Campaign
    keys: Sequence[PartyKeys]
    own: Sequence[RatedItems]
    present: bool
    curious: int | None
    source: RandomSource

    def __post_init__(self) -> None:
        self._rounds = Rounds()
        self._log: list[RoundEntry] = []
        self._topic: dict[int, Record] = {}
        self._end = 0
        self._releases = [KeptReleases() for _ in self.keys]
        self._parties = [
            self.code.party(keys, kept)
            for keys, kept in zip(self.keys, self._releases, strict=True)
        ]
        self._write(Planned(self.campaign))

    def stage(self, index: int) -> Seen:
        """Run the next stage and return what the attacker has of it.

        Raises UserError where it ends without a result.
        """
        plan = self.campaign.digest
        self._write(Open(plan, index, (self._end,)))
        terms = self.campaign.stages[index]
        vectors = [self.code.device(terms, rated) for rated in self.own]
        sent = vectors[:]
        if not self.present:
            sent[-1] = self.code.device(terms, RatedItems.none())
        for number, vector in enumerate(sent):
            self._contribute(index, number, vector)
        before = len(self._log)
        self._write(Close(plan, index, (self._end,)))
        stage = self._settled(self._rounds, self._parties, index)
        if stage.result is None:
            raise UserError(f"stage {index} ended without a result ({stage.aborted})")
        others = np.array(vectors[:-1], np.int64).sum(axis=0)
        seen = [self._left(stage, others)]
        seen += self._second(index, before, others - vectors[0])
        self._topic.clear()
        return Seen(vectors[-1], tuple(seen))

    def noise(self, index: int, party: int) -> Integers:
        """Return the noise that a party should have added to a released stage, (n,)."""
        return self._noise(self._rounds.stages[index], party)

    def _contribute(self, index: int, number: int, vector: NDArray[np.int32]) -> None:
        device = number.to_bytes(16, "big")
        made = sealing.seal(self.campaign, index, device, vector, self.source)
        value = encode_contribution(made)
        for _ in range(2):
            self._topic[self._end] = Record(0, self._end, made.key, value)
            self._end += 1

    def _second(self, index: int, before: int, others: Integers) -> Iterator[Integers]:
        """Yield what is left of a second sum of the stage, without the first device's vector."""
        rounds = Rounds()
        for entry in self._log[:before]:
            rounds.apply(entry)
        forgotten = ((0).to_bytes(16, "big"),)
        rounds.apply(Close(self.campaign.digest, index, (self._end,), forgotten))
        parties = [
            self.code.party(keys, KeptReleases() if place == self.curious else kept)
            for place, (keys, kept) in enumerate(zip(self.keys, self._releases, strict=True))
        ]
        stage = self._settled(rounds, parties, index)
        if stage.result is not None:
            yield self._left(stage, others)

    def _left(self, stage: StageState, others: Integers) -> Integers:
        assert stage.result is not None
        left = stage.result - others
        return left if self.curious is None else left - self._noise(stage, self.curious)

    def _noise(self, stage: StageState, party: int) -> Integers:
        key = self.keys[party].noise_key(stage.plan, stage.index, stage.records)
        terms = stage.stage
        return discrete_gaussian(Fraction(terms.variance), terms.size, KeyedSource(key))

    def _write(self, entry: RoundEntry) -> None:
        self._log.append(entry)
        self._rounds.apply(entry)

    def _settled(self, rounds: Rounds, parties: Sequence[Party], index: int) -> StageState:
        """Let the parties answer until the stage has a result or ended without one."""
        stage = rounds.stages[index]
        while stage.phase not in (Phase.RELEASED, Phase.ABORTED):
            for party in parties:
                party.rounds = rounds
                answer = party.answer(self._read)
                if answer is not None:
                    rounds.apply(answer)
                    if rounds is self._rounds:
                        self._log.append(answer)
        return stage

    def _read(self, stage: StageState) -> Iterator[Record]:
        (begin,), (end,) = stage.begins, stage.ends
        yield from (self._topic[offset] for offset in range(begin, end))

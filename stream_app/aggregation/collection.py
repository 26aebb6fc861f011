"""The contributions of a closed stage, read by one party in canonical order.

    canonical order   partition by partition, offset by offset, from `begins` to `ends`
    contribution i    the i-th record that is well-formed, for this plan and stage, signed where
                      the plan says so, with boxes of the plan's sizes, and the first of a device
                      that is not forgotten
    records           a digest over partition, offset, device and contents of all of them

Which records are contributions depends on the log alone, so two parties agree on `records`. Which
boxes open depends on the party's key. One of two parties says something of the proof in each box
that it opens. With `counted` only those contributions are opened and summed. All other records are
counted by reason and are no part of anything.

What a box holds follows from its bytes, so it may be opened before the stage is closed: a
collection of the records so far is then `prepared` for the one that decides what counts.

One contribution more than the stage's `most` is taken, so that the stage ends as having too many;
those after it are counted and not opened, whatever number of pseudonyms a sender makes up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.aggregation.keys import PartyKeys
from stream_app.campaigns.rounds import StageState
from stream_app.campaigns.sealing import box_bytes, check_box, open_box, within
from stream_app.campaigns.verified import field as residues
from stream_app.wire.campaigns.contribution import Contribution, decode_contribution
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import CHECK_BYTES, RECORDS_DIGEST_BYTES
from stream_app.wire.limits import MAX_CONTRIBUTIONS
from stream_app.wire.reasons import WireError

_PERSON = b"murmurec.recs.1"
_CONTENTS_BYTES = 8


class Drop(StrEnum):
    """Why a record that could be decoded does not count; others have a `Reason` of the wire."""

    OTHER_PLAN = "other_plan"
    LATE = "late"
    EARLY = "early"
    WRONG_LENGTH = "wrong_length"
    FORGOTTEN = "forgotten"
    TWICE = "twice"  # the same bytes: a device that sent again
    TWICE_OTHER = "twice_other"  # other bytes: one of the two was not sent by the device
    TOO_MANY = "too_many"
    UNOPENED = "unopened"  # sealed to another key, or damaged
    BEYOND_BOUND = "beyond_bound"  # seen by a trusted aggregator only


@dataclass(frozen=True)
class Record:
    """One record of the topic of contributions; `time` in milliseconds since 1970."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    time: int = 0


@dataclass(frozen=True, eq=False)
class Collected:
    """What a party read of a stage: the device of contribution i, whether it was opened, (count,),
    and the sum of its shares of those, (size,) uint32, or residues of two parties; `checks` (count,
    CHECK_BYTES): what one of two says of each, 0 where it opened none; `dropped` by reason."""

    records: bytes
    devices: tuple[bytes, ...]
    opened: NDArray[np.bool_]
    total: NDArray[np.unsignedinteger]
    checks: NDArray[np.uint8]
    dropped: Counter[str]


class Ready(NamedTuple):
    """What opening a party's box of these contents gave: why it does not count, or what the party
    says of the proof, empty for a party alone."""

    contents: bytes
    refused: Drop | None
    message: bytes


@dataclass(eq=False)
class Collection:
    """Takes the records of a stage one by one; `counted` limits what is opened and summed.

    prepared: a collection of the same stage, party and keys, of which nothing is opened again.
    ready: what is opened, by device, where a later collection is to use this one.
    """

    campaign: Campaign
    stage: StageState
    party: int
    keys: PartyKeys
    counted: NDArray[np.bool_] | None = None
    prepared: Collection | None = None
    ready: dict[bytes, Ready] | None = None
    dropped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        kind = np.uint32 if self.campaign.parties == 1 else np.uint64
        self._total: NDArray[np.unsignedinteger] = np.zeros(self.stage.stage.size, kind)
        self._opened, self._checks = bytearray(), bytearray()
        self._devices: dict[bytes, bytes] = {}  # what identifies the contents of the first
        self._taken_over = 0  # opened contributions of `prepared`
        self._records = blake2b(digest_size=RECORDS_DIGEST_BYTES, person=_PERSON)
        self._most = min(self.stage.stage.most + 1, MAX_CONTRIBUTIONS)
        parties = range(self.campaign.parties)
        self._sizes = [box_bytes(self.campaign, self.stage.index, each) for each in parties]

    def add(self, record: Record) -> None:
        """Take the next record in canonical order."""
        try:
            found = decode_contribution(
                record.key,
                record.value,
                record.partition,
                len(self.stage.begins),
                signed=self.campaign.is_signed,
            )
        except WireError as error:
            self.dropped[error.reason] += 1
            return
        contents = blake2b(record.value or b"", digest_size=RECORDS_DIGEST_BYTES).digest()
        if reason := self._refusal(found):
            again = self._devices.get(found.device, b"") == contents[:_CONTENTS_BYTES]
            other = reason is Drop.TWICE and not again
            self.dropped[Drop.TWICE_OTHER if other else reason] += 1
            return
        self._devices[found.device] = contents[:_CONTENTS_BYTES]
        place = record.partition.to_bytes(4, "little") + record.offset.to_bytes(8, "little")
        self._records.update(place + found.device + contents)
        self._opened.append(self._take(found, contents))
        self._checks += bytes(CHECK_BYTES * len(self._opened) - len(self._checks))

    @property
    def holds_prepared(self) -> bool:
        """Whether every contribution that `prepared` has opened is one of this collection, so that
        the sum is that of what counts."""
        return self.prepared is None or self._taken_over == sum(self.prepared._opened)

    def finished(self) -> Collected:
        """Return what was read."""
        opened = np.frombuffer(bytes(self._opened), np.uint8).astype(np.bool_)
        devices = tuple(self._devices)
        checks = np.frombuffer(bytes(self._checks), np.uint8).reshape(-1, CHECK_BYTES)
        if self.prepared is not None:
            self._add(self.prepared._total)
        return Collected(self._records.digest(), devices, opened, self._total, checks, self.dropped)

    def _refusal(self, found: Contribution) -> Drop | None:
        if found.plan != self.stage.plan:
            return Drop.OTHER_PLAN
        if found.stage != self.stage.index:
            return Drop.LATE if found.stage < self.stage.index else Drop.EARLY
        if [len(box) for box in found.boxes] != self._sizes:
            return Drop.WRONG_LENGTH
        if found.device in self.stage.forgotten:
            return Drop.FORGOTTEN
        if found.device in self._devices:
            return Drop.TWICE
        return Drop.TOO_MANY if len(self._devices) >= self._most else None

    def _take(self, found: Contribution, contents: bytes) -> bool:
        """Add the party's share to the total; return whether its box could be opened."""
        place = len(self._opened)
        if self.counted is not None and not (place < len(self.counted) and self.counted[place]):
            return False
        made = self._prepared(found.device, contents) or self._open(found, contents)
        if self.ready is not None:
            self.ready[found.device] = made
        if made.refused is not None:
            self.dropped[made.refused] += 1
            return False
        self._checks += made.message
        return True

    def _prepared(self, device: bytes, contents: bytes) -> Ready | None:
        made = self.prepared and self.prepared.ready and self.prepared.ready.get(device)
        if not made or made.contents != contents:
            return None
        self._taken_over += made.refused is None
        return made

    def _open(self, found: Contribution, contents: bytes) -> Ready:
        share, message = self._share(found)
        if share is None:
            return Ready(contents, Drop.UNOPENED, b"")
        if self.campaign.parties == 1 and not within(
            share.astype(np.uint32).view(np.int32), self.stage.stage.bound
        ):
            return Ready(contents, Drop.BEYOND_BOUND, b"")
        self._add(share)
        return Ready(contents, None, message)

    def _add(self, share: NDArray[np.unsignedinteger]) -> None:
        if self.campaign.parties == 1:
            self._total += share
        else:
            self._total = residues.add(self._total, share)

    def _share(self, found: Contribution) -> tuple[NDArray[np.unsignedinteger] | None, bytes]:
        """Return the party's share, and what it says of the proof."""
        keys = self.keys.public, self.keys.secret
        if self.campaign.parties == 1 or self.counted is not None:
            return open_box(self.campaign, found, self.party, *keys), b""
        checked = check_box(self.campaign, found, self.party, *keys)
        return (None, b"") if checked is None else (checked.share, checked.message)


def collect(collection: Collection, records: Iterable[Record]) -> Collected:
    """Return what a party reads of a stage's records, given in canonical order."""
    for record in records:
        collection.add(record)
    return collection.finished()

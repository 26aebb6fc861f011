"""Rounds: from deliveries in any interleaving to the one canonical order.

    cut log        1          2     F    3            round r: between cut r-1 and cut r
    partition 0  ..|..........|....|..............
    partition 1  ....|....|..........|............    canonical order: round by round,
    partition 2  .|.............|......|..........    in a round partition by partition, by offset

A broker may deliver the partitions and the cut log in any interleaving, may deliver a record again
after a reconnect, and may hold cuts of a late, frozen or second clock. `Rounds` turns every such
delivery into the same sequence of steps; the rules of `Chain` decide which cuts count. A forget (F)
takes effect at the beginning of the round that the next counting cut ends, so the state at a cut is
the same for every reader at any time; so does a version of the event format, a design, and an entry
of a campaign. A digest report changes no state and is returned after the round before it. The idea
comes from deterministic databases (Calvin, Thomson et al. 2012) and the offset log of Spark
Structured Streaming.

Offsets may have holes (transaction markers): after `reached`, every record below a position either
was delivered or does not exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.log.cut_chain import Chain, Truncations
from stream_app.log.exchange_order import Exchange, Merged
from stream_app.log.partition_buffer import PartitionBuffer
from stream_app.wire import (
    Contract,
    Cut,
    DigestReport,
    Entry,
    Forget,
    Merge,
    RecordRun,
    Tail,
    Truncate,
)
from stream_app.wire.exchange import Change
from stream_app.wire.state_records import Manifest


class OrderError(Exception):
    """The broker violated the order of a partition, or this is not the log of the state's origin;
    the state cannot continue."""


class TailDiffers(OrderError):
    """The records of a round are not those that the writer of its cut received: the log lost its
    end and was filled again."""


@dataclass(frozen=True)
class Start:
    """The start position in the log: after cut `cut`, whose round ends at `end_offsets`.

    `cut_offset` is the offset in the cut log after that cut's record. 0 means unknown: the cut log
    is read from its beginning and the entries before the cut are skipped. `contract` is the version
    of the event format in force after the cut, as far as known.
    """

    cut: int
    end_offsets: tuple[int, ...]
    cut_offset: int = 0
    contract: int = 1
    tails: tuple[Tail | None, ...] = ()
    merged: Merged | None = None
    """What the state has merged; None: nothing, or there is one shard."""

    def __post_init__(self) -> None:
        if self.cut < 0 or self.cut_offset < 0 or any(end < 0 for end in self.end_offsets):
            raise ValueError(f"{self}: a cut, its ends and its offset are at least 0")

    @classmethod
    def after(cls, manifest: Manifest) -> Start:
        """Return the position after the cut of a checkpoint."""
        m = manifest
        return cls(m.cut, m.end_offsets, m.cut_offset, m.contract, m.tails)


@dataclass(frozen=True, eq=False)
class LogStep:
    """The next piece of the canonical order: a run of records, the cut that ends their round, or
    another entry, which takes effect before the next run, with the changes of a merge; `cut_offset`
    is the offset after it.
    `tails` of a cut: the last record of each partition, then that of the cut itself
    (`wire.authenticity.tails`)."""

    run: RecordRun | None = None
    cut: Cut | None = None
    cut_offset: int = 0
    tails: tuple[Tail | None, ...] = ()
    entry: Entry | None = None
    changes: tuple[Change, ...] = ()


class Rounds:
    """Collects deliveries and returns the canonical order after `start`."""

    def __init__(
        self,
        partitions: int,
        start: Start | None = None,
        truncations: Truncations = Truncations(),  # noqa: B008 - a frozen value
        shards: int = 1,
    ) -> None:
        nothing = (0,) * partitions
        self.start = start or Start(0, nothing)
        if len(self.start.end_offsets) != partitions:
            raise ValueError(f"{self.start}: the log has {partitions} partitions")
        self.number = self.start.cut
        self.end_offsets = self.start.end_offsets
        self.received: list[int] = list(self.end_offsets)
        self.contract = self.start.contract
        self.truncated = False
        self._chain = Chain(0, nothing, truncations)
        if self.start.cut_offset:
            self._chain = Chain(self.number, self.end_offsets, truncations)
        self._next_offset = self.start.cut_offset
        self.exchange: Exchange | None = None
        if shards > 1:
            self.exchange = Exchange(self.start.merged or Merged.nothing(shards))
        self.newest_merge = self.exchange.merged.ends if self.exchange else ()
        self.awaited: tuple[int, ...] = ()  # the ends of a merge that waits for the exchange
        self._entries: deque[tuple[int, Entry]] = deque()
        self._cut_tails: deque[Tail | None] = deque()
        self._cuts = 0
        tails = self.start.tails[:partitions] or (None,) * partitions
        self._buffers = [PartitionBuffer(tail) for tail in tails]
        self._partition = 0

    @property
    def next_offset(self) -> int:
        """The offset in the cut log after the last entry taken."""
        return self._next_offset

    @property
    def newest_cut(self) -> tuple[int, tuple[int, ...]]:
        """Number and ends of the newest cut that counts, applied or not."""
        return self._chain.number, self._chain.end_offsets

    def learn(self, truncations: Truncations) -> None:
        """Note the truncations that a scan of the cut log found, before the first entry."""
        self._chain.truncations = truncations

    def first_beyond(self, log_ends: Sequence[int]) -> tuple[int, Cut, int] | None:
        """Return the first cut that was read, is not applied, and names an offset beyond these
        ends: the number of the cut before it, the cut, and the partition."""
        before = self.number
        for _, entry in self._entries:
            if isinstance(entry, Cut):
                for partition, (end, at) in enumerate(
                    zip(entry.end_offsets, log_ends, strict=True)
                ):
                    if end > at:
                        return before, entry, partition
                before = entry.number
        return None

    @property
    def last_used(self) -> tuple[int, tuple[int, ...]]:
        """The number before that of the next cut, and the ends that the next cut continues."""
        return self._chain.last_used, self._chain.end_offsets

    @property
    def newest_contract(self) -> int:
        """The newest version of the event format that was read, in force or not."""
        return max(self.start.contract, self._chain.contract)

    def supersedes(self, cut: int) -> bool:
        """Return whether a truncation superseded a cut."""
        return self._chain.truncations.supersede(cut)

    @property
    def designed(self) -> bool:
        """Whether the entry of a design was read."""
        return self._chain.designed

    @property
    def found_start(self) -> bool:
        """Whether the cut log was read up to the cut after which it is taken up."""
        return self._chain.number >= self.start.cut

    @property
    def entry_waits(self) -> bool:
        """Whether a forget, a design or an entry of a campaign was read, and no cut that counts
        since."""
        return self._chain.entry_waits and self._chain.number >= self.start.cut

    def buffered(self, partition: int) -> int:
        """Return how many delivered records of a partition wait for their round."""
        return len(self._buffers[partition])

    def buffered_bytes(self, partition: int) -> int:
        """Return the bytes of the values that wait for their round in a partition."""
        return self._buffers[partition].size

    def forgets_ahead(self, at_cut: int | None = None) -> list[Forget]:
        """Return what was read and is to be forgotten before the newest cut, or before `at_cut`."""
        found: list[Forget] = []
        waiting: list[Forget] = []
        for _, entry in self._entries:
            if isinstance(entry, Forget):
                waiting.append(entry)
            elif isinstance(entry, Cut) and (at_cut is None or entry.number <= at_cut):
                found, waiting = found + waiting, []
        return found

    def take(self, entry: Entry, offset: int | None = None, tail: Tail | None = None) -> bool:
        """Take an entry of the cut log, the next one without an offset; `tail` is that of the
        record of a cut. Return False where it came before, or is a cut that does not count.

        A truncation that was not known before is noted in `truncated`: then the reader begins
        again, from a cut that is not superseded.
        """
        place = self._next_offset if offset is None else offset
        if isinstance(entry, Truncate) and place >= self._chain.truncations.end:
            self.truncated = True
        if place < self._next_offset:
            return False
        self._next_offset = place + 1
        before = not self.found_start
        counts = self._chain.take(entry)
        if before:
            if isinstance(entry, Contract) and entry.version > self.start.contract:
                # Of no effect on the state at the start: the next round begins with it.
                self._entries.append((place, entry))
            if counts and self.found_start and self._chain.end_offsets != self.start.end_offsets:
                raise OrderError(
                    f"cut {self.start.cut} of the cut log ends at {self._chain.end_offsets}, not "
                    f"at {self.start.end_offsets}"
                )
        elif counts:
            if isinstance(entry, Merge):
                # The design that opens a log begins the state anew: none is merged before.
                begun = self._chain.number > 0
                if not (begun and Merged((), self.newest_merge).precedes(entry.ends)):
                    return False
                self.newest_merge = entry.ends
            self._entries.append((place, entry))
            if isinstance(entry, Cut):
                self._cuts += 1
                self._cut_tails.append(tail)
        return counts

    def deliver(
        self,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        epoch: int = -1,
    ) -> None:
        """Take one record; a repeated delivery is ignored."""
        if offset >= self.received[partition]:
            self._buffers[partition].append(offset, key, value, epoch)
            self.received[partition] = offset + 1

    def tails_below(self, end_offsets: Sequence[int]) -> tuple[str, ...]:
        """Return the fingerprints for a cut that ends there: "" where no record is known, or where
        not every record below it was delivered yet, as while a new clock catches up."""
        tails = (
            buffer.tail_below(end) if received >= end else None
            for buffer, received, end in zip(self._buffers, self.received, end_offsets, strict=True)
        )
        return tuple(tail.fingerprint if tail else "" for tail in tails)

    def reached(self, partition: int, position: int) -> None:
        """Record that every record below `position` was delivered or does not exist."""
        self.received[partition] = max(self.received[partition], position)

    def step(self, limit: int = 1024, size_limit: int = 1 << 17) -> LogStep | None:
        """Return the next piece of the canonical order, or None until more is delivered: at most
        `limit` records, of about `size_limit` bytes."""
        while self._entries:
            offset, entry = self._entries[0]
            if isinstance(entry, Cut):
                run = self._run(entry, limit, size_limit)
                if run is not None:
                    return LogStep(run)
                if self._partition < len(entry.end_offsets):
                    return None
                return self._end_round(entry, offset)
            elif not isinstance(entry, DigestReport) and not self._cuts:
                return None
            changes: tuple[Change, ...] = ()
            if isinstance(entry, Merge):
                assert self.exchange is not None, "without shards no merge is taken"
                if not self.exchange.covers(entry.ends):
                    self.awaited = entry.ends
                    return None
                changes, self.awaited = self.exchange.take(entry.ends), ()
            self._entries.popleft()
            if isinstance(entry, Contract):
                if entry.version <= self.contract:
                    continue
                self.contract = entry.version
            return LogStep(cut_offset=offset + 1, entry=entry, changes=changes)
        return None

    def _end_round(self, cut: Cut, offset: int) -> LogStep:
        """Close the open round; raises TailDiffers for other records than its cut was made for."""
        tails = tuple(buffer.tail for buffer in self._buffers)
        for partition, (tail, wanted) in enumerate(zip(tails, cut.tails, strict=False)):
            if tail and wanted and tail.fingerprint != wanted:
                raise TailDiffers(
                    f"offset {tail.offset} of partition {partition} holds another record than the "
                    f"one that cut {cut.number} was made for ({tail.fingerprint}, not {wanted})"
                )
        self._partition = 0
        self._cuts -= 1
        self.number, self.end_offsets = cut.number, cut.end_offsets
        self._entries.popleft()
        return LogStep(cut=cut, cut_offset=offset + 1, tails=(*tails, self._cut_tails.popleft()))

    def _run(self, cut: Cut, limit: int, size_limit: int) -> RecordRun | None:
        """Return the next run of the open round; None at its end, or until more is delivered."""
        while self._partition < len(cut.end_offsets):
            partition, end = self._partition, cut.end_offsets[self._partition]
            offsets, keys, values = self._buffers[partition].take(end, limit, size_limit)
            if offsets:
                if offsets[0] < self.end_offsets[partition]:
                    raise OrderError(
                        f"offset {offsets[0]} of partition {partition} was delivered twice"
                    )
                return RecordRun(partition, offsets, keys, values, cut.accepted_days)
            if self.received[partition] < end:
                return None
            self._partition += 1
        return None

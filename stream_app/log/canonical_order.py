"""Rounds: from deliveries in any interleaving to the one canonical order.

    cut log        1          2     F    3            round r: between cut r-1 and cut r
    partition 0  ..|..........|....|..............
    partition 1  ....|....|..........|............    canonical order: round by round,
    partition 2  .|.............|......|..........    in a round partition by partition, by offset

A broker may deliver the partitions and the cut log in any interleaving, may deliver a record again
after a reconnect, and may hold cuts of a late, frozen or second clock. `Rounds` turns every such
delivery into the same sequence of steps; the rules of `Chain` decide which cuts count. A forget (F)
takes effect at the beginning of the round that the next counting cut ends, so the state at a cut is
the same for every reader at any time; so does a version of the event format. A digest report
changes no state and is returned after the round before it. The idea comes from deterministic
databases (Calvin, Thomson et al. 2012) and the offset log of Spark Structured Streaming.

Offsets may have holes (transaction markers): after `reached`, every record below a position either
was delivered or does not exist.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from stream_app.wire import Contract, Cut, DigestReport, Entry, Forget, RecordRun


class OrderError(Exception):
    """The broker violated the order of a partition, or this is not the log of the state's origin;
    the state cannot continue."""


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

    def __post_init__(self) -> None:
        if self.cut < 0 or self.cut_offset < 0 or any(end < 0 for end in self.end_offsets):
            raise ValueError(f"{self}: a cut, its ends and its offset are at least 0")


@dataclass(frozen=True, eq=False)
class LogStep:
    """The next piece of the canonical order: a run of records, the cut that ends their round, a
    device to forget or a version of the event format before the next run, or a digest report;
    `cut_offset` is the offset after the entry."""

    run: RecordRun | None = None
    cut: Cut | None = None
    cut_offset: int = 0
    forget: Forget | None = None
    digest_report: DigestReport | None = None
    contract: Contract | None = None


class Chain:
    """Decides which cuts count, from the cut log alone.

    A cut counts if its number is the next one, if it names every partition and moves none back, and
    if it advances at least one partition or a forget is pending.
    """

    def __init__(self, number: int, end_offsets: tuple[int, ...]) -> None:
        self.number, self.end_offsets = number, end_offsets
        self.forget_waits = False

    def take(self, entry: Entry) -> bool:
        """Take the next entry and return whether it counts."""
        if isinstance(entry, Forget):
            self.forget_waits = True
        if not isinstance(entry, Cut):
            return True
        counts = (
            entry.number == self.number + 1
            and len(entry.end_offsets) == len(self.end_offsets)
            and all(
                new >= old for new, old in zip(entry.end_offsets, self.end_offsets, strict=True)
            )
            and (entry.end_offsets != self.end_offsets or self.forget_waits)
        )
        if counts:
            self.number, self.end_offsets, self.forget_waits = (
                entry.number,
                entry.end_offsets,
                False,
            )
        return counts


@dataclass
class _Buffer:
    """Delivered records of one partition that no round has taken yet."""

    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    head: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - self.head

    def take(self, end: int, limit: int, size_limit: int) -> tuple[list[int], list, list]:  # type: ignore[type-arg]
        """Remove and return the records below offset `end`, at most `limit` of them and about
        `size_limit` bytes."""
        first, last, size = self.head, self.head, 0
        stop = min(len(self.offsets), first + limit)
        while last < stop and self.offsets[last] < end and size < size_limit:
            size += len(self.values[last] or b"")
            last += 1
        taken = self.offsets[first:last], self.keys[first:last], self.values[first:last]
        self.head = last
        if self.head > 4096 and 2 * self.head > len(self.offsets):
            del self.offsets[: self.head], self.keys[: self.head], self.values[: self.head]
            self.head = 0
        return taken


class Rounds:
    """Collects deliveries and returns the canonical order after `start`."""

    def __init__(self, partitions: int, start: Start | None = None) -> None:
        nothing = (0,) * partitions
        self.start = start or Start(0, nothing)
        if len(self.start.end_offsets) != partitions:
            raise ValueError(f"{self.start}: the log has {partitions} partitions")
        self.number = self.start.cut
        self.end_offsets = self.start.end_offsets
        self.received: list[int] = list(self.end_offsets)
        self.contract = self.start.contract
        self._chain = Chain(0, nothing)
        if self.start.cut_offset:
            self._chain = Chain(self.number, self.end_offsets)
        self._next_offset = self.start.cut_offset
        self._entries: deque[tuple[int, Entry]] = deque()
        self._cuts = 0
        self._buffers = [_Buffer() for _ in range(partitions)]
        self._partition = 0

    @property
    def newest_cut(self) -> tuple[int, tuple[int, ...]]:
        """Number and ends of the newest cut that counts, applied or not."""
        return self._chain.number, self._chain.end_offsets

    @property
    def found_start(self) -> bool:
        """Whether the cut log was read up to the cut after which it is taken up."""
        return self._chain.number >= self.start.cut

    @property
    def forget_waits(self) -> bool:
        """Whether a device is to be forgotten and no cut that counts was read since."""
        return self._chain.forget_waits and self._chain.number >= self.start.cut

    def buffered(self, partition: int) -> int:
        """Return how many delivered records of a partition wait for their round."""
        return len(self._buffers[partition])

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

    def cut(self, cut: Cut, offset: int | None = None) -> bool:
        """Take one cut from the cut log; False where it does not count."""
        return self._entry(cut, offset)

    def forget(self, forget: Forget, offset: int | None = None) -> bool:
        """Take the entry of a device that is to be forgotten; False where it came before."""
        return self._entry(forget, offset)

    def set_contract(self, contract: Contract, offset: int | None = None) -> bool:
        """Take the entry of a version of the event format; False where it came before."""
        return self._entry(contract, offset)

    def digest_report(self, digest_report: DigestReport, offset: int | None = None) -> bool:
        """Take the entry of a durable checkpoint; return False if it was taken before."""
        return self._entry(digest_report, offset)

    def _entry(self, entry: Entry, offset: int | None) -> bool:
        """Take an entry; without an offset it is the next one."""
        place = self._next_offset if offset is None else offset
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
            self._entries.append((place, entry))
            self._cuts += isinstance(entry, Cut)
        return counts

    def deliver(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take one record; a repeated delivery is ignored."""
        if offset < self.received[partition]:
            return
        buffer = self._buffers[partition]
        buffer.offsets.append(offset)
        buffer.keys.append(key)
        buffer.values.append(value)
        self.received[partition] = offset + 1

    def reached(self, partition: int, position: int) -> None:
        """Record that every record below `position` was delivered or does not exist."""
        self.received[partition] = max(self.received[partition], position)

    def step(self, limit: int = 1024, size_limit: int = 1 << 17) -> LogStep | None:
        """Return the next piece of the canonical order, or None until more is delivered."""
        while self._entries:
            offset, entry = self._entries[0]
            if isinstance(entry, Cut):
                run = self._run(entry, limit, size_limit)
                if run is not None:
                    return LogStep(run)
                if self._partition < len(entry.end_offsets):
                    return None
                self._partition = 0
                self._cuts -= 1
                self.number, self.end_offsets = entry.number, entry.end_offsets
            elif isinstance(entry, Forget | Contract) and not self._cuts:
                return None
            self._entries.popleft()
            if isinstance(entry, Contract):
                if entry.version <= self.contract:
                    continue
                self.contract = entry.version
            return _step_of(entry, offset + 1)
        return None

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
                return RecordRun(partition, offsets, keys, values)
            if self.received[partition] < end:
                return None
            self._partition += 1
        return None


def _step_of(entry: Entry, offset: int) -> LogStep:
    match entry:
        case Cut():
            return LogStep(cut=entry, cut_offset=offset)
        case Forget():
            return LogStep(forget=entry, cut_offset=offset)
        case Contract():
            return LogStep(contract=entry, cut_offset=offset)
        case DigestReport():
            return LogStep(digest_report=entry, cut_offset=offset)

"""Writes checkpoints: selects the records, their order, and when a checkpoint is durable.

    claim -ack-> generation = its offset
    freeze --> pages, at most `most_in_flight_bytes` unacknowledged, each to the slot that the last
               durable manifest of this generation does not use
           --all acknowledged--> manifest --acknowledged--> durable --> tombstones of old keys

A process that dies at any point leaves the last durable manifest complete: no page that it names is
overwritten before the next manifest is durable, and compaction keeps the newest record of a key.
Only one owner writes the keys of a generation, since no two claims have the same offset: a stalled
or deposed owner still writes only its own keys. So the writer needs neither transactions nor
fencing. It needs a broker that keeps acknowledged records, an idempotent producer (which never
delivers a record again after a later one of the same key), and a log retention longer than an owner
may stall while a checkpoint or its tombstones are in flight.

This generation and the newest earlier one with a manifest are kept; tombstones remove older ones
once a manifest of this generation is durable. A new owner writes no checkpoint until it has reached
the newest checkpoint in the topic: retention may have deleted the log between its own position and
that checkpoint, which tombstones would then remove.

The caller owns network, time and threads: `step` takes an event and returns the outputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from stream_app.wire.authenticity.seal import OPEN, Seal
from stream_app.wire.authenticity.tails import Tail
from stream_app.wire.reasons import WireError
from stream_app.wire.state_records import (
    DIGEST_BYTES,
    PAGE_BYTES,
    UNCHANGED,
    ArrayPages,
    Claim,
    ClaimKey,
    Manifest,
    ManifestKey,
    PageKey,
    SmallArray,
    StateOrigin,
    decode_state_key,
    encode_claim,
    encode_manifest,
    encode_page,
)

OWNER_BYTES = 16


@dataclass(frozen=True)
class FrozenArray:
    """An array at a cut: the digest of each page, and in `present` (uint8 per page) whether the
    page differs from that of an empty state."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digests: bytes
    present: bytes

    def __post_init__(self) -> None:
        if len(self.digests) != DIGEST_BYTES * len(self.present):
            raise ValueError(
                f"{self.name}: {len(self.digests)} bytes of digests for {len(self.present)} pages; "
                f"give {DIGEST_BYTES} bytes a page"
            )


@dataclass(frozen=True)
class Frozen:
    """The state at a cut; `page(array, page)` returns a page's bytes until the checkpoint is
    durable.

    `arrays` are sorted by name. The writer selects the pages to write by their digests; `changed`
    holds the pages that changed since the previous `Frozen`, for metrics.
    """

    design: str
    topic_id: str
    cut: int
    end_offsets: tuple[int, ...]
    cut_offset: int
    origin: StateOrigin
    model: str
    ledger: str
    arrays: tuple[FrozenArray, ...]
    ledger_arrays: tuple[SmallArray, ...]
    page: Callable[[int, int], bytes | memoryview]
    changed: Collection[tuple[int, int]] = field(default=(), repr=False)
    tails: tuple[Tail | None, ...] = ()


@dataclass(frozen=True)
class LeaseAcquired:
    """This worker may write from now on; `owner` is a new random id for each lease.

    `obsolete_keys` are the keys that the topic holds now (`Recovery.keys`), `min_cut` the greatest
    cut of a checkpoint in it that starts from the same origin (`recovery.greatest_cut`).
    """

    owner: bytes
    worker: str
    obsolete_keys: Sequence[bytes] = ()
    min_cut: int = 0

    def __post_init__(self) -> None:
        if len(self.owner) != OWNER_BYTES:
            raise ValueError(f"owner of {len(self.owner)} bytes: draw {OWNER_BYTES} random bytes")


@dataclass(frozen=True)
class Acked:
    """The broker acknowledged a record; `offset` is negative if the client does not know it."""

    token: int
    offset: int


@dataclass(frozen=True)
class Freeze:
    """Request to write a checkpoint; allowed when the writer is `ready`, without effect at a cut
    before `LeaseAcquired.min_cut`."""

    frozen: Frozen


@dataclass(frozen=True)
class LeaseReleased:
    """This worker may no longer write."""


Event = LeaseAcquired | Acked | Freeze | LeaseReleased


@dataclass(frozen=True)
class Send:
    """A record to send with acks=all; a value of None is a tombstone."""

    token: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Durable:
    """A checkpoint is durable: recovery finds it from now on."""

    manifest: Manifest


__all__ = [
    "OWNER_BYTES",
    "Acked",
    "Durable",
    "Event",
    "Freeze",
    "Frozen",
    "FrozenArray",
    "LeaseAcquired",
    "LeaseReleased",
    "Send",
    "Writer",
]

_MOST_BYTES = PAGE_BYTES + 32  # a page's record with its key and header


class _Kind(Enum):
    CLAIM = auto()
    PAGE = auto()
    MANIFEST = auto()
    TOMBSTONE = auto()


class Writer:
    """The writer of one worker; tokens are unique over its lifetime, which identifies a late
    acknowledgement of an earlier lease."""

    def __init__(self, most_in_flight_bytes: int = 8 << 20, seal: Seal = OPEN) -> None:
        if most_in_flight_bytes < 1:
            raise ValueError(f"most_in_flight_bytes {most_in_flight_bytes}: at least 1 byte")
        self._most = most_in_flight_bytes
        self._seal = seal
        self._token = 0
        self._written: set[bytes] = set()  # keys written by this writer under any lease
        self._reset_lease()

    def _reset_lease(self) -> None:
        self.generation: int | None = None
        self._claim: tuple[bytes, bytes] | None = None
        self._obsolete_keys: Sequence[bytes] = ()
        self._min_cut = 0
        self._durable: Manifest | None = None
        self._manifest: Manifest | None = None  # being written
        self._frozen: Frozen | None = None
        self._pages: deque[PageKey] = deque()
        self._tombstones: deque[bytes] = deque()
        self._in_flight: dict[int, tuple[_Kind, bytes, int]] = {}
        self._bytes_in_flight = 0
        self._pages_in_flight = 0

    @property
    def ready(self) -> bool:
        """Whether a `Freeze` is accepted now."""
        return self.generation is not None and self._manifest is None

    @property
    def full(self) -> bool:
        """Whether the next checkpoint is the first of its generation and writes every page."""
        return self._durable is None

    def step(self, event: Event) -> list[Send | Durable]:
        """Process an event and return the outputs in order; raises `ValueError` for a `Freeze`
        while the writer is not ready."""
        match event:
            case Acked():
                return self._acked(event)
            case Freeze():
                return self._freeze(event.frozen)
            case LeaseAcquired():
                return self._own(event)
            case LeaseReleased():
                self._reset_lease()
                return []

    def _own(self, event: LeaseAcquired) -> list[Send | Durable]:
        self._reset_lease()
        key = ClaimKey(event.owner)
        self._claim = key.encode(), encode_claim(key, Claim(event.worker), self._seal)
        self._obsolete_keys, self._min_cut = event.obsolete_keys, event.min_cut
        return [self._send(_Kind.CLAIM, *self._claim)]

    def _freeze(self, frozen: Frozen) -> list[Send | Durable]:
        if self.generation is None or self._manifest is not None:
            raise ValueError(f"checkpoint at cut {frozen.cut}: the writer is not ready; wait")
        if frozen.cut < self._min_cut:
            return []
        arrays = tuple(self._place(number, array) for number, array in enumerate(frozen.arrays))
        self._frozen = frozen
        self._manifest = Manifest(
            self.generation,
            self._durable.number + 1 if self._durable else 1,
            frozen.design,
            frozen.topic_id,
            frozen.cut,
            frozen.end_offsets,
            frozen.cut_offset,
            frozen.origin,
            frozen.model,
            frozen.ledger,
            arrays,
            frozen.ledger_arrays,
            frozen.tails,
        )
        return self._go_on()

    def _place(self, number: int, array: FrozenArray) -> ArrayPages:
        """Choose a slot for every page, and queue the pages that the topic does not hold yet."""
        slots, digests = self._last(number)
        if digests != array.digests:
            slots = bytes(
                self._slot(number, page, array, slots, digests)
                for page in range(len(array.present))
            )
        return ArrayPages(array.name, array.dtype, array.shape, slots, array.digests)

    def _last(self, number: int) -> tuple[bytes, bytes]:
        """Return slots and digests of an array in the last durable manifest."""
        if self._durable is None or number >= len(self._durable.arrays):
            return b"", b""
        array = self._durable.arrays[number]
        return array.slots, array.digests

    def _slot(
        self, number: int, page: int, array: FrozenArray, slots: bytes, digests: bytes
    ) -> int:
        last = slots[page] if page < len(slots) else UNCHANGED
        at = slice(page * DIGEST_BYTES, (page + 1) * DIGEST_BYTES)
        if page < len(slots) and digests[at] == array.digests[at]:
            return last
        if not array.present[page]:
            return UNCHANGED
        assert self.generation is not None
        slot = 1 if last == 0 else 0
        self._pages.append(PageKey(number, page, slot, self.generation))
        return slot

    def _go_on(self) -> list[Send | Durable]:
        """Send what may be sent now: pages, the manifest once all are acknowledged, tombstones."""
        out: list[Send | Durable] = []
        while self._pages and self._has_room:
            out.append(self._send_page(self._pages.popleft()))
        if self._manifest is not None and self._frozen is not None and self._pages_are_acknowledged:
            self._frozen = None
            key = ManifestKey(self._manifest.number % 2, self._manifest.generation).encode()
            out.append(self._send(_Kind.MANIFEST, key, encode_manifest(self._manifest, self._seal)))
        while self._tombstones and not self._pages and self._has_room:
            out.append(self._send(_Kind.TOMBSTONE, self._tombstones.popleft(), None))
        return out

    @property
    def _has_room(self) -> bool:
        """Whether one more record stays within the bound; a single record is always allowed."""
        return not self._in_flight or self._bytes_in_flight + _MOST_BYTES <= self._most

    @property
    def _pages_are_acknowledged(self) -> bool:
        return not self._pages and not self._pages_in_flight

    def _send_page(self, key: PageKey) -> Send:
        assert self._frozen is not None
        assert self._manifest is not None
        data = self._frozen.page(key.array, key.page)
        self._pages_in_flight += 1
        return self._send(_Kind.PAGE, key.encode(), encode_page(self._manifest.number, data))

    def _send(self, kind: _Kind, key: bytes, value: bytes | None) -> Send:
        token, size = self._token, len(key) + len(value or b"")
        self._token += 1
        self._in_flight[token] = kind, key, size
        self._bytes_in_flight += size
        if kind is not _Kind.TOMBSTONE:
            self._written.add(key)
        return Send(token, key, value)

    def _acked(self, event: Acked) -> list[Send | Durable]:
        if event.token >= self._token:
            raise ValueError(f"token {event.token}: no record was sent with it")
        if event.token not in self._in_flight:
            return []  # of an earlier lease
        kind, key, size = self._in_flight.pop(event.token)
        self._bytes_in_flight -= size
        match kind:
            case _Kind.CLAIM:
                return self._claimed(event.offset)
            case _Kind.PAGE:
                self._pages_in_flight -= 1
            case _Kind.MANIFEST:
                return self._now_durable()
            case _Kind.TOMBSTONE:
                self._written.discard(key)
        return self._go_on()

    def _claimed(self, offset: int) -> list[Send | Durable]:
        """Use the claim's offset as the generation; claim again if the client does not know it.

        The broker acknowledges a duplicate retry without an offset.
        """
        if offset < 0:
            assert self._claim is not None
            return [self._send(_Kind.CLAIM, *self._claim)]
        self.generation = offset
        return []

    def _now_durable(self) -> list[Send | Durable]:
        assert self._manifest is not None
        first, self._durable, self._manifest = self._durable is None, self._manifest, None
        if first:
            self._tombstones.extend(self._outdated(self._durable.generation))
            self._obsolete_keys = ()
        return [Durable(self._durable), *self._go_on()]

    def _outdated(self, generation: int) -> list[bytes]:
        """Return the known keys older than the newest generation with a manifest before this one,
        and every other claim."""
        known = [(key, _decoded(key)) for key in sorted(self._written.union(self._obsolete_keys))]
        manifests = (n.generation for _, n in known if isinstance(n, ManifestKey))
        previous = max((g for g in manifests if g < generation), default=-1)
        assert self._claim is not None
        return [
            key
            for key, name in known
            if (isinstance(name, ClaimKey) and key != self._claim[0])
            or (isinstance(name, PageKey | ManifestKey) and name.generation < previous)
        ]


def _decoded(key: bytes) -> PageKey | ManifestKey | ClaimKey | None:
    try:
        return decode_state_key(key)
    except WireError:
        return None  # a foreign record is not removed

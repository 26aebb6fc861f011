"""Inputs and outputs of the checkpoint writer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from stream_app.wire.authenticity.tails import Tail
from stream_app.wire.state_records import DIGEST_BYTES, Manifest, SmallArray, StateOrigin

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

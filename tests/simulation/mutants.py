"""Ten ways to get the protocol wrong, and two more: each a small change of the real classes.

A surviving mutant means that the simulation does not check for that mistake.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from stream_app.checkpoints.protocol.recovery import Recovery
from stream_app.checkpoints.protocol.writer import (
    Durable,
    Frozen,
    FrozenArray,
    LeaseAcquired,
    Send,
    Writer,
)
from stream_app.wire.reasons import WireError
from stream_app.wire.state_records import (
    UNCHANGED,
    ClaimKey,
    Manifest,
    PageKey,
    decode_state_key,
    ledger_root,
)
from tests.simulation.process import Variant

Outputs = list[Send | Durable]


class _Unfenced(Writer):
    """Every owner writes the keys of one generation."""

    def _claimed(self, offset: int) -> Outputs:
        self.generation = 1
        return []


class _OneSlot(Writer):
    """A page has one slot."""

    def _slot(
        self, number: int, page: int, array: FrozenArray, slots: bytes, digests: bytes
    ) -> int:
        before = len(self._pages)
        slot = super()._slot(number, page, array, slots, digests)
        if len(self._pages) > before:
            self._pages[-1] = msgspec.structs.replace(self._pages[-1], slot=0)
            slot = 0
        return slot


class _Hasty(Writer):
    """Sends the manifest when the last page is sent, not when the last one is acknowledged."""

    @property
    def _pages_are_acknowledged(self) -> bool:
        return not self._pages


class _Unclaimed(Writer):
    """Takes the generation after the newest that it has read, and claims nothing."""

    def _own(self, event: LeaseAcquired) -> Outputs:
        super()._own(event)
        self._in_flight.clear()
        self._bytes_in_flight = 0
        self.generation = 1 + max(
            map(_generation, [*event.obsolete_keys, *self._written]), default=0
        )
        return []


class _Uncounted(Writer):
    """Leaves the ledger out of the manifest."""

    def _freeze(self, frozen: Frozen) -> Outputs:
        nothing = ledger_root(frozen.design, ())
        return super()._freeze(replace(frozen, ledger_arrays=(), ledger=nothing))


class _Eager(Writer):
    """Removes what is old as soon as the generation is claimed, the previous one too."""

    def _claimed(self, offset: int) -> Outputs:
        super()._claimed(offset)
        old = (
            k
            for k in sorted(self._written.union(self._obsolete_keys))
            if 0 < _generation(k) < offset
        )
        self._tombstones.extend(old)
        return self._go_on()


class _Trusting(Recovery):
    """Checks that the pages exist, not their digests."""

    def _is_whole(self, manifest: Manifest, digests: dict[bytes, bytes | None]) -> bool:
        values = self._generations[manifest.generation]
        return all(
            PageKey(number, page, slot, manifest.generation).encode() in values
            for number, array in enumerate(manifest.arrays)
            for page, slot in enumerate(array.slots)
            if slot != UNCHANGED
        )


def _generation(key: bytes) -> int:
    """Return the generation of a record key, 0 for a claim or a foreign key."""
    try:
        name = decode_state_key(key)
    except WireError:
        return 0
    return 0 if isinstance(name, ClaimKey) else name.generation


MUTANTS = (
    Variant("no fencing, shared slots", writer=_Unfenced),
    Variant("one slot", writer=_OneSlot),
    Variant("one slot, no digest", writer=_OneSlot, recovery=_Trusting),
    Variant("resumes from the committed offsets", committed=True),
    Variant("the manifest does not wait for the pages", writer=_Hasty),
    Variant("the manifest does not wait, no digest", writer=_Hasty, recovery=_Trusting),
    Variant("offsets committed early, and used", committed=True, early=True),
    Variant("no digest, no fencing", writer=_Unfenced, recovery=_Trusting),
    Variant("the generation is not claimed", writer=_Unclaimed),
    Variant("the ledger is not in the manifest", writer=_Uncounted),
)
"""The ten that were named beforehand."""

FURTHER_MUTANTS = (
    Variant("removes what is old before its own is durable", writer=_Eager),
    Variant("reads to the end that the topic had at first", once=True),
)
"""Found while writing the simulation."""

"""Ten ways to get the protocol wrong, and two more: each a small change of the real classes.

A surviving mutant means that the simulation does not check for that mistake.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from stream_app.checkpoints.protocol.recovery import Found, Recovery, pages_of
from stream_app.checkpoints.protocol.streaming import StreamedRecovery
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
    ClaimKey,
    Manifest,
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

    def _is_whole(self, manifest: Manifest) -> bool:
        held = self._generations[manifest.generation]
        return all(key.encode() in held.pages for key, _ in pages_of(manifest))


class _Undigested(StreamedRecovery):
    """Puts every page into the place that it names without comparing its digest."""

    def read(
        self, offset: int, key: bytes | None, value: bytes | None, digest: bytes | None = None
    ) -> None:
        self.position = offset + 1
        page = self.rules.read(offset, key, value, digest)
        if page is None or self._aimed is None:
            return
        for key, digest in pages_of(self._aimed):
            if (key.array, key.page) == (page.key.array, page.key.page):
                self._store.put(key.array, key.page, page.data)
                self._placed[key.array, key.page] = digest


class _Credulous(Recovery):
    """Counts manifests whose cuts the cut log has superseded."""

    def __init__(self, *named: Any, **_: Any) -> None:
        super().__init__(*named)


class _Optimistic(StreamedRecovery):
    """Loads the manifest that was hinted at once its pages are in place, whatever the rules say."""

    def decide(self) -> Found | int | None:
        if self._aimed is not None and self._chosen is False:
            wanted = pages_of(self._aimed)
            if all(self._placed.get((key.array, key.page)) == digest for key, digest in wanted):
                return Found(self._aimed, self.rules.keys)
        return super().decide()


class _Incomplete(StreamedRecovery):
    """Does not read again: takes what the rules chose with the pages that are in place."""

    def decide(self) -> Found | int | None:
        found = super().decide()
        while isinstance(found, int):
            chosen = self.rules.newest()
            return chosen and Found(chosen.manifest, chosen.keys)
        return found


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
    Variant("one slot, no digest", _OneSlot, _Trusting, _Undigested),
    Variant("resumes from the committed offsets", committed=True),
    Variant("the manifest does not wait for the pages", writer=_Hasty),
    Variant("the manifest does not wait, no digest", _Hasty, _Trusting, _Undigested),
    Variant("offsets committed early, and used", committed=True, early=True),
    Variant("no digest, no fencing", _Unfenced, _Trusting, _Undigested),
    Variant("the generation is not claimed", writer=_Unclaimed),
    Variant("the ledger is not in the manifest", writer=_Uncounted),
)
"""The ten that were named beforehand."""

FURTHER_MUTANTS = (
    Variant("removes what is old before its own is durable", writer=_Eager),
    Variant("reads to the end that the topic had at first", once=True),
)
"""Found while writing the simulation."""

STREAMING_MUTANTS = (
    Variant("pages put in place without their digest", streamed=_Undigested),
    Variant("the hinted manifest is loaded without the rules", streamed=_Optimistic),
    Variant("what is missing is not read again", streamed=_Incomplete),
    Variant("the manifest is not checked against the cut log", recovery=_Credulous),
)
"""Of the recovery that puts pages in place while it reads."""

"""Recovery: from the records of the state topic to the checkpoint that a worker starts from.

    read every record --> newest generation with a whole manifest decides design and origin
                      --> of the whole manifests with that origin the one with the greatest cut

A manifest is whole when it is what it says (its digest, its counts, its ledger) and every page that
it names is there with the right digest. What was written in part, damaged, removed by compaction or
mixed from several owners never is; an older one is used instead. The state at a cut depends only on
origin and log, so manifests with the same origin belong to one history and the one with the highest
cut is used, regardless of its writer: a late record of a slow owner cannot move a start back behind
what the log still holds.

The topic must be read to its end as it is when the reader gets there, not as it was at the start:
what was newest then may be compacted away before it is read.

Held in memory is the newest value of each key. Owners remove what is too old; where they die before
they do, again and again, generations beyond the newest `GENERATIONS` are let go of while reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.checkpoints.protocol.validation import consistent
from stream_app.wire.reasons import Reason, WireError
from stream_app.wire.state_records import (
    CHECKPOINT_FORMAT,
    DIGEST_BYTES,
    UNCHANGED,
    ClaimKey,
    Manifest,
    ManifestKey,
    PageKey,
    StateOrigin,
    decode_manifest,
    decode_page,
    decode_state_key,
    page_digest,
)

GENERATIONS = 4

_WAYS_OUT = "or run `murmurec worker --rebuild` to start over from the log"


class CheckpointRefused(Exception):
    """The newest checkpoint is not one for this worker; the sentence names the ways out."""


class UnusableCheckpoint(CheckpointRefused):
    """The newest checkpoint is damaged, and nothing else in the topic stands in for it."""


@dataclass(frozen=True, eq=False)
class Found:
    """A whole checkpoint; `keys` are all keys of the topic (`LeaseAcquired.obsolete_keys`)."""

    manifest: Manifest
    keys: list[bytes]
    _values: dict[bytes, bytes] = field(repr=False)

    def page(self, array: int, page: int) -> memoryview:
        """Return a page's bytes; raises `KeyError` for one that is `UNCHANGED`."""
        slot = self.manifest.arrays[array].slots[page]
        key = PageKey(array, page, slot, self.manifest.generation)
        return decode_page(self._values[key.encode()])[1]


class _Manifests(NamedTuple):
    """What a generation holds of them: those that can be read, how many cannot, and the format of
    one that a newer worker wrote (or 0)."""

    manifests: list[Manifest]
    damaged: int
    format: int


class Recovery:
    """Takes the records of the state topic in the order of their offsets; `records` were read,
    `foreign` are not ours, `damaged` are manifests and pages that the last `newest` passed over."""

    def __init__(self, design: str, topic_id: str, partitions: int) -> None:
        self._design, self._topic_id, self._partitions = design, topic_id, partitions
        self._generations: dict[int, dict[bytes, bytes]] = {}
        self._bare: dict[bytes, None] = {}  # claims, and keys of generations let go of
        self.records = self.foreign = self.damaged = 0

    @property
    def keys(self) -> list[bytes]:
        """Every key of ours that the topic holds, for `LeaseAcquired.obsolete_keys`."""
        held = [key for values in self._generations.values() for key in values]
        return [*held, *self._bare]

    def greatest_cut(self, origin: StateOrigin) -> int:
        """Return the greatest cut of a checkpoint with this origin, 0 without one.

        Its pages are not checked. It is `LeaseAcquired.min_cut` of the next writer."""
        manifests = (m for g in self._generations for m in self._manifests(g).manifests)
        here = self._design, self._topic_id, origin
        return max((m.cut for m in manifests if _line(m) == here), default=0)

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take one record; one that is not ours is counted and ignored."""
        self.records += 1
        try:
            name = decode_state_key(key)
        except WireError:
            self.foreign += 1
            return
        assert key is not None
        if isinstance(name, ClaimKey):
            self._bare.pop(key, None)
            if value is not None:
                self._bare[key] = None
        elif name.generation >= offset:  # before its own claim: of a topic that is no more
            self.foreign += 1
        elif value is None:
            self._remove(name.generation, key)
        else:
            self._bare.pop(key, None)
            self._generations.setdefault(name.generation, {})[key] = value
            if isinstance(name, ManifestKey) and len(self._generations) > GENERATIONS:
                self._let_go()

    def _remove(self, generation: int, key: bytes) -> None:
        self._bare.pop(key, None)
        values = self._generations.get(generation, {})
        values.pop(key, None)
        if not values:
            self._generations.pop(generation, None)

    def _let_go(self) -> None:
        """Drop what lies before the two newest generations with a complete manifest, unless it
        reaches further in the log."""
        newer: list[int] = []  # their cuts
        for generation in sorted(self._generations, reverse=True):
            values = self._generations[generation]
            manifests = self._manifests(generation).manifests
            found = [m for m in manifests if all(key in values for key, _ in _pages(m))]
            if len(newer) > 1 and max((m.cut for m in found), default=0) <= max(newer):
                self._bare.update(dict.fromkeys(self._generations.pop(generation)))
            elif found:
                newer.append(max(m.cut for m in found))

    def newest(self) -> Found | None:
        """Return the checkpoint to start from, None where there is no whole one.

        Raises `CheckpointRefused` where the newest was made with another design, over another
        rating topic, with other partitions, or by a newer worker, and `UnusableCheckpoint` where a
        newer one is not whole and started from something else.
        """
        self.damaged = 0
        manifests: list[Manifest] = []
        for generation in sorted(self._generations, reverse=True):
            read = self._manifests(generation)
            if not manifests and read.format > CHECKPOINT_FORMAT:
                raise CheckpointRefused(
                    f"the checkpoint has format {read.format} and this worker reads up to "
                    f"{CHECKPOINT_FORMAT}: install the newer version again, {_WAYS_OUT}"
                )
            self.damaged += read.damaged
            manifests += read.manifests
        digests: dict[bytes, bytes | None] = {}
        newest = next((m for m in manifests if self._is_whole(m, digests)), None)
        self._refuse_to_fall_back(manifests, newest)
        if newest is None:
            return None
        self._refuse_another(newest)
        older = manifests[manifests.index(newest) + 1 :]  # what is newer is not whole
        best = self._furthest(newest, older, digests)
        return Found(best, self.keys, self._generations[best.generation])

    def _refuse_to_fall_back(self, manifests: list[Manifest], newest: Manifest | None) -> None:
        """Refuse a damaged manifest of a generation newer than the one chosen (None: the log) that
        does not start from the same.

        A manifest is sent when its pages are acknowledged and outlived by them until a newer one is
        durable, so without them it is damaged, not unfinished. Who is left out is not compared: the
        log repeats it.
        """
        generation, here = (newest.generation, newest.origin) if newest else (-1, None)
        for manifest in manifests:
            if manifest.generation <= generation:
                return
            if _lineage(manifest.origin) != _lineage(here):
                raise UnusableCheckpoint(
                    f"the newest checkpoint (generation {manifest.generation}, cut {manifest.cut}) "
                    "is damaged, and what is older started from something else: recompute it with "
                    "`murmurec state rebuild`, with --snapshot FILE where it began from a snapshot"
                )

    def _furthest(
        self, newest: Manifest, older: list[Manifest], digests: dict[bytes, bytes | None]
    ) -> Manifest:
        """Return the whole manifest with the greatest cut among those that start from the same."""
        further = [m for m in older if m.cut > newest.cut and _line(m) == _line(newest)]
        further.sort(key=_cut, reverse=True)
        return next((m for m in further if self._is_whole(m, digests)), newest)

    def _manifests(self, generation: int) -> _Manifests:
        """Decode the manifests of a generation, newest first."""
        manifests, damaged, newer = [], 0, 0
        for key, value in self._generations[generation].items():
            if key[:1] != b"M":
                continue
            try:
                manifest = decode_manifest(value)
            except WireError as error:
                if error.reason is Reason.UNKNOWN_VERSION:
                    newer = value[0]
                else:
                    damaged += 1
                continue
            if ManifestKey(manifest.number % 2, manifest.generation).encode() == key:
                manifests.append(manifest)
            else:
                damaged += 1
        manifests.sort(key=_number, reverse=True)
        return _Manifests(manifests, damaged, newer)

    def _is_whole(self, manifest: Manifest, digests: dict[bytes, bytes | None]) -> bool:
        """Return whether a manifest is what it says and all its pages are; `digests` are those
        taken so far."""
        if not consistent(manifest):
            self.damaged += 1
            return False
        values = self._generations[manifest.generation]
        for key, digest in _pages(manifest):
            if key not in digests:
                digests[key] = self._digest(values.get(key))
            if digests[key] != digest:
                self.damaged += 1
                return False
        return True

    @staticmethod
    def _digest(value: bytes | None) -> bytes | None:
        try:
            return None if value is None else page_digest(decode_page(value)[1])
        except WireError:
            return None

    def _refuse_another(self, manifest: Manifest) -> None:
        """Refuse a checkpoint of another design, rating topic or partition count."""
        # Over another topic the log cannot be replayed: its cuts name offsets of the old one.
        restart = "or start a new deployment (--prefix)"
        restore = f"restore the rating topic that it was made of, {restart}"
        for what, there, here, fix in (
            ("design", manifest.design, self._design, f"set the settings back, {_WAYS_OUT}"),
            (
                "partitions",
                len(manifest.end_offsets),
                self._partitions,
                f"set partitions back, {restart}",
            ),
            ("topic id", manifest.topic_id, self._topic_id, restore),
        ):
            if there != here:
                raise CheckpointRefused(
                    f"{what} {there} of the checkpoint is not {here} of this worker: {fix}"
                )


def _pages(manifest: Manifest) -> Iterator[tuple[bytes, bytes]]:
    """Give the record key and the digest of every page that stands in the topic."""
    for number, array in enumerate(manifest.arrays):
        for page, slot in enumerate(array.slots):
            if slot != UNCHANGED:
                at = page * DIGEST_BYTES
                key = PageKey(number, page, slot, manifest.generation).encode()
                yield key, array.digests[at : at + DIGEST_BYTES]


def _lineage(origin: StateOrigin | None) -> tuple[str, bool, int]:
    """Return what a state starts from, but for who is left out; None is the log alone."""
    return (origin.snapshot, origin.truncated, origin.cut) if origin else ("", False, 0)


def _line(manifest: Manifest) -> tuple[str, str, StateOrigin]:
    """Return what a manifest starts from: those that share it are states of one log."""
    return manifest.design, manifest.topic_id, manifest.origin


def _number(manifest: Manifest) -> int:
    return manifest.number


def _cut(manifest: Manifest) -> int:
    return manifest.cut

"""Recovery: from the records of the state topic to the checkpoint that a worker starts from.

    read every record --> newest generation with a complete manifest: its design and origin
                      --> of the complete manifests with that origin the one with the highest cut

A manifest is complete when it is consistent (its digest, its counts, its ledger) and the topic
holds every page that it names with the right digest. A checkpoint that was written in part,
damaged, thinned by compaction or mixed from several owners is not complete; an older one is used.
The state at a cut depends only on origin and log, so manifests with the same origin belong to one
history and the one with the highest cut is used, regardless of its writer: a late record of a slow
owner cannot move a start back to offsets that retention has deleted.

The topic must be read to its end offset at the time of reading, not at the start: compaction may
remove what was the newest record at the start.

The newest value of each key is held in memory. Owners remove old generations; if owners die
repeatedly before that, generations older than the newest `GENERATIONS` are dropped while reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.checkpoints.protocol.validation import consistent
from stream_app.wire.authenticity.seal import OPEN, ForeignSeal, Seal
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

_SEALED = (
    "the checkpoint is sealed, and this worker has no state_secret: set the one that sealed it, or "
    "give up the seal by one start with `murmurec worker --reseal`"
)
_UNSEALED = (
    "no checkpoint has the seal of this state_secret, but there are others: set the secret back; "
    "if it was introduced or changed on purpose, start once with `murmurec worker --reseal`, which "
    "trusts the newest of them, or with `murmurec worker --rebuild`, which trusts none"
)
_WAYS_OUT = "or run `murmurec worker --rebuild` to start over from the log"


class CheckpointRefused(Exception):
    """The newest checkpoint is not usable by this worker; the message names the fixes."""


class UnusableCheckpoint(CheckpointRefused):
    """The newest checkpoint is damaged, and no other one in the topic can replace it."""


@dataclass(frozen=True, eq=False)
class Found:
    """A complete checkpoint; `keys` are all keys of the topic (`LeaseAcquired.obsolete_keys`)."""

    manifest: Manifest
    keys: list[bytes]
    _values: dict[bytes, bytes] = field(repr=False)

    def page(self, array: int, page: int) -> memoryview:
        """Return a page's bytes; raises `KeyError` for one that is `UNCHANGED`."""
        slot = self.manifest.arrays[array].slots[page]
        key = PageKey(array, page, slot, self.manifest.generation)
        return decode_page(self._values[key.encode()])[1]


class _Manifests(NamedTuple):
    """The manifests of a generation: those decoded, the number of undecodable ones, the format of
    one in another format (or 0), and the number without the seal of this deployment."""

    manifests: list[Manifest]
    damaged: int
    format: int
    unsealed: int


class Recovery:
    """Reads the records of the state topic in offset order; counts the `records` read, the
    `foreign` ones among them, and the manifests that the last `newest` skipped: `damaged` ones, and
    `unsealed` ones, which lack the seal of this deployment's secret.

    `superseded` returns whether the cut of a manifest was superseded by an entry of the cut log:
    such a manifest is skipped, as if the topic did not hold it.
    """

    def __init__(
        self,
        design: str,
        topic_id: str,
        partitions: int,
        seal: Seal = OPEN,
        superseded: Callable[[Manifest], bool] = lambda _: False,
    ) -> None:
        self._design, self._topic_id, self._partitions = design, topic_id, partitions
        self._seal, self._superseded = seal, superseded
        self._generations: dict[int, dict[bytes, bytes]] = {}
        self._bare: dict[bytes, None] = {}  # claims, and keys of dropped generations
        self.records = self.foreign = self.damaged = self.unsealed = 0

    @property
    def keys(self) -> list[bytes]:
        """Every valid key that the topic holds, for `LeaseAcquired.obsolete_keys`."""
        held = [key for values in self._generations.values() for key in values]
        return [*held, *self._bare]

    def greatest_cut(self, origin: StateOrigin) -> int:
        """Return the highest cut of a manifest with this origin, 0 if there is none.

        Pages are not checked. The result is `LeaseAcquired.min_cut` of the next writer."""
        manifests = (m for g in self._generations for m in self._manifests(g).manifests)
        wanted = self._design, self._topic_id, origin
        return max((m.cut for m in manifests if _line(m) == wanted), default=0)

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Process one record; a record with an invalid key is counted as foreign and ignored."""
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
        elif name.generation >= offset:  # precedes its own claim: from a deleted topic
            self.foreign += 1
        elif value is None:
            self._remove(name.generation, key)
        else:
            self._bare.pop(key, None)
            self._generations.setdefault(name.generation, {})[key] = value
            if isinstance(name, ManifestKey) and len(self._generations) > GENERATIONS:
                self._drop_old_generations()

    def _remove(self, generation: int, key: bytes) -> None:
        self._bare.pop(key, None)
        values = self._generations.get(generation, {})
        values.pop(key, None)
        if not values:
            self._generations.pop(generation, None)

    def _drop_old_generations(self) -> None:
        """Drop generations older than the two newest ones with a complete manifest, unless they
        reach a higher cut."""
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
        """Return the checkpoint to start from, None if no manifest is complete.

        Raises `CheckpointRefused` if the newest has another design, rating topic or partition
        count, or was written by a newer worker, and `UnusableCheckpoint` if a newer checkpoint is
        incomplete and has another lineage.
        """
        self.damaged = self.unsealed = 0
        manifests: list[Manifest] = []
        for generation in sorted(self._generations, reverse=True):
            read = self._manifests(generation)
            if not manifests and read.format:
                raise CheckpointRefused(_of_another_format(read.format))
            self.damaged += read.damaged
            self.unsealed += read.unsealed
            if read.unsealed and not manifests and not read.manifests and not self._seal.keyed:
                raise CheckpointRefused(_SEALED)
            manifests += read.manifests
        if self.unsealed and not manifests:
            raise CheckpointRefused(_UNSEALED)
        digests: dict[bytes, bytes | None] = {}
        newest = next((m for m in manifests if self._counts(m, digests)), None)
        self._refuse_to_fall_back(manifests, newest)
        if newest is None:
            return None
        self._refuse_another(newest)
        older = manifests[manifests.index(newest) + 1 :]  # the newer ones are incomplete
        best = self._furthest(newest, older, digests)
        return Found(best, self.keys, self._generations[best.generation])

    def _refuse_to_fall_back(self, manifests: list[Manifest], newest: Manifest | None) -> None:
        """Refuse a damaged manifest of a newer generation than the chosen one (None: the log) if it
        has another lineage.

        A manifest is sent after its pages are acknowledged, and its pages are kept until a newer
        manifest is durable: a manifest without its pages is damaged, not unfinished. Excluded
        devices are not compared: the log repeats them.
        """
        generation, origin = (newest.generation, newest.origin) if newest else (-1, None)
        for manifest in manifests:
            if manifest.generation <= generation:
                return
            if _lineage(manifest.origin) != _lineage(origin) and not self._superseded(manifest):
                raise UnusableCheckpoint(
                    f"the newest checkpoint (generation {manifest.generation}, cut {manifest.cut}) "
                    "is damaged, and older ones have another origin: recompute the state with "
                    "`murmurec state rebuild`, with --snapshot FILE if it began from a snapshot"
                )

    def _furthest(
        self, newest: Manifest, older: list[Manifest], digests: dict[bytes, bytes | None]
    ) -> Manifest:
        """Return the complete manifest with the highest cut among those with the same origin."""
        further = [m for m in older if m.cut > newest.cut and _line(m) == _line(newest)]
        further.sort(key=_cut, reverse=True)
        return next((m for m in further if self._counts(m, digests)), newest)

    def _counts(self, manifest: Manifest, digests: dict[bytes, bytes | None]) -> bool:
        return self._is_whole(manifest, digests) and not self._superseded(manifest)

    def _manifests(self, generation: int) -> _Manifests:
        """Decode the manifests of a generation, newest first."""
        manifests, damaged, other_format, unsealed = [], 0, 0, 0
        for key, value in self._generations[generation].items():
            if key[:1] != b"M":
                continue
            try:
                manifest = decode_manifest(value, self._seal)
            except ForeignSeal:
                unsealed += 1
                continue
            except WireError as error:
                if error.reason is Reason.UNKNOWN_VERSION:
                    other_format = value[0]
                else:
                    damaged += 1
                continue
            if ManifestKey(manifest.number % 2, manifest.generation).encode() == key:
                manifests.append(manifest)
            else:
                damaged += 1
        manifests.sort(key=_number, reverse=True)
        return _Manifests(manifests, damaged, other_format, unsealed)

    def _is_whole(self, manifest: Manifest, digests: dict[bytes, bytes | None]) -> bool:
        """Return whether a manifest is consistent and the topic holds its pages; `digests` caches
        the digests of pages."""
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
        # The log cannot be replayed over another topic: its cuts name offsets of the old one.
        restart = "or start a new deployment (--prefix)"
        restore = f"restore the rating topic that it was made from, {restart}"
        for name, recorded, expected, fix in (
            ("design", manifest.design, self._design, f"set the settings back, {_WAYS_OUT}"),
            (
                "partitions",
                len(manifest.end_offsets),
                self._partitions,
                f"set partitions back, {restart}",
            ),
            ("topic id", manifest.topic_id, self._topic_id, restore),
        ):
            if recorded != expected:
                raise CheckpointRefused(
                    f"{name} {recorded} of the checkpoint is not {expected} of this worker: {fix}"
                )


def _of_another_format(number: int) -> str:
    """Return the sentence for a checkpoint of an earlier or a later format."""
    fix = (
        "install the newer version again"
        if number > CHECKPOINT_FORMAT
        else "export it with the version that wrote it, and convert the file with `murmurec state "
        "migrate`"
    )
    return (
        f"the checkpoint has format {number} and this worker reads format {CHECKPOINT_FORMAT}: "
        f"{fix}, {_WAYS_OUT}"
    )


def _pages(manifest: Manifest) -> Iterator[tuple[bytes, bytes]]:
    """Yield the record key and the digest of every page that the manifest expects in the topic."""
    for number, array in enumerate(manifest.arrays):
        for page, slot in enumerate(array.slots):
            if slot != UNCHANGED:
                at = page * DIGEST_BYTES
                key = PageKey(number, page, slot, manifest.generation).encode()
                yield key, array.digests[at : at + DIGEST_BYTES]


def _lineage(origin: StateOrigin | None) -> tuple[str, bool, int]:
    """Return the origin without its excluded devices; None is the log alone."""
    return (origin.snapshot, origin.truncated, origin.cut) if origin else ("", False, 0)


def _line(manifest: Manifest) -> tuple[str, str, StateOrigin]:
    """Return design, topic id and origin: manifests with equal ones are states of one history."""
    return manifest.design, manifest.topic_id, manifest.origin


def _number(manifest: Manifest) -> int:
    return manifest.number


def _cut(manifest: Manifest) -> int:
    return manifest.cut

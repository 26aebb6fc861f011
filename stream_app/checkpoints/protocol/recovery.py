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

Of a page its offset and its digest are held, not its bytes: `streaming` puts those in place. Owners
remove old generations; if owners die repeatedly before that, generations older than the newest
`GENERATIONS` are dropped while reading.

A manifest whose cut the cut log has superseded is skipped, as if the topic did not hold it: the log
had lost its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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
WAYS_OUT = "or run `murmurec worker --rebuild` to start over from the log"


class CheckpointRefused(Exception):
    """The newest checkpoint is not usable by this worker; the message names the fixes."""


class OtherDesign(CheckpointRefused):
    """The newest checkpoint has another design; `design` is its fingerprint."""

    def __init__(self, sentence: str, design: str) -> None:
        super().__init__(sentence)
        self.design = design


class UnusableCheckpoint(CheckpointRefused):
    """The newest checkpoint is damaged, and no other one in the topic can replace it."""


@dataclass(frozen=True, eq=False)
class Found:
    """A complete checkpoint; `keys` are all keys of the topic (`LeaseAcquired.obsolete_keys`)."""

    manifest: Manifest
    keys: list[bytes]


class Page(NamedTuple):
    """The record of a page that was read: its digest and its bytes."""

    key: PageKey
    digest: bytes
    data: memoryview


class _Generation:
    """The records of one generation by key: where each page and each manifest lies, and the digest
    of the page (None: damaged) or the value of the manifest."""

    def __init__(self) -> None:
        self.pages: dict[bytes, tuple[int, bytes | None]] = {}
        self.manifests: dict[bytes, tuple[int, bytes]] = {}

    def __iter__(self) -> Iterator[bytes]:
        yield from self.pages
        yield from self.manifests

    def remove(self, key: bytes) -> bool:
        """Remove a key; return whether the generation is empty then."""
        self.pages.pop(key, None)
        self.manifests.pop(key, None)
        return not (self.pages or self.manifests)

    def holds(self, key: bytes, digest: bytes) -> bool:
        """Return whether the newest record of a page has this digest."""
        return self.pages.get(key, (0, None))[1] == digest


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
        self.design = design
        self._topic_id, self._partitions = topic_id, partitions
        self.seal, self._superseded = seal, superseded
        self._generations: dict[int, _Generation] = {}
        self._reads_again = False  # then a generation may lack a manifest that is yet to come
        self._bare: dict[bytes, None] = {}  # claims, and keys of dropped generations
        self.records = self.foreign = self.damaged = self.unsealed = 0

    @property
    def keys(self) -> list[bytes]:
        """Every valid key that the topic holds, for `LeaseAcquired.obsolete_keys`."""
        held = [key for generation in self._generations.values() for key in generation]
        return [*held, *self._bare]

    @property
    def manifests(self) -> list[Manifest]:
        """Every manifest that can be read and is not superseded; pages are not checked."""
        return [m for g in self._generations for m in self._manifests(g).manifests]

    def read(
        self, offset: int, key: bytes | None, value: bytes | None, digest: bytes | None = None
    ) -> Page | None:
        """Process one record; return the page that it holds, if any. `digest` is that of the page,
        where the caller has computed it.

        A record with an invalid key is counted as foreign and ignored.
        """
        self.records += 1
        try:
            name = decode_state_key(key)
        except WireError:
            self.foreign += 1
            return None
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
            held = self._generations.setdefault(name.generation, _Generation())
            if isinstance(name, PageKey):
                page = _page(name, value, digest)
                held.pages[key] = offset, page and page.digest
                return page
            held.manifests[key] = offset, value
            if len(self._generations) > GENERATIONS and not self._reads_again:
                self._drop_old_generations()
        return None

    def rewind(self, offset: int) -> None:
        """Drop the pages and manifests that were read from `offset` on: the topic is to be read
        again from there to its end."""
        for held in self._generations.values():
            held.pages = {k: at for k, at in held.pages.items() if at[0] < offset}
            held.manifests = {k: at for k, at in held.manifests.items() if at[0] < offset}
        self._reads_again = True

    def offset(self, key: PageKey) -> int:
        """Return the offset of the newest record of a page; raises KeyError without one."""
        return self._generations[key.generation].pages[key.encode()][0]

    def _remove(self, generation: int, key: bytes) -> None:
        self._bare.pop(key, None)
        held = self._generations.get(generation)
        if held is not None and held.remove(key):
            del self._generations[generation]

    def _drop_old_generations(self) -> None:
        """Drop generations older than the two newest ones with a complete manifest, unless they
        reach a higher cut."""
        newer: list[int] = []  # their cuts
        for generation in sorted(self._generations, reverse=True):
            held = self._generations[generation]
            manifests = self._manifests(generation).manifests
            found = [m for m in manifests if all(k.encode() in held.pages for k, _ in pages_of(m))]
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
            if read.unsealed and not manifests and not read.manifests and not self.seal.keyed:
                raise CheckpointRefused(_SEALED)
            manifests += read.manifests
        if self.unsealed and not manifests:
            raise CheckpointRefused(_UNSEALED)
        newest = next((m for m in manifests if self._is_whole(m)), None)
        self._refuse_to_fall_back(manifests, newest)
        if newest is None:
            return None
        self._refuse_another(newest)
        older = manifests[manifests.index(newest) + 1 :]  # the newer ones are incomplete
        return Found(self._furthest(newest, older), self.keys)

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
            if _lineage(manifest.origin) != _lineage(origin):
                raise UnusableCheckpoint(
                    f"the newest checkpoint (generation {manifest.generation}, cut {manifest.cut}) "
                    "is damaged, and older ones have another origin: recompute the state with "
                    "`murmurec state rebuild`, with --snapshot FILE if it began from a snapshot"
                )

    def _furthest(self, newest: Manifest, older: list[Manifest]) -> Manifest:
        """Return the complete manifest with the highest cut among those with the same origin."""
        further = [m for m in older if m.cut > newest.cut and _line(m) == _line(newest)]
        further.sort(key=_cut, reverse=True)
        return next((m for m in further if self._is_whole(m)), newest)

    def _manifests(self, generation: int) -> _Manifests:
        """Decode the manifests of a generation that are not superseded, newest first."""
        manifests, damaged, other_format, unsealed = [], 0, 0, 0
        for key, (_, value) in self._generations[generation].manifests.items():
            try:
                manifest = decode_manifest(value, self.seal)
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
                manifests += [] if self._superseded(manifest) else [manifest]
            else:
                damaged += 1
        manifests.sort(key=_number, reverse=True)
        return _Manifests(manifests, damaged, other_format, unsealed)

    def _is_whole(self, manifest: Manifest) -> bool:
        """Return whether a manifest is consistent and the topic holds its pages."""
        held = self._generations[manifest.generation]
        whole = consistent(manifest) and all(
            held.holds(key.encode(), digest) for key, digest in pages_of(manifest)
        )
        self.damaged += not whole
        return whole

    def _refuse_another(self, manifest: Manifest) -> None:
        """Refuse a checkpoint of another design, rating topic or partition count."""
        # The log cannot be replayed over another topic: its cuts name offsets of the old one.
        restart = "or start a new deployment (--prefix)"
        restore = f"restore the rating topic that it was made from, {restart}"
        if manifest.design != self.design:
            raise OtherDesign(
                f"design {manifest.design} of the checkpoint is not {self.design} of this worker: "
                f"set the settings back, {WAYS_OUT}",
                manifest.design,
            )
        for name, recorded, expected, fix in (
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
    wanted = "newer version again" if number > CHECKPOINT_FORMAT else "version that wrote it"
    return (
        f"the checkpoint has format {number} and this worker reads format {CHECKPOINT_FORMAT}: "
        f"install the {wanted}, {WAYS_OUT}"
    )


def pages_of(manifest: Manifest) -> Iterator[tuple[PageKey, bytes]]:
    """Yield the record key and the digest of every page that a manifest expects in the topic."""
    for number, array in enumerate(manifest.arrays):
        for page, slot in enumerate(array.slots):
            if slot != UNCHANGED:
                at = page * DIGEST_BYTES
                key = PageKey(number, page, slot, manifest.generation)
                yield key, array.digests[at : at + DIGEST_BYTES]


def _page(key: PageKey, value: bytes, digest: bytes | None) -> Page | None:
    """Return the page in a record, None for a damaged one."""
    try:
        data = decode_page(value)[1]
    except WireError:
        return None
    return Page(key, digest or page_digest(data), data)


def _lineage(origin: StateOrigin | None) -> tuple[str, bool, int]:
    """Return the origin without its excluded devices; None is the log alone."""
    return (origin.snapshot, origin.truncated, origin.cut) if origin else ("", False, 0)


def greatest_cut(manifests: Iterable[Manifest], line: tuple[str, str, StateOrigin]) -> int:
    """Return the highest cut of a line of states, 0 if there is none: `LeaseAcquired.min_cut` of
    the next writer. Pages are not checked."""
    return max((m.cut for m in manifests if _line(m) == line), default=0)


def _line(manifest: Manifest) -> tuple[str, str, StateOrigin]:
    """Return design, topic id and origin: manifests with equal ones are states of one history."""
    return manifest.design, manifest.topic_id, manifest.origin


def _number(manifest: Manifest) -> int:
    return manifest.number


def _cut(manifest: Manifest) -> int:
    return manifest.cut

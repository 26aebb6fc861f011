"""A recovery that puts pages in place while it reads, so that a state is held once.

    end of the topic --hint--> the newest manifest there: aim at it
    every record     --------> the rules (`recovery`), and each page that is aimed at into the store
    at the end       --------> the rules choose a manifest: all its pages in place? done
                               else aim at it and read again, from its first missing page on

A page is put in place only if its digest is the one that the manifest aimed at names for its place;
so a page in place is right whichever record it came from, and stays when another manifest with the
same digest is aimed at. Which manifest is used is decided by the rules alone: a wrong hint costs a
second reading and nothing else. The topic may change between two readings; each forgets what the
one before has seen from its beginning on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from stream_app.checkpoints.protocol.recovery import (
    CheckpointRefused,
    Found,
    Page,
    Recovery,
    pages_of,
)
from stream_app.checkpoints.protocol.validation import consistent
from stream_app.wire.reasons import WireError
from stream_app.wire.state_records import (
    DIGEST_BYTES,
    UNCHANGED,
    ArrayPages,
    Manifest,
    decode_manifest,
)

Place = tuple[int, int]
"""The number of an array, and of a page in it."""


class PageStore(Protocol):
    """Takes the pages of a checkpoint; every page is at first that of an empty state."""

    def shape(self, manifest: Manifest) -> None:
        """Give the arrays the shapes of a manifest; what remains keeps its contents, and the rest
        is zero. Raises ValueError for a manifest of another design."""

    def put(self, array: int, page: int, data: memoryview) -> None:
        """Put a page in place; raises ValueError where it is longer or shorter than its place."""

    def clear(self, array: int, page: int) -> None:
        """Make a page that of an empty state again."""


class StreamedRecovery:
    """One recovery: `hint`, then `read` every record, then `decide`, until that gives no offset."""

    def __init__(self, recovery: Recovery, store: PageStore) -> None:
        self.rules = recovery
        self.position = 0
        """The offset after the last record that was read."""
        self._store = store
        self._aimed: Manifest | None = None
        self._chosen = False  # by the rules, not by a hint
        self._again: tuple[Manifest, int] | None = None  # what the last reading was for
        self._shaped: tuple[ArrayPages, ...] = ()  # as the store is now
        self._placed: dict[Place, bytes] = {}  # the digest of every page that is not the empty one

    def hint(self, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> bool:
        """Aim at the newest manifest among records at the end of the topic; return whether there
        is one."""
        found: list[Manifest] = []
        for _, key, value in records:
            if key is not None and key[:1] == b"M" and value:
                try:
                    found.append(decode_manifest(value, self.rules.seal))
                except WireError:
                    continue
        found.sort(key=lambda m: (m.generation, m.number), reverse=True)
        usable = (m for m in found if m.design == self.rules.design and consistent(m))
        try:
            if (newest := next(usable, None)) is not None:
                self._aim(newest)
        except ValueError:
            return False
        return newest is not None

    def read(
        self, offset: int, key: bytes | None, value: bytes | None, digest: bytes | None = None
    ) -> None:
        """Process one record; see `Recovery.read`."""
        self.position = offset + 1
        page = self.rules.read(offset, key, value, digest)
        if page is not None and self._wants(page):
            try:
                self._store.put(page.key.array, page.key.page, page.data)
            except ValueError:
                if self._chosen:
                    raise
                self._aimed = None  # the hint is a forgery
            else:
                self._placed[page.key.array, page.key.page] = page.digest

    def decide(self) -> Found | int | None:
        """At the end of the topic: return the checkpoint, all of which is in place; None if there
        is none; or the offset from which the topic must be read again.

        Raises as `Recovery.newest`, and ValueError for a checkpoint that does not fit.
        """
        found = self.rules.newest()
        if found is None:
            return None
        self._chosen = True
        if found.manifest != self._aimed:
            self._aim(found.manifest)
        missing = [
            self.rules.offset(key)
            for key, digest in pages_of(found.manifest)
            if self._placed.get((key.array, key.page)) != digest
        ]
        if not missing:
            return found
        start = min(missing)
        if self._again == (found.manifest, start):
            raise CheckpointRefused("the topic gives other records at each reading: check its disk")
        self._again = found.manifest, start
        self.rules.rewind(start)
        return start

    def _wants(self, page: Page) -> bool:
        """Return whether a page belongs where it says, and is not there yet."""
        if self._aimed is None or page.key.array >= len(self._aimed.arrays):
            return False
        array, number = self._aimed.arrays[page.key.array], page.key.page
        return (
            number < len(array.slots)
            and array.slots[number] != UNCHANGED
            and page.digest == array.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
            and self._placed.get((page.key.array, number)) != page.digest
        )

    def _aim(self, manifest: Manifest) -> None:
        """Shape the store for a manifest; pages in place stay where both manifests have them."""
        before = self._shaped
        self._store.shape(manifest)
        self._aimed, self._shaped = manifest, manifest.arrays
        for (array, page), _ in list(self._placed.items()):
            now = manifest.arrays[array]
            whole = min(_whole_pages(before[array]), _whole_pages(now))
            if page >= len(now.slots):
                del self._placed[array, page]
            elif now.slots[page] == UNCHANGED:
                self._store.clear(array, page)
                del self._placed[array, page]
            elif page >= whole and before[array].shape != now.shape:
                self._placed[array, page] = b""  # cut or lengthened: neither page's bytes


def _whole_pages(array: ArrayPages) -> int:
    """Return how many pages of an array are certainly full."""
    return max(0, len(array.slots) - 1)

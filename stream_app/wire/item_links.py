"""The public item side as records: pages of one version, and a manifest that makes them valid.

    key "SLOT/NUMBER"     page       MessagePack {kind, slot, page, cut, data}
    key "SLOT/manifest"   manifest   MessagePack {kind, slot, cut, pages, size, digest}

The topic is compacted. Versions alternate between slots 0 and 1, pages first, manifest last: while
a version is being written the earlier one remains whole in the other slot. A reader joins the pages
of a slot and takes them only with the digest that the manifest states, so it never uses half a
version, or a mix of two; of two whole ones it takes the one whose manifest was written last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated

import msgspec

from stream_app.wire.decoding import version_reason
from stream_app.wire.limits import LINKS_PAGE_BYTES, MAX_LINKS_BYTES, MAX_SEQ, VERSION
from stream_app.wire.reasons import Reason, WireError

SLOTS = 2
_DIGEST_BYTES = 16
MAX_LINKS_PAGES = -(-MAX_LINKS_BYTES // LINKS_PAGE_BYTES)
# Records among which a whole version is found, however many were written since: two versions.
NEWEST_RECORDS = 2 * (MAX_LINKS_PAGES + 1)
_MOST_VALUE = LINKS_PAGE_BYTES + 1024

Slot = Annotated[int, msgspec.Meta(ge=0, lt=SLOTS)]
LinksCut = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]


class LinksPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="p"):
    """A page of the item side that was derived after a cut."""

    slot: Slot
    page: Annotated[int, msgspec.Meta(ge=0, lt=MAX_LINKS_PAGES)]
    cut: LinksCut
    data: Annotated[bytes, msgspec.Meta(min_length=1, max_length=LINKS_PAGE_BYTES)]
    v: int = VERSION

    @property
    def key(self) -> bytes:
        """The record key, the same for every version in this slot."""
        return f"{self.slot}/{self.page}".encode()


class LinksManifest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="m"
):
    """What the pages of a slot must be: `pages` of them, together `size` bytes with `digest`
    (blake2b-128)."""

    slot: Slot
    cut: LinksCut
    pages: Annotated[int, msgspec.Meta(ge=1, le=MAX_LINKS_PAGES)]
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_LINKS_BYTES)]
    digest: Annotated[bytes, msgspec.Meta(min_length=_DIGEST_BYTES, max_length=_DIGEST_BYTES)]
    v: int = VERSION

    @property
    def key(self) -> bytes:
        """The record key."""
        return f"{self.slot}/manifest".encode()


LinksRecord = LinksPage | LinksManifest
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LinksRecord)


def encode_links(record: LinksRecord) -> bytes:
    """Return a page or a manifest as MessagePack."""
    return _encoder.encode(record)


def decode_links(key: bytes | None, value: bytes | None) -> LinksRecord:
    """Return the page or manifest of a record; raises `WireError` and nothing else."""
    if not value:
        raise WireError(Reason.EMPTY)
    if len(value) > _MOST_VALUE:
        raise WireError(Reason.TOO_LARGE)
    try:
        record: LinksRecord = _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(version_reason(value)) from None
    if record.v != VERSION:
        raise WireError(Reason.UNKNOWN_VERSION)
    if record.key != key:
        raise WireError(Reason.KEY_MISMATCH)
    return record


def links_digest(table: bytes) -> bytes:
    """Return the digest that a manifest states of the joined pages."""
    return blake2b(table, digest_size=_DIGEST_BYTES).digest()


def links_records(table: bytes, cut: int, slot: int) -> Iterator[LinksRecord]:
    """Yield the records of one version in the order in which they are written."""
    if not 1 <= len(table) <= MAX_LINKS_BYTES:
        raise ValueError(f"item side of {len(table)} bytes: 1 to {MAX_LINKS_BYTES} are published")
    starts = range(0, len(table), LINKS_PAGE_BYTES)
    for page, start in enumerate(starts):
        yield LinksPage(slot, page, cut, table[start : start + LINKS_PAGE_BYTES])
    yield LinksManifest(slot, cut, len(starts), len(table), links_digest(table))


@dataclass(frozen=True)
class LinksVersion:
    """A whole version: the slot that holds it, the cut it was derived after, its bytes."""

    slot: int
    cut: int
    table: bytes = field(repr=False)


@dataclass
class LinksReader:
    """Joins the records of the topic, given in log order, to whole versions.

    `refused` counts malformed records, `foreign` those of another version of the format.
    """

    refused: int = 0
    foreign: int = 0
    _pages: dict[tuple[int, int], LinksPage] = field(default_factory=dict)
    _manifests: dict[int, LinksManifest] = field(
        default_factory=dict
    )  # the last written at the end

    def learn(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record; a malformed one is counted and leaves the others as they are."""
        try:
            record = decode_links(key, value)
        except WireError as error:
            if error.reason is Reason.UNKNOWN_VERSION:
                self.foreign += 1
            else:
                self.refused += 1
            return
        if isinstance(record, LinksPage):
            self._pages[record.slot, record.page] = record
        else:
            self._manifests.pop(record.slot, None)
            self._manifests[record.slot] = record

    @property
    def manifests(self) -> int:
        """How many slots have a manifest, whether their pages are whole or not."""
        return len(self._manifests)

    @property
    def pages(self) -> int:
        """How many pages were read, of whole versions or not."""
        return len(self._pages)

    def newest(self) -> LinksVersion | None:
        """Return the whole version whose manifest was written last; None where none is whole."""
        for manifest in reversed(self._manifests.values()):
            table = self._joined(manifest)
            if table is not None:
                return LinksVersion(manifest.slot, manifest.cut, table)
        return None

    def _joined(self, manifest: LinksManifest) -> bytes | None:
        pages = [self._pages.get((manifest.slot, page)) for page in range(manifest.pages)]
        if any(page is None or page.cut != manifest.cut for page in pages):
            return None
        table = b"".join(page.data for page in pages if page is not None)
        whole = len(table) == manifest.size and links_digest(table) == manifest.digest
        return table if whole else None

"""A public table as records: pages of one version, and a manifest that makes them valid.

    key "SLOT/NUMBER"     page       MessagePack {kind, slot, page, cut, data}
    key "SLOT/manifest"   manifest   MessagePack {kind, slot, cut, pages, size, digest}

A topic holds one table: the item side of ratings, or that of a campaign. It is compacted. Versions
alternate between slots 0 and 1, pages first, manifest last: while a version is being written the
earlier one remains whole in the other slot. A reader joins the pages of a slot and takes them only
with the digest that the manifest states, so it never uses half a version, or a mix of two; of two
whole ones it takes the one whose manifest was written last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated

import msgspec

from stream_app.wire.decoding import checked
from stream_app.wire.limits import MAX_SEQ, MAX_TABLE_BYTES, TABLE_PAGE_BYTES, VERSION
from stream_app.wire.reasons import Reason, WireError

SLOTS = 2
_DIGEST_BYTES = 16
MAX_TABLE_PAGES = -(-MAX_TABLE_BYTES // TABLE_PAGE_BYTES)
# Records among which a whole version is found, however many were written since: two versions.
NEWEST_RECORDS = 2 * (MAX_TABLE_PAGES + 1)
_MOST_VALUE = TABLE_PAGE_BYTES + 1024

Slot = Annotated[int, msgspec.Meta(ge=0, lt=SLOTS)]
TableCut = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]


class TablePage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="p"):
    """A page of the table that was derived after a cut."""

    slot: Slot
    page: Annotated[int, msgspec.Meta(ge=0, lt=MAX_TABLE_PAGES)]
    cut: TableCut
    data: Annotated[bytes, msgspec.Meta(min_length=1, max_length=TABLE_PAGE_BYTES)]
    v: int = VERSION

    @property
    def key(self) -> bytes:
        """The record key, the same for every version in this slot."""
        return f"{self.slot}/{self.page}".encode()


class TableManifest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="m"
):
    """What the pages of a slot must be: `pages` of them, together `size` bytes with `digest`
    (blake2b-128)."""

    slot: Slot
    cut: TableCut
    pages: Annotated[int, msgspec.Meta(ge=1, le=MAX_TABLE_PAGES)]
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_TABLE_BYTES)]
    digest: Annotated[bytes, msgspec.Meta(min_length=_DIGEST_BYTES, max_length=_DIGEST_BYTES)]
    v: int = VERSION

    @property
    def key(self) -> bytes:
        """The record key."""
        return f"{self.slot}/manifest".encode()


TableRecord = TablePage | TableManifest
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(TableRecord)


def encode_table_record(record: TableRecord) -> bytes:
    """Return a page or a manifest as MessagePack."""
    return _encoder.encode(record)


def decode_table_record(key: bytes | None, value: bytes | None) -> TableRecord:
    """Return the page or manifest of a record; raises `WireError` and nothing else."""
    record: TableRecord = checked(_decoder.decode, value, _MOST_VALUE)
    if record.key != key:
        raise WireError(Reason.KEY_MISMATCH)
    return record


def table_digest(table: bytes) -> bytes:
    """Return the digest that a manifest states of the joined pages."""
    return blake2b(table, digest_size=_DIGEST_BYTES).digest()


def table_records(table: bytes, cut: int, slot: int) -> Iterator[TableRecord]:
    """Yield the records of one version in the order in which they are written."""
    if not 1 <= len(table) <= MAX_TABLE_BYTES:
        raise ValueError(f"table of {len(table)} bytes: 1 to {MAX_TABLE_BYTES} are published")
    starts = range(0, len(table), TABLE_PAGE_BYTES)
    for page, start in enumerate(starts):
        yield TablePage(slot, page, cut, table[start : start + TABLE_PAGE_BYTES])
    yield TableManifest(slot, cut, len(starts), len(table), table_digest(table))


@dataclass(frozen=True)
class TableVersion:
    """A whole version: the slot that holds it, the cut it was derived after, its bytes."""

    slot: int
    cut: int
    table: bytes = field(repr=False)


@dataclass
class TableReader:
    """Joins the records of the topic, given in log order, to whole versions.

    `refused` counts malformed records, `foreign` those of another version of the format.
    """

    refused: int = 0
    foreign: int = 0
    _pages: dict[tuple[int, int], TablePage] = field(default_factory=dict)
    _manifests: dict[int, TableManifest] = field(
        default_factory=dict
    )  # the last written at the end

    def learn(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record; a malformed one is counted and leaves the others as they are."""
        try:
            record = decode_table_record(key, value)
        except WireError as error:
            if error.reason is Reason.UNKNOWN_VERSION:
                self.foreign += 1
            else:
                self.refused += 1
            return
        if isinstance(record, TablePage):
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

    def newest(self) -> TableVersion | None:
        """Return the whole version whose manifest was written last; None where none is whole."""
        for manifest in reversed(self._manifests.values()):
            table = self._joined(manifest)
            if table is not None:
                return TableVersion(manifest.slot, manifest.cut, table)
        return None

    def _joined(self, manifest: TableManifest) -> bytes | None:
        pages = [self._pages.get((manifest.slot, page)) for page in range(manifest.pages)]
        if any(page is None or page.cut != manifest.cut for page in pages):
            return None
        table = b"".join(page.data for page in pages if page is not None)
        whole = len(table) == manifest.size and table_digest(table) == manifest.digest
        return table if whole else None

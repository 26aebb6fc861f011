"""The newest version of a public table in the cache folder, for a device without the broker.

    digest:16  MessagePack {fetched, digest, table, entries}

The file is replaced at once and whole; one that is damaged, or of another version, counts as
absent. What it holds is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec

from stream_app.kafka import durable_file
from stream_app.wire import VERSION, CatalogueEntry
from stream_app.wire.limits import MAX_TABLE_BYTES

_DIGEST_BYTES = 16


class CachedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as published, the catalogue entries of its items, and when both were read, in
    seconds since 1970."""

    fetched: float
    digest: bytes
    table: Annotated[bytes, msgspec.Meta(max_length=MAX_TABLE_BYTES)]
    entries: tuple[CatalogueEntry, ...] = ()
    v: int = VERSION


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(CachedTable)


@dataclass(frozen=True)
class TableCache:
    """One file; `for_deployment` names it by the address and the prefix of the topics."""

    path: Path

    @classmethod
    def for_deployment(
        cls, folder: Path, bootstrap: str, prefix: str, kind: str = "item-links"
    ) -> TableCache:
        """Return the cache of a deployment's table of a kind in a folder that all share."""
        name = blake2b(f"{bootstrap}\0{prefix}".encode(), digest_size=8).hexdigest()
        return cls(folder / kind / f"{name}.table")

    def read(self) -> CachedTable | None:
        """Return what was written last; None where there is no file or not a whole one."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        stated, body = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if _digest(body) != stated:
            return None
        try:
            cached: CachedTable = _decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return cached if cached.v == VERSION else None

    def write(self, cached: CachedTable) -> bool:
        """Replace the file; return whether it could be written, as a cache is never required."""
        body = _encoder.encode(cached)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            durable_file.replace(self.path, _digest(body) + body, durable_file.SHARED)
        except OSError:
            return False
        return True


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST_BYTES).digest()

"""The public item side as a device reads it: from its topic, or from the cache.

    topic item-links --newest whole version--> item side --+--> PublicTable --> ranking, here
    topic items ------titles, withdrawn items--------------+        |
                                  cache file <-- replaced after a read, used without the broker

Nothing is sent: the device reads what is the same for all. The cached version is compared with the
newest manifest, so an unchanged table is not read again. Half a version, a mix of two, or one of
another format is never used (`stream_app.wire.public_tables`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from producers.ranking.table_cache import CachedTable, TableCache
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.compacted import exists, records
from stream_app.ranking.compact_side import CompactSideError, decode_side
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import CatalogueEntry, Topics, WireError, decode_message, key
from stream_app.wire.public_tables import (
    NEWEST_RECORDS,
    TableManifest,
    TableReader,
    decode_table_record,
    table_digest,
)

_STRING = 1 << 63


@dataclass(frozen=True, eq=False)
class PublicTable:
    """An item side, the catalogue entries of its items by key, and the time (seconds since 1970)
    when both were read. `problem` says why an older, cached one is used; empty for the newest."""

    side: ItemSide
    entries: Mapping[int, CatalogueEntry] = field(default_factory=dict)
    fetched: float = 0.0
    problem: str = ""

    def item(self, item_key: int) -> int | str:
        """Return the id of an item; a hashed id without a catalogue entry as `key:` and 16 hex."""
        if item_key in self.entries:
            return self.entries[item_key].item
        return f"key:{item_key:016x}" if item_key & _STRING else item_key

    def title(self, item_key: int) -> str | None:
        """Return the title of an item, None where the catalogue has none."""
        entry = self.entries.get(item_key)
        return (entry.title or None) if entry else None

    def is_withdrawn(self, item_key: int) -> bool:
        """Return whether the catalogue withdraws an item."""
        entry = self.entries.get(item_key)
        return entry is not None and entry.withdrawn


def read(
    connection: Connection, prefix: str, cache: TableCache | None = None, *, offline: bool = False
) -> PublicTable:
    """Return the newest whole item side; the cached one where the broker does not answer, where
    no version in the topic is whole, or `offline`.

    Raises UserError, with the reason, where there is neither.
    """
    cached = cache.read() if cache is not None else None
    if offline:
        if cached is None:
            raise UserError("no item side in the cache: read one first, without --offline")
        return _from_cache(cached, "not asked for a newer one (--offline)")
    try:
        clients.describe_cluster(connection)
    except UserError as error:
        if cached is None:
            raise
        return _from_cache(cached, str(error))
    topics = Topics(prefix)
    try:
        digest, table = _newest(connection, topics.item_links, cached)
        side = decode_side(table)
    except (_NotWhole, CompactSideError) as error:
        sentence = f"{topics.item_links}: {error}"
        if cached is None:
            raise UserError(f"{sentence}; try again in a minute") from None
        return _from_cache(cached, sentence)
    entries = _entries(connection, topics.items, side.keys.tolist())
    fresh = CachedTable(time.time(), digest, table, tuple(entries.values()))
    if cache is not None:
        cache.write(fresh)
    return PublicTable(side, entries, fresh.fetched)


class _NotWhole(ValueError):
    """The topic has records but no version that is whole."""


def _newest(connection: Connection, topic: str, cached: CachedTable | None) -> tuple[bytes, bytes]:
    """Return digest and bytes of the newest whole version; the cached bytes where they are it."""
    if not exists(connection, topic):
        raise UserError(f"topic {topic} does not exist: create it with murmurec topics apply")
    if cached is not None and _last_digest(connection, topic) == cached.digest:
        return cached.digest, cached.table
    reader = TableReader()
    for newest in (NEWEST_RECORDS, None):
        reader = TableReader()
        for message in records(connection, topic, newest=newest):
            reader.learn(message.key(), message.value())
        version = reader.newest()
        if version is not None:
            return table_digest(version.table), version.table
    if reader.foreign:
        raise _NotWhole(
            "the item side is in another format; install the version of murmurec that the "
            "workers run"
        )
    if reader.manifests or reader.refused or reader.pages:
        raise _NotWhole("no version of the item side is whole")
    raise UserError(
        f"no item side in {topic} yet: a worker publishes it once enough devices have rated; try "
        "again later, or ask the server with murmurec ask"
    )


def _last_digest(connection: Connection, topic: str) -> bytes | None:
    """Return the digest of the manifest at the end of the topic; None for another record there."""
    digest = None
    for message in records(connection, topic, newest=1):
        try:
            record = decode_table_record(message.key(), message.value())
        except WireError:
            digest = None
            continue
        digest = record.digest if isinstance(record, TableManifest) else None
    return digest


def _entries(connection: Connection, topic: str, keys: Iterable[int]) -> dict[int, CatalogueEntry]:
    """Return the catalogue entries of some items; empty where the reader may not read them."""
    wanted, found = frozenset(keys), dict[int, CatalogueEntry]()
    try:
        for message in records(connection, topic):
            _learn(found, wanted, message.key(), message.value())
    except UserError:
        return {}
    return found


def _learn(
    found: dict[int, CatalogueEntry],
    wanted: frozenset[int],
    record_key: bytes | None,
    value: bytes | None,
) -> None:
    if not value:  # a tombstone: the name 5 may belong to the number or to the string
        name = (record_key or b"").decode(errors="replace")
        for item in [k for k, entry in found.items() if str(entry.item) == name]:
            del found[item]
        return
    try:
        entry: CatalogueEntry = decode_message(CatalogueEntry, value)
        item = key(entry.item)
    except (WireError, ValueError):
        return
    if item in wanted:
        found[item] = entry


def _from_cache(cached: CachedTable, problem: str) -> PublicTable:
    try:
        side = decode_side(cached.table)
    except CompactSideError:
        raise UserError(
            f"{problem}; and the cache holds no item side of this version: run the command again "
            "where the broker can be reached"
        ) from None
    entries = {key(entry.item): entry for entry in cached.entries}
    return PublicTable(side, entries, cached.fetched, problem)

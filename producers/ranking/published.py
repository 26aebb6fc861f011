"""A public table as a device reads it: from its topic, or from the cache.

    its topic ----newest whole version--> table --+--> PublicTable --> ranking, here
    topic items --titles, withdrawn items---------+        |
                             cache file <-- replaced after a read, used without the broker

Nothing is sent, and what is read does not depend on what the user has rated: it is the same for
all. The cached version is compared with the newest manifest, so an unchanged table is not read
again. Half a version, a mix of two, or one of another format is never used
(`wire/public_tables.py`).

    digest:16  MessagePack {fetched, digest, table, entries}        the cache file

The file is replaced at once and whole; one that is damaged, or of another version, counts as
absent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Generic, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.errors import UserError
from stream_app.kafka import clients, durable_file
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import exists, records
from stream_app.wire import (
    VERSION,
    CatalogueEntry,
    Listed,
    Topics,
    WireError,
    decode_catalogue_entry,
    key,
    unlisted,
)
from stream_app.wire.limits import MAX_TABLE_BYTES
from stream_app.wire.messages import key_named
from stream_app.wire.public_tables import (
    NEWEST_RECORDS,
    TableManifest,
    TableReader,
    decode_table_record,
    table_digest,
)
from stream_app.wire.topics import absent

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


class Side(Protocol):
    """What is in a table: at least the keys (n,) uint64 of its items."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The keys of the items."""


S = TypeVar("S", bound=Side)
S_co = TypeVar("S_co", bound=Side, covariant=True)


@dataclass(frozen=True)
class Kind(Generic[S_co]):
    """A public table: its topic, the folder of its cache, how its bytes are read (ValueError for
    others), what it is called, and when there will be one."""

    topic: Callable[[Topics], str]
    folder: str
    decode: Callable[[bytes], S_co]
    noun: str
    later: str


@dataclass(frozen=True, eq=False)
class PublicTable(Generic[S_co]):
    """An item side, the catalogue entries of its items by key, and the time (seconds since 1970)
    when both were read. `problem` says why an older, cached one is used; empty for the newest."""

    side: S_co
    entries: Mapping[int, CatalogueEntry] = field(default_factory=dict)
    fetched: float = 0.0
    problem: str = ""

    def item(self, item_key: int) -> Listed:
        """Return the id of an item, or its key where it has no entry in the catalogue."""
        entry = self.entries.get(item_key)
        return unlisted(item_key) if entry is None else entry.item

    def title(self, item_key: int) -> str | None:
        """Return the title of an item, None where the catalogue has none."""
        entry = self.entries.get(item_key)
        return (entry.title or None) if entry else None

    def is_withdrawn(self, item_key: int) -> bool:
        """Return whether the catalogue withdraws an item."""
        entry = self.entries.get(item_key)
        return entry is not None and entry.withdrawn


class Missing(UserError):
    """There is no such table, neither in its topic nor in the cache."""


class _NotWhole(ValueError):
    """The topic has records but no version that is whole."""


@dataclass(frozen=True)
class Source:
    """The deployment that tables are read from; `problem` says why only the cache is used."""

    connection: Connection
    prefix: str
    cache_dir: Path | None = None
    problem: str = ""
    offline: bool = False

    @classmethod
    def of_deployment(
        cls,
        connection: Connection,
        prefix: str,
        cache_dir: Path | str | None = None,
        *,
        offline: bool = False,
    ) -> Source:
        """Return the source; looks whether the broker answers, unless `offline`."""
        problem = "not asked for a newer one (--offline)" if offline else ""
        if not offline:
            try:
                clients.describe_cluster(connection)
            except UserError as error:
                problem = str(error)
        folder = None if cache_dir is None else Path(cache_dir).expanduser()
        return cls(connection, prefix, folder, problem, offline)

    def read(self, kind: Kind[S]) -> PublicTable[S]:
        """Return the newest whole table; the cached one where the broker does not answer, where no
        version in the topic is whole, or offline.

        Raises `Missing` where there is none, and UserError with the reason where it cannot be read.
        """
        cache = self._cache(kind)
        cached = cache.read() if cache is not None else None
        if self.problem:
            if cached is not None:
                return _from_cache(kind, cached, self.problem)
            if self.offline:
                raise Missing(f"no {kind.noun} in the cache: read one first, without --offline")
            raise UserError(self.problem)
        topic = kind.topic(Topics(self.prefix))
        try:
            digest, table = _newest(self.connection, topic, kind, cached)
            side = kind.decode(table)
        except ValueError as error:
            sentence = f"{topic}: {error}"
            if cached is None:
                raise UserError(f"{sentence}; try again in a minute") from None
            return _from_cache(kind, cached, sentence)
        entries = _entries(self.connection, Topics(self.prefix).items, side.keys.tolist())
        fresh = CachedTable(time.time(), digest, table, tuple(entries.values()))
        if cache is not None:
            cache.write(fresh)
        return PublicTable(side, entries, fresh.fetched)

    def holds(self, kind: Kind[Side]) -> bool:
        """Return whether there is such a table, by its last record or its cache alone."""
        if self.problem:
            cache = self._cache(kind)
            return cache is not None and cache.read() is not None
        topic = kind.topic(Topics(self.prefix))
        return exists(self.connection, topic) and _last_digest(self.connection, topic) is not None

    def _cache(self, kind: Kind[Side]) -> TableCache | None:
        if self.cache_dir is None:
            return None
        bootstrap = self.connection.bootstrap
        return TableCache.for_deployment(self.cache_dir, bootstrap, self.prefix, kind.folder)


def _newest(
    connection: Connection, topic: str, kind: Kind[Side], cached: CachedTable | None
) -> tuple[bytes, bytes]:
    """Return digest and bytes of the newest whole version; the cached bytes where they are it."""
    if not exists(connection, topic):
        raise Missing(absent(topic))
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
            f"the {kind.noun} is in another format; install the version of murmurec that the "
            "workers run"
        )
    if reader.manifests or reader.refused or reader.pages:
        raise _NotWhole(f"no version of the {kind.noun} is whole")
    raise Missing(f"no {kind.noun} in {topic} yet: {kind.later}")


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
    if not value:
        gone = key_named(record_key)
        if gone is not None and gone in found and str(found[gone].item).encode() == record_key:
            del found[gone]
        return
    try:
        entry = decode_catalogue_entry(record_key, value)
    except WireError:
        return
    item = key(entry.item)
    if item in wanted:
        found[item] = entry


def _from_cache(kind: Kind[S], cached: CachedTable, problem: str) -> PublicTable[S]:
    try:
        side = kind.decode(cached.table)
    except ValueError:
        raise UserError(
            f"{problem}; and the cache holds no {kind.noun} of this version: run the command again "
            "where the broker can be reached"
        ) from None
    entries = {key(entry.item): entry for entry in cached.entries}
    return PublicTable(side, entries, cached.fetched, problem)

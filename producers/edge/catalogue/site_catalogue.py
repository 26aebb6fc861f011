"""The site's catalogue: rows in the store, and a copy in memory that filters and lists read.

    put_many     insert, or replace whole
    remove       the item's data go, and a row stays: no list shows it again until it is put
    snapshot()   all of it; made anew where the catalogue has changed

Each change writes a new random tag in its transaction, so that a copy is known to be old by one
short read. This edge sees its own changes at once, and those of others within a second.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Row, case, select

from producers.datasets.item_files import Attribute, ItemRow, checked
from producers.edge.events.event import item_id
from producers.edge.store.database import Database
from producers.edge.store.store_tables import items

__all__ = ["Catalogue", "ItemRow", "Snapshot"]

_FIELDS = ItemRow.__struct_fields__
_TAG = "catalogue"
_LOOK_SECONDS = 1.0
_CHUNK = 1_000


@dataclass(frozen=True)
class Snapshot:
    """The catalogue of one moment, read-only; a later one has a higher version.

    `rows`: the items by their text, hidden ones too; `away`: those that were removed, which no list
    may show, even where events name them.
    """

    version: int
    rows: Mapping[str, ItemRow]
    away: frozenset[str]


class Catalogue:
    """The items of a store; for any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._tag: bytes | None = None
        self._looked = -math.inf
        self._snapshot = Snapshot(0, {}, frozenset())
        insertion = database.insertion(items)
        given = insertion.excluded
        # An item that is put again is as old as it was, unless the site says otherwise.
        added = case((given.added == given.changed, items.c.added), else_=given.added)
        kept = {name: given[name] for name in (*_FIELDS, "removed", "changed") if name != "item"}
        self._insertion = insertion.on_conflict_do_update(
            index_elements=["item"], set_={**kept, "added": added}
        )

    def put_many(self, rows: Sequence[ItemRow]) -> int:
        """Insert items or replace them whole in one transaction, the last row of each; return how
        many. ValueError for a row beyond the limits."""
        now = int(time.time() * 1000)
        read = (checked(msgspec.structs.asdict(row)) for row in rows)
        latest = {row.item: _stored(row, now) for row in read}
        self._write(list(latest.values()))
        return len(latest)

    def remove(self, item: str) -> bool:
        """Remove an item's data, so that no list shows it; return whether it was in the catalogue.

        An item that only events name is kept off lists, too.
        """
        text = item_id(item)
        was = self.get(text) is not None
        row = _stored(ItemRow(item=text, available=False, hidden=True), int(time.time() * 1000))
        self._write([{**row, "removed": True}])
        return was

    def get(self, item: str) -> ItemRow | None:
        """Return an item; None for one that is not in the catalogue."""
        wanted = select(items).where(items.c.item == item_id(item), items.c.removed.is_(False))
        with self._database.reading() as connection:
            found = connection.execute(wanted).first()
        return None if found is None else _row(found)

    def snapshot(self) -> Snapshot:
        """Return the catalogue as it is, at most a second old where another edge changes it."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return self._snapshot
        with self._lock:
            looked = time.monotonic()
            with self._database.reading() as connection:
                # Before the items: what changes between the two reads has another tag.
                tag = self._database.tag(connection, _TAG)
                if tag != self._tag:
                    found = connection.execute(select(items).order_by(items.c.number)).all()
                    rows = {row.item: _row(row) for row in found if not row.removed}
                    away = frozenset(row.item for row in found if row.removed)
                    self._snapshot = Snapshot(self._snapshot.version + 1, rows, away)
                    self._tag = tag
            self._looked = looked
            return self._snapshot

    def _write(self, rows: list[dict[str, Any]]) -> None:
        with self._database.writing() as connection:
            for start in range(0, len(rows), _CHUNK):
                connection.execute(self._insertion, rows[start : start + _CHUNK])
            self._database.retag(connection, _TAG)
        self._looked = -math.inf


_texts = msgspec.json.Decoder(tuple[str, ...])
_JSON: dict[str, msgspec.json.Decoder[Any]] = {
    **{"categories": _texts, "labels": _texts},
    "attributes": msgspec.json.Decoder(dict[str, Attribute]),
}


def _stored(row: ItemRow, now_ms: int) -> dict[str, Any]:
    fields = msgspec.structs.asdict(row)
    fields |= {name: msgspec.json.encode(fields[name]).decode() for name in _JSON}
    return {**fields, "added": row.added or now_ms, "removed": False, "changed": now_ms}


def _row(found: Row[Any]) -> ItemRow:
    fields = {name: getattr(found, name) for name in _FIELDS}
    return ItemRow(**fields | {name: each.decode(fields[name]) for name, each in _JSON.items()})

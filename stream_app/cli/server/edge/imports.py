"""Files into the store of an edge: items and events, one's own or those of Gorse and Metarank.

What is imported again counts once. Rows that are none are counted by their reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from producers.edge.catalogue.item_files import rows_of as items_of
from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow
from producers.edge.events.event import Event, Refused
from producers.edge.events.event_files import rows_of as events_of
from producers.edge.events.feedback_rows import FeedbackRows
from producers.edge.events.feedback_types import FeedbackTypes
from producers.edge.events.foreign_formats import foreign_rows
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from stream_app.cli.output import plural, say
from stream_app.errors import UserError

_BATCH = 10_000
_TYPES = {".json": "application/json", ".ndjson": "application/x-ndjson"}
_TYPES |= {".jsonl": "application/x-ndjson", ".csv": "text/csv"}


def import_items(database: Database, path: Path) -> None:
    """Write the items of a file into the catalogue."""
    foreign = foreign_rows(path.expanduser(), FeedbackTypes())
    if foreign is not None:
        _store_items(database, [row for row in foreign if isinstance(row, ItemRow)], str(path))
        return
    try:
        body = path.expanduser().read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    read = items_of(body, _TYPES.get(path.suffix.lower(), ""))
    if not read.rows:
        sentence = f": {read.refused[0].sentence}" if read.refused else ""
        raise UserError(f"{path}: holds no item{sentence}")
    Catalogue(database).put_many(read.rows)
    columns = ", ".join(f"{name} as {use}" for name, use in read.recognised.items())
    say(f"{path}: {plural(len(read.rows), 'item')}{f' ({columns})' if columns else ''}")
    _say_refused(Counter(each.reason for each in read.refused))


def import_events(database: Database, terms: SiteTerms, path: Path) -> None:
    """Write the events of a file into the store."""
    foreign = foreign_rows(path.expanduser(), terms.feedback)
    store_events(database, terms, foreign or events_of(path, terms.feedback), str(path))


def store_events(
    database: Database, terms: SiteTerms, rows: Iterable[Event | ItemRow | Refused], name: str
) -> None:
    """Write events, so many in a transaction, and items; say how many were new."""
    writer = FeedbackRows(database, terms.feedback, signed=terms.signed)
    refused, new, repeated = Counter[str](), 0, 0
    items: list[ItemRow] = []
    events = _events(rows, refused, items)
    while batch := list(islice(events, _BATCH)):
        found = writer.write(batch)
        new += sum(found)
        repeated += len(found) - sum(found)
    if items:
        _store_items(database, items, name)
    elif not new + repeated:
        reason = f" ({next(iter(refused))})" if refused else ""
        raise UserError(f"{name}: holds no event{reason}; murmurec edge reads CSV and NDJSON")
    say(f"{name}: {plural(new, 'event')}, {repeated} known before")
    _say_refused(refused)


def _store_items(database: Database, items: list[ItemRow], name: str) -> None:
    if not items:
        raise UserError(f"{name}: holds no item")
    count = Catalogue(database).put_many(items)
    say(f"{name}: {plural(count, 'item')}")


def _events(
    rows: Iterable[Event | ItemRow | Refused], refused: Counter[str], items: list[ItemRow]
) -> Iterator[Event]:
    for row in rows:
        if isinstance(row, Event):
            yield row
        elif isinstance(row, ItemRow):
            items.append(row)
        else:
            refused[row.reason] += 1


def _say_refused(refused: Counter[str]) -> None:
    if refused:
        reasons = ", ".join(f"{reason} {count}" for reason, count in refused.most_common(5))
        say(f"refused rows: {reasons}")

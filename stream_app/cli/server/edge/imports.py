"""Files into the store of an edge: items and events, one's own or those of Gorse and Metarank.

What is imported again counts once. Rows that are none are counted by their reason.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

from producers.datasets.item_files import read
from producers.datasets.item_files import rows_of as items_of
from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow
from producers.edge.events.event import Event
from producers.edge.events.event_files import rows_of as events_of
from producers.edge.events.feedback_rows import FeedbackRows
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from stream_app.cli.output import plural, say
from stream_app.errors import UserError

_BATCH = 10_000
_TYPES = {".json": "application/json", ".ndjson": "application/x-ndjson"}
_TYPES |= {".jsonl": "application/x-ndjson", ".csv": "text/csv"}


def import_items(database: Database, path: Path) -> None:
    """Write the items of a site's own file into the catalogue."""
    found = items_of(read(path.expanduser()), _TYPES.get(path.suffix.lower(), ""))
    if not found.rows:
        sentence = f": {found.refused[0].sentence}" if found.refused else ""
        raise UserError(f"{path}: holds no item{sentence}")
    Catalogue(database).put_many(found.rows)
    columns = ", ".join(f"{name} as {use}" for name, use in found.recognised.items())
    say(f"{path}: {plural(len(found.rows), 'item')}{f' ({columns})' if columns else ''}")
    _say_refused(Counter(each.reason for each in found.refused))


def import_events(database: Database, terms: SiteTerms, path: Path) -> None:
    """Write the events of a file into the store, so many in a transaction, and an export's items;
    say how many were new."""
    writer = FeedbackRows(database, terms.feedback, signed=terms.signed)
    refused, taken, new = Counter[str](), 0, 0
    items: list[ItemRow] = []
    rows = events_of(path, terms.feedback)
    while batch := list(islice(rows, _BATCH)):
        events = [row for row in batch if isinstance(row, Event)]
        items += (row for row in batch if isinstance(row, ItemRow))
        refused.update(row.reason for row in batch if not isinstance(row, Event | ItemRow))
        taken, new = taken + len(events), new + sum(writer.write(events) if events else ())
    if items:
        say(f"{path}: {plural(Catalogue(database).put_many(items), 'item')}")
    elif not taken:
        reason = f" ({next(iter(refused))})" if refused else ""
        raise UserError(f"{path}: holds no event{reason}; murmurec edge reads CSV and NDJSON")
    say(f"{path}: {plural(new, 'event')}, {taken - new} known before")
    _say_refused(refused)


def _say_refused(refused: Counter[str]) -> None:
    if refused:
        reasons = ", ".join(f"{reason} {count}" for reason, count in refused.most_common(5))
        say(f"refused rows: {reasons}")

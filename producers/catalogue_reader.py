"""Publishing the catalogue: ids, titles, genres and years of items, which are public.

An event names a text id by its hash, so the text must be in the catalogue before an answer can name
the item. Titles are for display; genres and years may also be features of a campaign. The topic is
compacted: the newest entry of an item counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from producers.datasets.columns import Description, Descriptions
from producers.datasets.formats import holds_ratings
from producers.datasets.item_files import read, rows_of
from producers.datasets.load import load
from producers.publishing import Publisher
from stream_app.errors import UserError
from stream_app.wire import CatalogueEntry, encode_message, parse_item
from stream_app.wire.limits import MAX_TITLE

_FIELDS = ("item", "title", "categories", "year")
_NAMED = 5  # refused rows of one sentence


def file_entries(file: Path) -> tuple[list[CatalogueEntry], str]:
    """Return the entries of a file, and which columns were taken for what; nothing of ratings.

    UserError for a file with a row that is no item.
    """
    if holds_ratings(file):
        data = load(file)
        return list(entries(set(data.items.tolist()), data.described)), ""
    found = rows_of(read(file), file.suffix.lstrip("."), _FIELDS)
    if found.refused or not found.rows:
        reasons = [
            f"row {each.row} (the header not counted): {each.sentence}"
            if each.row
            else each.sentence
            for each in found.refused
        ]
        more = f"; and {len(reasons) - _NAMED} more" if len(reasons) > _NAMED else ""
        raise UserError(
            f"{file}: {'; '.join(reasons[:_NAMED]) or 'has no rows'}{more}; nothing was published: "
            "correct the file, or remove the rows"
        )
    described: dict[int | str, Description] = {}
    for row in found.rows:
        about = Description(row.title, row.categories, row.year)
        if described.setdefault(parse_item(row.item), about) != about:
            raise UserError(
                f"{file}: item {row.item} stands in two rows that differ; nothing was published: "
                "keep one of them"
            )
    columns = ", ".join(f"{name} as {field}" for name, field in found.recognised.items())
    ignored = f"; ignored: {', '.join(found.ignored)}" if found.ignored else ""
    return list(entries(described, described)), f"{columns}{ignored}"


def entries(
    items: Iterable[int | str], described: Descriptions | None = None
) -> Iterator[CatalogueEntry]:
    """Yield an entry for every item with a description or a text id, once each."""
    described = described or {}
    for item in dict.fromkeys([*described, *(parse_item(str(name)) for name in items)]):
        found = described.get(item, Description())
        if any(found) or isinstance(item, str):
            yield CatalogueEntry(item, found.title[:MAX_TITLE], found.genres, found.year)


def publish(publisher: Publisher, catalogue: Iterable[CatalogueEntry]) -> int:
    """Send entries, close the publisher and return their number.

    Raises UserError with the number of entries that were not accepted, after all were sent.
    """
    with publisher:
        for entry in catalogue:
            publisher.send(str(entry.item).encode(), encode_message(entry))
    if publisher.failed:
        raise UserError(
            f"{publisher.failed} of {publisher.sent} catalogue entries were not accepted: "
            f"{publisher.first_error}"
        )
    return publisher.accepted

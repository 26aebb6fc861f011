"""Publishing the catalogue: ids, titles, genres and years of items, which are public.

An event names a text id by its hash, so the text must be in the catalogue before an answer can name
the item. Titles are for display; genres and years may also be features of a campaign. The topic is
compacted: the newest entry of an item counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from producers.datasets.columns import Description, Descriptions
from producers.ids import item_of
from producers.publishing import Publisher
from stream_app.errors import UserError
from stream_app.wire import CatalogueEntry, encode_message
from stream_app.wire.limits import MAX_TITLE


def entries(
    items: Iterable[int | str], described: Descriptions | None = None
) -> Iterator[CatalogueEntry]:
    """Yield an entry for every item with a description or a text id, once each."""
    described = described or {}
    for name in dict.fromkeys([*described, *items]):
        item = item_of(name if isinstance(name, str) else int(name))
        found = described.get(name, Description())
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

"""Publishing the catalogue: ids and titles of items, which are public.

An event names a text id by its hash, so the text must be in the catalogue before an answer can name
the item. Titles are for display. The topic is compacted: the newest entry of an item counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from producers.ids import item_of
from producers.publishing import Publisher
from stream_app.errors import UserError
from stream_app.wire import CatalogueEntry, encode_message

_LONGEST_TITLE = 500


def entries(
    items: Iterable[int | str], titles: Mapping[int | str, str] | None = None
) -> Iterator[CatalogueEntry]:
    """Yield an entry for every item with a title or a text id, once each."""
    titles = titles or {}
    for name in dict.fromkeys([*titles, *items]):
        item = item_of(name if isinstance(name, str) else int(name))
        title = titles.get(name, "")[:_LONGEST_TITLE]
        if title or isinstance(item, str):
            yield CatalogueEntry(item, title)


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

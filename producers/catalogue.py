"""The public catalogue from a device's side: ids and titles of items, nothing about ratings.

An item whose id is a word travels as the hash of that word, so the word itself must be published
before an answer can name it. Titles are for people; both are public. The topic is compacted: the
newest entry of an item counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from producers.publishing import Publisher
from stream_app.errors import UserError
from stream_app.wire import CatalogueEntry, Item, encode_message, parse_item

_LONGEST_TITLE = 500


def entries(
    items: Iterable[int | str], titles: Mapping[int | str, str] | None = None
) -> Iterator[CatalogueEntry]:
    """Yield an entry for every item that has a title or whose id is a word."""
    titles = titles or {}
    for name in dict.fromkeys([*titles, *items]):
        item: Item = parse_item(name) if isinstance(name, str) else int(name)
        title = titles.get(name, "")[:_LONGEST_TITLE]
        if title or isinstance(item, str):
            yield CatalogueEntry(item, title)


def publish(publisher: Publisher, made: Iterable[CatalogueEntry]) -> int:
    """Send entries, close the publisher and return their number; UserError if one was refused."""
    with publisher:
        for entry in made:
            publisher.send(str(entry.item).encode(), encode_message(entry))
    if publisher.failed:
        raise UserError(
            f"{publisher.failed} of {publisher.sent} catalogue entries were not accepted: "
            f"{publisher.first_error}"
        )
    return publisher.accepted

"""Publishing the catalogue: ids, titles, genres, years and domains of items, which are public.

An event names a text id by its hash, so the text must be in the catalogue before an answer can name
the item. Titles are for display; genres and years may also be features of a campaign. The topic is
compacted: the newest entry of an item counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET

from producers.datasets.columns import Description, Descriptions
from producers.ids import item_of
from producers.publishing import Publisher
from stream_app.errors import UserError
from stream_app.wire import CatalogueEntry, encode_message
from stream_app.wire.limits import MAX_TITLE


def entries(
    items: Iterable[int | str],
    described: Descriptions | None = None,
    domain: str | None = None,
) -> Iterator[CatalogueEntry]:
    """Yield an entry for every item with a description or a text id, once each.

    With a `domain` every item has one, and is of that domain unless its description names another.
    """
    described = described or {}
    for name in dict.fromkeys([*described, *items]):
        item = item_of(name if isinstance(name, str) else int(name))
        found = described.get(name, Description())
        named = found.domain or domain
        if any(found) or named or isinstance(item, str):
            title = found.title[:MAX_TITLE]
            yield CatalogueEntry(item, title, found.genres, found.year, domain=named or UNSET)


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

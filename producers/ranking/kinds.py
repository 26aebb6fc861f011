"""The public tables that a device can rank by.

    links      what goes together in released reports: links, what follows, factors, rates
    campaign   directions of taste from the noisy sum of the newest campaign

Which of the two is taken depends on what is asked for, on the deployment's privacy mode and
on which of them there is, never on what the user has rated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from producers.ranking.published import Kind, Missing, PublicTable, Source
from stream_app.campaigns.public_side import PublishedSide, decode_published
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.ranking.compact_side import decode_side
from stream_app.ranking.item_side import ItemSide

LINKS: Kind[ItemSide] = Kind(
    lambda topics: topics.item_links,
    "item-links",
    decode_side,
    "item side",
    "a worker publishes it once enough devices have rated; try again later, or ask the server with "
    "murmurec ask",
)
CAMPAIGN: Kind[PublishedSide] = Kind(
    lambda topics: topics.item_side,
    "item-side",
    decode_published,
    "side of a campaign",
    "a worker publishes it after the first stage of a campaign (privacy_mode central or split)",
)


def campaign_side(connection: Connection, prefix: str) -> PublishedSide | None:
    """Return what is public of the newest campaign: the digest of its plan, how many stages are
    released, and the side after them; None before the first release."""
    try:
        return Source.of_deployment(connection, prefix).read(CAMPAIGN).side
    except Missing:
        return None


By = Literal["campaign", "links"]


@dataclass(frozen=True)
class Chosen:
    """The table that lists are made by, and the reason that it was taken."""

    table: PublicTable[ItemSide] | PublicTable[PublishedSide]
    reason: str


def chosen(source: Source, by: By | None, privacy_mode: str) -> Chosen:
    """Return the table that is asked for; else the one of the privacy mode, or the only one.

    Raises UserError where it cannot be read, or where there is none.
    """
    if by is not None:
        return Chosen(_read(source, by), f"by {by}, as asked for")
    first: By = "links" if privacy_mode == "local" else "campaign"
    second: By = "campaign" if first == "links" else "links"
    try:
        table = _read(source, first)
    except UserError as error:
        if not (isinstance(error, Missing) or source.problem):
            raise
        try:
            return Chosen(_read(source, second), f"by {second}: there is no {_noun(first)}")
        except UserError:
            raise error from None
    reason = f"by {first}: privacy_mode is {privacy_mode}"
    try:
        both = source.holds(LINKS if second == "links" else CAMPAIGN)
    except UserError:  # a right may be missing; the list does not need it
        both = False
    return Chosen(
        table, f"{reason} (there is also the {_noun(second)}: --by {second})" if both else reason
    )


def _read(source: Source, by: By) -> PublicTable[ItemSide] | PublicTable[PublishedSide]:
    return source.read(LINKS) if by == "links" else source.read(CAMPAIGN)


def _noun(by: By) -> str:
    return LINKS.noun if by == "links" else CAMPAIGN.noun

"""The features of a plan: genres and years of its items, from the public catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.campaigns.features import Features, features_of
from stream_app.cli.catalogue_titles import catalogue_from
from stream_app.cli.output import plural, say
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.wire.ids import Item, key


def catalogue_features(connection: Connection, prefix: str, items: Sequence[Item]) -> Features:
    """Return genres and years of the items of a scope, as they stand in the catalogue now.

    They go into the plan: a later change of the catalogue changes no campaign.
    """
    catalogue = catalogue_from(connection, prefix)
    entries = [catalogue.entry(key(item)) for item in items]
    known = sum(bool(entry.genres or entry.year) for entry in entries)
    if not known:
        raise UserError(
            "--meta: the catalogue has no genres and years of the items of the scope; publish them "
            "with murmurec items publish, or leave --meta out"
        )
    found = features_of([(entry.genres, entry.year) for entry in entries])
    say(
        f"features of {known:,} of {plural(len(items), 'item')}: "
        f"{plural(len(found.genres), 'genre')} and the year"
    )
    return found

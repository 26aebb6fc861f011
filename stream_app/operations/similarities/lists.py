"""The lists of devices that a public table is a noisy sum of, and what forbids a release.

A list of a device is a function of what that device reported alone, and the items that have a
place are those of the public catalogue. So a device changes its own contribution and nothing else;
what would break that is refused:

    an election of the head     which items have a slot depends on what others rate
    items without a row         the same
    devices without a list      which devices have one depends on how many came before
    an eviction under way       which stale devices are gone depends on their rows, so on others
    `clip`                      whether a rating counts depends on the model, which others taught
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import UserError
from stream_app.ranking.domains.similarity_table import MOST_DOMAINS, MOST_ITEMS
from stream_app.state.replica import Replica
from stream_app.wire import CatalogueEntry

Listed = tuple[NDArray[np.int64], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class PublicItems:
    """The items of the catalogue that are not withdrawn: keys (n,) rising, and their domains, ""
    for none."""

    keys: NDArray[np.uint64]
    domains: list[str]

    @classmethod
    def of_catalogue(cls, entries: Mapping[int, CatalogueEntry]) -> PublicItems:
        """Return the items; UserError where there are too few, too many, or too many domains."""
        keys = sorted(item for item, entry in entries.items() if not entry.withdrawn)
        domains = [str(entries[item].domain or "") for item in keys]
        if not 2 <= len(keys) <= MOST_ITEMS:
            raise UserError(
                f"the catalogue has {len(keys):,} items: a table of similarities is over 2 to "
                f"{MOST_ITEMS:,} of them; publish or withdraw items with murmurec items"
            )
        if len(set(domains)) > MOST_DOMAINS:
            raise UserError(
                f"the catalogue has {len(set(domains))} domains: a table of similarities has at "
                f"most {MOST_DOMAINS}; give items fewer with murmurec items put --domain"
            )
        return cls(np.array(keys, np.uint64), domains)


def check_state(replica: Replica) -> None:
    """Refuse a state in which the list of a device depends on others; UserError names the fix."""
    co_ratings, feed = replica.pairs.co_ratings, replica.pairs.rated
    if co_ratings is None or feed is None:
        raise UserError(
            "co_ratings is off, so the state has no lists of ratings: set co_ratings = true and "
            "rebuild (murmurec worker --rebuild)"
        )
    known, size = len(replica.items), replica.spec.head_items
    if known > size:
        raise UserError(
            f"{known:,} items are known and the head has {size:,}: which of them have a slot was "
            "decided by what devices rated, so a list depends on others; raise head_items to at "
            f"least {known:,} (4,096 at most) and rebuild, or start with fewer items"
        )
    if known >= replica.spec.items_most:
        raise UserError(
            f"{known:,} items are known, all that items_most allows: which items have a row was "
            "decided by what devices rated, so a list depends on others; raise items_most and "
            "rebuild"
        )
    if not co_ratings.whole:
        raise UserError(
            f"{len(replica.marks):,} devices are known, more than can have a list, so whether one "
            "has a list depends on others: no table can be released"
        )
    if replica.marks.leaving:
        raise UserError(
            "devices that have sent nothing lately are being evicted, and which of them are gone "
            "depends on others: run the command again after the next checkpoints"
        )
    if math.isfinite(replica.spec.clip):
        raise UserError(
            f"clip is {replica.spec.clip:g}: whether a rating counts then depends on what others "
            "taught the model; unset clip and rebuild"
        )


def lists_of(replica: Replica, items: PublicItems) -> Iterator[Listed]:
    """Yield of every device the places in `items` that it rated (m,) and the values (m,) in stars;
    devices that rated none of them are left out."""
    co_ratings, feed = replica.pairs.co_ratings, replica.pairs.rated
    if co_ratings is None or feed is None:
        return
    head = feed.head
    slot_keys = replica.items.keys[head.rows[: head.used]]
    at = np.searchsorted(items.keys, slot_keys).clip(max=len(items.keys) - 1)
    places = np.where(items.keys[at] == slot_keys, at, -1)
    for device in range(len(replica.marks)):
        slots, values = co_ratings.history(device)
        found = places[slots]
        kept = found >= 0
        if kept.any():
            yield found[kept], values[kept]

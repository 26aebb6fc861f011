"""The lists of devices that a public table is a noisy sum of, and what forbids a release.

A list of a device is a function of what that device reported alone, and the items that have a
place are those of the public `list_scope` that the catalogue does not withdraw. So a device changes
its own contribution and nothing else; what would break that is refused:

    no `list_scope`             which items have a slot depends on what others rate
    devices without a list      which devices have one depends on how many came before
    an eviction under way       which stale devices are gone depends on their rows, so on others
    `clip`                      whether a rating counts depends on the model, which others taught
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import UserError
from stream_app.ranking.domains.similarity_table import MOST_DOMAINS
from stream_app.state.replica import Replica
from stream_app.state.spec import GIVE_SCOPE
from stream_app.wire import CatalogueEntry

Listed = tuple[NDArray[np.int64], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class PublicItems:
    """The items of a release: keys (n,) rising, and their domains in the catalogue, "" for none.

    The catalogue changes, so `digest` is in the debit of a release: it fixes what the sums are over
    before any noise is drawn.
    """

    keys: NDArray[np.uint64]
    domains: list[str]

    @classmethod
    def of_scope(cls, scope: Iterable[int], entries: Mapping[int, CatalogueEntry]) -> PublicItems:
        """Return the items of a rising scope that are not withdrawn; UserError for fewer than two,
        or too many domains."""
        keys = [item for item in scope if item not in entries or not entries[item].withdrawn]
        domains = [str(entries[item].domain or "") if item in entries else "" for item in keys]
        if len(keys) < 2:
            raise UserError(
                f"list_scope has {len(keys)} items that are not withdrawn: a table of similarities "
                "is over 2 or more; murmurec items put ITEM restores one"
            )
        if len(set(domains)) > MOST_DOMAINS:
            raise UserError(
                f"the catalogue has {len(set(domains))} domains: a table of similarities has at "
                f"most {MOST_DOMAINS}; give items fewer with murmurec items put --domain"
            )
        return cls(np.array(keys, np.uint64), domains)

    @property
    def digest(self) -> str:
        """BLAKE2b-128 of a line for each item, its key in decimal, a space and its domain."""
        rows = zip(self.keys.tolist(), self.domains, strict=True)
        text = "".join(f"{item} {domain}\n" for item, domain in rows)
        return blake2b(text.encode(), digest_size=16).hexdigest()


def check_state(replica: Replica) -> None:
    """Refuse a state in which the list of a device depends on others; UserError names the fix."""
    co_ratings = replica.pairs.co_ratings
    if co_ratings is None:
        raise UserError(
            "co_ratings is off, so the state has no lists of ratings: set co_ratings = true and "
            "run murmurec config apply"
        )
    if not replica.spec.list_scope:
        raise UserError(
            "list_scope is unset, so which items have a slot is decided by what devices rate, and "
            f"a list depends on others: {GIVE_SCOPE}"
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
            "taught the model; unset clip and run murmurec config apply --rebuild beside"
        )


def lists_of(replica: Replica, items: PublicItems) -> Iterator[Listed]:
    """Yield of every device the places in `items` that it rated (m,) and the values (m,) in stars;
    devices that rated none of them are left out."""
    co_ratings = replica.pairs.co_ratings
    if co_ratings is None:
        return
    slot_keys = replica.pairs.co_rated_keys(replica.items)
    at = np.searchsorted(items.keys, slot_keys).clip(max=len(items.keys) - 1)
    places = np.where(items.keys[at] == slot_keys, at, -1)
    for device in range(len(replica.marks)):
        slots, values = co_ratings.history(device)
        found = places[slots]
        kept = found >= 0
        if kept.any():
            yield found[kept], values[kept]

"""The device: the last place where a raw rating exists.

    raw rating --scale--> raw level --+
                                      +--> Request --> journal --> report --> wire.Event --> bytes
    public item table --> masks ------+       |
         left of this line nothing leaves; right of it only what the mechanism released

Pure functions: levels, items, mechanism, pseudonym and epoch come in, a request for the journal
goes out; the journal pays, draws and records (`producers.journal`). The mechanism's adjacency
defines what is protected. Masks, where the mechanism has them, are chosen from the public item
table alone. A journal whose noise comes from a seed marks its events as tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.device.item_means import ItemMeans, ItemTable
from producers.identities import Identities
from producers.journal import Request
from stream_app import wire
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.partition_choice import PartitionSelector

Encoder = Callable[[wire.Event], bytes]


@dataclass(frozen=True, eq=False)
class ReportSettings:
    """Where and how a device reports: topic, mechanism, public item table, encoding of events, and
    names of users."""

    topic: str
    mechanism: Mechanism
    table: ItemMeans = field(default_factory=ItemTable)
    encode: Encoder = wire.encode
    identities: Identities | None = None  # of the journal, where devices sign
    name: str = field(init=False)  # the mechanism's id, computed once

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.mechanism.id)

    def sealed(self, event: wire.Event) -> bytes:
        """Return the value of an event's record."""
        value = self.encode(event)
        named = self.identities
        return value if named is None else named.seal(self.topic, event.device, value)


def request(
    raw_levels: NDArray[np.uint8],
    items: Sequence[wire.Item] | NDArray[np.uint64],
    reporting: ReportSettings,
    *,
    device: bytes,
    epoch: int,
    republish: bool = False,
    ratings_per_message: int = wire.MAX_RATINGS,
) -> Request:
    """Return the request to release these ratings of one device, in the order of the items' keys:
    the order in which they were rated is not sent.

    Raises ValueError for no ratings, unequal lengths, an invalid item, or the same item twice (two
    reports on one rating reveal more than one epsilon allows).
    """
    keys = item_keys(items)
    if len(keys) != len(raw_levels) or not len(keys):
        raise ValueError(
            f"{len(keys)} items and {len(raw_levels)} ratings: "
            "an event has equally many of both, 1 or more"
        )
    if len(keys) > 1:
        order = np.argsort(keys, kind="stable")
        keys, raw_levels = keys[order], raw_levels[order]
        if (keys[1:] == keys[:-1]).any():
            raise ValueError("items: the same item twice in one event; report each rating once")
    masks = masks_of(reporting.mechanism, keys, reporting.table)
    return build_request(
        ReportColumns(raw_levels, keys, masks, keys), reporting,
        device=device, epoch=epoch, republish=republish,
        parts=message_slices(len(keys), ratings_per_message),
    )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)  # raw inputs have no place in a log
class ReportColumns:
    """What one device reports, one row an item: (n,) raw inputs, item keys and public masks.

    `reported_keys` are the same keys in rising order, (n,).
    """

    raw_inputs: NDArray[np.uint8]
    keys: NDArray[np.uint64]
    masks: NDArray[np.uint16] | None
    reported_keys: NDArray[np.uint64]


def build_request(
    columns: ReportColumns,
    reporting: ReportSettings,
    *,
    device: bytes,
    epoch: int,
    republish: bool,
    parts: tuple[slice, ...],
) -> Request:
    """Return the request for these columns, one row an item."""
    name = reporting.name
    keys, masks = columns.keys, columns.masks

    def encoded(seq: int, part: slice, released: Any, test: bool) -> bytes:
        mask = None if masks is None else masks[part]
        event = wire.Event(device, seq, name, epoch, keys[part], released[part], test, mask)
        return reporting.sealed(event)

    return Request(
        device=device,
        topic=reporting.topic,
        reported_keys=columns.reported_keys,
        mechanism=reporting.mechanism,
        raw_inputs=columns.raw_inputs,
        count=len(keys),
        encode=encoded,
        epoch=epoch,
        parts=parts,
        masks=masks,
        republish=republish,
        joined=True,
    )


def masks_of(
    mechanism: Mechanism, keys: NDArray[np.uint64], table: ItemMeans
) -> NDArray[np.uint16] | None:
    """Return the public mask of each item (n,); None where the mechanism has none.

    No argument depends on a rating, so the masks reveal nothing that is not public.
    """
    if not mechanism.masks or mechanism.epsilon is None:
        return None
    return _choice(mechanism.levels, mechanism.epsilon).masks(table.means(keys))


@lru_cache(maxsize=8)
def _choice(levels: int, epsilon: Fraction) -> PartitionSelector:
    return PartitionSelector(levels, epsilon)


@lru_cache(maxsize=1024)
def message_slices(count: int, most: int) -> tuple[slice, ...]:
    """Return the parts of `count` rows, `most` in each but the last."""
    if not 1 <= most <= wire.MAX_RATINGS:
        raise ValueError(f"{most} ratings per message: 1 to {wire.MAX_RATINGS}")
    return tuple(slice(at, min(at + most, count)) for at in range(0, count, most))


def item_keys(items: Sequence[wire.Item] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the 64-bit key of each item; an array of uint64 holds keys already."""
    if isinstance(items, np.ndarray) and items.dtype == np.uint64:
        return items
    return np.fromiter(map(wire.key, items), np.uint64, len(items))

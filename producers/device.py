"""The device: the last place where a raw rating exists.

    raw rating --scale--> raw level --mechanism, random words--> report --> wire.Event
                                    |
         left of this line nothing leaves; right of it only what the mechanism released

Pure functions: levels, mechanism, source of randomness, pseudonym, seq and epoch come in, events go
out. What is protected is the value of a rating (the mechanism's adjacency says so); that it exists,
its item, its day and its device's pseudonym are public. A source that can be replayed is refused
unless tests are allowed, and then every event says that it is a test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app import wire
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import Mint


def release(
    raw_levels: NDArray[np.uint8],
    mechanism: Mechanism,
    source: RandomSource,
    *,
    allow_tests: bool = False,
) -> NDArray[np.uint8]:
    """Return the reports of (n,) raw levels; each call draws anew and costs epsilon again."""
    check_source(source, allow_tests=allow_tests)
    mint = Mint(source)
    mint.admit(mechanism)
    return mechanism.release(raw_levels, mint.ticket(mechanism, len(raw_levels)))


def check_source(source: RandomSource, *, allow_tests: bool) -> None:
    """Raise ValueError for a source that can be replayed, unless tests are allowed."""
    if source.unsafe and not allow_tests:
        raise ValueError(
            "random source: it can be replayed and protects nothing; a device uses SystemSource"
        )


def event(
    raw_levels: NDArray[np.uint8],
    items: Sequence[wire.Item] | NDArray[np.uint64],
    *,
    mechanism: Mechanism,
    source: RandomSource,
    device: bytes,
    seq: int,
    epoch: int,
    allow_tests: bool = False,
) -> wire.Event:
    """Return the event of these ratings of one device; ValueError comes before any randomness.

    Refused: no ratings or more than `wire.MAX_RATINGS`, unequal lengths, an item that is no item,
    the same item twice (two reports about one rating say more about it than one epsilon allows).
    """
    keys = item_keys(items)
    if len(keys) != len(raw_levels) or not 1 <= len(keys) <= wire.MAX_RATINGS:
        raise ValueError(
            f"{len(keys)} items and {len(raw_levels)} ratings: "
            f"an event has equally many of both, 1 to {wire.MAX_RATINGS}"
        )
    if len(np.unique(keys)) != len(keys):
        raise ValueError("items: the same item twice in one event; report each rating once")
    reports = release(raw_levels, mechanism, source, allow_tests=allow_tests)
    return wire.Event(device, seq, mechanism.id, epoch, keys, reports, source.unsafe)


def item_keys(items: Sequence[wire.Item] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the 64-bit key of each item; an array of uint64 holds keys already."""
    if isinstance(items, np.ndarray) and items.dtype == np.uint64:
        return items
    return np.fromiter((wire.key(item) for item in items), np.uint64, len(items))

"""The change of a shard: what it has counted and learned and not published.

Beliefs about items and counts go with every change, the tables of pairs, a rating of which touches
hundreds of cells, after a tenth of the shard's ratings. What does not fit goes with the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.item_pairs import ItemPairs
from stream_app.models.cooccurrence.pair_base import FeedChange
from stream_app.state.exchange.shared_items import Fits, Live, SharedItems
from stream_app.state.known_items import KnownItems
from stream_app.wire.exchange import Change

ROOM_BYTES = 1 << 20  # of items, and as many of pairs
_ITEM_BYTES = 48  # of an item's counts, and of three keys
_MOST_COUNT, _MOST_CELL = 2**32 - 1, 2**31 - 1
_MOST_CELLS = 1 << 16  # of a sketch
Columns = dict[str, NDArray[Any]]


def change_of(
    shared: SharedItems, live: Live, number: int, cut: int, pairs: bool | None, fits: Fits | None
) -> Change | None:
    """Return the change `number` at a cut, None where there is nothing. pairs: with tables of
    pairs, None: where they are due; fits: of the weights of lists, where there are some."""
    feeds = live.pairs.exchanged(live.items)
    due = shared.pairs_due() if pairs is None else pairs
    due |= any(feed.waits for feed, _ in feeds.values())
    factors = live.learner.factors
    most = ROOM_BYTES // (_ITEM_BYTES + 2 * (3 + factors))
    columns = _of_items(shared, live, most)
    for name, (feed, items) in feeds.items():
        columns |= _of_feed(name, feed, items, most)
    room = ROOM_BYTES
    for name, (feed, items) in feeds.items() if due else ():
        tables = _of_tables(name, feed, items, room)
        room -= sum(column.nbytes for column in tables.values())
        columns |= tables
    if fits is not None and not shared.has_fits(fits):
        columns["fits"] = fits.reshape(1, -1)
    if not shared.unshared and not any(len(column) for column in columns.values()):
        return None
    columns["overall"] = shared.rows.mean_difference(live.learner)
    return Change(shared.shard, number, cut, shared.unshared, factors, columns)


def _of_items(shared: SharedItems, live: Live, most: int) -> Columns:
    """Return the columns of items, learner and sketches."""
    items = live.items
    beyond = items.reports - shared.reports
    rows = shared.chosen(beyond, most)
    rows = rows[np.argsort(items.keys[rows])]
    keys = items.keys[rows]
    learned, beliefs = shared.rows.difference(live.learner, keys)
    counted = np.flatnonzero(beyond > 0)
    known = items.keys[counted], beyond[counted]
    cells, total = live.frequencies.beyond(shared.frequencies, *known)
    signed = live.second_moment.beyond(shared.second_moment, *known)
    return {
        "keys": keys,
        "reports": np.clip(beyond[rows], 0, _MOST_COUNT).astype(np.uint32),
        "learned": learned.astype(np.uint32),
        "beliefs": beliefs,
        "frequency_total": np.array([total] if total else [], np.int64),
        **_sparse("frequency", cells),
        **_sparse("moment", signed),
    }


def _sparse(name: str, cells: NDArray[np.int64]) -> Columns:
    places = np.flatnonzero(cells)[:_MOST_CELLS]
    counts = np.clip(cells[places], -_MOST_CELL, _MOST_CELL).astype(np.int32)
    return {f"{name}_cells": places.astype(np.uint32), f"{name}_counts": counts}


def _of_feed(name: str, feed: ItemPairs, items: KnownItems, most: int) -> Columns:
    found: FeedChange = feed.difference(items.keys, most)
    columns = found._asdict()
    del columns["head"], columns["tables"]
    return {f"{name}_{part}": column for part, column in columns.items()}


def _of_tables(name: str, feed: ItemPairs, items: KnownItems, room: int) -> Columns:
    head = items.keys[feed.head.rows[: feed.head.used]]
    columns: Columns = {
        f"{name}_{table}_{part}": column
        for table, lists in feed.cells(room - head.nbytes).items()
        for part, column in lists._asdict().items()
    }
    return columns | {f"{name}_head": head} if any(map(len, columns.values())) else {}

"""Merging changes: a step of a shard's own log between two rounds.

    change of another shard     live state += change     base += change
    own change                                           base += change

The state after it is a function of the state before and of the changes. Sums are of integers, so
their order has no meaning; the rows of the learner take the sum of all changes at once. An item
that is new takes a row, and a slot of a head, as if it had been reported here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_app.kernels.factorization.natural_rows import sum_changes
from stream_app.kernels.instrumentation import timed
from stream_app.models.cooccurrence.pair_base import CellRows, FeedChange
from stream_app.state.exchange.shared_items import Live, Rows, SharedItems
from stream_app.state.known_items import KnownItems
from stream_app.wire.exchange import TABLES, Change


def check_next(shared: SharedItems, factors: int, changes: Sequence[Change]) -> None:
    """Raise ValueError unless each change is the next of its shard, of a learner of so many
    factors."""
    numbers = list(shared.numbers)
    for change in changes:
        if not change.shard < len(numbers):
            raise ValueError(f"change of shard {change.shard}: there are {len(numbers)} shards")
        if change.number != numbers[change.shard] + 1:
            raise ValueError(
                f"change {change.number} of shard {change.shard}: the next one is "
                f"{numbers[change.shard] + 1}"
            )
        if change.factors != factors:
            raise ValueError(f"change of {change.factors} factors: the learner has {factors}")
        numbers[change.shard] += 1


def merge(shared: SharedItems, live: Live, changes: Sequence[Change]) -> Rows:
    """Merge changes that were checked; return the rows of items that the learner learned of."""
    learned: list[tuple[Change, Rows]] = []
    for change in changes:
        foreign = change.shard != shared.shard
        rows = _count_items(shared, live, change, foreign=foreign)
        for name, (feed, items) in live.pairs.exchanged(live.items).items():
            found = _feed_change(name, change)
            places = _rows_of(items, found, foreign=foreign)
            live.pairs.extend_items(live.items)
            feed.merge(found, places, items.rows(found.head), foreign=foreign)
        shared.extend_to(len(live.items))
        if foreign:
            learned.append((change, rows[change.columns["learned"]]))
        else:
            _merge_own(shared, live, change)
        pairs = any(len(change.columns[f"{name}_head"]) for name in ("rated", "reported"))
        shared.merged(change.shard, change.number, change.ratings, pairs=pairs)
    return _learn(shared, live, learned)


def _count_items(shared: SharedItems, live: Live, change: Change, *, foreign: bool) -> Rows:
    """Merge the counts of items and the sketches; return the rows of the change's items."""
    columns, items = change.columns, live.items
    keys, counts = columns["keys"], columns["reports"].astype(np.int64)
    rows = items.note(keys, counts) if foreign else items.rows(keys)
    shared.extend_to(len(items))
    known = rows >= 0
    if foreign:
        items.count(rows[known], counts[known])
    shared.count(rows[known], counts[known], items.reports)
    pairs = (live.frequencies, live.second_moment), (shared.frequencies, shared.second_moment)
    cells = [columns[f"{name}_cells"].astype(np.int64) for name in ("frequency", "moment")]
    more = [columns[f"{name}_counts"].astype(np.int64) for name in ("frequency", "moment")]
    for frequencies, second_moment in pairs if foreign else pairs[1:]:
        frequencies.add_many(keys, counts)
        second_moment.add_many(keys, counts)
        if len(cells[0]) or len(columns["frequency_total"]):
            frequencies.add_cells(cells[0], more[0], int(columns["frequency_total"].sum()))
        if len(cells[1]):
            second_moment.add_cells(cells[1], more[1])
    return rows


def _feed_change(name: str, change: Change) -> FeedChange:
    """Return what a change holds of a feed."""
    columns = change.columns
    tables = {
        table: CellRows._make(columns[f"{name}_{table}_{part}"] for part in CellRows._fields)
        for table in TABLES
    }
    parts = (columns[f"{name}_{part}"] for part in FeedChange._fields if part != "tables")
    return FeedChange._make((*parts, tables))


def _rows_of(items: KnownItems, found: FeedChange, *, foreign: bool) -> Rows:
    """Return the rows of a feed's items, which take one where it is of another shard."""
    rows = items.rows(found.keys)
    new = rows < 0
    if foreign and new.any():
        rows[new] = items.note(found.keys[new], found.counts[new].astype(np.int64))
    return rows


def _merge_own(shared: SharedItems, live: Live, change: Change) -> None:
    columns = change.columns
    keys = columns["keys"][columns["learned"]]
    sums = np.zeros(columns["beliefs"].shape, np.int64)
    timed(sum_changes, np.arange(len(keys)), columns["beliefs"].astype(np.float32), sums)
    shared.rows.merge(live.learner, keys, sums, columns["overall"], foreign=False)


def _learn(shared: SharedItems, live: Live, learned: list[tuple[Change, Rows]]) -> Rows:
    """Merge what other shards have learned of items with these rows; return the rows."""
    if not learned:
        return np.empty(0, np.int64)
    place = np.full(len(live.items) + 1, -1, np.int64)  # the last one: of items without a row
    for _, rows in learned:
        place[rows] = 0
    place[-1] = -1
    found = np.flatnonzero(place >= 0)
    place[found] = np.arange(len(found))
    sums = np.zeros((len(found), 3 + live.learner.factors), np.int64)
    for change, rows in learned:
        with_row = rows >= 0
        beliefs = change.columns["beliefs"][with_row].astype(np.float32)
        timed(sum_changes, place[rows[with_row]], beliefs, sums)
    overall = np.concatenate([change.columns["overall"] for change, _ in learned])
    shared.rows.merge(live.learner, live.items.keys[found], sums, overall, foreign=True)
    return found

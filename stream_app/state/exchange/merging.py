"""Merging changes: a step of a shard's own log between two rounds.

    change of another shard     live state += change     base += change
    own change                                           base += change

The state after it is a function of the state before and of the changes. Sums are of integers, so
their order has no meaning; the rows of the learner take the sum of all changes at once. An item
that is new takes a row, and a slot of a head, as if it had been reported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.exchange.natural_rows import sum_changes
from stream_app.kernels.instrumentation import timed
from stream_app.models.cooccurrence.pair_base import CellRows, FeedChange
from stream_app.models.sketches import AmsSketch, CountMinSketch
from stream_app.state.exchange.shared_items import Live, Rows, SharedItems
from stream_app.state.known_items import KnownItems
from stream_app.wire.exchange import FEEDS, TABLES, Change


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
    foreign = [change for change in changes if change.shard != shared.shard]
    own = [change for change in changes if change.shard == shared.shard]
    rows = [_enter(live.items, change) for change in foreign]
    shared.extend_to(len(live.items))
    _count(shared, live, list(zip(foreign, rows, strict=True)), foreign=True)
    _count(shared, live, [(each, live.items.rows(each.columns["keys"])) for each in own])
    for change in changes:
        _merge_pairs(live, change, foreign=change.shard != shared.shard)
        pairs = any(len(change.columns[f"{name}_head"]) for name in FEEDS)
        shared.merged(change.shard, change.number, change.ratings, pairs=pairs)
        for fits in change.columns["fits"]:
            shared.adopt_fits(change.shard, fits)
    shared.extend_to(len(live.items))
    for change in own:
        _merge_own(shared, live, change)
    return _learn(shared, live, list(zip(foreign, rows, strict=True)))


def _enter(items: KnownItems, change: Change) -> Rows:
    """Return the rows of a change's items, which take one while there are any."""
    return _known(items, change.columns["keys"], change.columns["reports"])


def _known(items: KnownItems, keys: NDArray[np.uint64], counts: NDArray[np.uint32]) -> Rows:
    """Return the rows of items that another shard has reported so often."""
    rows = items.rows(keys)
    noted = rows < 0 if len(items) < items.most else np.ones(len(keys), np.bool_)
    if noted.any():
        rows[noted] = items.note(keys[noted], counts[noted].astype(np.int64))
    return rows


def _count(
    shared: SharedItems, live: Live, found: list[tuple[Change, Rows]], *, foreign: bool = False
) -> None:
    """Merge the counts of items, of which the rows are given, and the sketches."""
    if not found:
        return
    items, sums = live.items, np.zeros(len(live.items) + 1, np.int64)
    outside: list[tuple[NDArray[np.uint64], Rows]] = []
    for change, rows in found:
        keys, counts = change.columns["keys"], change.columns["reports"].astype(np.int64)
        sums[rows] += counts
        outside.append((keys[rows < 0], counts[rows < 0]))
    counted = np.flatnonzero(sums[:-1])
    counts = sums[counted]
    if foreign:
        items.count(counted, counts)
    shared.count(counted, counts, items.reports)
    outside.append((items.keys[counted], counts))
    keys, counts = (np.concatenate(column) for column in zip(*outside, strict=True))
    for part in (live, shared) if foreign else (shared,):
        part.frequencies.add_many(keys, counts)
        part.second_moment.add_many(keys, counts)
        for change, _ in found:
            _add_cells(part.frequencies, part.second_moment, change.columns)


def _add_cells(
    frequencies: CountMinSketch, second_moment: AmsSketch, columns: Mapping[str, NDArray[Any]]
) -> None:
    """Add what a change holds of sketches beside the counts of its items."""
    total = int(columns["frequency_total"].sum())
    if total or len(columns["frequency_cells"]):
        cells, counts = columns["frequency_cells"], columns["frequency_counts"]
        frequencies.add_cells(cells.astype(np.int64), counts.astype(np.int64), total)
    if len(columns["moment_cells"]):
        cells, counts = columns["moment_cells"], columns["moment_counts"]
        second_moment.add_cells(cells.astype(np.int64), counts.astype(np.int64))


def _merge_pairs(live: Live, change: Change, *, foreign: bool) -> None:
    for name, (feed, items) in live.pairs.exchanged(live.items).items():
        found = _feed_change(name, change)
        known = _known(items, found.keys, found.counts) if foreign else items.rows(found.keys)
        live.pairs.extend_items(live.items)
        feed.merge(found, known, items.rows(found.head), foreign=foreign)


def _feed_change(name: str, change: Change) -> FeedChange:
    """Return what a change holds of a feed."""
    columns = change.columns
    tables = {
        table: CellRows._make(columns[f"{name}_{table}_{part}"] for part in CellRows._fields)
        for table in TABLES
    }
    parts = (columns[f"{name}_{part}"] for part in FeedChange._fields if part != "tables")
    return FeedChange._make((*parts, tables))


def _merge_own(shared: SharedItems, live: Live, change: Change) -> None:
    columns = change.columns
    keys = columns["keys"][columns["learned"]]
    sums = np.zeros(columns["beliefs"].shape, np.int64)
    timed(sum_changes, np.arange(len(keys)), _bits(columns), sums)
    shared.rows.merge(live.learner, keys, sums, columns["overall"], foreign=False)


def _learn(shared: SharedItems, live: Live, learned: list[tuple[Change, Rows]]) -> Rows:
    """Merge what other shards have learned of items with these rows; return the rows."""
    if not learned:
        return np.empty(0, np.int64)
    place = np.zeros(len(live.items) + 1, np.int64)  # the last one: of items without a row
    which = [rows[change.columns["learned"]] for change, rows in learned]
    for rows in which:
        place[rows] = 1
    found = np.flatnonzero(place[:-1])
    place[found], place[-1] = np.arange(len(found)), len(found)
    sums = np.zeros((len(found) + 1, 3 + live.learner.factors), np.int64)
    for (change, _), rows in zip(learned, which, strict=True):
        timed(sum_changes, place[rows], _bits(change.columns), sums)
    overall = np.concatenate([change.columns["overall"] for change, _ in learned])
    keys = live.items.keys[found]
    shared.rows.merge(live.learner, keys, sums[:-1], overall, foreign=True)
    return found


def _bits(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.uint16]:
    """Return the bits of a change's beliefs, as kernels take them."""
    return np.require(columns["beliefs"].view(np.uint16), None, ["C", "W"])

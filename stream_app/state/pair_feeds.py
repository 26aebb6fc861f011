"""Which ratings of the log count as pairs of items, in two feeds that never mix.

    rated      ratings whose presence is public (rr, partition, none), each with the probability
               that it is a like; lists of the newest `recent_items` items of the head, with their
               visits: which of them one day has brought, and which came one by one
    reported   cells of one mechanism that protects presence, the first of the allow-list: reports
               other than "missing" or "not liked" count 1, though many are fakes; lists of all of
               them

A device reports each cell of a public scope once in its life, perhaps in several messages, so the
pairs of a device are those of all its reports, and a table debiased by the channel is unbiased.
Held-out ratings are in neither feed, nor are reports of other mechanisms that protect presence, or
public ratings that the learner has clipped. A feed without a mechanism takes no memory.

The reported items have rows of their own: an item takes one with its first report, be it
"missing". An item without a row (`known_items.py`) has no pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.item_pairs import ItemPairs, RecordColumns
from stream_app.models.cooccurrence.like_weights import (
    like_weights,
    positive_probabilities,
    report_weights,
)
from stream_app.models.cooccurrence.snapshots import PairSnapshot
from stream_app.models.cooccurrence.visit_lists import DeviceItems
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import UpdateResult
from stream_app.models.paged_arrays import StatePart
from stream_app.ranking.pair_counts import WEIGHT_ONE
from stream_app.ranking.visit_events import VisitSample
from stream_app.state.high_water_marks import HighWaterMarks
from stream_app.state.known_items import KnownItems
from stream_app.state.outcome import RatingColumns, Records
from stream_app.state.spec import StateSpec

Rows = NDArray[np.int64]


class PairFeeds:
    """The two feeds of a spec; either may be absent, and both are where `head_items` is 0."""

    def __init__(self, spec: StateSpec, channels: Channels) -> None:
        self._channels, self._held_out = channels, spec.held_out
        protects = np.array([m.inputs > m.levels for m in spec.mechanisms])
        self._public = ~protects
        self.rated: ItemPairs | None = None
        self.reported: ItemPairs | None = None
        self.scope: KnownItems | None = None
        self._mechanism = int(np.argmax(protects)) if protects.any() else -1
        size = spec.head_items
        if size and self._public.any():
            weights = like_weights(channels)
            self.rated = ItemPairs(
                channels, weights, size, spec.recent_items, one=WEIGHT_ONE, in_order=True,
                shared=spec.shards > 1,
            )  # fmt: skip
        if size and protects.any():
            weights = report_weights(channels)
            self.reported = ItemPairs(
                channels, weights, size, size, one=1, in_order=False, shared=spec.shards > 1
            )
            self.scope = KnownItems(spec.items_most, spec.seed)

    def following(self, spec: StateSpec, channels: Channels) -> PairFeeds:
        """Return the feeds of another design that continue these (`state/design.py`): a feed that
        is new begins empty, one that is gone is dropped; these must not be used again."""
        new = PairFeeds(spec, channels)
        if new.rated is not None and self.rated is not None:
            new.rated.take(self.rated)
        if new.reported is not None and self.reported is not None:
            new.reported.take(self.reported)
            new.scope = self.scope
        return new

    @property
    def reports(self) -> int:
        """How many reports were counted in both feeds."""
        return sum(feed.reports for feed in (self.rated, self.reported) if feed is not None)

    @property
    def changes(self) -> int:
        """How many slots of the heads have changed hands."""
        return sum(feed.changes for feed in (self.rated, self.reported) if feed is not None)

    def visit_samples(self) -> tuple[VisitSample, VisitSample] | None:
        """Return the lists of some devices with their visits; None without public ratings."""
        return None if self.rated is None else self.rated.visit_samples()

    def count_rated(
        self,
        records: Records,
        cells: RatingColumns,
        update: UpdateResult,
        rows: NDArray[np.int64],
        marks: HighWaterMarks,
    ) -> None:
        """Count records whose presence is public; rows (m,): of their items."""
        if self.rated is None or not len(records.counts):
            return
        devices = marks.rows(records.devices)
        self.rated.extend(int(rows.max(initial=-1)) + 1, int(devices.max()) + 1)
        skipped = cells.held_out | update.clipped | (rows < 0)
        columns = RecordColumns(
            devices, records.counts, records.days, rows, cells.channels, cells.reports,
            update.predicted, skipped,
        )  # fmt: skip
        self.rated.count(columns)

    def count_mixed(
        self,
        records: Records,
        cells: RatingColumns,
        update: UpdateResult,
        items: KnownItems,
        marks: HighWaterMarks,
    ) -> None:
        """Count records of which some protect presence."""
        public = self._public[records.mechanisms]
        if self.rated is not None and public.any():
            of_cells = np.repeat(public, records.counts)
            chosen = cells.at(of_cells)
            self.count_rated(
                records.at(public),
                chosen,
                UpdateResult._make(column[of_cells] for column in update),
                items.rows(chosen.items),
                marks,
            )
        protected = records.mechanisms == self._mechanism
        if self.reported is not None and protected.any():
            of_cells = np.repeat(protected, records.counts)
            self._count_reported(
                records.at(protected), cells.at(of_cells), update.predicted[of_cells], marks
            )

    def _count_reported(
        self,
        records: Records,
        cells: RatingColumns,
        predicted: NDArray[np.float64],
        marks: HighWaterMarks,
    ) -> None:
        assert self.reported is not None
        assert self.scope is not None
        rows, devices = self.scope.enter(cells.items), marks.rows(records.devices)
        self.reported.extend(len(self.scope), int(devices.max()) + 1)
        self.reported.count(
            RecordColumns(
                devices, records.counts, records.days, rows, cells.channels, cells.reports,
                predicted, cells.held_out | (rows < 0),
            )
        )  # fmt: skip

    def extend(self, items: KnownItems, marks: HighWaterMarks) -> None:
        """End a batch: the arrays' lengths must not depend on how the log was cut."""
        if self.rated is not None:
            self.rated.extend(len(items), len(marks))
        if self.reported is not None and self.scope is not None:
            self.reported.extend(len(self.scope), len(marks))

    def exchanged(self, items: KnownItems) -> dict[str, tuple[ItemPairs, KnownItems]]:
        """Return the feeds that shards exchange by name, each with the directory of its items."""
        feeds = ("rated", self.rated, items), ("reported", self.reported, self.scope)
        return {
            name: (feed, directory)
            for name, feed, directory in feeds
            if feed is not None and directory is not None
        }

    def extend_items(self, items: KnownItems) -> None:
        """Make room for the counts of items that other shards have reported."""
        for feed, directory in self.exchanged(items).values():
            feed.extend(len(directory), 0)

    def end_round(self, items: KnownItems, days: tuple[int, int] | None) -> Rows:
        """Elect the heads where that is due, and give rows to items that wait for one; return the
        rows of `items` that have another item now. days: those that the cut accepts."""
        if self.reported is not None and self.scope is not None:
            _end_round(self.reported, self.scope, days)
        if self.rated is None:
            return items.end_round(np.empty(0, np.int16))
        return _end_round(self.rated, items, days)

    def clear(self, device: int) -> None:
        """Empty the lists of a device (row)."""
        for feed in (self.rated, self.reported):
            if feed is not None:
                feed.clear(device)

    def release(self, devices: Rows) -> None:
        """Clear the lists of devices (rows), whose rows other devices take."""
        for feed in (self.rated, self.reported):
            if feed is not None and len(devices):
                feed.release(devices)

    def history(self, device: int, items: KnownItems, *, reported: bool) -> DeviceItems:
        """Return the items of a device in a feed, as keys."""
        feed, directory = (self.reported, self.scope) if reported else (self.rated, items)
        if feed is None or directory is None:
            return DeviceItems.none(np.uint64)
        found = feed.history(device)
        return found._replace(items=directory.keys[found.items])

    def snapshot(self, items: KnownItems, cut: int) -> PairSnapshot | None:
        """Return a copy of the moments of the feed with more devices, of ratings where both have
        as many; None where no feed has an item. So a few devices cannot take the lists away from
        those of the other feed."""
        rated, reported = (
            feed if feed is not None and feed.head.used else None
            for feed in (self.rated, self.reported)
        )
        if rated is not None and (reported is None or rated.devices >= reported.devices):
            return rated.snapshot(items.keys, cut, self._held_out, None)
        if reported is not None and self.scope is not None:
            number = int(self._channels.first[self._mechanism])
            channel = positive_probabilities(self._channels, number)
            return reported.snapshot(self.scope.keys, cut, self._held_out, channel)
        return None

    def parts(self) -> dict[str, StatePart]:
        """Return the parts of the state by name."""
        found: dict[str, StatePart] = {}
        for name, feed in (("rated", self.rated), ("reported", self.reported)):
            if feed is not None:
                found |= {f"{name}_{part}": state for part, state in feed.parts().items()}
        if self.scope is not None:
            found["reported_items"] = self.scope
        return found

    @property
    def memory_bytes(self) -> int:
        """Size of the state."""
        feeds = sum(feed.memory_bytes for feed in (self.rated, self.reported) if feed is not None)
        return feeds + (self.scope.memory_bytes if self.scope is not None else 0)


def _end_round(feed: ItemPairs, items: KnownItems, days: tuple[int, int] | None) -> Rows:
    """End a round of one feed; an item with a slot of the head keeps its row."""
    feed.elect(items.keys, days)
    replaced = items.end_round(feed.head.slots)
    feed.forget_counts(replaced)
    return replaced

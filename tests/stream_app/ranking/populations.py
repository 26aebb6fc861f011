"""Devices that come back, counted as a state counts them, for the tests of learned weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stream_app.models.cooccurrence.item_pairs import ItemPairs, RecordColumns
from stream_app.models.cooccurrence.like_weights import like_weights
from stream_app.models.factorization.channels import Channels
from stream_app.privacy import registry
from stream_app.ranking import ease, visit_events
from stream_app.ranking.derivation import popularity_of
from stream_app.ranking.low_rank import estimate
from stream_app.ranking.pair_counts import WEIGHT_ONE, PairCounts
from stream_app.ranking.visit_events import VisitTables

RIDGE = 12.0


class Record(NamedTuple):
    """One message: the items of a device on a day, and their levels or reports."""

    device: int
    day: int
    items: list[int]
    reports: list[int]


def counted(records: Iterable[Record], size: int, mechanism: str = "none:5:inf") -> ItemPairs:
    """Return the pairs of records in a head of `size` items; item k has slot k."""
    channels = Channels.from_mechanisms([registry.parse(mechanism)])
    feed = ItemPairs(channels, like_weights(channels), size, 64, one=WEIGHT_ONE, in_order=True)
    # An item takes a slot with its first report: device 0 opens them in order.
    whole = [Record(0, 0, list(range(size)), [4] * size), *records]
    items = np.array([item for each in whole for item in each.items], np.int64)
    feed.extend(size, 1 + max(each.device for each in whole))
    feed.count(
        RecordColumns(
            np.array([each.device for each in whole], np.int64),
            np.array([len(each.items) for each in whole], np.int64),
            np.array([each.day for each in whole], np.int64),
            items,
            np.zeros(len(items), np.uint16),
            np.array([report for each in whole for report in each.reports], np.uint8),
            np.full(len(items), 3.0),
            np.zeros(len(items), np.bool_),
        )
    )
    return feed


def counts_of(feed: ItemPairs) -> PairCounts:
    """Return the counts of a feed, items as keys."""
    return feed.snapshot(np.arange(feed.head.used, dtype=np.uint64), 1, 0.0, None).counts()


def tables_of(counts: PairCounts) -> VisitTables:
    """Return what components of events are computed from."""
    P = ease.inverse(ease.moments(counts), RIDGE)
    scales, model = visit_events.follow_scales(counts), estimate(counts, 0)
    return VisitTables(counts, P, scales, popularity_of(counts, model))

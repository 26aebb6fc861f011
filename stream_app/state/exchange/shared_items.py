"""The base of a shard: what was merged of all shards, its own changes among them.

    own change that is not published = the state's own sums - base

Publishing reads and changes nothing: what is published becomes part of the base when the shard
reads its own change in the log, so a change that is lost is in the next one, and the base is a
function of the changes merged. Rows that were touched are marked in memory only: marks decide what
a change holds, never what a merge does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.machine.dirty_pages import touch_words
from stream_app.models.cooccurrence.pair_base import Window
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.joining import SharedRows
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import StatePart, mark_dirty
from stream_app.models.sketches import AmsSketch, CountMinSketch
from stream_app.state.known_items import KnownItems
from stream_app.state.pair_feeds import PairFeeds
from stream_app.state.spec import StateSpec
from stream_app.wire.exchange import FITS

Rows = NDArray[np.int64]
Fits = NDArray[np.float32]
_FIRST_PAIRS, _MOST_PAIRS, _PART_PAIRS = 2_000, 500_000, 10


class Live(NamedTuple):
    """The parts of a state that shards exchange."""

    learner: HybridLearner
    items: KnownItems
    frequencies: CountMinSketch
    second_moment: AmsSketch
    pairs: PairFeeds


class SharedItems(GrowingArrays):
    """numbers, ends (S,) int64: the last merged change of each shard, and the offset up to which
    its partition of the exchange was read; counted (S,) int64: the ratings of
    those of each; fits (S, *`FITS`) float32: what the devices of each say of the weights
    of lists; own (1,) int64: ratings that this shard has learned; reports (items,) int64: base of
    the reports of each item. The bases of learner and sketches are parts of their own, those of
    pairs lie in the feeds."""

    growing: ClassVar[frozenset[str]] = frozenset({"reports"})

    def __init__(self, spec: StateSpec, learner: HybridLearner) -> None:
        super().__init__()
        self.shard = spec.shard
        self._numbers = self.keep("numbers", np.zeros(spec.shards, np.int64))
        self._ends = self.keep("ends", np.zeros(spec.shards, np.int64))
        self._counted = self.keep("counted", np.zeros(spec.shards, np.int64))
        self._fits = self.keep("fits", np.zeros((spec.shards, *FITS), np.float32))
        self._own = self.keep("own", np.zeros(1, np.int64))
        self.keep_growing("reports", np.int64)
        self.rows = SharedRows(learner)
        self.frequencies = CountMinSketch(seed=spec.seed)
        self.second_moment = AmsSketch(seed=spec.seed)
        self._touched: NDArray[np.bool_] = np.zeros(1, np.bool_)
        self._sent: NDArray[np.bool_] = np.zeros(1, np.bool_)
        self.derive()

    def parts(self) -> dict[str, StatePart]:
        """Return the parts of the state by name."""
        return {
            "shared": self,
            "shared_rows": self.rows,
            "shared_frequencies": self.frequencies,
            "shared_second_moment": self.second_moment,
        }

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of the last merged change of each shard, 0 where there is none."""
        return tuple(self._numbers.tolist())

    @property
    def ends(self) -> tuple[int, ...]:
        """The offset in the exchange of each shard up to which changes were merged."""
        return tuple(self._ends.tolist())

    def read_to(self, ends: Sequence[int]) -> None:
        """Note up to which offsets changes are merged."""
        mark_dirty(self.pages("ends"), 0, self._ends.nbytes)
        self._ends[:] = ends

    @property
    def ratings(self) -> int:
        """How many ratings all merged changes counted."""
        return int(self._counted.sum())

    @property
    def unshared(self) -> int:
        """How many of this shard's ratings are in none of its merged changes."""
        return int(self._own[0] - self._counted[self.shard])

    @property
    def reports(self) -> Rows:
        """The base of the reports of each item (items,)."""
        reports: Rows = self.room("reports")[: self.length("reports")]
        return reports

    def learned(self, rows: Rows, ratings: int, items: int) -> None:
        """Note that the shard has learned so many ratings, of items with these rows, -1 for one
        without; there are `items` rows."""
        mark_dirty(self.pages("own"), 0, self._own.nbytes)
        self._own += ratings
        self.extend_to(items)
        self._touched[rows] = True

    def extend_to(self, items: int) -> None:
        """Make room for so many items."""
        self.extend("reports", items)
        missing = items + 1 - len(self._touched)
        if missing > 0:  # the last place is that of items without a row
            self._touched[-1] = False
            more = np.zeros(missing + items, np.bool_)
            self._touched = np.concatenate((self._touched, more))
            self._sent = np.concatenate((self._sent, more))

    def forget(self, rows: Rows) -> None:
        """Set the reports of rows (m,) to 0: they have another item now."""
        touch_words(self.pages("reports"), rows)
        self.room("reports")[rows] = 0

    def chosen(self, beyond: Rows, most: int) -> Rows:
        """Return the rows, at most so many, of which the next change is: those with reports
        `beyond` the base (items,), touched since they were sent, or sent and not merged."""
        items = len(beyond)
        rows = np.flatnonzero((beyond > 0) | self._touched[:items] | self._sent[:items])
        rows = self._window.taken(rows, most)
        self._touched[rows] = False
        self._sent[rows] = True
        return rows

    def pairs_due(self) -> bool:
        """Return whether tables of pairs are published: after a tenth of own ratings."""
        own = int(self._own[0])
        least = max(_FIRST_PAIRS // len(self._numbers), own // _PART_PAIRS)
        return own - self._pairs_at >= min(least, _MOST_PAIRS)

    def merged(self, shard: int, number: int, ratings: int, *, pairs: bool) -> None:
        """Note that a change is merged, which had tables of pairs or not."""
        for name in ("numbers", "counted"):
            mark_dirty(self.pages(name), 0, self.room(name).nbytes)
        self._numbers[shard] = number
        self._counted[shard] += ratings
        if shard == self.shard:
            self._sent[:] = False
            if pairs:
                self._pairs_at = int(self._own[0])

    def adopt_fits(self, shard: int, fits: Fits) -> None:
        """Take what the devices of a shard say of the weights of lists, for what they said."""
        each = self._fits[shard].nbytes
        mark_dirty(self.pages("fits"), shard * each, (shard + 1) * each)
        self._fits[shard] = fits.reshape(FITS)

    def has_fits(self, fits: Fits) -> bool:
        """Return whether these are the merged ones of this shard."""
        return bool((self._fits[self.shard] == fits).all())

    def others_fits(self) -> Fits:
        """Return the sum of the fits of all other shards (`FITS`)."""
        others: Fits = np.delete(self._fits, self.shard, axis=0).sum(axis=0)
        return others

    def count(self, rows: Rows, counts: Rows, most: Rows) -> None:
        """Add counts (m,) to the base of distinct rows (m,), up to `most` (items,)."""
        touch_words(self.pages("reports"), rows)
        self.room("reports")[rows] = np.minimum(self.room("reports")[rows] + counts, most[rows])

    def derive(self) -> None:
        """Forget the marks: what was counted is found without them."""
        self._touched, self._sent = np.zeros((2, self.length("reports") + 1), np.bool_)
        self._window, self._pairs_at = Window(), 0

    @property
    def memory_bytes(self) -> int:
        """Memory held, without what lies in the feeds of pairs."""
        others = self.rows, self.frequencies, self.second_moment
        return super().memory_bytes + sum(part.memory_bytes for part in others)

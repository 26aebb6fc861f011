"""Events from which the weights of a list are learned: what devices had, and what they liked then.

    next   targets: the items of a device's present visit;  history: all before that visit
    now    targets: its last few single ratings;            history: all before them

They are read off the devices' lists at a cut, so the weights are a function of the state: nothing
is kept for them, and a restart or a rebuild finds them again. The tables of that cut have counted
the event, and every component is computed as if they had not:

    A = G + ridge I,  P = A^-1           (A - x x')^-1 = P + v v',  v = P x / sqrt(1 - x' P x)
    B_ij = -P_ij / P_jj                                          (Sherman and Morrison 1950)
    F, N, popularity, liking             less what the device has added to a target's

x: the list of the device. A target counts with the unbiased estimate of its like from its report,
y = (bit - f) / (p - f), p = P(bit | liked), f = P(bit | not): it may be negative. Each history
counts twice, whole and cut to its newest 0 to 20 items, so that weights hold for short ones.

What tends to follow an item, within a visit and at the next one:

    F_ij = O[j, i] / ((n_i + PRIOR) ((n_j + PRIOR) / U)^TARGET_POWER)

O[j, i]: decayed count of "i, and soon after it j" between single ratings of a visit, or count of
"i in a visit, j in the one after it", liked or not; n_i: how often i is reported, U: devices.
O[j, i] / n_i is how often j follows i; the power of n_j keeps what follows everything from every
list. Powers of (n_i, n_j) on splits inside the training part of ML-1M and ML-100K: 1 and .3 give
nDCG@10 .185, .181; .5 and .5 .176, .173; 1 and 0 .184, .175; .3 and 1 .112, .112.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.histories import OLDER, History
from stream_app.ranking.pair_counts import RATED, PairCounts, likes_of
from stream_app.ranking.scores import Components

PRIOR = 20.0
TARGET_POWER = 0.3
FOLLOWS_A_ROW = 200  # 100 cost .006 of nDCG@10 on ML-1M
VISIT_FOLLOWS_A_ROW = 60


class FollowScales(NamedTuple):
    """What a count is multiplied by: earlier (n,) of the item of the history, later (n,)."""

    earlier: NDArray[np.float32]
    later: NDArray[np.float32]


def follow_scales(counts: PairCounts) -> FollowScales:
    """Return the scales of both tables."""
    reports = counts.reports + np.float32(PRIOR)
    devices = np.float32(max(float(counts.exposures.max(initial=0)), 1.0))
    later = (reports / devices) ** np.float32(-TARGET_POWER)
    return FollowScales((1 / reports).astype(np.float32), later.astype(np.float32))


def following(
    counted: NDArray[np.float32] | None, scales: FollowScales
) -> NDArray[np.float32] | None:
    """Return (n, n), row = item of a history, column = what tends to follow; None where nothing is
    `counted` (n, n), row = the later item."""
    if counted is None:
        return None
    table = (counted.T * scales.later[None, :] * scales.earlier[:, None]).astype(np.float32)
    np.fill_diagonal(table, 0)
    return table


MOST_TARGETS = 64  # of a visit: the reports of so many entries are known
NOW_TARGETS = 6
LENGTHS = 0, 1, 2, 3, 5, 10, 20
_FAINT = 1e-3  # weights of a history that are left out
_EMPTY = 0.1  # share of the histories that are cut to nothing
ORDER_DECAY, ORDER_WINDOW = 20.0, 50  # of what follows within a visit
RECENT_KEPT = 7 / 8  # of the recent counts, a step
LIKING_PRIOR = 10.0  # reports
LATELY_PRIOR = 0.05

Column = NDArray[np.float32]


class VisitSample(NamedTuple):
    """Lists of m devices at a cut, oldest entry first.

    starts (m + 1,): the entries of device d are starts[d] : starts[d + 1]. slots, weights (k,):
    item and x of each. likes (k,): the bit of its report, known of the newest 64 of a device.
    present, before (m,): entries of the present visit, and of the one before it; singles,
    singles_before (m,): how many of the newest of each came one by one. steps_ago (m,): decay steps
    of the recent counts since the present visit began. positive, false (m,): P(bit | liked) and
    P(bit | not liked) of the present visit's reports.
    """

    starts: NDArray[np.int64]
    slots: NDArray[np.int64]
    weights: Column
    likes: NDArray[np.uint8]
    present: NDArray[np.int64]
    before: NDArray[np.int64]
    singles: NDArray[np.int64]
    singles_before: NDArray[np.int64]
    steps_ago: NDArray[np.int64]
    positive: NDArray[np.float64]
    false: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.present)


class Event(NamedTuple):
    """History and targets (t,) of a device, the unbiased estimates of their likes (t,), all that
    it has with its weights x, and for each target what the device added to the counted pairs with
    each item of the history (t, m). `kept`: of its last visit in the recent counts; `device`: its
    place in the sample; `whole`: the history was not cut."""

    history: History
    targets: NDArray[np.int64]
    likes: NDArray[np.float64]
    slots: NDArray[np.int64]
    weights: Column
    own_within: Column
    own_between: Column
    kept: float
    device: int
    whole: bool

    def cut_to(self, length: int) -> Event:
        """Return the event with the newest items of its history alone."""
        kept = slice(max(0, len(self.history.slots) - length), None)
        return self._replace(
            history=self.history.at(kept),
            own_within=self.own_within[:, kept],
            own_between=self.own_between[:, kept],
            whole=False,
        )

    @property
    def hidden(self) -> NDArray[np.int64]:
        """The slots that a list could not show: all that the device has but the targets."""
        return np.setdiff1d(self.slots, self.targets)


def events_of(sample: VisitSample, *, now: bool) -> list[Event]:
    """Return the events of each device, with its whole history and with a cut one; to what it is
    cut depends on the sample alone."""
    share = [_EMPTY, *[(1 - _EMPTY) / (len(LENGTHS) - 1)] * (len(LENGTHS) - 1)]
    lengths = np.random.default_rng(0).choice(LENGTHS, len(sample), p=share).tolist()
    found = []
    for device, length in enumerate(lengths):
        event = _event(sample, device, now=now)
        if event is not None:
            found += [event, event.cut_to(length)]
    return found


def _event(sample: VisitSample, device: int, *, now: bool) -> Event | None:
    span = slice(int(sample.starts[device]), int(sample.starts[device + 1]))
    slots, weights = sample.slots[span], sample.weights[span]
    present, singles = int(sample.present[device]), int(sample.singles[device])
    if now:
        many = min(NOW_TARGETS, singles - 1)
        end = len(slots) - many
        visit, ones = present - many, singles - many
    else:
        many, end = min(present, MOST_TARGETS), len(slots) - present
        visit, ones = int(sample.before[device]), int(sample.singles_before[device])
    if many < 1 or end < 1:
        return None
    places = np.arange(end)[::-1]  # 0 for the newest
    ago = np.where(places < visit, 0, OLDER)
    history = History(slots[:end], weights[:end], ago, np.minimum(places, ones).astype(np.float32))
    last = np.arange(len(slots) - many, len(slots))
    positive, false = float(sample.positive[device]), float(sample.false[device])
    likes = (sample.likes[span][last].astype(np.float64) - false) / (positive - false)
    distance = last[:, None] - np.arange(end)[None, :]
    together = now & (distance <= ORDER_WINDOW) & (places < ones)[None, :]
    within = np.where(together, np.exp(-distance / ORDER_DECAY), 0).astype(np.float32)
    between = np.broadcast_to(
        (places < visit).astype(np.float32) if not now else np.float32(0), distance.shape
    )
    return Event(
        history, slots[last], likes, slots, weights, within, between,
        RECENT_KEPT ** int(sample.steps_ago[device]), device, whole=True,
    )  # fmt: skip


def recent_share(counts: PairCounts, recent: Column) -> Column:
    """Return the probability that a user has each item (n,), if all ratings of a user had come at
    the recent rates."""
    devices = max(float(counts.exposures.max(initial=0)), 1.0)
    scale = np.float32(counts.total / devices / counts.recent_total)
    return np.asarray(recent * scale, np.float32)


class VisitTables:
    """What components are computed from: the counts, P (n, n), the scales of what follows, and
    the popularity (n,) of the item side."""

    def __init__(
        self,
        counts: PairCounts,
        P: NDArray[np.float32],
        scales: FollowScales,
        popularity: Column,
    ) -> None:
        self._counts, self._P, self._diagonal = counts, P, np.diag(P).copy()
        self._scales, self._popularity = scales, popularity
        self._within = following(counts.within, scales)
        self._between = following(counts.between, scales)
        self._devices = max(float(counts.exposures.max(initial=0)), 2.0)
        self._likes = likes_of(counts)
        self._mean = max(float(self._likes.sum()) / max(float(counts.reports.sum()), 1.0), 1e-3)

    def __len__(self) -> int:
        return len(self._popularity)

    def components(self, event: Event) -> Components:
        """Return the components (n,) of every item as if the device had not been counted."""
        history, targets = event.history, event.targets
        links, visit, place = self._links(event)
        popularity = self._popularity.copy()
        popularity[targets] = np.maximum(
            popularity[targets] - self._own_share(event.kept), 0.25 / self._devices
        )
        return Components(
            links,
            visit,
            place,
            np.log(popularity),
            self._lately_of(event, popularity),
            self._liking(event),
            self._follows(self._within, history, history.recent, targets, event.own_within),
            self._follows(self._between, history, history.last_visit, targets, event.own_between),
            popularity,
        )

    def _links(self, event: Event) -> tuple[Column, Column, Column]:
        """Return x B, and of the last visit alone, and by place, without the device."""
        rows, history = self._P[event.slots], event.history
        m, size = len(history.slots), len(event.slots)
        used = np.zeros((4, size), np.float32)
        used[0] = event.weights
        # The history is a part of the list, and ends where the targets' visit begins.
        start = int(np.flatnonzero(event.slots == history.slots[0])[0]) if m else 0
        x = history.weights
        for row, weights in enumerate((x, x * history.last_visit, x * history.recent), 1):
            used[row, start : start + m] = weights
        own, *sums = used @ rows
        left = max(1 - float(own[event.slots] @ event.weights), 1e-3)
        v = own / np.float32(left**0.5)
        diagonal = self._diagonal + v * v
        # Without BLAS, whose small products may set the flag of an invalid value by what they pad.
        along = np.einsum("ws,s->w", used[1:], v[event.slots])
        links, visit, place = (
            -(total + a * v) / diagonal for total, a in zip(sums, along, strict=True)
        )
        return links, visit, place

    def _own_share(self, kept: float) -> float:
        """Return what one rating of a device adds to the popularity of its item."""
        counts = self._counts
        if not counts.recent_total > 0:
            return 1 / self._devices
        return (1 + kept / counts.recent_total * counts.total) / self._devices / 2

    def _lately_of(self, event: Event, popularity: Column) -> Column:
        counts = self._counts
        if not counts.recent_total > 0:
            return np.log(popularity)
        recent = counts.recent.copy()
        recent[event.targets] = np.maximum(recent[event.targets] - event.kept, 0)
        share = recent_share(counts, recent)
        return np.asarray(np.log(share + LATELY_PRIOR * popularity), np.float32)

    def _liking(self, event: Event) -> Column:
        targets, counts = event.targets, self._counts
        x = event.weights[-len(targets) :]  # the newest of all that it has
        likes, reports = self._likes.copy(), counts.reports.copy()
        likes[targets] = np.maximum(likes[targets] - (x - RATED) / (1 - RATED), 0)
        reports[targets] = np.maximum(reports[targets] - 1, 0)
        share = (likes + LIKING_PRIOR * self._mean) / (reports + LIKING_PRIOR)
        return np.asarray(np.log(share / self._mean), np.float32)

    def _follows(
        self,
        table: NDArray[np.float32] | None,
        history: History,
        a: Column,
        targets: NDArray[np.int64],
        own: Column,
    ) -> Column:
        if table is None:
            return np.zeros(len(self), np.float32)
        counted = np.flatnonzero(a > _FAINT)
        slots, a = history.slots[counted], a[counted]
        total: Column = a @ table[slots]
        scaled = a * self._scales.earlier[slots]
        total[targets] -= (own[:, counted] @ scaled) * self._scales.later[targets]
        return np.sqrt(np.maximum(total, 0))

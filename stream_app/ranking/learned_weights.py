"""The weights of a list, learned on what devices liked later (`visit_events.py`).

    score_j = f_j . (w + v log(1 + n) / 4),     f_j the components of item j
    L       = sum over events of  sum_i y_i (score_i - log sum_j exp score_j) / t
              - RIDGE |w - w_0|^2 / 2            y_i, i = 1 .. t: the likes of the targets

by Newton's method, over the targets and a sample of the other items, which count by their inverse
share; w_0: the default weights times `TEMPERATURE`. Two halves of the events are fitted apart, and
each is measured on the other:

    gain   mean over devices of L, by learned weights, less that by the default score at its best
           scale (two numbers, nearly without a ridge: the order is that of the default). With the
           ridge of the weights, which are freer, noise alone would look like a gain.

Learned weights, the mean of the two fits, serve while the gain is above `MARGIN` standard errors of
itself and nDCG@10 is not lower by more than one, else the default ones do. The likelihood says so
sooner than nDCG, which looks at the first few ranks. The figure of the served lists is nDCG@10 on
whole histories, each measured by weights that have not seen it, in the same formula as an
evaluation: DCG of the likes over that of a perfect list. Where reports are noised the number of
likes of a visit is its expectation.

Shards fit together. At its weights w' the likelihood of a shard's devices is nearly

    d L = b . w - w' A w / 2 + const,      A: the bound of its curvature, b = A w' + its gradient

Of other shards the sums of A and b are known, and a shard fits its own L and theirs. As each fits
again with what the others found, w' moves to the fit of all devices, at which nothing is left of
the approximation. A half of the devices of one shard is measured by weights that it has no part in.
Sums of gains are added, too: what serves is decided on all devices. Of each shard the newest fit,
as many in all as of one worker: older ones say less of what comes. A function of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.scores import COUNT, DEFAULT, Column, at_length, length_factor
from stream_app.ranking.visit_events import Event, VisitSample, VisitTables, events_of

LEAST_EVENTS, MOST_MEASURED = 50, 500  # devices
MOST_FITTED = 1_000  # devices of all shards
MARGIN = 3.0
RIDGE = 5.0
TEMPERATURE = 8.0
K = 10
_COLUMNS = 400  # items besides the targets
_PASSES = 20
_LEAST_STEP = 1e-3
_ENOUGH = 1e-5
_NEVER = -1e30  # score of an item that cannot be shown
_SIZE = 2 * COUNT
_START = TEMPERATURE * DEFAULT.astype(np.float64)

Sums = NDArray[np.float32]
Reals = NDArray[np.float64]


class Fit(NamedTuple):
    """What devices say of the weights of a list: of each half curvature A (2, 2 c, 2 c) and pull b
    (2, 2 c); judged (2, 3): sums over devices of 1, x and x x, of the gain and of the nDCG@10 that
    learned lists are ahead of default ones. Those of shards add."""

    curvature: Reals
    pull: Reals
    judged: Reals

    @classmethod
    def from_sums(cls, sums: Sums) -> Fit:
        """Return the fit in an array (`FIT_NUMBERS`,)."""
        parts = np.split(sums.astype(np.float64), np.cumsum((2 * _SIZE**2, 2 * _SIZE)))
        shapes = (2, _SIZE, _SIZE), (2, _SIZE), (2, 3)
        return cls(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)))

    def __add__(self, other: Fit) -> Fit:  # type: ignore[override]
        return Fit(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def sums(self) -> Sums:
        """The fit as an array (`FIT_NUMBERS`,)."""
        return np.concatenate([part.ravel() for part in self]).astype(np.float32)

    @property
    def weights(self) -> Reals:
        """The weights (2, 2 c) of the largest L, of each half."""
        halves = zip(*self.with_ridge, strict=True)  # the curvature of others may be singular
        return np.stack([np.linalg.lstsq(*half, rcond=None)[0] for half in halves])

    @property
    def with_ridge(self) -> tuple[Reals, Reals]:
        """A and b with those of the ridge, of each half."""
        return self.curvature + RIDGE * np.eye(_SIZE), self.pull + RIDGE * _START


FIT_NUMBERS = 2 * _SIZE**2 + 2 * _SIZE + 6


class Others(NamedTuple):
    """The shards beside one of `shards`: the sums of their fits of both lists (2, `FIT_NUMBERS`),
    for the next visit and within one."""

    shards: int = 1
    fits: Sums = np.zeros((2, FIT_NUMBERS), np.float32)


ALONE = Others()


@dataclass(frozen=True)
class Learned:
    """What was learned for a list from so many devices: weights (2 c,), empty where the default
    ones serve; the gain and its standard error; nDCG@10 of the served lists, with its standard
    error, and of popular items. None where there are too few devices. `fit` (`FIT_NUMBERS`,): what
    these devices say, 0 where they are too few."""

    weights: Column = field(default_factory=lambda: np.empty(0, np.float32))
    devices: int = 0
    gain: float | None = None
    gain_error: float | None = None
    ndcg: float | None = None
    ndcg_popular: float | None = None
    ndcg_error: float | None = None
    fit: Sums = field(default_factory=lambda: ALONE.fits[0], repr=False)


def learn(
    tables: VisitTables, sample: VisitSample, others: Others = ALONE, *, now: bool
) -> Learned:
    """Return the weights of a list from a sample of devices, the newest first, and what others
    found."""
    events, rest = events_of(sample, now=now), Fit.from_sums(others.fits[int(now)])
    most = max(MOST_FITTED // others.shards, LEAST_EVENTS)
    devices = len(events) // 2
    if devices < LEAST_EVENTS:
        return Learned(_served(rest), devices)
    problem = _Problem.posed(tables, events[: 2 * most])
    first = np.arange(devices) % 2 == 0
    half = np.repeat(first[:most], 2)
    fits, own = problem.halves(half, rest)
    gains = problem.crossed(fits, half) - problem.by_default().best_scale(half)
    gains = gains.reshape(-1, 2).mean(axis=1)
    whole = [event for event in events if event.whole][:MOST_MEASURED]
    unseen = np.where(first[:, None], fits[1], fits[0])[: len(whole)].astype(np.float32)
    learned, default, popular = _figures(tables, whole, unseen)
    own = own._replace(judged=np.stack([_sums(gains), _sums(learned - default)]))
    weights, judged = _served(own + rest), (devices, *_mean(_sums(gains)))
    served = learned if len(weights) else default
    if not len(served):  # nothing was liked
        return Learned(weights, *judged, fit=own.sums)
    ndcg, error = _mean(_sums(served))
    return Learned(weights, *judged, ndcg, float(popular.mean()), error, own.sums)


def _served(fit: Fit) -> Column:
    """Return the weights (2 c,) of lists, none where the default ones serve."""
    (gain, error), (ahead, margin) = map(_mean, fit.judged)
    serves = gain > MARGIN * error and ahead >= -margin
    return np.asarray(fit.weights.mean(axis=0) if serves else [], np.float32)


def _sums(values: Reals) -> Reals:
    return np.array([len(values), values.sum(), (values**2).sum()])


def _mean(sums: Reals) -> tuple[float, float]:
    """Return the mean of values with these sums (3,), and its standard error."""
    count, total, squares = sums.tolist()
    mean = total / max(count, 1.0)
    spread = max(squares / max(count, 1.0) - mean**2, 0.0)
    return mean, (spread / max(count - 1, 1.0)) ** 0.5


def _figures(tables: VisitTables, events: list[Event], unseen: Column) -> Reals:
    """Return nDCG@10 of the learned, the default and the popular lists, (3, devices with a like);
    where reports are noised, its unbiased share of the whole for every device."""
    ideal, some = _ideal(events)
    found = np.zeros((3, len(events)))
    rows = zip(events, map(tables.components, events), unseen, strict=True)
    for number, (event, components, weights) in enumerate(rows):
        table, n = np.stack(components), len(event.history.slots)
        for way, used in enumerate((weights, DEFAULT, None)):
            scores = components.share.copy() if used is None else at_length(used, n) @ table
            scores[event.hidden] = _NEVER
            own = scores[event.targets][:, None]
            # Of equal scores the mean rank: an event says nothing about their order.
            ranks = 1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
            found[way, number] = (event.likes * (ranks <= K) / np.log2(ranks + 1)).sum()
    kept = some > 0
    return np.asarray(found[:, kept] / ideal[kept] / max(some[kept].sum(), 1e-9) * kept.sum())


def _ideal(events: list[Event]) -> tuple[Reals, Reals]:
    """Return the DCG@10 of a perfect list of each event (e,), and the probability that it has a
    like at all."""
    many = np.array([len(event.targets) for event in events], np.float64)
    likes = np.array([event.likes.sum() for event in events])
    some = (likes > 0).astype(np.float64)
    if not all(np.isin(event.likes, (0.0, 1.0)).all() for event in events):
        share = np.clip(likes.sum() / many.sum(), 0.05, 1)
        # One visit says little of its own share: as much as the mean of all with 4 targets.
        likes = many * np.clip((likes + 4 * share) / (many + 4), 0.05, 1)
        some = 1 - (1 - share) ** many
    gains = np.concatenate(([0.0], np.cumsum(1 / np.log2(np.arange(K) + 2))))
    return np.interp(np.clip(likes, 1, K), np.arange(K + 1), gains), some


class _Problem(NamedTuple):
    """Events as arrays: features (e, c, j) of targets and sampled items, offsets (e, j), likes
    (e, j) over the number of targets, and the length factors (e,)."""

    features: Column
    offsets: Reals
    likes: Reals
    lengths: Reals

    @classmethod
    def posed(cls, tables: VisitTables, events: list[Event]) -> _Problem:
        n, most = len(tables), max(len(event.targets) for event in events)
        columns = np.arange(n)
        if n > _COLUMNS:
            columns = np.sort(np.random.default_rng(0).choice(n, _COLUMNS, replace=False))
        size = most + len(columns)
        features = np.zeros((len(events), COUNT, size), np.float32)
        offsets, likes = np.full((len(events), size), _NEVER), np.zeros((len(events), size))
        offsets[:, most:] = np.log(n / len(columns))
        for number, (event, components) in enumerate(
            zip(events, map(tables.components, events), strict=True)
        ):
            t, table = len(event.targets), np.stack(components)
            features[number, :, :t] = table[:, event.targets]
            features[number, :, most:] = table[:, columns]
            offsets[number, :t], likes[number, :t] = 0, event.likes / t
            offsets[number, most:][np.isin(columns, event.slots)] = _NEVER
        lengths = length_factor(np.array([len(event.history.slots) for event in events]))
        return cls(features, offsets, likes, lengths)

    def at(self, part: NDArray[np.bool_]) -> _Problem:
        """Return a part of the events."""
        return _Problem._make(column[part] for column in self)

    def by_default(self) -> _Problem:
        """Return the same events with the default score as their one feature."""
        return self._replace(
            features=np.einsum("c,ecj->ej", DEFAULT[:COUNT], self.features)[:, None]
        )

    def best_scale(self, half: NDArray[np.bool_]) -> Reals:
        """Return L of each event (e,) by the one feature, at the best scale of the other half."""
        start = np.array([TEMPERATURE, 0.0])
        ridge = RIDGE / 1000 * np.eye(2)
        found = [self.at(part).fitted(start, ridge, ridge @ start) for part in (half, ~half)]
        return self.crossed(np.stack(found), half)

    def halves(self, half: NDArray[np.bool_], rest: Fit) -> tuple[Reals, Fit]:
        """Return the weights (2, 2 c) of each half with the rest, and what the halves alone say
        there, not judged."""
        fits, found = [], []
        for part, *prior in zip((half, ~half), *rest.with_ridge, strict=True):
            events = self.at(part)
            weights = events.fitted(_START, *prior)
            _, gradient, curvature = events._at(weights, *map(np.zeros_like, prior))
            fits.append(weights)
            found.append((curvature, curvature @ weights + gradient))
        curvatures, pulls = map(np.stack, zip(*found, strict=True))
        return np.stack(fits), Fit(curvatures, pulls, np.zeros((2, 3)))

    def crossed(self, fits: Reals, half: NDArray[np.bool_]) -> Reals:
        """Return L of each event (e,), without its ridge, by the weights of the half it is not of:
        `half` (e,) says which events the first of the fits has seen."""
        first, second = (self._chances(weights)[0] for weights in fits)
        return np.where(half, second, first)

    def fitted(self, start: Reals, curvature: Reals, pull: Reals) -> Reals:
        """Return the weights (m,) of the largest sum of L and pull . w - w' curvature w / 2."""
        prior, weights = (curvature, pull), start.copy()
        value, gradient, bound = self._at(weights, *prior)
        for _ in range(_PASSES):
            step, length = np.linalg.lstsq(bound, gradient, rcond=None)[0], 1.0
            while length >= _LEAST_STEP:
                found = self._at(weights + length * step, *prior)
                if found[0] > value:
                    break
                length /= 2
            else:
                return weights
            weights, gained = weights + length * step, found[0] - value
            value, gradient, bound = found
            if gained < _ENOUGH * len(self.lengths):
                return weights
        return weights

    def _chances(self, weights: Reals) -> tuple[Reals, Column]:
        """Return L of each event (e,) and the probability of each item (e, j)."""
        used = np.stack((np.ones(len(self.lengths)), self.lengths), 1) @ weights.reshape(2, -1)
        scores = (used.astype(np.float32)[:, None] @ self.features)[:, 0] + self.offsets
        top = scores.max(axis=1, keepdims=True)
        chance = np.exp(scores - top)
        total = chance.sum(axis=1, keepdims=True)
        normal = self.likes.sum(axis=1) * (top + np.log(total))[:, 0]
        return (self.likes * scores).sum(axis=1) - normal, (chance / total).astype(np.float32)

    def _at(self, weights: Reals, curvature: Reals, pull: Reals) -> tuple[float, Reals, Reals]:
        """Return the sum of L and of what is known, at these weights (m,), its gradient (m,), and
        minus a bound of its curvature."""
        values, chance = self._chances(weights)
        sums = self.likes.sum(axis=1)
        mean = (self.features @ chance[:, :, None])[:, :, 0]
        slope = (self.features @ self.likes.astype(np.float32)[:, :, None])[:, :, 0]
        slope = slope - sums[:, None] * mean
        spread = (self.features * chance[:, None, :]) @ self.features.transpose(0, 2, 1)
        spread = (spread - mean[:, :, None] * mean[:, None, :]).astype(np.float64)
        # A sum of noised likes may be below zero; a Newton step needs a curvature that is not.
        spread *= np.maximum(sums, max(float(sums.mean()), 0.05))[:, None, None]
        size = 2 * self.features.shape[1]
        by = np.stack((np.ones(len(self.lengths)), self.lengths))
        blocks = np.einsum("ae,be,ecd->acbd", by, by, spread, optimize=True)
        bent = curvature @ weights
        value = float(values.sum() + (pull - bent / 2) @ weights)
        gradient = (by @ slope).ravel() + pull - bent
        return value, gradient, blocks.reshape(size, size) + curvature

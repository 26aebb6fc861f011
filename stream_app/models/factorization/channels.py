"""The exact channels of an allow-list of mechanisms as arrays, for decoding and debiasing.

A channel is one mechanism under one mask; its number is first[mechanism] + mask, with
mask 0 for a mechanism that has none, and fits 16 bits. A report z of channel c has a row of its own

    row = starts[c] + z
    likelihood[row, v] = P(report = z | a rating of level v)        (R, Lmax), zero filled
    absent[row]        = P(report = z | no rating)                  0 where presence is public
    uniform[row]       = mean of likelihood[row, v] over the levels

so that a long list of channels of different sizes takes no more room than it has entries. Level v
of L is the internal rating ("stars")  1 + 4 v / (L - 1),  whatever the data's own scale. Where
presence is protected, `missing[c]` is the report that means "no rating" ("missing").

A report of `like` is a bit of its cell, whether it holds a rating or not. Its channel (`likes[c]`)
has two levels, "not liked" (1 star) and "liked" (5). Both reports are learned, also the one that
is `missing[c]`, with prior 1: every cell holds a bit, and (prediction - 1) / 4 is P(liked). No star
stands behind a report, so face value and square are NaN, and the error is a log-loss.

Debiasing. Where the channel can be inverted there are functions of the report with

    E[weight(z) | r] = 1,   E[value(z) | r] = r,   E[square(z) | r] = r^2     and 0 for no rating
    f_t(z) = square(z) - 2 t value(z) + t^2 weight(z)
    has   E[f_t(z) | r] = (r - t)^2   and, without a rating, 0

and the sum of f_t(z) over the sum of weight(z), over all cells, estimates the squared error of
predictions t against the true ratings without seeing one. They are the mechanism's own, moved to
this scale; a channel that cannot be inverted (a partition of the levels, a single bit) has NaN for
`square`. Weight is 1 where presence is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.posterior import (
    INSIDE_HIGH,
    INSIDE_LOW,
    tabulate,
)
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.like import Like

LOWEST, HIGHEST = 1.0, 5.0
MAX_CHANNELS = 65_535
NO_CHANNEL = 65_535  # a number of no channel: its events are predicted and not learned
_AS_LIKELY = 1e-9

Tables = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]


def stars_of(levels: int) -> NDArray[np.float64]:
    """Return the internal rating of each of `levels` levels, 1 .. 5."""
    return LOWEST + (HIGHEST - LOWEST) * np.arange(levels) / (levels - 1)


@cache
def level_priors(levels: int) -> NDArray[np.float64]:
    """Return the tabulated priors over so many levels (`posterior.py` of the kernels)."""
    table: NDArray[np.float64] = tabulate(levels)
    return table


@dataclass(frozen=True, eq=False)
class Channels:
    """Channels by number (C,), their reports by row (R,), mechanisms by place (M,); see above."""

    first: NDArray[np.int64]  # (M,)
    starts: NDArray[np.int64]  # (C,)
    alphabets: NDArray[np.int64]  # (C,) 0 where a number names no channel
    levels: NDArray[np.int64]  # (C,)
    exact: NDArray[np.bool_]  # (C,) the report is the level itself
    presence: NDArray[np.bool_]  # (C,) whether there is a rating is protected, too
    missing: NDArray[np.int64]  # (C,) -1 where no report means "missing"
    likes: NDArray[np.bool_]  # (C,) a report is a bit of every cell: liked or not
    inverted: NDArray[np.bool_]  # (C,) value and square are numbers
    likelihood: NDArray[np.float64]  # (R, Lmax)
    absent: NDArray[np.float64]  # (R,)
    uniform: NDArray[np.float64]  # (R,)
    weight: NDArray[np.float64]  # (R,)
    value: NDArray[np.float64]  # (R,)
    square: NDArray[np.float64]  # (R,)
    face_value: NDArray[np.float64]  # (R,) the report as a rating; NaN where it means "no rating"

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def from_mechanisms(cls, mechanisms: Sequence[Mechanism]) -> Channels:
        """Return the tables of `mechanisms` in their order; ValueError for an unusable channel."""
        if not 1 <= len(mechanisms) <= 256:
            raise ValueError(f"{len(mechanisms)} mechanisms: an allow-list has 1 to 256")
        # Number first + 0 of a mechanism with masks names nothing, so its alphabet is empty.
        sizes = [1 + max(mechanism.masks, default=0) for mechanism in mechanisms]
        first = np.cumsum([0, *sizes])
        if first[-1] > MAX_CHANNELS:
            raise ValueError(
                f"{first[-1]} channels: at most {MAX_CHANNELS} have a number; allow fewer "
                "mechanisms with partitions of many levels"
            )
        alphabets, levels, missing = np.zeros((3, first[-1]), np.int64)
        exact, presence, inverted, likes = np.zeros((4, first[-1]), np.bool_)
        missing[:] = -1
        parts: list[_ChannelRows] = []
        for begin, mechanism in zip(first, mechanisms, strict=False):
            for mask in mechanism.masks or (0,):
                c, part = begin + mask, _ChannelRows.from_mechanism(mechanism, mask)
                alphabets[c], levels[c] = part.likelihood.shape
                exact[c], inverted[c] = part.exact, not np.isnan(part.square).any()
                presence[c], likes[c] = part.protects, isinstance(mechanism, Like)
                missing[c] = len(part.face_value) - 1 if part.protects else -1
                parts.append(part)
        deepest = max(part.likelihood.shape[1] for part in parts)
        padded = [
            np.pad(part.likelihood, ((0, 0), (0, deepest - part.likelihood.shape[1])))
            for part in parts
        ]
        return cls(
            first[:-1], np.cumsum(alphabets) - alphabets, alphabets, levels, exact, presence,
            missing, likes, inverted, np.concatenate(padded),
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("absent", "uniform", "weight", "value", "square", "face_value")
            ),
        )  # fmt: skip

    @property
    def tables(self) -> Tables:
        """Arguments of the decoding kernels: absent and likelihood (R, 1 + Lmax), facts (C, 5) and
        the tables of priors, one behind the other.

        The facts of a channel are start, alphabet, levels, exact, and where the table of its
        levels begins. They are packed because each further array takes registers from the loop.
        """
        noisy = np.unique(self.levels[~self.exact & (self.alphabets > 0)]).tolist()
        tables = [level_priors(levels) for levels in noisy] or [np.zeros(1)]
        begins = np.cumsum([0, *map(len, tables)])
        places = np.zeros(257, np.int64)
        places[noisy] = begins[: len(noisy)]
        facts = np.stack(
            (self.starts, self.alphabets, self.levels, self.exact, places[self.levels]), axis=1
        )
        rows = np.concatenate((self.absent[:, None], self.likelihood), axis=1)
        return (
            np.ascontiguousarray(rows),
            np.ascontiguousarray(facts, np.int64),
            np.concatenate(tables),
        )

    def numbers(
        self, mechanisms: NDArray[np.integer], masks: NDArray[np.uint16] | int = 0
    ) -> NDArray[np.uint16]:
        """Return the channel number of each (mechanism, mask); the mask is 0 where it has none."""
        return np.asarray(self.first[mechanisms] + masks).astype(np.uint16)

    def rows(self, numbers: NDArray[np.integer], reports: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the row of each report, (n,), which is of its channel's alphabet."""
        return np.asarray(self.starts[numbers] + reports)

    def channel(self, number: int) -> NDArray[np.float64]:
        """Return P(z | v) of one channel, shape (alphabet, levels)."""
        start, size = self.starts[number], self.alphabets[number]
        return self.likelihood[start : start + size, : self.levels[number]]

    @staticmethod
    def like_probability(predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(liked) of predictions on 1 .. 5, within the bounds of the decoder's prior."""
        inside = np.clip(predicted, INSIDE_LOW, INSIDE_HIGH)
        return np.asarray((inside - LOWEST) / (HIGHEST - LOWEST))

    @property
    def memory_bytes(self) -> int:
        """Size of the tables."""
        return sum(array.nbytes for array in vars(self).values())


@dataclass(frozen=True, eq=False)
class _ChannelRows:
    """The rows of one channel; see the module."""

    likelihood: NDArray[np.float64]  # (Z, L)
    absent: NDArray[np.float64]
    uniform: NDArray[np.float64]
    weight: NDArray[np.float64]
    value: NDArray[np.float64]
    square: NDArray[np.float64]
    face_value: NDArray[np.float64]
    exact: bool
    protects: bool

    @classmethod
    def from_mechanism(cls, mechanism: Mechanism, mask: int) -> _ChannelRows:
        whole = _checked(mechanism, mask)
        if isinstance(mechanism, Like):
            return cls.of_likes(mechanism, whole)
        z, v = len(whole), mechanism.levels
        protects = mechanism.inputs > v
        channel = np.ascontiguousarray(whole[:, :v])
        if protects and z < 2:
            raise ValueError(f"{mechanism.id}: a single report cannot mean a rating and none")
        reports = np.arange(z)
        # A mechanism counts levels from 0, or from the middle of the scale where it hides presence.
        origin = (LOWEST + HIGHEST) / 2 if protects else LOWEST
        step = (HIGHEST - LOWEST) / (v - 1)
        weight = mechanism.presence(reports)
        value, square = step * mechanism.value(reports), step**2 * mechanism.square(reports)
        return cls(
            channel,
            whole[:, v] if protects else np.zeros(z),
            channel.mean(1),
            weight,
            origin * weight + value,
            origin**2 * weight + 2 * origin * value + square,
            np.append(_face_values(channel[:-1]), np.nan) if protects else _face_values(channel),
            exact=not protects and z == v and np.array_equal(channel, np.eye(z)),
            protects=protects,
        )

    @classmethod
    def of_likes(cls, mechanism: Like, whole: NDArray[np.float64]) -> _ChannelRows:
        """Return the rows of one bit a cell: an empty cell and the threshold stand for the bit."""
        channel = np.ascontiguousarray(whole[:, [mechanism.levels, mechanism.threshold]])
        unknown = np.full(len(whole), np.nan)
        return cls(
            channel,
            whole[:, mechanism.levels],
            channel.mean(1),
            np.ones(len(whole)),
            LOWEST + (HIGHEST - LOWEST) * mechanism.liked(np.arange(len(whole))),
            unknown,
            unknown,
            exact=False,
            protects=True,
        )


def _checked(mechanism: Mechanism, mask: int) -> NDArray[np.float64]:
    """Return P(z | input), shape (Z, inputs), the input for "no rating" last."""
    channel = np.asarray(mechanism.likelihood(mask), np.float64)
    v, inputs = mechanism.levels, mechanism.inputs
    z = len(channel) if mechanism.masks else mechanism.alphabet
    if channel.shape != (z, inputs) or inputs - v not in (0, 1):
        raise ValueError(
            f"{mechanism.id}: channel of shape {channel.shape}, expected {(z, inputs)}"
        )
    if not 2 <= v <= 256 or not 1 <= z <= 256:
        raise ValueError(f"{mechanism.id}: {v} levels and {z} reports; 2 and 1 to 256 are possible")
    if not (np.isfinite(channel).all() and (channel >= 0).all()):
        raise ValueError(f"{mechanism.id}: a probability is negative or not a number")
    if np.abs(channel.sum(0) - 1).max() > 1e-9:
        raise ValueError(f"{mechanism.id}: the reports of a level do not sum to probability 1")
    return channel


def _face_values(channel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the face value of each report: the mean of the levels that it is likeliest for.

    Reports that are no level's likeliest lie evenly between their neighbours that are.
    """
    z, v = channel.shape
    likeliest = channel >= channel.max(0) * (1 - _AS_LIKELY)
    count = likeliest.sum(1)
    known = np.flatnonzero(count)
    means = (likeliest @ stars_of(v))[known] / count[known]
    return np.asarray(np.interp(np.arange(z), known, means))

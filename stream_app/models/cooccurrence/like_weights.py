"""Weight of a report: how probable it is that the device likes the item, in fifteenths.

    weight(z, t) = round(15 (RATED + (1 - RATED) P(r >= like | z, t)))

    P(v | z, t) ~ P(z | v) exp(-(x_v - c)^2 / 2 V)        x_v the stars of level v, V = 1
    like        = the lowest level of the upper three tenths of the scale: 4 and 5 of 1 .. 5

z is the report, through its exact channel; t the predicted rating, rounded to a fifth of a star;
c is such that the prior has the mean t, as in `posterior.py` of the kernels. RATED = .2 of
a weight is for the rating itself: what a device has rated says something about its taste, however
it has rated it; noised reports tell likes from others less well than true ratings.

Where presence is protected a report is a bit: 0 for "missing" or "not liked", else 1.

The last bits of `exp` differ between machines, so probabilities are rounded before the weights are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.pair_updates import BINS_PER_STAR
from stream_app.models.factorization.channels import HIGHEST, LOWEST, Channels, stars_of
from stream_app.privacy.ratings.like import default_threshold as like_level
from stream_app.ranking.pair_counts import RATED, WEIGHT_ONE

VARIANCE = 1.0  # of a rating around its prediction, in stars squared
_INSIDE = (1.15, 4.85)
_STEPS = 8
_DIGITS = 9
_EQUAL = 1e-6  # sums of probabilities nearer than this are taken for equal
_ROWS = 4096  # at a time, so that the intermediate arrays stay small


def like_weights(channels: Channels) -> NDArray[np.uint8]:
    """Return the weight of each report's row at each predicted rating, (R, bins), 8 .. 15."""
    weights = np.full((len(channels.absent), bins()), (WEIGHT_ONE + 1) // 2, np.uint8)
    levels = np.repeat(channels.levels, channels.alphabets)
    for count in np.unique(levels).tolist():
        priors = _priors(count)
        rows = np.flatnonzero(levels == count)
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            weights[part] = _weights(channels.likelihood[part, :count], priors)
    return weights


def report_weights(channels: Channels) -> NDArray[np.uint8]:
    """Return 1 for each report's row, and 0 for the last report of a channel that protects
    presence, which means "missing" or "not liked", (R, bins)."""
    weights = np.ones((len(channels.absent), bins()), np.uint8)
    last = channels.starts + channels.alphabets - 1
    weights[last[channels.presence & (channels.alphabets > 0)]] = 0
    return weights


def like_bits(channels: Channels) -> NDArray[np.uint8]:
    """Return 1 for each report's row (R,) that speaks for a like: it is likelier where a liked
    level was rated than where another one was, levels of either kind being equally likely."""
    bits = np.zeros(len(channels.absent), np.uint8)
    levels = np.repeat(channels.levels, channels.alphabets)
    for count in np.unique(levels).tolist():
        rows, like = np.flatnonzero(levels == count), like_level(count)
        likelihood = channels.likelihood[rows, :count].round(_DIGITS)
        # Multiplied out: a mean of equal numbers need not be that number.
        liked, other = _row_sums(likelihood[:, like:]), _row_sums(likelihood[:, :like])
        bits[rows] = liked * like > other * (count - like) + _EQUAL
    return bits


def like_rates(channels: Channels) -> NDArray[np.float64]:
    """Return P(bit = 1 | liked) and P(bit = 1 | not liked) of each channel (C, 2), levels of either
    kind being equally likely; NaN for a number that names no channel.

    (bit - P0) / (P1 - P0) is an unbiased estimate of the like where, as with `rr` and `none`, every
    level of a kind has the same probability; where P1 = P0 the reports say nothing about it.
    """
    rates, bits = np.full((len(channels), 2), np.nan), like_bits(channels)
    for number in np.flatnonzero(channels.alphabets).tolist():
        start, count = channels.starts[number], channels.levels[number]
        rows = np.arange(start, start + channels.alphabets[number])
        positive = channels.likelihood[rows[bits[rows] > 0], :count].sum(0)
        like = like_level(int(count))
        rates[number] = positive[like:].mean(), positive[:like].mean()
    return rates


def positive_probabilities(channels: Channels, number: int) -> tuple[float, float]:
    """Return the probabilities of a report of weight 1 under a channel that protects presence: of
    the input that makes it likeliest, and of a cell without a rating or like."""
    start, stop = channels.starts[number], channels.starts[number] + channels.alphabets[number] - 1
    positive = channels.likelihood[start:stop, : channels.levels[number]].sum(0)
    absent = positive[0] if channels.likes[number] else channels.absent[start:stop].sum()
    return float(positive.max()), float(absent)


def bins() -> int:
    """Return the number of predicted ratings that the tables distinguish."""
    return 1 + int(HIGHEST - LOWEST) * int(BINS_PER_STAR)


def _row_sums(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each row, in the order of the columns on every machine."""
    total = np.zeros(len(columns))
    for column in range(columns.shape[1]):
        total += columns[:, column]
    return total


def _weights(likelihood: NDArray[np.float64], priors: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the weights of reports (n, levels) under priors (bins, levels)."""
    liked, total = np.zeros((2, len(likelihood), len(priors)))
    for level in range(likelihood.shape[1]):
        joint = likelihood[:, level, None] * priors[:, level]
        total += joint
        if level >= like_level(likelihood.shape[1]):
            liked += joint
    share = np.divide(liked, total, out=np.zeros_like(total), where=total > 0)
    x = RATED + (1 - RATED) * share.round(_DIGITS)
    return np.floor(WEIGHT_ONE * x + 0.5).astype(np.uint8)


def _priors(levels: int) -> NDArray[np.float64]:
    """Return the prior over levels at each predicted rating, (bins, levels)."""
    stars = stars_of(levels)
    wanted = np.clip(LOWEST + np.arange(bins()) / BINS_PER_STAR, *_INSIDE)
    centre = wanted.copy()
    for _ in range(_STEPS):
        prior = _normal(stars, centre)
        mean = _summed(prior, stars)
        spread = np.maximum(_summed(prior, stars * stars) - mean * mean, 1e-3)
        centre = np.clip(centre + np.clip((wanted - mean) * VARIANCE / spread, -2, 2), -6, 12)
    return _normal(stars, centre)


def _normal(stars: NDArray[np.float64], centre: NDArray[np.float64]) -> NDArray[np.float64]:
    density = np.exp(-((stars - centre[:, None]) ** 2) / (2 * VARIANCE))
    return density / _summed(density, np.ones_like(stars))[:, None]


def _summed(prior: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums over levels in their order: a matrix product has no fixed one."""
    total = np.zeros(len(prior))
    for level, value in enumerate(values.tolist()):
        total += prior[:, level] * value
    return total

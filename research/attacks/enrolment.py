"""The enrolment attack: can who emits, when and how many tell what was rated?

Two worlds have the same enrolled accounts and differ in the ratings alone, such as {ann: item 7}
against {}. The attacker sees one of them without its reports, and says which. Of the pairs the
first half trains a rule "feature above a threshold", the second half measures its advantage,

    A = P(says 1 | world 1) - P(says 1 | world 0)

with a standard deviation of at most sqrt(1 / pairs), and of 0 where the worlds of a pair look the
same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consumers.audit.observed import Messages

FEATURES = ("messages", "cells", "bytes", "largest", "smallest", "first", "last", "epochs", "order")


@dataclass(frozen=True)
class Advantage:
    """The advantage of the best rule on the pairs that did not choose it."""

    advantage: float
    feature: str
    pairs: int


def traces(messages: Messages, devices: list[bytes]) -> NDArray[np.float64]:
    """Return what can be seen of each device besides its reports, (n, len(FEATURES)).

    `order` is the arrival of the first message among all; a device that sends nothing has zeros.
    """
    found = np.zeros((len(devices), len(FEATURES)))
    place = {device: row for row, device in enumerate(devices)}
    row_of = np.array([place.get(device, -1) for device in messages.devices], np.int64)
    row = row_of[messages.device] if len(messages) else np.empty(0, np.int64)
    own, row = np.flatnonzero(row >= 0), row[row >= 0]
    start = int(messages.time.min()) if len(messages) else 0
    time = (messages.time[own] - start).astype(np.float64) + 1
    found[:, 0] = np.bincount(row, minlength=len(devices))
    found[:, 1] = np.bincount(row, weights=messages.count[own], minlength=len(devices))
    found[:, 2] = np.bincount(row, weights=messages.size[own], minlength=len(devices))
    sent = found[:, 0] > 0
    found[sent, 4] = found[sent, 5] = found[sent, 8] = np.inf
    np.maximum.at(found[:, 3], row, messages.size[own])
    np.minimum.at(found[:, 4], row, messages.size[own])
    np.minimum.at(found[:, 5], row, time)
    np.maximum.at(found[:, 6], row, time)
    turns = np.unique(np.stack([row, messages.epoch[own]], axis=1), axis=0)
    found[:, 7] = np.bincount(turns[:, 0], minlength=len(devices))
    np.minimum.at(found[:, 8], row, own.astype(np.float64) + 1)
    return found


def advantage(world_0: NDArray[np.float64], world_1: NDArray[np.float64]) -> Advantage:
    """Return the advantage over pairs of worlds, traces (pairs, features) of each."""
    pairs = len(world_0)
    if world_1.shape != world_0.shape or pairs < 2:
        raise ValueError(f"{pairs} and {len(world_1)} worlds: give two or more pairs")
    half = pairs // 2
    best, rule = 0.0, (0, 0.0, 1)
    for feature in range(world_0.shape[1]):
        values = np.unique(np.concatenate((world_0[:half, feature], world_1[:half, feature])))
        low = np.searchsorted(np.sort(world_0[:half, feature]), values, "right") / half
        high = np.searchsorted(np.sort(world_1[:half, feature]), values, "right") / half
        gaps = low - high  # P(above | 1) - P(above | 0) for each threshold
        at = int(np.abs(gaps).argmax())
        if abs(gaps[at]) > best:
            best, rule = float(abs(gaps[at])), (feature, float(values[at]), int(np.sign(gaps[at])))
    feature, threshold, sign = rule
    if not best:
        return Advantage(0.0, "none", pairs)
    above = [(world[half:, feature] > threshold).mean() for world in (world_0, world_1)]
    return Advantage(sign * float(above[1] - above[0]), FEATURES[feature], pairs)

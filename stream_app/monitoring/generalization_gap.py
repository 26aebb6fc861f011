"""The generalization gap as a leakage estimate (Balu 2016, eq. 4.15).

Gaussians are fitted to the residuals of learned (tr) and held-out (te) events:

    KL = 1/2 (s_tr^2 / s_te^2 + (m_tr - m_te)^2 / s_te^2 - 1 + ln(s_te^2 / s_tr^2))   nats

KL measures an average and is not a bound: a low value proves nothing about a single person's
rating. With n samples on each side, a model without leakage still shows about 2 / n nats.

No learned state is changed, no clock is read, no I/O is done.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization import error_scores
from stream_app.kernels.instrumentation import timed
from stream_app.monitoring.prequential_error import Floats, RingBuffer

FEWEST_SAMPLES = 30


class GeneralizationGap:
    """Pairs of a held-out and a learned event of the same age, kept to be predicted again.

    Every held-out event is paired with the next learned event that has no partner, so both ring
    buffers advance together, and their contents do not depend on how the stream is batched.
    """

    def __init__(self, capacity: int = 4096) -> None:
        columns: tuple[type[Any], ...] = (np.uint64, np.uint64, np.uint8, np.uint16, np.float32)
        self._held_out = [RingBuffer(capacity, dtype) for dtype in columns]
        self._learned = [RingBuffer(capacity, dtype) for dtype in columns]
        self._unpaired = 0  # held-out events that still wait for a learned event

    @property
    def samples(self) -> int:
        """Number of events on the smaller side."""
        return min(len(self._held_out[0]), len(self._learned[0]))

    def add(
        self,
        users: NDArray[np.uint64],
        items: NDArray[np.uint64],
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        priors: NDArray[np.float32],
        held_out: NDArray[np.bool_],
    ) -> None:
        """Keep events, (n,) each; `held_out` marks the events that are never learned."""
        if not len(held_out):
            return
        chosen = np.empty(len(held_out), np.bool_)
        self._unpaired = int(timed(error_scores.pair, held_out, self._unpaired, chosen))
        held_out_rows, learned_rows = np.flatnonzero(held_out), np.flatnonzero(chosen)
        columns: tuple[NDArray[Any], ...] = (users, items, reports, channels, priors)
        for kept, learned, column in zip(self._held_out, self._learned, columns, strict=True):
            kept.add(column[held_out_rows])
            learned.add(column[learned_rows])

    def measure(self, residuals: Callable[..., Floats]) -> float:
        """Return KL in nats, NaN where unknown; `residuals` returns the error (n,) of the current
        model on events: users, items, reports, channels, priors.

        Unknown means fewer than `FEWEST_SAMPLES` events on a side, or residuals without variance.
        """
        if self.samples < FEWEST_SAMPLES:
            return nan
        learned = residuals(*(ring.values() for ring in self._learned))
        held_out = residuals(*(ring.values() for ring in self._held_out))
        return gaussian_kl(*_moments(learned), *_moments(held_out))


def _moments(residuals: Floats) -> tuple[float, float]:
    """Return mean and standard deviation; exactly 0 for equal residuals, despite rounding."""
    if not np.isfinite(residuals).all():
        return nan, nan
    alike = residuals.max() == residuals.min()
    return float(np.mean(residuals)), 0.0 if alike else float(np.std(residuals))


def gaussian_kl(mean: float, deviation: float, other_mean: float, other_deviation: float) -> float:
    """Return KL(N(mean, deviation) || N(other_mean, other_deviation)); NaN where a width is 0."""
    if not (deviation > 0 and other_deviation > 0):
        return nan
    ratio = (deviation / other_deviation) ** 2
    shift = ((mean - other_mean) / other_deviation) ** 2
    return 0.5 * (ratio + shift - 1 - log(ratio))

"""Decoders of a JLT: a released sum of sign vectors, whose codebook and noise are public.

In the integers that are released: y = sum over P of x_j + N, x_j of L signs, N of variance V,

    single   s_j = |y|^2 / 2 v0 - (|y|^2 - 2 <y, x_j> + L) / 2 v1 + L/2 ln(v0 / v1)
             v0 = V + c, v1 = V + c - 1: what a coordinate varies by, without j and with it
    joint    `research/kernels/projection_chains.py`

(Balu 2016, sections 3.2.2 and 3.4). Without noise the chains take V = 1/4: between sets that
explain the sum exactly they would not move.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from research.attacks.decoder import Decoder, Kernel, SlotRun
from research.attacks.knowledge import Knowledge
from research.kernels import projection_chains
from stream_app.privacy.profiles.codebook import signs
from stream_app.privacy.profiles.jlt import Jlt

MOST_ITEMS = 8192  # whose products are held: 256 MiB
_WITHOUT_NOISE = 0.25


class ProjectionDecoder(Decoder):
    """The decoders of one JLT mechanism; holds the products of every two items of the catalogue.

    ValueError for a catalogue of more than 8192 items.
    """

    def __init__(self, mechanism: Jlt, knowledge: Knowledge) -> None:
        if len(knowledge.catalogue) > MOST_ITEMS:
            raise ValueError(
                f"a catalogue of {len(knowledge.catalogue)} items: joint decoding of "
                f"{mechanism.family} holds the products of every two of at most {MOST_ITEMS}; "
                "attack a blip, or take fewer items"
            )
        super().__init__(mechanism, knowledge)
        self._mechanism = mechanism
        # Products of signs are whole numbers below 2^24, so float32 holds them exactly.
        self._codewords = signs(knowledge.catalogue, mechanism.length).astype(np.float32)
        self._gram = np.rint(self._codewords @ self._codewords.T).astype(np.int32)
        self._variance = max(float(mechanism.variance), _WITHOUT_NOISE)

    def single(self, released: NDArray[np.uint8], size: float) -> NDArray[np.float64]:
        """Return s_j of every item, (n,)."""
        y = self._mechanism.integers(released[None])[0]
        square, length = float((y.astype(np.float64) ** 2).sum()), self._mechanism.length
        without = float(self._mechanism.variance) + max(size, 2.0)
        with_it = without - 1
        left = square - 2 * self._along(released) + length
        spread = length / 2 * math.log(without / with_it)
        return np.asarray(square / (2 * without) - left / (2 * with_it) + spread, np.float64)

    def _sweep(self, released: NDArray[np.uint8], odds: NDArray[np.float64]) -> Kernel:
        along = self._along(released)
        return partial(projection_chains.sweep, self._gram, self._variance, odds, along)

    def _step(self, released: NDArray[np.uint8], run: SlotRun, inside: NDArray[np.uint8]) -> Kernel:
        gram = np.ascontiguousarray(self._gram[np.ix_(run.pool, run.pool)])
        along = self._along(released)[run.pool] - gram[inside == 1].sum(axis=0)
        return partial(projection_chains.step, gram, self._variance, run.odds, along)

    def _along(self, released: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return <y, x_j> of every item, whole numbers (n,)."""
        y = self._mechanism.integers(released[None])[0].astype(np.float64)
        return np.asarray(np.rint(self._codewords.astype(np.float64) @ y), np.float64)

"""Decoders of a BLIP: a released Bloom filter, whose hashes and noise are public.

    single   s_j = n11 ln((1-p) / q) + n01 ln(p / (1-q))       (Balu 2016, eqs 3.27 to 3.29)
             n11, n01: bits of item j that are 1, that are 0;  q = (1-p) pi_c + p (1 - pi_c)
    joint    `research/kernels/bloom_chains.py`, with g = ln((1-p) / p)

At epsilon 0 a bit says nothing, s_j = 0 and g = 0. Without noise (p = 0) an item with a bit that is
0 cannot be in the profile: it has s_j = -inf. A chain between sets that explain the filter exactly
would not move, so there it takes flips for e^-36 likely instead of impossible.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from research.attacks.decoder import Decoder, Kernel, SlotRun
from research.attacks.knowledge import Knowledge
from research.kernels import bloom_chains
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.codebook import positions

_WITHOUT_NOISE = 36.0


class BloomDecoder(Decoder):
    """The decoders of one BLIP mechanism; holds the bits of every item of the catalogue."""

    def __init__(self, mechanism: Blip, knowledge: Knowledge) -> None:
        super().__init__(mechanism, knowledge)
        self._mechanism = mechanism
        self._places, self._starts = positions(
            knowledge.catalogue, mechanism.hashes, mechanism.length
        )
        p = float(mechanism.flip)
        self._g = _WITHOUT_NOISE if p == 0 else math.log1p(-p) - math.log(p)

    def single(self, released: NDArray[np.uint8], size: float) -> NDArray[np.float64]:
        """Return s_j of every item, (n,)."""
        bits = self._mechanism.bits(released[None])[0]
        ones = np.add.reduceat(bits[self._places].astype(np.int64), self._starts[:-1])
        zeros = np.diff(self._starts) - ones
        p, length = float(self._mechanism.flip), self._mechanism.length
        share = -math.expm1(size * self._mechanism.hashes * math.log1p(-1 / length))
        q = (1 - p) * share + p * (1 - share)
        found = ones * math.log((1 - p) / q)
        missing = math.log(p / (1 - q)) if p > 0 else -math.inf
        found[zeros > 0] += zeros[zeros > 0] * missing
        return np.asarray(found, np.float64)

    def _sweep(self, released: NDArray[np.uint8], odds: NDArray[np.float64]) -> Kernel:
        covers, signs = np.zeros(self._mechanism.length, np.int32), self._signs(released)
        return partial(bloom_chains.sweep, self._places, self._starts, signs, self._g, odds, covers)

    def _step(self, released: NDArray[np.uint8], run: SlotRun, inside: NDArray[np.uint8]) -> Kernel:
        mechanism, items = self._mechanism, self.knowledge.catalogue[run.pool]
        places, starts = positions(items, mechanism.hashes, mechanism.length)
        covers = np.zeros(mechanism.length, np.int32)
        np.add.at(covers, places[np.repeat(inside, np.diff(starts)) == 1], 1)
        signs = self._signs(released)
        return partial(bloom_chains.step, places, starts, signs, self._g, run.odds, covers)

    def _signs(self, released: NDArray[np.uint8]) -> NDArray[np.int8]:
        bits = self._mechanism.bits(released[None])[0].astype(np.int8)
        return np.asarray(2 * bits - 1, np.int8)

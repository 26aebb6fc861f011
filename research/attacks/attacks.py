"""The table of attacks on a released profile: a ranking of the catalogue by each.

    popularity     the shares of items alone, whatever was released
    single         each item by itself                                       (Balu 2016, eq. 3.27)
    single+prior   the same, and the log-odds of its share
    slots flat     the chain over slots with flat odds
    slots prior    the same with the odds of the shares
    slots paper    the same as printed: an empty slot weighs 1 (3.34, 3.35)
    bits prior     the chain over bits with the odds of the shares: the attack to use

The slots' chain runs over a pool, the best items by the single decoder with the same odds. A chain
ranks by its marginal probabilities, and equal ones by the single decoder; what is equal in all goes
by a public hash of the item.

Decoders of a BLIP: a released Bloom filter, whose hashes and noise are public.

    single   s_j = n11 ln((1-p) / q) + n01 ln(p / (1-q))       (Balu 2016, eqs 3.27 to 3.29)
             n11, n01: bits of item j that are 1, that are 0;  q = (1-p) pi_c + p (1 - pi_c)
    joint    `research/kernels/bloom_chains.py`, with g = ln((1-p) / p)

At epsilon 0 a bit says nothing, s_j = 0 and g = 0. Without noise (p = 0) an item with a bit that is
0 cannot be in the profile: it has s_j = -inf. A chain between sets that explain the filter exactly
would not move, so there it takes flips for e^-36 likely instead of impossible.

Decoders of a JLT: a released sum of sign vectors, whose codebook and noise are public.

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

from research.attacks.decoder import Chains, Decoder, Kernel, SlotRun
from research.attacks.knowledge import Knowledge
from research.kernels import bloom_chains, projection_chains
from research.profiles.blip import Blip
from research.profiles.codebook import positions, signs
from research.profiles.jlt import JltPaper
from research.profiles.profile_mechanism import ProfileMechanism
from stream_app.privacy.ratings.item_sampling import words

ATTACKS = (
    *("popularity", "single", "single+prior"),
    *("slots flat", "slots prior", "slots paper", "bits prior"),
)
_SALT = int.from_bytes(b"TIES", "big")
_DEVIATIONS = 2.0  # c_max: the upper end of an interval of the size (Balu 2016, section 3.1.3)


def decoder(mechanism: ProfileMechanism, knowledge: Knowledge) -> Decoder:
    """Return the decoders of a mechanism; ValueError for one without any."""
    if isinstance(mechanism, Blip):
        return BloomDecoder(mechanism, knowledge)
    if isinstance(mechanism, JltPaper):
        return ProjectionDecoder(mechanism, knowledge)
    raise ValueError(f"{mechanism.id}: there are decoders of blip and jltpaper")


def ranking(
    found: Decoder,
    attack: str,
    released: NDArray[np.uint8],
    size: float,
    chains: Chains,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the places of all items in the catalogue, best first, (n,).

    released: one profile (bytes,); size: its estimated size. ValueError for an unknown attack.
    """
    if attack not in ATTACKS:
        raise ValueError(f"attack {attack!r}: there are {', '.join(ATTACKS)}")
    prior, flat = found.knowledge.odds(size), found.knowledge.flat(size)
    mixed = words(found.knowledge.catalogue, 1, _SALT)[:, 0]
    if attack == "popularity":
        return _order(mixed, prior)
    single = found.single(released, size)
    if attack in ("single", "single+prior"):
        return _order(mixed, single + (flat if attack == "single" else prior))
    odds = flat if attack == "slots flat" else prior
    by_single = single + odds
    if attack == "bits prior":
        return _order(mixed, by_single, found.bits(released, odds, chains, random))
    marginals = np.full(len(odds), -1.0)
    most = math.ceil(size + _DEVIATIONS * found.size_deviation(size))
    wanted = max(2, round(chains.pool * size))
    pool = np.sort(_order(mixed, by_single)[:wanted])
    slots = max(1, min(most, len(pool)))
    run = SlotRun(pool, odds[pool], slots, round(size), attack != "slots paper")
    marginals[run.pool] = found.slots(released, run, chains, random)
    return _order(mixed, by_single, marginals)


def _order(mixed: NDArray[np.uint64], *scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places by falling score, the last of them first; equal ones by their hash."""
    return np.lexsort((mixed, *(-each for each in scores)))


_LOGIT_WITHOUT_NOISE = 36.0


class BloomDecoder(Decoder):
    """The decoders of one BLIP mechanism; holds the bits of every item of the catalogue."""

    def __init__(self, mechanism: Blip, knowledge: Knowledge) -> None:
        super().__init__(mechanism, knowledge)
        self._mechanism = mechanism
        self._places, self._starts = positions(
            knowledge.catalogue, mechanism.hashes, mechanism.length
        )
        p = float(mechanism.flip)
        self._g = _LOGIT_WITHOUT_NOISE if p == 0 else math.log1p(-p) - math.log(p)

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


MOST_ITEMS = 8192  # whose products are held: 256 MiB
_LEAST_VARIANCE = 0.25


class ProjectionDecoder(Decoder):
    """The decoders of one JLT mechanism; holds the products of every two items of the catalogue.

    ValueError for a catalogue of more than 8192 items.
    """

    def __init__(self, mechanism: JltPaper, knowledge: Knowledge) -> None:
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
        self._variance = max(float(mechanism.variance), _LEAST_VARIANCE)

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

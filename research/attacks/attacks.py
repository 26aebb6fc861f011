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
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from research.attacks.bloom import BloomDecoder
from research.attacks.decoder import Chains, Decoder, SlotRun
from research.attacks.knowledge import Knowledge
from research.attacks.projection import ProjectionDecoder
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.codebook import words
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.profiles.mechanism import ProfileMechanism

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
    if isinstance(mechanism, Jlt):
        return ProjectionDecoder(mechanism, knowledge)
    raise ValueError(f"{mechanism.id}: there are decoders of blip and jlt")


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

"""Every attack on profiles of known users: what is found, beside the claimed epsilon.

Profiles are released with the mechanism's own noise, from a seed, since nothing is published; the
attacker sees each release, the public mechanism and catalogue, and the clear profiles of other
users. A measurement is no guarantee: a better attack may find more, and none can move an item's
probability by more than e^epsilon.

How much of a profile an attack finds.

cosine            |P and Q| / sqrt(|P| |Q|) of the profile P and its reconstruction Q, the best
                  c items of the ranking, c the estimated size; 0 if one of them is empty
                  (Balu 2016, eq. 3.36)
map_paper_at_k    1/k * sum over r = 1 .. k of precision(r): every rank counts, without the
                  relevance gate of the usual average precision (Balu 2016, eqs 2.5 and 3.37)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from research.attacks.attacks import ATTACKS, decoder, ranking
from research.attacks.decoder import Chains
from research.attacks.knowledge import Knowledge
from research.profiles.profile_mechanism import ProfileMechanism
from stream_app.privacy.randomness import SeededSource


@dataclass(frozen=True)
class Trial:
    """What one attack found of profiles under one mechanism; epsilon None: without noise."""

    mechanism: str
    epsilon: float | None
    delta: float
    attack: str
    profiles: int
    measured: Measured


@dataclass(frozen=True)
class Plan:
    """What is tried: the attacks, the lengths of their chains, and the seed of noise and chains."""

    attacks: tuple[str, ...] = ATTACKS
    chains: Chains = field(default_factory=Chains)
    seed: int = 0


def tried(
    profiles: Sequence[NDArray[np.uint64]],
    knowledge: Knowledge,
    mechanism: ProfileMechanism,
    plan: Plan | None = None,
    progress: Callable[[int], None] = lambda done: None,  # noqa: ARG005 (a silent default)
) -> list[Trial]:
    """Return one trial per attack on item keys (c,) of each profile.

    `progress` is called with 1 after every attack on a profile. ValueError without a profile.
    """
    plan = plan or Plan()
    source = SeededSource(plan.seed)
    released = np.stack([mechanism.release(profile, source) for profile in profiles])
    found = decoder(mechanism, knowledge)
    sizes = found.sizes(released)
    inside = [np.isin(knowledge.catalogue, profile) for profile in profiles]
    trials = []
    for attack in plan.attacks:
        cosines, precisions = [], []
        for row, (true, size) in enumerate(zip(inside, sizes.tolist(), strict=True)):
            random = np.random.default_rng((plan.seed, row))
            ranked = ranking(found, attack, released[row], size, plan.chains, random)
            cosines.append(cosine(ranked, round(size), true))
            precisions.append(map_paper_at_k(ranked, true))
            progress(1)
        epsilon = None if mechanism.epsilon is None else float(mechanism.epsilon)
        measured = Measured.of_profiles(cosines, precisions)
        trials.append(
            Trial(mechanism.id, epsilon, float(mechanism.delta), attack, len(profiles), measured)
        )
    return trials


TOP = 10


@dataclass(frozen=True)
class Measured:
    """What an attack finds of several profiles: mean, 10 % and 90 % quantile of the cosine, and the
    mean of map_paper_at_10."""

    cosine: float
    low: float
    high: float
    map_at_10: float

    @classmethod
    def of_profiles(cls, cosines: Sequence[float], precisions: Sequence[float]) -> Measured:
        """Return the figures of profiles; ValueError for none."""
        if not cosines or len(cosines) != len(precisions):
            raise ValueError(f"{len(cosines)} cosines and {len(precisions)} precisions: give both")
        low, high = np.quantile(cosines, (0.1, 0.9))
        return cls(float(np.mean(cosines)), float(low), float(high), float(np.mean(precisions)))


def cosine(ranked: NDArray[np.int64], size: int, inside: NDArray[np.bool_]) -> float:
    """Return the cosine of the first `size` places of a ranking and the true profile (n,)."""
    found, true = ranked[: max(0, size)], int(inside.sum())
    if not len(found) or not true:
        return 0.0
    return float(inside[found].sum() / math.sqrt(len(found) * true))


def map_paper_at_k(ranked: NDArray[np.int64], inside: NDArray[np.bool_], k: int = TOP) -> float:
    """Return the mean of the precisions at ranks 1 .. k; ranks beyond the list are misses."""
    hits = np.zeros(k)
    hits[: len(ranked)] = inside[ranked[:k]]
    return float((np.cumsum(hits) / np.arange(1, k + 1)).mean())

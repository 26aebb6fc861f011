"""Every attack on profiles of known users: what is found, beside the claimed epsilon.

Profiles are released with the mechanism's own noise, from a seed, since nothing is published; the
attacker sees each release, the public mechanism and catalogue, and the clear profiles of other
users. A measurement is no guarantee: a better attack may find more, and none can move an item's
probability by more than e^epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from research.attacks.attacks import ATTACKS, decoder, ranking
from research.attacks.decoder import Chains
from research.attacks.knowledge import Knowledge
from research.attacks.measures import Measured, cosine, map_paper_at_k
from stream_app.privacy.profiles.mechanism import ProfileMechanism
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

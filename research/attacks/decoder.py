"""The contract of the decoders of a mechanism, and how long their chains run.

    single   one score per item, each item by itself                     (Balu 2016, section 3.4.1)
    slots    a chain over sets, in c_max slots                           (3.34, 3.35)
    bits     a chain over sets, item by item: the mean of the conditional probabilities

A chain's randomness is a seeded generator: an attack costs no privacy and is to be repeatable.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.attacks.knowledge import Knowledge
from research.profiles.profile_mechanism import ProfileMechanism

Kernel = Callable[..., None]


@dataclass(frozen=True)
class Chains:
    """Lengths of the chains: of the slots in steps (those of Balu 2016, section 3.5.1), of the bits
    in sweeps over all items; `pool` times the estimated size of a profile are the items of the
    slots."""

    burn_steps: int = 1_000
    steps: int = 19_000
    burn_sweeps: int = 50
    sweeps: int = 200
    pool: float = 4.0


@dataclass(frozen=True, eq=False)
class SlotRun:
    """A chain over slots: its items (places in the catalogue), their prior log-odds, how many slots
    and how many items at the start, and whether the empty slot has its corrected weight."""

    pool: NDArray[np.int64]
    odds: NDArray[np.float64]
    slots: int
    start: int
    corrected: bool


class Decoder(ABC):
    """The decoders of one mechanism against an attacker's knowledge; `released` is (bytes,).

    A subclass scores single items and names the kernels of its chains, with what they read.
    """

    def __init__(self, mechanism: ProfileMechanism, knowledge: Knowledge) -> None:
        self.knowledge = knowledge  # what the attacker knows beforehand
        self._released_by = mechanism

    def sizes(self, released: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the estimated sizes of released profiles (m, bytes), (m,)."""
        return self.knowledge.sizes(self._released_by, self._released_by.coordinates(released))

    def size_deviation(self, size: float) -> float:
        """Return the standard deviation of the noise in a size; 0 where there is no estimate."""
        variance = self._released_by.size_variance(size)
        return math.sqrt(variance) if math.isfinite(variance) else 0.0

    @abstractmethod
    def single(self, released: NDArray[np.uint8], size: float) -> NDArray[np.float64]:
        """Return the score of every item, (n,); -inf for one that cannot be in the profile."""

    def bits(
        self,
        released: NDArray[np.uint8],
        odds: NDArray[np.float64],
        chains: Chains,
        random: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Return P(j in P | released) of every item by the chain over bits, (n,)."""
        sweep, inside = self._sweep(released, odds), np.zeros(len(odds), np.uint8)
        totals = np.zeros((2, len(odds)))
        for kept, sweeps in enumerate((chains.burn_sweeps, chains.sweeps)):
            sweep(inside, random.random((sweeps, len(odds))), totals[kept])
        return np.asarray(totals[1] / chains.sweeps, np.float64)

    def slots(
        self,
        released: NDArray[np.uint8],
        run: SlotRun,
        chains: Chains,
        random: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Return P(j in P | released) of the pool's items by the chain over slots, (pool,)."""
        slots, inside = started(run, random), np.zeros(len(run.pool), np.uint8)
        inside[slots[slots >= 0]] = 1
        step = self._step(released, run, inside)
        totals = np.zeros((2, len(run.pool)), np.int64)
        for kept, steps in enumerate((chains.burn_steps, chains.steps)):
            uniforms, weights = random.random((steps, 2)), np.zeros(len(run.pool) + 1)
            step(inside, slots, run.corrected, uniforms, weights, totals[kept])
        return np.asarray(totals[1] / chains.steps, np.float64)

    @abstractmethod
    def _sweep(self, released: NDArray[np.uint8], odds: NDArray[np.float64]) -> Kernel:
        """Return the kernel of the chain over bits, bound to what it reads, from an empty set."""

    @abstractmethod
    def _step(self, released: NDArray[np.uint8], run: SlotRun, inside: NDArray[np.uint8]) -> Kernel:
        """Return the kernel of the chain over slots, bound to what it reads, from `inside`."""


def started(run: SlotRun, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the slots at the start: `start` random items of the pool, the others empty (-1)."""
    found = np.full(run.slots, -1, np.int64)
    count = min(run.start, run.slots, len(run.pool))
    found[:count] = random.permutation(len(run.pool))[:count]
    return found

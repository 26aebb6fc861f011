"""Sources of random words: the operating system on a device, a seed in a test, never reversed.

The state of numpy's generators can be recovered from their output (PCG64 is not designed to resist
that), and a seeded source can be replayed, so a device draws from `os.urandom` alone. It keeps no
unused words: after a fork, parent and child have no words in common. A seeded source marks itself
`unsafe`; its events are stamped as tests, and a production worker rejects them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class RandomSource(Protocol):
    """A stream of uniform 64-bit words."""

    @property
    def unsafe(self) -> bool:
        """Whether the words can be predicted or replayed (tests only)."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` independent uniform 64-bit words; no word is returned twice."""


@dataclass(frozen=True)
class SystemSource:
    """The operating system's generator, unbuffered: a fork finds no words in memory."""

    unsafe: bool = field(default=False, init=False)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words of `os.urandom`."""
        return np.frombuffer(os.urandom(8 * count), dtype="<u8").astype(np.uint64, copy=False)


@dataclass
class SeededSource:
    """A reproducible source for tests and simulations; its events are stamped as tests."""

    seed: int
    unsafe: bool = field(default=True, init=False)
    _generator: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._generator = np.random.Generator(np.random.PCG64(self.seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of the seed's sequence."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

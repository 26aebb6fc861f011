"""MovieLens-1M for measurements, from $MURMUREC_DATA; never part of the repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import nan
from pathlib import Path

import numpy as np

from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
SKETCH_BYTES = (6040 + 3706) * 32 * 4  # gamma = 1: as many cells as dense rows of 32 floats
SCALARS_BYTES = 1 << 19


@dataclass(frozen=True, eq=False)
class Ratings:
    """The ratings in time order."""

    users: np.ndarray
    items: np.ndarray
    levels: np.ndarray

    def __len__(self) -> int:
        return len(self.levels)

    def shuffled(self, seed: int = 0) -> Ratings:
        order = np.random.default_rng(seed).permutation(len(self))
        return Ratings(self.users[order], self.items[order], self.levels[order])

    def reports(self, mechanism: Mechanism | None) -> np.ndarray:
        """Return what the devices would send: one fixed draw of the mechanism's noise."""
        return mechanism.release(self.levels, SeededSource(1)) if mechanism else self.levels


def load() -> Ratings | None:
    """Return the ratings, or None where they are not (a benchmark then lists `skipped`)."""
    path = _path()
    if not path.exists():
        return None
    with np.load(path) as file:
        order = np.lexsort((file["seq"], file["timestamp"]))
        return Ratings(
            file["user"][order].astype(np.uint64),
            file["item"][order].astype(np.uint64),
            (file["rating"][order] - 1).astype(np.uint8),
        )


def skipped(what: str) -> list[Figure]:
    """Return the line that stands where the figures of `what` would: not a number, and why."""
    return [Figure(f"{what}: skipped, no {_path()} (set MURMUREC_DATA)", nan, "")]


def _path() -> Path:
    folder = Path(os.environ.get("MURMUREC_DATA") or ROOT.parent / "shared" / "data")
    return folder / "ml-1m" / "ml-1m.npz"

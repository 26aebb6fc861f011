"""Where a worker is killed, and the plan of a run: a function of its seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np

Victim = Literal["owner", "other", "all"]
VICTIMS: tuple[Victim, ...] = ("owner", "other", "all")


class Point(StrEnum):
    """A point of a worker's life, observed from outside: by its records, or by its status."""

    CLAIM = "claim just written"
    FIRST = "first checkpoint after a takeover"
    PAGE = "first page of a checkpoint"
    MIDDLE = "a page in the middle"
    LAST = "last page before the manifest"
    MANIFEST = "manifest just written"
    DIGEST_REPORT = "digest report just written"
    TOMBSTONES = "tombstones"
    STARTING = "process start"
    READING = "reading the checkpoint"
    REPLAYING = "replaying the log"
    TIME = "random time"
    COUNT = "random record"

    @property
    def is_of_a_start(self) -> bool:
        """Whether a worker must restart to reach this point."""
        return self in _OF_A_START

    @property
    def is_of_the_writer(self) -> bool:
        """Whether only the owner of the clock reaches this point."""
        return self in _OF_THE_WRITER


_OF_A_START = frozenset(
    {
        *(Point.CLAIM, Point.FIRST, Point.TOMBSTONES),
        *(Point.STARTING, Point.READING, Point.REPLAYING),
    }
)
_OF_THE_WRITER = frozenset(
    {
        *(Point.CLAIM, Point.FIRST, Point.PAGE, Point.MIDDLE, Point.LAST),
        *(Point.MANIFEST, Point.DIGEST_REPORT, Point.TOMBSTONES),
    }
)


@dataclass(frozen=True)
class Kill:
    """One kill: the point, the victim, and a number in [0, 1) that decides the open details."""

    point: Point
    victim: Victim
    amount: float


def plan(seed: int, kills: int, workers: int) -> list[Kill]:
    """Return the kills of a run: every point in an order of its own, then all of them again."""
    rng = np.random.default_rng(seed)
    made: list[Kill] = []
    while len(made) < kills:
        for number in rng.permutation(len(Point)):
            point = list(Point)[number]
            victim: Victim = "owner"
            if workers > 1 and not point.is_of_the_writer:
                victim = VICTIMS[int(rng.integers(3))]
            made.append(Kill(point, victim, float(rng.random())))
    return made[:kills]

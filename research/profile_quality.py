"""Quality of sanitized profiles for neighbour search and recommendation, on known ratings.

    recall       share of the 10 nearest by the cosine of the TRUE profiles that are among the 10
                 nearest by the released ones, mean over users (Balu 2016, section 3.5.4,
                 figure 3.6)
    precision    a fifth of each user's items is held out; share of them in the 10 best scores, of
                 items that the device does not know yet (it leaves out its own), mean over users

Every item a user has rated is in the profile, whatever the rating (Balu 2016, section
3.5.1). The precision is compared with three baselines: `popular`, the held-in items of all users
counted in the clear; `popular_released`, the same from the released profiles; `clear`, the
same number of neighbours found and counted in the clear. Noise comes from a seed, nothing is
published, and at most `queries` users are queried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.models.neighborhood.profile_neighbours import ProfileNeighbours
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism
from stream_app.privacy.randomness import SeededSource

NEAREST = 10
LISTED = 10
_HELD_OUT = 0.2
_BLOCK = 1024
_TINY = 1e-12


@dataclass(frozen=True)
class ProfileResult:
    """The figures; `chance` is the recall of neighbours drawn uniformly at random."""

    mechanism: str
    epsilon: float | None
    delta: float
    users: int
    items: int
    mean_size: float
    profile_bytes: int
    recall: float
    chance: float
    precision: float
    precision_popular: float
    precision_popular_released: float
    precision_clear: float
    profiles_per_second: float
    seconds: float


def evaluate_profiles(
    users: NDArray[np.uint64],
    items: NDArray[np.uint64],
    mechanism: ProfileMechanism,
    *,
    neighbours: int = 50,
    queries: int = 1000,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,  # noqa: ARG005 (a silent default)
) -> ProfileResult:
    """Return the quality of released profiles; the columns (n,) are one rating a row, in any order.

    `progress` is called with the number of parts (of 4) just completed. ValueError for
    fewer than 12 users, unequal columns, or a mechanism without estimates.
    """
    began = time.perf_counter()
    profiles, catalogue = profiles_of(users, items)
    if len(profiles) < NEAREST + 2:
        raise ValueError(f"{len(profiles)} users: at least {NEAREST + 2} are needed to evaluate")
    random = np.random.default_rng(seed)
    asked = np.sort(random.permutation(len(profiles))[:queries])
    whole, seconds = _released(profiles, mechanism, SeededSource(seed), len(catalogue))
    progress(1)
    keys = asked.astype(np.uint64)
    true = _clear_nearest(_matrix(profiles, catalogue), asked, NEAREST)
    recall = _shared(true, whole.nearest(keys, NEAREST).devices.astype(np.int64))
    progress(1)
    kept, held_out = _split(profiles, random)
    partial, _ = _released(kept, mechanism, SeededSource(seed + 1), len(catalogue))
    known = _matrix(kept, catalogue)
    progress(1)
    places = [np.searchsorted(catalogue, held_out[user]) for user in asked.tolist()]
    clear = _clear_nearest(known, asked, neighbours)
    counted = known.sum(axis=0, dtype=np.float32)

    def precision(scores: NDArray[np.float32]) -> float:
        return _precision(np.where(known[asked] > 0, -np.inf, scores), places)

    result = ProfileResult(
        mechanism=mechanism.id,
        epsilon=None if mechanism.epsilon is None else float(mechanism.epsilon),
        delta=float(mechanism.delta),
        users=len(profiles),
        items=len(catalogue),
        mean_size=float(np.mean([len(profile) for profile in profiles])),
        profile_bytes=mechanism.profile_bytes,
        recall=recall,
        chance=NEAREST / (len(profiles) - 1),
        precision=precision(partial.scores(keys, catalogue, neighbours)),
        precision_popular=precision(counted),
        precision_popular_released=precision(partial.popular(catalogue)),
        precision_clear=precision(
            np.stack([known[near].sum(axis=0, dtype=np.float32) for near in clear])
        ),
        profiles_per_second=len(profiles) / max(seconds, 1e-9),
        seconds=time.perf_counter() - began,
    )
    progress(1)
    return result


def profiles_of(
    users: NDArray[np.uint64], items: NDArray[np.uint64]
) -> tuple[list[NDArray[np.uint64]], NDArray[np.uint64]]:
    """Return each user's distinct items, in the order of the users' keys, and the catalogue."""
    if len(users) != len(items):
        raise ValueError(f"{len(users)} users and {len(items)} items: a rating has one of each")
    names, user_rows = np.unique(users, return_inverse=True)
    catalogue, item_rows = np.unique(items, return_inverse=True)
    cells = np.unique(user_rows.astype(np.int64) * len(catalogue) + item_rows)
    starts = np.searchsorted(cells, np.arange(1, len(names)) * len(catalogue))
    return np.split(catalogue[cells % len(catalogue)], starts), catalogue


def _released(
    profiles: Sequence[NDArray[np.uint64]],
    mechanism: ProfileMechanism,
    source: SeededSource,
    catalogue: int,
) -> tuple[ProfileNeighbours, float]:
    """Return the neighbours over one release of each profile, and the seconds of the releases."""
    found = ProfileNeighbours(mechanism, catalogue)
    began = time.perf_counter()
    released = np.stack([mechanism.release(profile, source) for profile in profiles])
    seconds = time.perf_counter() - began
    found.put_many(np.arange(len(profiles), dtype=np.uint64), released)
    return found, seconds


def _split(
    profiles: Sequence[NDArray[np.uint64]], random: np.random.Generator
) -> tuple[list[NDArray[np.uint64]], list[NDArray[np.uint64]]]:
    out = [random.random(len(profile)) < _HELD_OUT for profile in profiles]
    pairs = list(zip(profiles, out, strict=True))
    return [items[~held] for items, held in pairs], [items[held] for items, held in pairs]


def _matrix(
    profiles: Sequence[NDArray[np.uint64]], catalogue: NDArray[np.uint64]
) -> NDArray[np.uint8]:
    found = np.zeros((len(profiles), len(catalogue)), np.uint8)
    for row, profile in enumerate(profiles):
        found[row, np.searchsorted(catalogue, profile)] = 1
    return found


def _clear_nearest(
    matrix: NDArray[np.uint8], asked: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """Return the k nearest others by the cosine of the rows, (m, k); equal ones by their number."""
    roots = np.sqrt(matrix.sum(axis=1, dtype=np.float32))
    near = np.empty((len(asked), len(matrix)), np.float32)
    for start in range(0, len(matrix), _BLOCK):
        part = slice(start, start + _BLOCK)
        both = matrix[asked].astype(np.float32) @ matrix[part].astype(np.float32).T
        near[:, part] = both / np.maximum(roots[asked, None] * roots[part], _TINY)
    near[np.arange(len(asked)), asked] = -np.inf
    return np.argsort(-near, axis=1, kind="stable")[:, :k]


def _shared(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return the mean share of each row of `first` that is in the row of `second`."""
    return float((first[:, :, None] == second[:, None, :]).any(axis=2).mean())


def _precision(scores: NDArray[np.float32], held_out: Sequence[NDArray[np.int64]]) -> float:
    """Return the mean share of the best scores that was held out, over users with any."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :LISTED]
    hits = [np.isin(row, out).mean() for row, out in zip(best, held_out, strict=True) if len(out)]
    return float(np.mean(hits)) if hits else float("nan")

"""Utility and privacy of sanitized profiles on MovieLens-100K (943 users).

    recall        of the true 10 nearest neighbours among the 10 nearest by released profiles
    privacy       1 - mean cosine of a profile and its reconstruction by an attacker
                  (Balu 2016, figure 3.6): the single decoder with the popularity of 600
                  training users as its prior (Balu 2016, eq. 3.27, and its form for JLT), on
                  the 343 others
    precision     of 10 recommendations by 50 neighbours, compared with the most popular items

Settings of Balu 2016, section 3.5: K = 20, L = 5000 bits; L = 1000 projections, here with signs as
codewords and noise for delta 10^-6. The same epsilon over fewer hashes flips fewer bits.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from fractions import Fraction
from math import nan
from pathlib import Path

import numpy as np

from research.profile_quality import evaluate_profiles, profiles_of
from stream_app.models.neighborhood.profile_neighbours import ProfileNeighbours
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.codebook import positions
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism
from stream_app.privacy.profiles.profile_registry import DEVICE_HASHES, FAMILIES, mechanism
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure

_CERTIFIED = ("1/10", "1/2", "1", "2", "3", "4", "8")

ROOT = Path(__file__).resolve().parents[2]
EPSILONS = (59, 28, 17, 8, 6, 5, 3, 2)
TRAINED = 600
FEWER = (1, 2, 4, 8)


@dataclass(frozen=True, eq=False)
class Data:
    """Profiles of all users, their matrix (users, items), and the true nearest of each."""

    profiles: list[np.ndarray]
    catalogue: np.ndarray
    matrix: np.ndarray
    true: np.ndarray


def measure() -> list[Figure]:
    """Return the curves of both mechanisms, the effect of the hashes, and the speeds."""
    ratings = _load()
    if ratings is None:
        return [Figure(f"profiles: skipped, no {_path()} (set MURMUREC_DATA)", nan, "")]
    data = _prepare(*ratings)
    figures = []
    for family in ("blip", "jlt"):
        curve = []
        for epsilon in EPSILONS:
            found = _point(data, mechanism(family, Fraction(epsilon)))
            curve.append(found[0].value)
            figures += found
        rises = float(np.diff(curve).max())
        name = f"profiles: {family}, largest rise of recall as epsilon falls"
        figures.append(Figure(name, rises, "", "<= 0.02"))
    for hashes in FEWER:
        figures += _point(data, mechanism("blip", "8", hashes=hashes))
    for id in ("blip:5000:20:28", "blip:5000:20:8", "blip:5000:2:4", "jlt:1000:28:1/1000000"):
        figures += _recommended(*ratings, id)
    return figures + _speeds(data)


def _point(data: Data, made: ProfileMechanism) -> list[Figure]:
    released = _released(data, made)
    found = _neighbours(data, made, released)
    keys = np.arange(len(data.profiles), dtype=np.uint64)
    near = found.nearest(keys, 10).devices.astype(np.int64)
    recall = float((data.true[:, :, None] == near[:, None, :]).any(axis=2).mean())
    cosines = _attacked(data, made, released)
    return [
        Figure(f"profiles: {made.id}, recall of 10 neighbours", recall, ""),
        Figure(f"profiles: {made.id}, 1 - cosine of what is rebuilt", 1 - cosines, ""),
    ]


def _recommended(users: np.ndarray, items: np.ndarray, id: str) -> list[Figure]:
    from stream_app.privacy.profiles.profile_registry import parse

    found = evaluate_profiles(users, items, parse(id))
    return [
        Figure(f"profiles: {id}, precision@10 by neighbours", found.precision, ""),
        Figure(f"profiles: {id}, the same by clear popularity", found.precision_popular, ""),
        Figure(f"profiles: {id}, the same by clear neighbours", found.precision_clear, ""),
    ]  # fmt: skip


def _speeds(data: Data) -> list[Figure]:
    figures = []
    for made in (Blip(5000, 20, Fraction(8)), Jlt(1000, Fraction(8), Fraction(1, 10**6))):
        drawn = min(_seconds(lambda made=made: _released(data, made)) for _ in range(3))
        found = _neighbours(data, made, _released(data, made))
        keys = np.arange(len(data.profiles), dtype=np.uint64)
        pairs = min(_seconds(lambda found=found, k=keys: found.nearest(k, 10)) for _ in range(3))
        rate = len(data.profiles) / drawn
        figures.append(Figure(f"profiles: {made.id}, released", rate, "profiles/s", ">= 1000"))
        name = f"profiles: {made.id}, 10 nearest of all 943"
        figures.append(Figure(name, pairs, "s", "<= 5"))
    return [*figures, *_certificates()]


def _certificates() -> list[Figure]:
    """Return the time to build and prove a mechanism, the best of three, for every epsilon."""
    best: dict[str, float] = {}
    for _ in range(3):
        for family, hashes in (*((each, 20) for each in FAMILIES), ("blip", DEVICE_HASHES)):
            for epsilon in _CERTIFIED:
                began = time.perf_counter()
                made = mechanism(family, epsilon, hashes=hashes)
                made.certify()
                best[made.id] = min(best.get(made.id, math.inf), time.perf_counter() - began)
    return [
        Figure(f"profiles: build and certify {name}", seconds * 1e3, "ms", "<= 50")
        for name, seconds in best.items()
    ]


def _seconds(run: object) -> float:
    began = time.process_time()
    run()  # type: ignore[operator]
    return time.process_time() - began


# --- the attacker ---------------------------------------------------------------------------------


def _attacked(data: Data, made: ProfileMechanism, released: np.ndarray) -> float:
    """Return the mean cosine of the held-out users' profiles and their reconstructions."""
    order = np.random.default_rng(0).permutation(len(data.profiles))
    trained, attacked = order[:TRAINED], order[TRAINED:]
    counted = data.matrix[trained].sum(axis=0)
    popularity = (counted + 0.5) / (TRAINED + 1)
    read = made.coordinates(released[attacked])
    sizes = made.sizes(read, len(data.catalogue))
    scores = _blip_scores if isinstance(made, Blip) else _jlt_scores
    found = scores(data, made, released[attacked], np.maximum(sizes, 1))
    cosines = []
    for row, size, scored in zip(attacked, sizes, found, strict=True):
        share = np.clip(popularity * size / popularity.sum(), 1e-6, 1 - 1e-6)
        best = np.argsort(-(scored + np.log(share / (1 - share))))[: max(1, round(size))]
        true = data.matrix[row]
        cosines.append(true[best].sum() / math.sqrt(len(best) * true.sum()))
    return float(np.mean(cosines))


def _blip_scores(data: Data, made: Blip, released: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """n11 ln((1-p)/q) + n01 ln(p/(1-q)), over the bits of each item (Balu 2016, eq. 3.27)."""
    found, starts = positions(data.catalogue, made.hashes, made.length)
    bits = made.bits(released)
    ones = np.add.reduceat(bits[:, found].astype(np.int64), starts[:-1], axis=1)
    p = max(float(made.flip), 1e-12)
    share = 1 - np.exp(sizes * made.hashes * math.log1p(-1 / made.length))
    q = np.clip((1 - p) * share + p * (1 - share), 1e-12, 1 - 1e-12)[:, None]
    return ones * np.log((1 - p) / q) + (np.diff(starts) - ones) * np.log(p / (1 - q))


def _jlt_scores(data: Data, made: Jlt, released: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The log ratio of two normal densities: with item j, and without."""
    read = made.coordinates(released)
    length, noise = made.length, float(made.variance) / made.length
    along = read @ made.probes(data.catalogue)
    square = np.einsum("ml,ml->m", read, read)[:, None]
    with_it = noise + (np.maximum(sizes, 2)[:, None] - 1) / length
    without = noise + np.maximum(sizes, 2)[:, None] / length
    with_item = (square - 2 * along + 1) / (2 * with_it)
    return square / (2 * without) - with_item + length / 2 * np.log(without / with_it)


# --- the data -------------------------------------------------------------------------------------


def _released(data: Data, made: ProfileMechanism) -> np.ndarray:
    source = SeededSource(1)
    return np.stack([made.release(profile, source) for profile in data.profiles])


def _neighbours(data: Data, made: ProfileMechanism, released: np.ndarray) -> ProfileNeighbours:
    found = ProfileNeighbours(made, len(data.catalogue))
    found.put_many(np.arange(len(released), dtype=np.uint64), released)
    return found


def _prepare(users: np.ndarray, items: np.ndarray) -> Data:
    profiles, catalogue = profiles_of(users, items)
    matrix = np.zeros((len(profiles), len(catalogue)), np.float32)
    for row, profile in enumerate(profiles):
        matrix[row, np.searchsorted(catalogue, profile)] = 1
    roots = np.sqrt(matrix.sum(axis=1))
    cosine = matrix @ matrix.T / np.outer(roots, roots)
    np.fill_diagonal(cosine, -1)
    return Data(profiles, catalogue, matrix, np.argsort(-cosine, axis=1, kind="stable")[:, :10])


def _load() -> tuple[np.ndarray, np.ndarray] | None:
    if not _path().exists():
        return None
    with np.load(_path()) as file:
        return file["user"].astype(np.uint64), file["item"].astype(np.uint64)


def _path() -> Path:
    folder = Path(os.environ.get("MURMUREC_DATA") or ROOT.parent / "shared" / "data")
    return folder / "ml-100k" / "ml-100k.npz"

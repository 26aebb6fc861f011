"""Neighbours over sanitized profiles: users with similar items, found from releases alone.

    similarity   cos(a, b) = |A and B| / sqrt(|A| |B|)             (Balu 2016, section 2.2.2.2)
    mean         m(S, j)   = sum over b in S of e_b(j) / sum over b in S of w_b
    score        s_a(j)    = pop(j) + t_a (m(N_a, j) - pop(j))     pop = m(all users)
    trust        t_a       = max(0, 1 - v_a / mean over j of (m(N_a, j) - pop(j))^2)

|A and B| is the mechanism's own estimate; |A| its estimate, shrunken to the mean of all users by
the variance of its noise (empirical Bayes). N_a are the k most similar. e_b(j) estimates
w_b 1[j in B], w_b is the information of b about a single item, v_a is the noise in m(N_a, j). The
trust is James and Stein's: the share of the neighbours' evidence that is not noise. Where noise
dominates, every user gets popular items instead of random ones.

The server holds the newest released profile of each device, packed, and nothing else. Answers
include items that the user has already rated: the profile hides these, so the device removes them
itself. Everything here is post-processing of releases and costs no epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.models.neighborhood import packed_overlaps
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.profile_mechanism import (
    MOST_ITEMS,
    ProfileMechanism,
    check_released,
    posterior_sizes,
)

_BLOCK = 1024  # profiles unpacked at a time
_ITEMS = 1024  # items whose columns are made at a time
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class NearestProfiles:
    """The nearest of each asked device, best first: (m, k) device keys and similarities."""

    devices: NDArray[np.uint64]
    similarities: NDArray[np.float64]


class ProfileNeighbours:
    """The newest profile of each device under one mechanism, and the nearest of each.

    `catalogue`: the number of items, which bounds the sizes. ValueError for a mechanism whose
    releases carry no information (epsilon 0).
    """

    def __init__(self, mechanism: ProfileMechanism, catalogue: int = MOST_ITEMS) -> None:
        if mechanism.no_estimate:
            raise ValueError(
                f"{mechanism.id}: no neighbour can be found, {mechanism.no_estimate}; "
                "use an epsilon above 0"
            )
        if catalogue < 1:
            raise ValueError(f"catalogue of {catalogue} items: at least 1")
        self.mechanism = mechanism
        self.catalogue = catalogue
        self._rows: dict[int, int] = {}
        self._keys = np.zeros(0, np.uint64)  # of the device of each row
        self._packed = np.zeros((0, mechanism.profile_bytes), np.uint8)
        self._sizes = np.zeros(0)
        self._sum = np.zeros(mechanism.length)  # of all coordinates, so that one more costs one
        self._made: _Overall | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def put_many(self, devices: NDArray[np.uint64], released: NDArray[np.uint8]) -> None:
        """Store profiles (m, profile_bytes) of device keys (m,); a later one replaces."""
        check_released(released, self.mechanism.profile_bytes)
        if len(devices) != len(released):
            raise ValueError(f"{len(devices)} devices and {len(released)} profiles: give one each")
        newest = {device: row for row, device in enumerate(devices.tolist())}
        devices, released = devices[list(newest.values())], released[list(newest.values())]
        known = np.array(
            [row for device in newest if (row := self._rows.get(device)) is not None], np.int64
        )
        self._add(known, -1)
        places = [self._rows.setdefault(device, len(self._rows)) for device in newest]
        rows = np.array(places, np.int64)
        self._grow(len(self._rows))
        self._packed[rows], self._keys[rows] = released, devices
        self._add(rows, 1)

    def remove(self, device: int) -> bool:
        """Drop the profile of a device key; False if there is none."""
        row = self._rows.pop(device, None)
        if row is None:
            return False
        self._add(np.array([row], np.int64), -1)
        last = len(self._rows)
        if row != last:  # the last row takes the place
            self._rows[int(self._keys[last])] = row
            for column in (self._keys, self._packed, self._sizes):
                column[row] = column[last]
        return True

    def sizes(self) -> NDArray[np.float64]:
        """Return the posterior mean of each profile's size, by row."""
        return self._of_all().sizes

    def nearest(self, devices: NDArray[np.uint64], k: int) -> NearestProfiles:
        """Return the k most similar others of each of the devices (m,), or all there are.

        ValueError for a device without a profile.
        """
        rows, k = self._known(devices), max(0, min(k, len(self) - 1))
        keys = self._keys[: len(self)]
        found, similarities = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
        for part, block in self._similarities(rows) if k else ():
            best = np.argpartition(-block, k - 1, axis=1)[:, :k]
            near = np.take_along_axis(block, best, axis=1)
            # Equal similarities go by the key of the device, the same on every worker.
            order = np.lexsort((keys[best], -near), axis=1)
            found[part] = np.take_along_axis(best, order, axis=1)
            similarities[part] = np.take_along_axis(near, order, axis=1)
        return NearestProfiles(keys[found], similarities)

    def popular(self, items: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return pop(j) of every item key (n,): about the share of profiles that have it."""
        return self._read(self._of_all().evidence[None], items).reshape(-1)

    def scores(
        self, devices: NDArray[np.uint64], items: NDArray[np.uint64], k: int = 50
    ) -> NDArray[np.float32]:
        """Return s_a(j) of every device (m,) and item key (n,), shape (m, n)."""
        near, overall = self.nearest(devices, k), self._of_all()
        deviations = np.zeros((len(devices), self.mechanism.length), np.float32)
        noise = np.zeros(len(devices))
        for row, keys in enumerate(near.devices if near.devices.size else ()):
            evidence, weights, variances = self._evidence(self._known(keys))
            whole = max(float(weights.sum()), _TINY)
            deviations[row] = evidence.sum(axis=0) / whole - overall.evidence
            noise[row] = variances.sum() / whole**2
        both = self._read(np.vstack([overall.evidence, deviations]), items)
        popular, more = both[0], both[1:]
        square = np.einsum("mn,mn->m", more, more) / max(1, len(items))
        trust = np.maximum(0.0, 1 - noise / np.maximum(square, _TINY)).astype(np.float32)
        return np.asarray(popular + trust[:, None] * more, np.float32)

    # --- inside -----------------------------------------------------------------------------------

    def _add(self, rows: NDArray[np.int64], sign: int) -> None:
        """Enter rows into the sum of all, and their sizes, or take them out of it."""
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            read = self.mechanism.coordinates(self._packed[part])
            self._sum += sign * read.sum(axis=0, dtype=np.float64)
            self._sizes[part] = self.mechanism.sizes(read, self.catalogue)
        self._made = None

    def _grow(self, rows: int) -> None:
        if rows > len(self._packed):
            capacity = max(rows, 2 * len(self._packed), 64)
            packed = np.zeros((capacity, self.mechanism.profile_bytes), np.uint8)
            sizes, keys = np.zeros(capacity), np.zeros(capacity, np.uint64)
            held = len(self._packed)
            packed[:held], sizes[:held], keys[:held] = self._packed, self._sizes, self._keys
            self._packed, self._sizes, self._keys = packed, sizes, keys

    def _known(self, devices: NDArray[np.uint64]) -> NDArray[np.int64]:
        try:
            return np.array([self._rows[device] for device in devices.tolist()], np.int64)
        except KeyError as unknown:
            raise ValueError(f"device {unknown}: has released no profile; put one first") from None

    def _blocks(self) -> Iterator[slice]:
        for start in range(0, len(self), _BLOCK):
            yield slice(start, min(start + _BLOCK, len(self)))

    def _of_all(self) -> _Overall:
        """Return the figures over all profiles, recomputed after a new profile."""
        if self._made is None:
            sizes = self._posterior()
            weights = self.mechanism.weights(sizes)
            # The evidence is the coordinates less one number a profile.
            shifts = self.mechanism.evidence(np.zeros((len(sizes), 1), np.float32), sizes)
            total = self._sum + float(shifts.sum(dtype=np.float64))
            whole = max(float(weights.sum()), _TINY)
            self._made = _Overall(sizes, (total / whole).astype(np.float32))
        return self._made

    def _posterior(self) -> NDArray[np.float64]:
        sizes = self._sizes[: len(self)]
        if not len(sizes):
            return sizes
        mean = float(sizes.mean())
        true_variance = max(0.0, float(sizes.var()) - self.mechanism.size_variance(mean))
        return posterior_sizes(self.mechanism, sizes, mean, true_variance**0.5, self.catalogue)

    def _evidence(
        self, rows: NDArray[np.int64] | slice
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """Return evidence, weights and variances of rows."""
        sizes = self.sizes()[rows]
        read = self.mechanism.coordinates(self._packed[rows])
        evidence = self.mechanism.evidence(read, sizes)
        return evidence, self.mechanism.weights(sizes), self.mechanism.evidence_variance(sizes)

    def _read(
        self, evidence: NDArray[np.float32], items: NDArray[np.uint64]
    ) -> NDArray[np.float32]:
        """Return evidence @ probes, (m, n), without holding all probes at a time."""
        if isinstance(self.mechanism, Blip):
            return packed_overlaps.read(self.mechanism, evidence, items)
        found = np.empty((len(evidence), len(items)), np.float32)
        for start in range(0, len(items), _ITEMS):
            part = slice(start, start + _ITEMS)
            found[:, part] = evidence @ self.mechanism.probes(items[part])
        return found

    def _overlaps(self, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float64]:
        made = self.mechanism
        if isinstance(made, Blip):
            return packed_overlaps.overlaps(made, first, second)
        return made.overlaps(made.coordinates(first), made.coordinates(second))

    def _similarities(self, rows: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield parts of the asked rows with their similarity to all users, -inf to themselves."""
        roots = np.sqrt(self.sizes())
        for start in range(0, len(rows), _BLOCK):
            asked = rows[start : start + _BLOCK]
            found = np.empty((len(asked), len(self)))
            for block in self._blocks():
                found[:, block] = self._overlaps(self._packed[asked], self._packed[block])
                found[:, block] /= np.maximum(roots[asked, None] * roots[block], _TINY)
            found[np.arange(len(asked)), asked] = -np.inf
            yield slice(start, start + len(asked)), found


@dataclass(frozen=True, eq=False)
class _Overall:
    """Figures over all profiles: posterior sizes (m,) and mean evidence (L,)."""

    sizes: NDArray[np.float64]
    evidence: NDArray[np.float32]

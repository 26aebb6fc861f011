"""The requests of one epoch: the cells that each account reports on, with its ratings looked up.

    presence protected   every item of the public scope, rated or not; with a sample, the items that
                         the device's own key picks from the scope
    value protected      the ratings that are new in this epoch; where the budget holds only some,
                         those that the device's own key picks

The cells of a request are shuffled by the operating system's randomness and split into messages of
nearly equal size. Which cells a request has depends on the scope, the pseudonym and the spent
budget, never on a rating, where presence is protected: an account without any rating has the same.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from producers.device import requests as device
from producers.device.rating import Rated, Ratings
from producers.fleet.replay import Pace
from producers.journal import Journal, Request
from stream_app import wire
from stream_app.privacy.ratings.item_sampling import ItemSample

CELLS = 1 << 18  # reports that are drawn and recorded together
_SAMPLE_PERSON = b"murmurec sample"  # separates this hash from every other use of blake2b


@dataclass(frozen=True)
class EmissionOptions:
    """Options of the end of an epoch.

    scope       the public items whose turn it is, rising keys (n,): required where presence is
                protected, refused elsewhere
    sample      each device reports on that many items of the scope only, in its life
    pace        spreads the devices over the time that the reports take at its speed
    republish   report again what was reported before, for a second epsilon
    cells       reports that are drawn and recorded together
    drawn_from  the whole scope, from which the sample is drawn, where only a part of it has its
                turn: the items of each turn alone would give a sample for every turn
    """

    scope: NDArray[np.uint64] | None = None
    sample: ItemSample | None = None
    pace: Pace = field(default_factory=Pace)
    republish: bool = False
    cells: int = CELLS
    drawn_from: NDArray[np.uint64] | None = None


@lru_cache(maxsize=1024)
def balanced_slices(count: int) -> tuple[slice, ...]:
    """Return the parts of `count` cells: as few messages as hold them, of nearly equal size."""
    parts = -(-count // wire.MAX_RATINGS)
    ends = [count * i // parts for i in range(parts + 1)]
    return tuple(slice(start, end) for start, end in pairwise(ends))


def _sample_key(key: bytes, pseudonym: bytes) -> int:
    """Return the key of a device's sample: secret, its own, and independent of its ratings."""
    digest = blake2b(pseudonym, digest_size=8, key=key, person=_SAMPLE_PERSON).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class EpochRequests:
    """What each account sends in one epoch."""

    ratings: Ratings
    reporting: device.ReportSettings
    journal: Journal
    epoch: int
    options: EmissionOptions

    def unreported(self, device_id: bytes, rated: Rated) -> NDArray[np.uint64]:
        """Return the items that a device has not reported yet; a sample's in its key's order."""
        scope, sample = self.options.scope, self.options.sample
        if scope is None:
            keys = rated.keys
        elif sample is None:
            keys = scope
        else:
            whole = self.options.drawn_from
            key = _sample_key(self.journal.key, device_id)
            keys = sample.items(scope if whole is None else whole, key)
            keys = keys if whole is None else keys[np.isin(keys, scope)]
        if self.options.republish or not len(keys):
            return keys
        left = self.journal.unreported(device_id, keys)
        # `keys` itself if all are left: a key column that devices share is written once.
        return keys if left.all() else keys[left]

    def counts(
        self, device_id: bytes, rated: Rated, left: NDArray[np.uint64]
    ) -> tuple[int, int, int]:
        """Return how many ratings in scope were reported before, how many are of items outside the
        device's sample, and how many are among `left`."""
        keys, scope = rated.keys, self.options.scope
        keys = keys if scope is None else keys[np.isin(keys, scope)]
        before = 0
        if not self.options.republish:
            before = int(np.count_nonzero(~self.journal.unreported(device_id, keys)))
        among = int(np.count_nonzero(np.isin(keys, left)))
        return before, len(keys) - before - among, among

    def affordable(self, device_id: bytes, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the items that fit the budget, rising: of a scope all or none; of a sample, and of
        ratings whose presence is public, as many as fit, in the order of the device's key; so of
        each part of the budget where it has parts. Under a scope it depends on the spent budget and
        on what was reported, never on a rating."""
        mechanism = self.reporting.mechanism
        room = self.journal.room(device_id, mechanism, self.epoch)
        parts = self.journal.rooms(device_id, mechanism, self.epoch)
        if parts is None or room is None:
            return self._fitting(device_id, keys, room)
        again = self.journal.reports(device_id, keys) > 0
        first = self._fitting(device_id, keys[~again], parts.first)
        others = self._fitting(device_id, keys[again], min(parts.again, room - len(first)))
        if self.options.sample is None and len(first) + len(others) == len(keys):
            return keys  # itself: a key column that devices share is written once
        return np.sort(np.concatenate((first, others)))

    def _fitting(
        self, device_id: bytes, keys: NDArray[np.uint64], room: int | None
    ) -> NDArray[np.uint64]:
        if self.options.sample is not None:
            return np.sort(keys[:room])
        if room is None or room >= len(keys):
            return keys
        if self.options.scope is not None:
            return keys[:0]
        # The smallest keys would be the same items for all devices, and nothing of the others.
        drawn = ItemSample(Fraction(1), room)
        return np.sort(drawn.items(keys, _sample_key(self.journal.key, device_id)))

    def request(
        self, device_id: bytes, rated: Rated, keys: NDArray[np.uint64]
    ) -> tuple[Request, int]:
        """Return the request of one device for these items, and how many of them it has rated."""
        raw_levels = np.full(len(keys), self.reporting.mechanism.inputs - 1, np.uint8)
        places = np.searchsorted(keys, rated.keys)
        in_keys = keys[np.minimum(places, len(keys) - 1)] == rated.keys
        raw_levels[places[in_keys]] = rated.raw_levels[in_keys]
        order = np.argsort(np.frombuffer(os.urandom(8 * len(keys)), "<u8"), kind="stable")
        shuffled = keys[order]
        masks = device.masks_of(self.reporting.mechanism, shuffled, self.reporting.table)
        request = device.build_request(
            device.ReportColumns(raw_levels[order], shuffled, masks, keys),
            self.reporting,
            device=device_id,
            epoch=self.epoch,
            republish=self.options.republish,
            parts=balanced_slices(len(keys)),
        )
        return request, int(np.count_nonzero(in_keys))

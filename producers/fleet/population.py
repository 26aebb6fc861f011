"""A data set as a population of devices: its rows in time order, under pseudonyms."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import Dataset
from producers.device import requests as device
from producers.device.rating import Rated
from producers.identities import Identities
from producers.scale import Scale
from stream_app.errors import UserError

_DATA_SET = b"murmurec data set\0"  # separates this hash from every other use of the key


@dataclass(frozen=True, eq=False, repr=False)  # raw columns have no place in a log
class Population:
    """A data set ready to be published: (n,) columns in time order; `users` indexes `devices`."""

    users: NDArray[np.int64]
    items: NDArray[np.uint64]
    raw_levels: NDArray[np.uint8]
    fresh: NDArray[np.bool_]  # the first rating of its (user, item)
    devices: tuple[bytes, ...]
    digest: bytes
    scale: Scale
    unreadable: int  # rows off the scale, which the loader has left out

    @property
    def rows(self) -> int:
        """Number of rows that were read."""
        return len(self.users)


def populate(dataset: Dataset, key: bytes, identities: Identities | None = None) -> Population:
    """Give every user of a data set a device under the device key, and find repeated ratings.

    `identities` of that key, where devices sign.
    """
    named = identities or Identities(key)
    ordered = dataset.in_time_order()
    names, users = np.unique(ordered.users, return_inverse=True)
    item_names, places = np.unique(ordered.items, return_inverse=True)
    try:
        item_keys = device.item_keys(item_names.tolist())
        given = [named.pseudonym(name) for name in names.tolist()]
    except ValueError as error:
        raise UserError(f"{dataset.name}: {error}") from None
    # Two spellings of one id are one user.
    places_of = {device_id: place for place, device_id in enumerate(dict.fromkeys(given))}
    users = np.array([places_of[device_id] for device_id in given], np.int64)[users]
    keys, same = np.unique(item_keys, return_inverse=True)
    cells = users.astype(np.int64) * len(keys) + same[places]
    fresh = np.zeros(len(cells), bool)
    fresh[np.unique(cells, return_index=True)[1]] = True
    return Population(
        users.astype(np.int64),
        item_keys[places],
        ordered.levels,
        fresh,
        tuple(places_of),
        _digest(ordered, key),
        dataset.scale,
        dataset.refused,
    )


def _digest(ordered: Dataset, key: bytes) -> bytes:
    """Return the name of a data set in the journal, (32,): by which a later run knows it again.

    It covers which user rated which item, in which order, and no rating; without the journal's key
    it cannot be computed, so a file without that key cannot be compared with a guess. A user id
    holds no NUL, so no digest is a pseudonym's hash.
    """
    digest = hmac.new(key, _DATA_SET, "sha256")
    for column in (ordered.users, ordered.items):
        digest.update("\0".join(map(str, column.tolist())).encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.digest()


def runs(users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct users of a column that is grouped by user, and their first rows."""
    heads = np.flatnonzero(np.diff(users, prepend=-1))
    return users[heads], heads


def rows_of_devices(population: Population, rows: NDArray[np.int64]) -> dict[bytes, slice]:
    """Return the span of each device among `rows` of a population, which are grouped by user."""
    owners, heads = runs(population.users[rows])
    ends = [*heads.tolist(), len(rows)]
    return {
        population.devices[owner]: slice(head, end)
        for owner, (head, end) in zip(owners.tolist(), pairwise(ends), strict=True)
    }


class PopulationRatings:
    """The ratings of a data set by device: the first of every cell, as `epoch_requests.Ratings`."""

    def __init__(self, population: Population) -> None:
        fresh = np.flatnonzero(population.fresh)
        fresh = fresh[np.lexsort((population.items[fresh], population.users[fresh]))]
        self._keys, self._raw_levels = population.items[fresh], population.raw_levels[fresh]
        self._slices = rows_of_devices(population, fresh)

    def rated(self, device_id: bytes) -> Rated:
        """Return what a device has rated; nothing for one that the data set does not have."""
        found = self._slices.get(device_id)
        return Rated() if found is None else Rated(self._keys[found], self._raw_levels[found])

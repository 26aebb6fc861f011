"""The newest profile of each device, under a few allowed mechanisms, in bounded memory.

    key(device) = 64 bits of blake2b(device; seed)

The last record of a device in the log counts, whatever its number: that is what compaction keeps,
so a reader of the whole topic and a reader of the compacted one hold the same. A number that a
device has used before is only counted: `duplicate` for the same contents, `reused` for others,
`older` for a smaller one. A forged record costs its victim the time until the victim's next one,
and no longer.

Of more than `most` devices those with the smallest keys are held: a function of the set of devices,
not of their order. A flood of forged pseudonyms displaces each device with the same small
probability, and not the oldest first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from stream_app.models.neighborhood.profile_neighbours import ProfileNeighbours
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism


class Taken(StrEnum):
    """What became of a record that was well-formed; of the first three the profile counts."""

    APPLIED = "applied"
    OLDER = "older"
    REUSED = "reused"
    DUPLICATE = "duplicate"
    NO_ROOM = "no_room"


@dataclass(frozen=True)
class _Held:
    mechanism: str
    seq: int
    contents: bytes


class LiveProfiles:
    """Profiles by device under `mechanisms`, of at most `most` devices.

    `seed` decides which are held where there are more. ValueError for a mechanism without
    estimates, or the same one twice.
    """

    def __init__(self, mechanisms: tuple[ProfileMechanism, ...], most: int, seed: int) -> None:
        if most < 1:
            raise ValueError(f"{most} devices with a profile: at least 1")
        self.mechanisms = {each.id: each for each in mechanisms}
        if len(self.mechanisms) != len(mechanisms):
            raise ValueError("a profile mechanism is named twice")
        self._tables = {each.id: ProfileNeighbours(each) for each in mechanisms}
        self._most, self._seed = most, seed.to_bytes(8, "little")
        self._held: dict[int, _Held] = {}
        self._keys: list[int] = []  # of the held, rising

    def __len__(self) -> int:
        return len(self._held)

    def key(self, device: bytes) -> int:
        """Return the key of a pseudonym."""
        found = blake2b(device, digest_size=8, key=self._seed).digest()
        return int.from_bytes(found, "little")

    def put(self, device: bytes, seq: int, mechanism: str, profile: bytes) -> Taken:
        """Take the profile of a device, whose mechanism and size are checked before."""
        key, contents = self.key(device), blake2b(profile, digest_size=16).digest()
        before = self._held.get(key)
        if before is None and len(self) == self._most and key > self._keys[-1]:
            return Taken.NO_ROOM
        taken = Taken.APPLIED
        if before is not None and seq <= before.seq:
            taken = Taken.OLDER if seq < before.seq else Taken.REUSED
            if before == _Held(mechanism, seq, contents):
                return Taken.DUPLICATE
        if before is None:
            if len(self) == self._most:
                self._drop(self._keys[-1])
            insort(self._keys, key)
        elif before.mechanism != mechanism:
            self._tables[before.mechanism].remove(key)
        self._held[key] = _Held(mechanism, seq, contents)
        self._tables[mechanism].put_many(
            np.array([key], np.uint64), np.frombuffer(profile, np.uint8)[None]
        )
        return taken

    def remove(self, device: bytes) -> bool:
        """Drop the profile of a device; False if there is none."""
        key = self.key(device)
        if key not in self._held:
            return False
        self._drop(key)
        return True

    def mechanism_of(self, device: bytes) -> ProfileMechanism | None:
        """Return the mechanism of the profile of a device; None without one."""
        held = self._held.get(self.key(device))
        return None if held is None else self.mechanisms[held.mechanism]

    def others(self, device: bytes) -> int:
        """Return of how many other devices the profile can be compared with this one's."""
        held = self._held.get(self.key(device))
        return 0 if held is None else len(self._tables[held.mechanism]) - 1

    def scores(self, device: bytes, items: NDArray[np.uint64], k: int) -> NDArray[np.float32]:
        """Return the score of every item key (n,) for a device that has a profile: about the share
        of its k most similar devices that have the item, drawn to that of all devices."""
        key = self.key(device)
        table = self._tables[self._held[key].mechanism]
        found: NDArray[np.float32] = table.scores(np.array([key], np.uint64), items, k)[0]
        return found

    def _drop(self, key: int) -> None:
        self._tables[self._held.pop(key).mechanism].remove(key)
        del self._keys[bisect_left(self._keys, key)]

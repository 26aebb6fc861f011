"""The ratings of a device's users: kept in clear on the device, looked up when an account reports.

They are lines of the file of clean ratings beside the journal (`producers.ranking.clean_history`,
mode 0600), synced before their source is confirmed, so that a crash loses none. A line that changes
nothing is not written again, so a source may be read twice. The newest line of an item counts. The
file is the user's: it may be edited at any time, and is read again before a report then.
The last `spare` bytes of the disk are left to the journal: were they filled with ratings, a report
would be late, which shows to the broker that much was rated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from producers.daemon.sources.source import RatedLine, parse
from producers.device.rating import Rated
from producers.identities import Identities
from producers.ranking.clean_history import CleanHistory, RawRating
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import Unreadable

SPARE_BYTES = 16 << 20  # twice the size at which a journal is first compacted
_Stamp = tuple[int, int, int]


class KeptRatings:
    """The kept ratings by pseudonym and item; `user` is the only one, None for a population."""

    def __init__(
        self,
        history: CleanHistory,
        identities: Identities,
        scale: Scale,
        user: str | None = None,
    ) -> None:
        self._history, self.identities, self.scale = history, identities, scale
        self._user, self.spare = user, SPARE_BYTES
        self._limits = scale.minimum, scale.maximum, scale.step
        self._levels: dict[bytes, dict[int, int]] = {}
        self._stamp: _Stamp | None = None
        self._reload()

    @property
    def devices(self) -> Set[bytes]:
        """The pseudonyms of which ratings are kept, with or without an account."""
        return self._levels.keys()

    @property
    def count(self) -> int:
        """How many ratings on the scale are kept."""
        return sum(map(len, self._levels.values()))

    def keep(self, lines: Sequence[bytes], epoch: int, seconds: float) -> list[str]:
        """Make the ratings of these lines durable; return for each "" or what is wrong with it.
        They came in this epoch, `seconds` since 1970.

        `Unwritable` or `Unreadable` where the disk refuses: then none of them is kept.
        """
        self._reload_if_changed()
        answers, rows = [], []
        new: dict[tuple[bytes, int], int] = {}
        for line in lines:
            try:
                row = parse(line, named=self._user is None)
                if row is not None:
                    device = self._device(row)
                    level, item = self.scale.level(row.raw_rating), wire.key(row.item)
                    known = self._levels.get(device, {}).get(item)
                    if new.get((device, item), known) != level:
                        new[device, item] = level
                        rows.append(self._line(device, row, epoch, int(seconds)))
            except ValueError as error:
                answers.append(str(error))
                continue
            answers.append("")
        if rows:
            found = self._history.extend(rows, durable=True, spare=self.spare)
            if found != ((found[0], 0) if self._stamp is None else self._stamp[:2]):
                self._reload()  # changed while the lines were parsed: a line may be forgotten
                return answers
            for (device, item), level in new.items():
                self._levels.setdefault(device, {})[item] = level
            self._stamp = self._stamped()
        return answers

    def refresh(self) -> None:
        """Read the file again if it changed: at a moment that takes time by how much was rated."""
        with suppress(Unreadable):  # it is said at the moment, if it remains so
            self._reload_if_changed()

    def rated(self, device_id: bytes) -> Rated:
        """Return what a device has rated, by the file as it is now; may raise `Unreadable`."""
        self._reload_if_changed()
        levels = self._levels.get(device_id)
        if not levels:
            return Rated()
        keys = np.fromiter(levels, np.uint64, len(levels))
        raw_levels = np.fromiter(levels.values(), np.uint8, len(levels))
        order = np.argsort(keys, kind="stable")
        return Rated(keys[order], raw_levels[order])

    def levels(self, device: bytes, keys: NDArray[np.uint64], missing: int) -> NDArray[np.uint16]:
        """Return the level of each item, (n,), `missing` where it is not rated, in as many steps
        whatever is kept, or the time of a message would show how much; may raise `Unreadable`."""
        self._reload_if_changed()
        kept = self._levels.get(device, {})
        return np.array([kept.get(key, missing) for key in keys.tolist()], np.uint16)

    def _device(self, row: RatedLine) -> bytes:
        user = self._user if row.user is None else row.user
        assert user is not None
        return self.identities.pseudonym(user)

    def _line(self, device: bytes, row: RatedLine, epoch: int, at: int) -> RawRating:
        return RawRating(device.hex(), row.item, row.raw_rating, self._limits, epoch, at)

    def _reload_if_changed(self) -> None:
        if self._stamped() != self._stamp:
            self._reload()

    def _reload(self) -> None:
        # The stamp is older than what is read: a change meanwhile is seen at the next look.
        stamp = self._stamped()
        self._levels = levels_of(self._history.read(), self.scale)
        self._stamp = stamp

    def _stamped(self) -> _Stamp | None:
        try:
            found = self._history.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(f"{self._history.path}: cannot be read ({error.strerror})") from None
        return found.st_ino, found.st_size, found.st_mtime_ns


def levels_of(rows: Iterable[RawRating], scale: Scale) -> dict[bytes, dict[int, int]]:
    """Return the level of the newest line of each device and item; lines of another scale, and
    lines that were edited to nonsense, are left out."""
    limits = (scale.minimum, scale.maximum, scale.step)
    found: dict[bytes, dict[int, int]] = {}
    for row in rows:
        if row.scale != limits:
            continue
        try:
            item, level = wire.key(row.item), scale.level(row.rating)
        except ValueError:
            continue
        found.setdefault(bytes.fromhex(row.device), {})[item] = level
    return found

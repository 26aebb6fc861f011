"""What a user has rated, in clear: a file beside the device journal, and files that the user gives.

    DEVICE.journal.history     one JSON line a rating, mode 0600, oldest first
        {"device":"<32 hex>","item":1193,"rating":4.0,"scale":[1.0,5.0,1.0],"epoch":20000,
         "at":1728000060}
    FILE                       one line a rating: item[,rating[,time]]

The device ranks with these lines; they are never sent. A line is written after its rating was
released, in one write: a crash leaves at most one torn line, which is skipped. The file is not
synced, because a lost line costs neither privacy nor budget; a daemon, whose ratings wait in it
until they are reported, syncs it. It is the user's: any line of it, or
the whole file, may be deleted at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec

from producers.journal.disk import Disk
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import Unreadable, Unwritable

VISIT_SECONDS = 1800  # without a rating: the visit has ended
_SUFFIX = ".history"


class RawRating(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file: a pseudonym, an item, and its rating on the scale (minimum, maximum,
    step); the day, and the second since 1970."""

    device: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    item: int | str
    rating: float
    scale: tuple[float, float, float]
    epoch: int
    at: int

    @property
    def stars(self) -> float:
        """The rating on the internal scale 1 .. 5; ValueError off its own scale."""
        return stars(self.rating, Scale(*self.scale))


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RawRating)


def stars(raw_rating: float, scale: Scale, row: str = "rating") -> float:
    """Return a rating of a scale on the internal scale 1 .. 5; ValueError off the scale."""
    return 1 + 4 * scale.level(raw_rating, row) / (scale.levels - 1)


class RatedItem(msgspec.Struct, frozen=True):
    """An item that the user has rated; `stars` on 1 .. 5, None where only the item is known; the
    day and the second (since 1970) of the rating by the device's clock, None where unknown.
    """

    item: wire.Item
    key: int
    stars: float | None
    day: int | None = None
    at: int | None = None


def visit_of(rated: Sequence[RatedItem], now_seconds: float) -> wire.Visit:
    """Return the visit that a list is for: "now" where the newest rating is less than half an hour
    old by the device's clock, else "next", as where its time is unknown or lies ahead."""
    return visit_at(rated[-1].at if rated else None, now_seconds)


def visit_at(at: int | None, now_seconds: float) -> wire.Visit:
    """Return the visit of a history whose newest rating was at this second."""
    recent = at is not None and 0 <= now_seconds - at < VISIT_SECONDS
    return "now" if recent else "next"


def newest_of_each(rated: list[RatedItem]) -> list[RatedItem]:
    """Return each item once, at the place and with the stars of its newest line."""
    newest: dict[int, RatedItem] = {}
    for row in rated:
        newest.pop(row.key, None)
        newest[row.key] = row
    return list(newest.values())


class CleanHistory:
    """The file of clean ratings beside a journal; made by the first `append`."""

    def __init__(self, journal: Path | str, disk: Disk | None = None) -> None:
        journal = Path(os.path.realpath(Path(journal).expanduser()))
        self.path = journal.with_name(journal.name + _SUFFIX)
        self._disk = disk or Disk()

    def append(
        self, device: bytes, item: wire.Item, raw_rating: float, scale: Scale, seconds: float
    ) -> None:
        """Write one line of a rating at this time, seconds since 1970; see `extend`."""
        limits = (scale.minimum, scale.maximum, scale.step)
        day, at = int(seconds) // wire.EPOCH_SECONDS, int(seconds)
        self.extend([RawRating(device.hex(), item, float(raw_rating), limits, day, at)])

    def extend(
        self, rows: list[RawRating], *, durable: bool = False, spare: int = 0
    ) -> tuple[int, int]:
        """Write lines, all or none; `durable`: they outlive a power cut on return; `spare`: bytes
        that stay free on the disk. Return the inode of the file and its size before, so that a
        caller sees whether another one changed it.

        Raises `Unwritable` with the reason, and the file is then unchanged.
        """
        lines = b"".join(_encoder.encode(row) + b"\n" for row in rows)
        with self._opened() as handle:
            size = os.lseek(handle, 0, os.SEEK_END)
            if spare and self._disk.free(self.path) < spare + len(lines):
                raise Unwritable(
                    f"{self.path}: {spare:,} bytes of the disk are kept free for the reports, so "
                    "nothing more is written; free some space"
                )
            try:
                self._disk.append(handle, (b"" if _ends_whole(handle, size) else b"\n") + lines)
                if durable:
                    self._disk.sync(handle)
            except OSError:
                self._disk.truncate(handle, size)
                raise
            if durable and not size:  # it may be new
                self._disk.sync_folder(self.path)
            return os.fstat(handle).st_ino, size

    def read(self, device: bytes | None = None) -> list[RawRating]:
        """Return the lines of a device, or of all, oldest first; torn lines are skipped.

        `Unreadable` where the system refuses.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unreadable(f"{self.path}: cannot be read ({error.strerror})") from None
        rows = map(_decoded, data.splitlines())
        return [row for row in rows if row is not None and _is_of(row, device)]

    def rated(self, device: bytes) -> list[RatedItem]:
        """Return what a device has rated, oldest first, each item once."""
        found = []
        for row in self.read(device):
            try:
                key = wire.key(row.item)
                found.append(RatedItem(row.item, key, row.stars, row.epoch, row.at))
            except ValueError:  # edited by hand
                continue
        return newest_of_each(found)

    def forget(self, device: bytes | None = None) -> int:
        """Remove the lines of a device, or all; return how many. The new file replaces the old one
        at once."""
        if not self.path.exists():
            return 0
        with self._opened() as handle:
            rows = [_decoded(line) for line in self._disk.read(handle).splitlines()]
            kept = [row for row in rows if row is not None and not _is_of(row, device)]
            self._replace(b"".join(_encoder.encode(row) + b"\n" for row in kept))
        return len(rows) - len(kept)

    def _replace(self, data: bytes) -> None:
        new = self.path.with_name(f"{self.path.name}.new")
        handle = self._disk.create(new)
        try:
            self._disk.append(handle, data)
            self._disk.sync(handle)
            self._disk.rename(new, self.path)
            self._disk.sync_folder(self.path)
        except OSError:
            self._disk.remove(new)
            raise
        finally:
            self._disk.close(handle)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Give the locked file; `Unwritable` where the system refuses, or where others may read
        it."""
        handle = -1
        try:
            handle = self._disk.open(self.path)
            mode = self._disk.mode(handle)
            if mode & 0o077:
                raise Unwritable(
                    f"{self.path}: others can open it (mode {mode & 0o777:o}) and it holds clean "
                    f"ratings; run chmod 600 {self.path}"
                )
            yield handle
        except OSError as error:
            raise Unwritable(f"{self.path}: cannot be written ({error.strerror})") from None
        finally:
            if handle >= 0:
                self._disk.close(handle)


def _ends_whole(handle: int, size: int) -> bool:
    """Return whether the file is empty or ends with a whole line."""
    if not size:
        return True
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1) == b"\n"


def _decoded(line: bytes) -> RawRating | None:
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_of(row: RawRating, device: bytes | None) -> bool:
    return device is None or row.device == device.hex()

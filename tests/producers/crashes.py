"""A world that can crash: a disk that forgets, a broker that remembers, and all that may follow.

One *life* is a device's process from opening its journal to its end. While it runs, every step it
takes (a call to the disk, a message handed over, a delivery report) is a moment to die:

    kill     the process dies; what it wrote is still there, and still not durable
    power    what was not synced is lost, kept, torn in the middle, or zeros, in every file by
             itself; a name that was not synced is the old or the new one
    midway   as both, with half of a write done

`explore` runs the life once, collects every world that a crash could leave, and goes on from each
of them, up to so many crashes: that is every crash plan there is. Equal worlds are explored once;
plans are counted as if they were not. `Violation` says which promise was broken, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from producers.journal.disk import Disk
from producers.journal.frames import CorruptJournalError
from stream_app.errors import UserError

Names = tuple[tuple[str, bytes, bytes], ...]  # name, what is read back, what is durable


class ViolationError(AssertionError):
    """A promise of the journal was broken."""


@dataclass(frozen=True)
class World:
    """State that outlives a crash: the disk, and what broker and caller have received."""

    names: Names = ()
    durable_names: Names = ()
    published: tuple[tuple[int, bytes], ...] = ()  # by seq
    promised: frozenset[int] = frozenset()  # items that the caller was promised are recorded
    keys: frozenset[bytes] = frozenset()  # device keys under which something was published


@dataclass
class File:
    """What is read back, and what a power cut leaves for certain."""

    content: bytes = b""
    durable: bytes = b""


@dataclass
class CrashingDisk(Disk):
    """The disk of one life; `step` is called before whatever it does."""

    world: World
    step: Callable[[], None]
    names: dict[str, File] = field(init=False)
    durable_names: dict[str, File] = field(init=False)
    handles: dict[int, File] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.names = {name: File(now, kept) for name, now, kept in self.world.names}
        self.durable_names = {
            name: self.names[name]
            if name in self.names
            and (self.names[name].content, self.names[name].durable) == (now, kept)
            else File(now, kept)
            for name, now, kept in self.world.durable_names
        }

    def images(self) -> Iterator[tuple[Names, Names]]:
        """Yield every disk that a crash at this moment may leave."""
        yield _frozen(self.names), _frozen(self.durable_names)  # killed
        yield from self.cut()

    def cut(self) -> Iterator[tuple[Names, Names]]:
        """Yield every disk that a power cut at this moment may leave."""
        for named in (self.durable_names, self.names):
            files = sorted(named.items())
            left = [
                dict.fromkeys(survived(file) for survived in (_lost, _kept, _torn, _zeroed))
                for _, file in files
            ]
            for contents in product(*left):
                names = tuple(
                    (name, content, content)
                    for (name, _), content in zip(files, contents, strict=True)
                )
                yield names, names

    def _handle(self, file: File) -> int:
        handle = max(self.handles, default=0) + 1
        self.handles[handle] = file
        return handle

    def open(self, path: Path) -> int:
        self.step()
        return self._handle(self.names.setdefault(path.name, File()))

    def create(self, path: Path) -> int:
        self.step()
        self.names[path.name] = File()
        return self._handle(self.names[path.name])

    def mode(self, handle: int) -> int:
        return 0o100600

    def read(self, handle: int) -> bytes:
        return self.handles[handle].content

    def append(self, handle: int, data: bytes) -> None:
        self.step()
        file, before = self.handles[handle], self.handles[handle].content
        file.content = before + data[: len(data) // 2]
        self.step()
        file.content = before + data

    def truncate(self, handle: int, size: int) -> None:
        self.step()
        self.handles[handle].content = self.handles[handle].content[:size]

    def sync(self, handle: int) -> None:
        self.step()
        self.handles[handle].durable = self.handles[handle].content

    def rename(self, path: Path, to: Path) -> None:
        self.step()
        self.names[to.name] = self.names.pop(path.name)

    def sync_folder(self, path: Path) -> None:
        self.step()
        self.durable_names = dict(self.names)

    def remove(self, path: Path) -> None:
        self.step()
        self.names.pop(path.name, None)

    def close(self, handle: int) -> None:
        del self.handles[handle]


def _frozen(names: dict[str, File]) -> Names:
    return tuple((name, file.content, file.durable) for name, file in sorted(names.items()))


def _lost(file: File) -> bytes:
    return file.durable


def _kept(file: File) -> bytes:
    return file.content


def _torn(file: File) -> bytes:
    if not file.content.startswith(file.durable):
        return file.durable  # a cut that was not synced: all of it or nothing
    return file.content[: (len(file.durable) + len(file.content) + 1) // 2]


def _zeroed(file: File) -> bytes:
    if not file.content.startswith(file.durable):
        return file.content
    return file.durable + bytes(len(file.content) - len(file.durable))


@dataclass
class Draws:
    """Words that are never the same twice in one life, so that a second draw is seen."""

    life: int
    unsafe: bool = field(default=True, init=False)
    drawn: int = field(default=0, init=False)

    def words(self, count: int) -> NDArray[np.uint64]:
        first = 1000 * self.life + self.drawn
        self.drawn += count
        return np.arange(first, first + count, dtype=np.uint64)


@dataclass
class Life:
    """What one process does in a world; `after` are the worlds that its crashes would leave.

    The program calls `publish` and `promise`, and draws from `draws`.
    """

    world: World
    number: int
    check: Callable[[Life, int, bytes], None]
    kind: type[CrashingDisk] = CrashingDisk
    after: list[World] = field(default_factory=list, init=False)
    disk: CrashingDisk = field(init=False)
    draws: Draws = field(init=False)

    def __post_init__(self) -> None:
        self.draws = Draws(self.number)
        self.disk = self.kind(self.world, self.step)

    def step(self) -> None:
        """Note every world that a crash right now may leave."""
        for names, durable_names in self.disk.images():
            self.after.append(replace(self.world, names=names, durable_names=durable_names))

    def publish(self, seq: int, value: bytes, key: bytes) -> None:
        """Hand a message over: from now on others have seen these bytes."""
        self.step()
        self.check(self, seq, value)
        published = dict(self.world.published) | {seq: value}
        self.world = replace(
            self.world,
            published=tuple(sorted(published.items())),
            keys=self.world.keys | {key},
        )
        self.step()

    def promise(self, item: int) -> None:
        """Promise the caller that a rating is recorded and will arrive."""
        self.world = replace(self.world, promised=self.world.promised | {item})
        self.step()


@dataclass
class Found:
    """What an exploration has seen: plans as they are, worlds as often as they differ."""

    plans: int = 0
    worlds: int = 0


def explore(
    run: Callable[[Life], None],
    check: Callable[[Life, int, bytes], None],
    finish: Callable[[Life], None],
    crashes: int,
    disk: type[CrashingDisk] = CrashingDisk,
) -> Found:
    """Run every crash plan of at most so many crashes; raise ViolationError at the first breach."""
    known: dict[tuple[World, int], int] = {}

    def plans(world: World, number: int) -> int:
        if (world, number) not in known:
            life = Life(world, number, check, disk)
            try:
                run(life)
                finish(life)
            except (UserError, CorruptJournalError) as error:
                raise ViolationError(f"it refuses what it has written: {error}") from error
            found = 1
            if number < crashes:
                # The plans of a world are as many however it came about.
                for after in life.after:
                    found += plans(after, number + 1)
            known[world, number] = found
        return known[world, number]

    total = plans(World(), 0)
    return Found(total, len(known))

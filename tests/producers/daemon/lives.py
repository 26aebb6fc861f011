"""Lives of a device program, each a process that is killed: `python -m ... FOLDER SEED KILLS`.

One process imports everything and forks a life; a life kills itself (SIGKILL) at a random
operation: a call to the disk, a step of the clock, a message that the broker takes. Clock, broker
and the file of ratings are in the folder, so they outlive it. The last life is not killed.

    clock      the time, which a life moves from moment to moment
    broker     what the broker has received: time, key, seq, value, one line each
    daily.csv  the ratings of the day; it is rotated at the end of the day
"""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producers.daemon.sources.watched_file import Places, WatchedFile
from producers.journal import Journal
from producers.journal.disk import Disk
from tests.producers.daemon.world import DAY, SCOPE, TODAY, device, event

DAYS = 24
ROTATE = 8
ITEMS = len(SCOPE)


@dataclass
class Countdown:
    """Kills this process at its n-th operation; 0: never."""

    left: int = 0

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalDisk(Disk):
    """The real disk; each call is an operation, and a write is two."""

    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step

    def append(self, handle: int, data: bytes) -> None:
        self.step()
        half = len(data) // 2
        super().append(handle, data[:half])
        self.step()
        super().append(handle, data[half:])
        self.step()

    def truncate(self, handle: int, size: int) -> None:
        self.step()
        super().truncate(handle, size)

    def sync(self, handle: int) -> None:
        self.step()  # what a sync is for is a power cut: `test_crash_plans`

    def rename(self, path: Path, to: Path) -> None:
        self.step()
        super().rename(path, to)
        self.step()


@dataclass
class DurableClock:
    """A clock whose time is in a file: after a kill it goes on where it was."""

    path: Path
    step: Callable[[], None]

    @property
    def at(self) -> float:
        return float(self.path.read_text())

    def set(self, at: float) -> None:
        self.step()
        new = self.path.with_suffix(".new")
        new.write_text(repr(at))
        new.rename(self.path)
        self.step()

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float, files: Sequence[int]) -> None:
        raise NotImplementedError


@dataclass
class DurableBroker:
    """A broker whose log is a file; its delivery reports can be lost with the life."""

    path: Path
    clock: DurableClock
    step: Callable[[], None]

    def connect(self) -> DurableBroker:
        self.waiting: list[tuple[bytes, bytes, Any]] = []
        return self

    def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any, **_: Any) -> None:
        self.waiting.append((key, value, on_delivery))

    def poll(self, timeout: float) -> int:
        waiting, self.waiting = self.waiting, []
        for key, value, report in waiting:
            self.step()
            line = f"{self.clock.at!r} {key.decode()} {event(key, value).seq} {value.hex()}\n"
            with self.path.open("a") as log:
                log.write(line)
            self.step()
            report(None, None)
        return len(waiting)

    def flush(self, timeout: float) -> int:
        return self.poll(timeout)


def live(folder: Path, users: Sequence[str], *, rated: bool, kill_at: int) -> None:
    """Run from where the last life ended to the end of the last day."""
    step = Countdown(kill_at)
    clock = DurableClock(folder / "clock", step)
    broker = DurableBroker(folder / "broker", clock, step)
    file = folder / "daily.csv"
    disk = MortalDisk(step)
    with Journal.open(folder / "device.journal", disk=disk) as journal:
        source = WatchedFile(file, Places(journal.path), journal.key)
        run = device(
            journal, [source], clock=clock, broker=broker, user=None, disk=disk,
            rotate_every=ROTATE,
        )  # fmt: skip
        end = (TODAY + DAYS) * DAY
        while clock.at < end:
            day = int(clock.at // DAY)
            if rated:
                rate(folder, file, users, day)
            run.daemon.step()
            coming = run.daemon._schedule.next
            assert coming is not None
            clock.set(min(coming, (day + 1) * DAY))


def rate(folder: Path, file: Path, users: Sequence[str], day: int) -> None:
    """Write the file of a day as another program would: the earlier one is rotated."""
    new = folder / f"day-{day}"
    if new.exists():
        return
    rows = [line for user in users for line in ratings(user, day)]
    if file.exists():
        file.rename(file.with_name("daily.csv.1"))
    file.write_text("".join(f"{line}\n" for line in rows))
    new.touch()


def ratings(user: str, day: int) -> list[str]:
    """Return the lines of a user on a day: items of the scope, and one of this day alone, so that
    a line that is lost is missed; some users are busy, and one rates nothing."""
    chosen = random.Random(f"{user} {day}")
    count = {"u0": 0, "u1": 1}.get(user, 3)
    items = [chosen.randrange(ITEMS) for _ in range(count)] + [1000 + day] * (count > 0)
    return [f"{user},{item},{chosen.randrange(1, 6)}" for item in items]


def main(folder: Path, users: Sequence[str], seed: int, kills: int, *, rated: bool) -> int:
    """Kill lives until so many kills or the end of the days; return how many were killed."""
    chosen, killed = random.Random(seed), 0
    while True:
        kill_at = chosen.randrange(1, 30) if killed < kills else 0
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                live(folder, users, rated=rated, kill_at=kill_at)
                code = 0
            except BaseException:  # noqa: BLE001 (a forked life must not return into its parent)
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            killed += 1
            continue
        assert os.waitstatus_to_exitcode(status) == 0
        return killed


if __name__ == "__main__":
    _, place, number, most, with_ratings, *names = sys.argv
    print(main(Path(place), names, int(number), int(most), rated=with_ratings == "rated"))

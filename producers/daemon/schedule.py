"""When each account reports: once in an epoch, at a moment that its pseudonym and the epoch give.

    moment(p, e) = (e + emission_time(p, e)) * L        seconds since 1970; L: length of an epoch

The moments do not depend on ratings, on the start of the program or on what waits. A moment that
passes while the program is not running, or while it sleeps, is missed: what was due then is
reported at the account's next moment (`cells`), because a report right after a start would show
when the device is used.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from producers.fleet.epoch_emission import emission_time
from producers.journal import Enrolment

GRACE_SECONDS = 60.0  # how late a running program may be for a moment


@dataclass(frozen=True, order=True)
class Moment:
    """The moment in seconds since 1970 at which a device reports for an epoch."""

    at: float
    device: bytes
    epoch: int


def moment(device: bytes, epoch: int, epoch_seconds: float) -> Moment:
    """Return the moment of a device in an epoch."""
    return Moment((epoch + emission_time(device, epoch)) * epoch_seconds, device, epoch)


class Schedule:
    """The next moment of every account, from `now` on; accounts report after they enrolled."""

    def __init__(self, accounts: Iterable[Enrolment], epoch_seconds: float, now: float) -> None:
        self._length = epoch_seconds
        self._enrolled: dict[bytes, int] = {}
        self._latest = now
        self._waiting: list[Moment] = []
        self.add(accounts, now)

    def add(self, accounts: Iterable[Enrolment], now: float) -> None:
        """Let further accounts wait for their moments from `now` on; known ones keep theirs."""
        new = {each.device: each.epoch for each in accounts if each.device not in self._enrolled}
        self._enrolled |= new
        self._waiting += [self._coming(device, enrolled, now) for device, enrolled in new.items()]
        heapq.heapify(self._waiting)

    def _plan(self, now: float) -> None:
        """Let every account wait for its next moment from `now` on."""
        self._waiting = [self._coming(*account, now) for account in self._enrolled.items()]
        heapq.heapify(self._waiting)

    def _coming(self, device: bytes, enrolled: int, now: float) -> Moment:
        first = max(0, int(now // self._length), enrolled + 1)
        found = moment(device, first, self._length)
        return found if found.at >= now else moment(device, first + 1, self._length)

    @property
    def next(self) -> float | None:
        """The next moment in seconds since 1970; None without an account."""
        return self._waiting[0].at if self._waiting else None

    def due(self, now: float) -> tuple[list[Moment], int]:
        """Return the moments that have come, in their order, and how many were missed; the accounts
        of both wait for their next one. After a clock that was an epoch or more ahead was set back,
        the accounts wait for the moments of the true time."""
        back = self._latest - now >= self._length
        if back:
            self._plan(now)
        self._latest = now if back else max(self._latest, now)
        come, missed = [], 0
        while self._waiting and self._waiting[0].at <= now:
            found = self._waiting[0]
            if now - found.at <= GRACE_SECONDS:
                come.append(found)
            else:
                missed += 1
            following = moment(found.device, found.epoch + 1, self._length)
            if following.at < now - GRACE_SECONDS:
                today = int(now // self._length)
                following = moment(found.device, max(found.epoch + 1, today), self._length)
            heapq.heapreplace(self._waiting, following)
        return come, missed

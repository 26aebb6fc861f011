"""The clock: the worker that owns it appends the cuts, at times decided here.

One worker owns the clock. It appends a cut when records have arrived and either `seconds` have
passed since the last cut or a partition has a full round waiting. A cut advances each partition by
at most `round_records`.

A log without a cut gets two entries before its first one: the newest version of the event format,
and the design, which is that of the first owner (`opening`).

A cut is marked if the caller wants a checkpoint, and about every `checkpoint_seconds` where that is
set. At a marked cut every replica takes its digest, and the owner writes its state.

Up to `in_flight` cuts may be outstanding, each continuing the cut before it, so that a backlog
advances by more than one round per round trip. The clock reads its cuts back. If another clock's
cut took the place of its own, or no cut is read back for `patience_seconds`, it drops the
outstanding cuts and continues from the newest cut it has read. Readers accept cuts by rules that do
not depend on the writer, so a second, frozen or late clock can lose a race but cannot corrupt the
order. Time, ownership and the network are arguments.

Where ratings have a retention (`retention_seconds`), a cut names the days of which events of its
round are accepted.

    oldest = today - ceil(retention in days) - 1 - OFFLINE_DAYS
    newest = today + AHEAD_DAYS

An event carries the day of its release, which its device claims. A server that recognises the
duplicates of events of any day keeps every device for good, and devices can be invented. So a round
has a window of days: events outside are rejected (`stale`, `ahead`), and a device whose newest
event is older than the window is evicted (`state/high_water_marks.py`).

    retention + 1   a record may wait in the log as long as the log keeps it, while no worker runs,
                    and a part of a day counts as one
    OFFLINE_DAYS    what waits in the outbox of a device that is away for so long is accepted; older
                    events are lost, and their epsilon is spent
    AHEAD_DAYS      clocks of devices may be ahead; without the bound an invented device would claim
                    a day in a thousand years, and stay

The log decides, not the setting: a replica takes the window from the cut, and no end of it moves
back. With a clock that is ahead, the writer of a cut would reject events that are not old, and for
good; with one that was never set, in a new log, the events of today. So the broker refuses a record
of the cut log that is stamped more than an hour ahead of its own clock, or a day behind
(`wire/topics.py`).

The owner of a shard's clock merges soon after a change that counts has come. One merge takes all
that has come, in at most one entry a second; it waits until its own last entry was read back, for
some seconds. A merge that a frozen former owner writes has no effect or takes less
(`exchange_order.py`), so it does no harm.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.wire import EPOCH_SECONDS, Contract, Cut, DesignEntry
from stream_app.wire.limits import CONTRACT


@dataclass
class MergeClock:
    """Decides on merges of one shard: at most one in `seconds`."""

    seconds: float = 1.0
    patience_seconds: float = 5.0
    _written: tuple[int, ...] = ()
    _last_time: float = float("-inf")

    def due(
        self, now: float, counted: Sequence[int], newest: Sequence[int]
    ) -> tuple[int, ...] | None:
        """Return the ends of the merge to append now, or None. `counted`: of the changes that have
        come and count; `newest`: of the last merge that was read."""
        ends = tuple(max(end, at) for end, at in zip(counted, newest, strict=True))
        if ends == tuple(newest) or now - self._last_time < self.seconds:
            return None
        under_way = self._written != tuple(newest) and self._written != ()
        if under_way and now - self._last_time < self.patience_seconds:
            return None
        self._written, self._last_time = ends, now
        return ends


OFFLINE_DAYS = 30
AHEAD_DAYS = 7


def accepted_days(today: int, retention_seconds: float) -> tuple[int, int]:
    """Return the first and the last day, since 1970, of which events are accepted today."""
    kept = math.ceil(retention_seconds / EPOCH_SECONDS) + 1 + OFFLINE_DAYS
    return max(0, today - kept), today + AHEAD_DAYS


Newest = tuple[int, tuple[int, ...]]


@dataclass
class Clock:
    """Decides on cuts; `acquire` and `release` follow the assignment of the partition of the cut
    log."""

    design: str = ""
    seconds: float = 0.2
    round_records: int = 2000
    in_flight: int = 4
    patience_seconds: float = 5.0
    checkpoint_seconds: float | None = None
    retention_seconds: float | None = None
    opening: DesignEntry | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"seconds {self.seconds}: the time between two cuts must be above 0")
        if self.round_records < 1:
            raise ValueError(f"round_records {self.round_records}: a round holds at least 1 record")
        if self.in_flight < 1:
            raise ValueError(f"in_flight {self.in_flight}: at least 1 cut must be on its way")
        if self.checkpoint_seconds is not None and not self.checkpoint_seconds > 0:
            raise ValueError(
                f"checkpoint_seconds {self.checkpoint_seconds}: the time between two checkpoints "
                "must be above 0"
            )
        self.owned = False
        self._resting = False
        self._read_to_end = False
        self._on_the_way: deque[Cut] = deque()
        self._last_time = float("-inf")
        self._marked_time = float("-inf")
        self._opened_time = float("-inf")
        self._opened_by: Contract | DesignEntry | None = None

    def acquire(self) -> None:
        """Become the owner; no cut is written until the cut log has been read to its end."""
        self.owned, self._read_to_end = True, False
        self._marked_time = float("-inf")
        self._on_the_way.clear()

    def begin_again(self) -> None:
        """Record that the cut log is read again from some position; ownership does not change."""
        self._read_to_end = False
        self._on_the_way.clear()

    def release(self) -> None:
        """Stop writing cuts."""
        self.owned = False

    def rest(self) -> None:
        """Write no more cuts; outstanding cuts are still awaited (`waits`)."""
        self._resting = True

    def at_end_of_cuts(self) -> None:
        """Record that the cut log has been read to its end."""
        self._read_to_end = True

    @property
    def writes(self) -> bool:
        """Whether this clock writes entries now."""
        return self.owned and self._read_to_end and not self._resting

    @property
    def waits(self) -> bool:
        """Whether an own cut has not been read back yet."""
        return self.owned and bool(self._on_the_way)

    def due(
        self,
        now: float,
        newest_cut: Newest,
        received: Sequence[int],
        epoch: int,
        checkpoint_wanted: bool = False,
        entry_waits: bool = False,
        contract: int = CONTRACT,
        designed: bool = True,
    ) -> Cut | Contract | DesignEntry | None:
        """Return the entry to append now, or None; `now` in seconds of any steady clock.

        `contract` is the newest version of the event format that was read, `designed` whether the
        entry of a design was. While an entry waits
        for a cut to take effect, a cut may advance no partition.
        """
        if not (self.owned and self._read_to_end):
            return None
        number, end_offsets = self._latest(now, newest_cut)
        if self._resting or len(self._on_the_way) >= self.in_flight:
            return None
        waiting = [max(0, at - end) for at, end in zip(received, end_offsets, strict=True)]
        # An outstanding cut may already carry the entry out; then a second cut would not count.
        if not any(waiting) and not (entry_waits and not self._on_the_way):
            return None
        if now - self._last_time < self.seconds and max(waiting) < self.round_records:
            return None
        if number == 0 and contract < CONTRACT:
            return self._opened(now, Contract(CONTRACT))
        if number == 0 and self.opening is not None and not designed:
            return self._opened(now, self.opening)
        moved = (e + min(w, self.round_records) for e, w in zip(end_offsets, waiting, strict=True))
        marked = checkpoint_wanted or (
            self.checkpoint_seconds is not None
            and now - self._marked_time > self.checkpoint_seconds
        )
        cut = Cut(number + 1, tuple(moved), epoch, self.design, marked)
        if self.retention_seconds is not None:
            cut = cut.accepting(accepted_days(epoch, self.retention_seconds))
        self._on_the_way.append(cut)
        self._last_time = now
        if marked:
            self._marked_time = now
        return cut

    def _opened(self, now: float, entry: Contract | DesignEntry) -> Contract | DesignEntry | None:
        """Return an entry that opens a log, again where it is not read back in time."""
        if entry == self._opened_by and now - self._opened_time < self.patience_seconds:
            return None
        self._opened_by, self._opened_time = entry, now
        return entry

    def _latest(self, now: float, newest_cut: Newest) -> Newest:
        """Return the cut to continue: the last outstanding cut, else the newest cut read."""
        number, end_offsets = newest_cut
        while self._on_the_way and self._on_the_way[0].number <= number:
            arrived = self._on_the_way.popleft()
            if arrived.number == number and arrived.end_offsets != end_offsets:
                self._on_the_way.clear()
        if self._on_the_way and now - self._last_time >= self.patience_seconds:
            self._on_the_way.clear()
        if not self._on_the_way:
            return newest_cut
        return self._on_the_way[-1].number, self._on_the_way[-1].end_offsets

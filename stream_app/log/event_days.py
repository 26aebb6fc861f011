"""The days of which events are accepted, where ratings have a retention; a cut carries them.

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
"""

from __future__ import annotations

import math

from stream_app.wire import EPOCH_SECONDS

OFFLINE_DAYS = 30
AHEAD_DAYS = 7


def accepted_days(today: int, retention_seconds: float) -> tuple[int, int]:
    """Return the first and the last day, since 1970, of which events are accepted today."""
    kept = math.ceil(retention_seconds / EPOCH_SECONDS) + 1 + OFFLINE_DAYS
    return max(0, today - kept), today + AHEAD_DAYS

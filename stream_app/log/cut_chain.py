"""Which cuts of the cut log count, and which were superseded.

    cut log     50   51   52   53    truncate to 51, newest 1053    1054
    counts      50   51                                             1054

A cut that the log can no longer fill (it lost its end) would hold up every reader. A truncation
supersedes cuts by their numbers: all after `to_cut`, up to `newest`, wherever they are written, so
a late cut of a frozen clock and a late checkpoint of a frozen worker are superseded, too. The state
is that of the log without the superseded cuts; forgets and entries of campaigns between them stay
in force and take effect before the next cut that counts.

A reader learns of the truncations before it applies a cut: the cut log is scanned first
(`scan`). One that names a cut of the future, which no cut before it had reached, has no effect, and
one that leaves no gap of `LEAST_MARGIN` numbers has none: so where the numbers of two cuts are as
far apart as their offsets at most, no truncation lies between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stream_app.wire import (
    MAX_TRUNCATED,
    Aborted,
    CampaignPlan,
    Contract,
    Cut,
    DesignEntry,
    DigestReport,
    Entry,
    Forget,
    Merge,
    Released,
    Truncate,
)

MOST_CUTS = MAX_TRUNCATED // 2
"""No clock reaches a greater number; a truncation can supersede all up to it."""
LEAST_MARGIN = 100_000_000
"""More than the entries of a cut log that are no cuts."""
MOST_AHEAD = 1 << 40
"""No checkpoint is further ahead of the newest cut: a lost end of the cut log held fewer numbers,
with the gaps of a thousand truncations. Half a million such numbers, each superseded, reach
`MOST_CUTS`."""


@dataclass(frozen=True)
class Truncations:
    """Truncations of the cut log, found in its entries below the offset `end`; `reached` is the
    greatest number of a cut there, whether it counts or not."""

    entries: tuple[Truncate, ...] = ()
    end: int = 0
    reached: int = 0

    def supersede(self, number: int) -> bool:
        """Return whether the cut with this number was superseded."""
        return any(each.to_cut < number <= each.newest for each in self.entries)

    def beyond_reach(self, number: int) -> bool:
        """Return whether no clock of this log reached a number, even one that lost its end; only
        with the entries of the whole log."""
        return number > min(MOST_CUTS, self.last_before(self.reached) + MOST_AHEAD)

    def last_before(self, number: int) -> int:
        """Return the greatest number that no later cut may have: `number`, or the last one that
        was superseded after it."""
        while ends := [t.newest for t in self.entries if t.to_cut <= number < t.newest]:
            number = max(ends)
        return number


def scan(
    entries: Iterable[tuple[int, Cut | Truncate]], reached: int = 0, margin: int = LEAST_MARGIN
) -> Truncations:
    """Return the truncations among (offset, entry); `reached` is the cut before the first entry."""
    found: list[Truncate] = []
    end = 0
    for offset, entry in entries:
        end = offset + 1
        if isinstance(entry, Cut):
            reached = max(reached, entry.number if entry.number <= MOST_CUTS else 0)
        elif entry.to_cut <= reached and entry.newest >= reached + margin:
            found.append(entry)
    return Truncations(tuple(found), end, reached)


class Chain:
    """Decides which cuts count, from the cut log alone.

    A cut counts if its number is the next one that is not superseded, if it names every partition
    and moves none back, and if it advances at least one partition or an entry waits for it: a
    forget, a design, a merge, or one of a campaign.
    """

    def __init__(
        self,
        number: int,
        end_offsets: tuple[int, ...],
        truncations: Truncations = Truncations(),
    ) -> None:
        self.number, self.end_offsets = number, end_offsets
        self.truncations = truncations
        self.entry_waits = False
        self.contract = 1
        self.designed = False

    @property
    def last_used(self) -> int:
        """The greatest number that the next cut may not have."""
        return self.truncations.last_before(self.number)

    def take(self, entry: Entry) -> bool:
        """Take the next entry and return whether it counts."""
        self.designed |= isinstance(entry, DesignEntry)
        match entry:
            case Forget() | DesignEntry() | Merge() | CampaignPlan() | Released() | Aborted():
                self.entry_waits = True
                return True
            case DigestReport():
                return not self.truncations.supersede(entry.cut)
            case Contract():
                self.contract = max(self.contract, entry.version)
                return True
            case Truncate():
                return False
            case Cut():
                return self._take_cut(entry)

    def _take_cut(self, cut: Cut) -> bool:
        counts = (
            cut.number == self.last_used + 1
            and len(cut.end_offsets) == len(self.end_offsets)
            and all(new >= old for new, old in zip(cut.end_offsets, self.end_offsets, strict=True))
            and (cut.end_offsets != self.end_offsets or self.entry_waits)
        )
        if counts:
            self.number, self.end_offsets = cut.number, cut.end_offsets
            self.entry_waits = False
        return counts

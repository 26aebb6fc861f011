"""Comparing the digests of this replica with those of the others, at the same cut.

At a marked cut every replica takes its digests; the owner of the clock appends a digest report to
the cut log once its checkpoint is durable, and so does a replica that differs, which informs the
owner. Own digests and report may come in either order. Digests are compared only when spec and
origin match; a differing origin is reported in `other_origin`.

Without a secret every writer of the cut log can make reports, so both lists are bounded: the newest
16 cuts, and 8 different reports a cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_app.wire import DigestReport

_KEPT = 16
_REPORTS_OF_A_CUT = 8


@dataclass(frozen=True)
class Digests:
    """A replica at a cut: positions, and the digests of model, ledger and origin."""

    cut: int
    end_offsets: tuple[int, ...]
    model: str
    ledger: str
    origin: str


class DigestComparison:
    """Compares reports with own digests; `differs` is called for every report that disagrees.

    `agreed` counts the cuts with a report that agrees since the newest difference, `agreed_before`
    those in the run before that difference. `other_origin` is the origin of the newest report if it
    differs from ours, else empty.
    """

    def __init__(self, design: str, differs: Callable[[DigestReport, Digests], None]) -> None:
        self._design = design
        self._on_difference = differs
        self._own: dict[int, Digests] = {}
        self._reports: dict[int, list[DigestReport]] = {}
        self.agreed = 0
        self.agreed_before = 0
        self._agreed_cut = -1
        self.other_origin = ""

    def follow(self, design: str) -> None:
        """Compare reports of this design from now on."""
        if design != self._design:
            self._design = design
            self.clear()

    def add_own(self, digests: Digests) -> None:
        """Add the digests of this replica at a cut."""
        self._own[digests.cut] = digests
        for report in self._reports.pop(digests.cut, []):
            self._compare(report, digests)
        self._evict_oldest()

    def add_report(self, report: DigestReport) -> None:
        """Add the digests that another replica reported."""
        if report.design != self._design:
            return
        if (digests := self._own.get(report.cut)) is not None:
            self._compare(report, digests)
        else:
            waiting = self._reports.setdefault(report.cut, [])
            if report not in waiting and len(waiting) < _REPORTS_OF_A_CUT:
                waiting.append(report)
            self._evict_oldest()

    def clear(self) -> None:
        """Drop all digests: the replica starts over."""
        self._own.clear()
        self._reports.clear()
        self.other_origin = ""

    def _compare(self, report: DigestReport, digests: Digests) -> None:
        if report.origin != digests.origin:
            self.other_origin = report.origin
            return
        self.other_origin = ""
        if (report.model, report.ledger) == (digests.model, digests.ledger):
            self.agreed += report.cut > self._agreed_cut
            self._agreed_cut = max(self._agreed_cut, report.cut)
        else:
            self.agreed, self.agreed_before = 0, self.agreed
            self._on_difference(report, digests)

    def _evict_oldest(self) -> None:
        for held in (self._own, self._reports):
            while len(held) > _KEPT:
                del held[min(held)]

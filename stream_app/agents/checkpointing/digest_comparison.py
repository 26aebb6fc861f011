"""Whether this replica holds what the others hold: digests at the same cut, compared.

At a cut that is marked for it every replica takes its digests; the owner of the clock writes its
own into the cut log once its checkpoint is durable, and so does a replica that differs, so that the
owner hears of it. Either may come first. Digests of another design or another origin are not
comparable; that there is another origin is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_app.wire import DigestReport

_KEPT = 16


@dataclass(frozen=True)
class Digests:
    """What a replica holds at a cut: positions, and the digests of model, ledger and origin."""

    cut: int
    end_offsets: tuple[int, ...]
    model: str
    ledger: str
    origin: str


class DigestComparison:
    """Compares digest reports with the digests of this replica; `differs` gets every report that
    disagrees.

    `agreed` counts digest reports that agree since the last that did not, `agreed_before` those
    that agreed before that one; `other_origin` is the newest reported origin that is not ours,
    empty where there is none.
    """

    def __init__(self, design: str, differs: Callable[[DigestReport, Digests], None]) -> None:
        self._design = design
        self._on_difference = differs
        self._own: dict[int, Digests] = {}
        self._reports: dict[int, list[DigestReport]] = {}
        self.agreed = 0
        self.agreed_before = 0
        self.other_origin = ""

    def add_own(self, digests: Digests) -> None:
        """Learn what this replica holds at a cut."""
        self._own[digests.cut] = digests
        for digest_report in self._reports.pop(digests.cut, []):
            self._compare(digest_report, digests)
        self._evict_oldest()

    def add_report(self, digest_report: DigestReport) -> None:
        """Learn what another replica held at a cut."""
        if digest_report.design != self._design:
            return
        if (digests := self._own.get(digest_report.cut)) is not None:
            self._compare(digest_report, digests)
        else:
            self._reports.setdefault(digest_report.cut, []).append(digest_report)
            self._evict_oldest()

    def clear(self) -> None:
        """Forget everything: the replica starts anew."""
        self._own.clear()
        self._reports.clear()
        self.other_origin = ""

    def _compare(self, digest_report: DigestReport, digests: Digests) -> None:
        if digest_report.origin != digests.origin:
            self.other_origin = digest_report.origin
            return
        self.other_origin = ""
        if (digest_report.model, digest_report.ledger) == (digests.model, digests.ledger):
            self.agreed += 1
        else:
            self.agreed, self.agreed_before = 0, self.agreed
            self._on_difference(digest_report, digests)

    def _evict_oldest(self) -> None:
        for held in (self._own, self._reports):
            while len(held) > _KEPT:
                del held[min(held)]

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
    """Compares what was told with what is held; `differs` hears of every witness that disagrees.

    `agreed` counts witnesses that agree since the last that did not, `agreed_before` those that
    agreed before that one; `other_origin` is the newest
    witnessed origin that is not ours, empty where there is none.
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
        for witness in self._reports.pop(digests.cut, []):
            self._compare(witness, digests)
        self._evict_oldest()

    def add_report(self, witness: DigestReport) -> None:
        """Learn what another replica held at a cut."""
        if witness.design != self._design:
            return
        if (digests := self._own.get(witness.cut)) is not None:
            self._compare(witness, digests)
        else:
            self._reports.setdefault(witness.cut, []).append(witness)
            self._evict_oldest()

    def clear(self) -> None:
        """Forget everything: the replica starts anew."""
        self._own.clear()
        self._reports.clear()
        self.other_origin = ""

    def _compare(self, witness: DigestReport, digests: Digests) -> None:
        if witness.origin != digests.origin:
            self.other_origin = witness.origin
            return
        self.other_origin = ""
        if (witness.model, witness.ledger) == (digests.model, digests.ledger):
            self.agreed += 1
        else:
            self.agreed, self.agreed_before = 0, self.agreed
            self._on_difference(witness, digests)

    def _evict_oldest(self) -> None:
        for held in (self._own, self._reports):
            while len(held) > _KEPT:
                del held[min(held)]

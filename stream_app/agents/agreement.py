"""Whether this replica holds what the others hold: digests at the same cut, compared.

At a cut that is marked for it every replica takes its digests; the owner of the clock writes its
own into the cut log once its checkpoint is durable. Both may come first. Digests of another design
or another base are not comparable and are passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_app.wire import Witness

_KEPT = 16


@dataclass(frozen=True)
class Digests:
    """What a replica holds at a cut: positions, and the digests of model and ledger."""

    cut: int
    ends: tuple[int, ...]
    model: str
    ledger: str


class Agreement:
    """Compares what was told with what is held; `differs` hears of every cut that disagrees."""

    def __init__(self, differs: Callable[[Witness, Digests], None]) -> None:
        self._differs = differs
        self._ours: dict[int, tuple[Digests, str, str]] = {}
        self._theirs: dict[int, Witness] = {}
        self.agreed = 0

    def ours(self, digests: Digests, design: str, base: str) -> None:
        """Learn what this replica holds at a cut."""
        self._ours[digests.cut] = digests, design, base
        self._compare(digests.cut)

    def theirs(self, witness: Witness) -> None:
        """Learn what the owner of the clock held at a cut."""
        self._theirs[witness.cut] = witness
        self._compare(witness.cut)

    def clear(self) -> None:
        """Forget everything: the replica starts anew."""
        self._ours.clear()
        self._theirs.clear()

    def _compare(self, cut: int) -> None:
        if cut in self._ours and cut in self._theirs:
            (digests, design, base), witness = self._ours.pop(cut), self._theirs.pop(cut)
            if (witness.design, witness.base) == (design, base):
                if (witness.model, witness.ledger) == (digests.model, digests.ledger):
                    self.agreed += 1
                else:
                    self._differs(witness, digests)
        for held in (self._ours, self._theirs):
            while len(held) > _KEPT:
                del held[min(held)]

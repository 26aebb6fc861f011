"""A mutant: one broken line of the product, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One defect: `old`, which occurs once in `file`, is replaced by `new`.

    name: what is broken. seen: how a user notices, since a change that nobody can notice is no
    defect. first: the tests that are tried first, which only saves time.
    """

    name: str
    file: str
    old: str
    new: str
    seen: str
    first: tuple[str, ...]

    def mutated(self, text: str) -> str:
        """Return the text of the file with the defect; ValueError unless `old` occurs once."""
        times = text.count(self.old)
        if times != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {times} times, and must once")
        return text.replace(self.old, self.new)

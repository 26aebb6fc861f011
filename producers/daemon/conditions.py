"""What is wrong for a while, in sentences: each is given when it begins, and again when it is back.

holds(name, sentence)    the condition of this name holds; said unless it was said already
passed(name)             it does not hold any more
say(name, sentence)      it holds with this sentence, or does not where there is none
"""

from __future__ import annotations

from collections.abc import Callable

Notice = Callable[[str], None]


class Conditions:
    """The conditions that hold now, each with its sentence; `notice` gets the new ones."""

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._standing: dict[str, str] = {}

    @property
    def sentences(self) -> list[str]:
        """The sentences that stand, oldest first."""
        return list(self._standing.values())

    def holds(self, name: str, sentence: str) -> None:
        """Give the sentence unless it is the one that stands under this name."""
        if self._standing.get(name) != sentence:
            self._standing[name] = sentence
            self._notice(sentence)

    def say(self, name: str, sentence: str) -> None:
        """Let the condition hold with a sentence, or pass where that is empty."""
        if sentence:
            self.holds(name, sentence)
        else:
            self.passed(name)

    def passed(self, *names: str) -> None:
        """Forget these conditions: the next time their sentences are given again."""
        for name in names:
            self._standing.pop(name, None)

"""`murmurec audit campaign --false-devices`: every cheat of the library, and moved residues."""

from __future__ import annotations

from typing import NamedTuple

from research.audits.false_devices import cheats, honest, random_cheats, refused
from stream_app.campaigns.together import size as size_over
from stream_app.campaigns.verified.layout import MAX_BOUND
from stream_app.campaigns.verified.norm_proof import Statement
from stream_app.cli.output import Advance, print_json, say, table
from stream_app.errors import UsageError
from stream_app.privacy.randomness import SystemSource

_MOST_ITEMS, _MOST = 200, 1_000_000


class Options(NamedTuple):
    """The options of the command; `runs`: random cheats, and honest proofs."""

    items: int
    runs: int


class Shown(NamedTuple):
    """How often each strategy was refused, of how many; `wrong`: honest proofs that were refused,
    of `runs`."""

    size: int
    refused: dict[str, tuple[int, int]]
    wrong: int
    runs: int

    @property
    def passed(self) -> list[str]:
        """The strategies that were counted at least once."""
        return [name for name, (count, tries) in self.refused.items() if count < tries]

    def show(self, *, as_json: bool) -> None:
        """Print the table."""
        if as_json:
            print_json(self._asdict(), indent=1)
            return
        rows = [(name, f"{count:,} of {tries:,}") for name, (count, tries) in self.refused.items()]
        table(("a false device sends", "refused"), rows, title=f"{self.size:,} integers")
        say(
            f"{self.wrong} of {self.runs:,} honest proofs were refused. Both parties keep to the "
            "protocol here; one that lies can count or drop what it likes"
        )


def measured(options: Options, progress: Advance) -> Shown:
    """Return how often the parties refuse; UsageError for options outside their ranges."""
    items, runs = options
    if not 2 <= items <= _MOST_ITEMS:
        raise UsageError(f"--items {items}: give 2 to {_MOST_ITEMS}")
    if not 1 <= runs <= _MOST:
        raise UsageError(f"--runs {runs}: give 1 to {_MOST:,}")
    source, every = SystemSource(), cheats()
    statement = Statement(b"audit", size_over(items), MAX_BOUND)
    total, done = len(every) + 2 * runs, 0

    def counted(judged: bool) -> bool:
        nonlocal done
        done += 1
        progress(done, total)
        return judged

    found = {
        name: (int(counted(refused(statement, cheat(statement, source)))), 1)
        for name, cheat in every.items()
    }
    moved = sum(
        counted(refused(statement, each)) for each in random_cheats(statement, source, runs)
    )
    found["one residue moved anywhere"] = moved, runs
    wrong = sum(counted(refused(statement, honest(statement, source))) for _ in range(runs))
    return Shown(statement.size, found, wrong, runs)

"""Break the product line by line, room by room, and count what the tests notice.

    python -m tests.mutants                                    300 mutants, about an hour
    python -m tests.mutants --rooms stream_app/wire --count 40
    python -m tests.mutants --seed 2 --processes 4 --output build/before.md

A room is a package below `stream_app`, `producers` or `consumers`, or the modules of such a folder;
each gets the same number of mutants, drawn by the seed. A mutant is tried with the fast tests that
import its module, or a module that imports it, or that lie in its folder of `tests`; time-outs
count as noticed. Nothing of this tree is changed: each process has a copy.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.mutants.changes import Change, changes
from tests.mutants.tree import ROOT, Tree, copy
from tests.run import adopt_orphans
from tests.test_structure import imports, modules

TOPS = ("stream_app", "producers", "consumers", "murmurec")
OTHER_TIERS = ("benchmarks", "chaos", "simulation", "mutants", "web", "page")
MOST_FILES = 12


@dataclass(frozen=True)
class Mutant:
    """A change of a file of a room, and the files of tests that may notice it."""

    room: str
    file: str
    change: Change
    tests: tuple[str, ...]

    def __str__(self) -> str:
        new = " ".join(self.change.new.decode().split())[:60]
        return f"{self.file}:{self.change.line} {self.change.kind} `{new}`"


def rooms(root: Path) -> dict[str, list[Path]]:
    """Return the modules of every room."""
    found: dict[str, list[Path]] = {}
    for top in TOPS:
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).parts
            found.setdefault("/".join(parts[: 2 if len(parts) > 2 else 1]), []).append(path)
    return found


def tests_of(root: Path) -> dict[str, tuple[str, ...]]:
    """Return, for every module of the product, the files of tests to try, the nearest first."""
    arrows = imports(modules(root, (*TOPS, "tests")))
    importers: dict[str, set[str]] = {}
    for module, names in arrows.items():
        for name in names:
            importers.setdefault(name, set()).add(module)
    found = {}
    for path in (path for paths in rooms(root).values() for path in paths):
        file = path.relative_to(root)
        module = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        near = importers.get(module, set())
        far = set[str]().union(*(importers.get(each, ()) for each in near))
        folders = (root / "tests" / folder for folder in file.parents)
        beside = next(filter(None, (list(folder.glob("test_*.py")) for folder in folders)), [])
        ranks = {f"{name.replace('.', '/')}.py": 1 for name in far if ".test_" in name}
        ranks |= {t.relative_to(root).as_posix(): path.stem not in t.stem for t in beside}
        ranks |= {f"{name.replace('.', '/')}.py": 0 for name in near if ".test_" in name}
        sizes = {test: (root / test).stat().st_size for test in ranks}
        fit = [test for test in ranks if test.split("/")[1] not in OTHER_TIERS]
        order = sorted(fit, key=lambda test: (ranks[test], "/kafka/" in test, sizes[test], test))
        found[file.as_posix()] = tuple(order[:MOST_FILES])
    return found


def chosen(root: Path, wanted: Iterable[str], count: int, seed: int) -> Iterator[Mutant]:
    """Yield `count` mutants, of all wanted rooms equally many; a kind is drawn, then a place."""
    all_rooms, tests = rooms(root), tests_of(root)
    names = list(wanted) or list(all_rooms)
    for number, room in enumerate(names):
        draw = random.Random(f"{seed}:{room}")
        kinds: dict[str, list[tuple[str, Change]]] = {}
        for path in all_rooms[room]:
            for change in changes(path.read_bytes()):
                kinds.setdefault(change.kind, []).append(
                    (path.relative_to(root).as_posix(), change)
                )
        left = count * (number + 1) // len(names) - count * number // len(names)
        while left and (kinds := {kind: places for kind, places in kinds.items() if places}):
            places = kinds[draw.choice(list(kinds))]
            file, change = places.pop(draw.randrange(len(places)))
            if change.differs((root / file).read_bytes()):
                left -= 1
                yield Mutant(room, file, change, tests[file])


def table(results: Iterable[tuple[Mutant, str]]) -> str:
    """Return what was noticed by room, and below it what was not."""
    counts: dict[str, list[int]] = {}
    unnoticed = []
    for mutant, by in results:
        for name in (mutant.room, "all"):
            row = counts.setdefault(name, [0, 0, 0])
            row[:] = row[0] + 1, row[1] + bool(by), row[2] + (by == "late")
        if not by:
            unnoticed.append(f"- {mutant}")
    ordered = sorted(counts, key=lambda name: (name == "all", name))
    rows = [
        f"| {name} | {n} | {noticed} | {late} | {noticed / n:.0%} |"
        for name in ordered
        for n, noticed, late in [counts[name]]
    ]
    head = ["| room | mutants | noticed | of these, late | share |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, "", "Not noticed:", "", *sorted(unnoticed), ""])


_trees: list[Tree] = []


def _judged(folder: str, seconds: float, mutant: Mutant) -> str:
    """Return what notices a mutant in the copy of this process, which is made for the first."""
    if not _trees:
        adopt_orphans()
        own = Path(tempfile.mkdtemp(dir=folder))
        copy(own)
        tree = Tree(own, seconds)
        tree.check()
        _trees.append(tree)
    by = _trees[0].noticed(mutant.file, mutant.change, list(mutant.tests))
    print(f"{mutant}  [{by or 'not noticed'}]", flush=True)
    return by


def main() -> int:
    """Run the chosen mutants, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rooms", nargs="*", default=(), choices=list(rooms(ROOT)), metavar="ROOM")
    parser.add_argument("--count", type=int, default=300, help="of all rooms together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="of one mutant")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "mutants.md")
    options = parser.parse_args()
    mutants = list(chosen(ROOT, options.rooms, options.count, options.seed))
    # The end of the pool is this signal, too: a process ends with its run and with what that left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    random.Random(options.seed).shuffle(mutants)  # a part of a run is of all rooms
    with (
        tempfile.TemporaryDirectory(prefix="murmurec-mutants-") as folder,
        multiprocessing.get_context("fork").Pool(options.processes) as pool,
    ):
        judged = partial(_judged, folder, options.seconds)
        results = list(zip(mutants, pool.imap(judged, mutants), strict=True))
    text = table(results)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

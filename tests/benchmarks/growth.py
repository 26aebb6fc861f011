"""What a rating and a query cost as users and items become many, with the memory beside it.

    python -m tests.benchmarks.growth [--users N ...] [--items N ...] [--rounds N] [--ratings N]

    sketch, fixed     16 MiB of vectors and 1 MiB of biases, however many there are
    sketch, gamma 1   as many cells as users and items have components; it grows with them
    hybrid            the fixed sizes; rows of an entity's own while they last
    dense             a row for each

At each size every user and every item has been rated once before the clock starts. Then come
ratings by users of rank n u^2 (u uniform: the first quarter of them gives half of the ratings), of
items of rank (n + 1)^u (Zipf with exponent 1), hashed to keys. A query reads the vector of such a
user from the growing sketch and searches the serving index.

    touched   bytes of the rows that one round reads and writes: what caches must hold
    tracked   bytes of the learner's arrays
    resident  what the process grew by as the learner was made and filled
    read      ns of a read of a row of 128 bytes that waits for the one before, by bytes and size of
              pages: what a level of the caches costs, and, between the two sizes, the TLB

A learner bends at the least memory from which on it costs BEND times what it does at its smallest.
"""

from __future__ import annotations

import argparse
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numba import njit
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.retrieval.auto_index import build as build_index
from stream_app.models.retrieval.index import StoredIndex
from stream_app.privacy.ratings.identity import Identity
from tests.benchmarks.contest import Contender, contest
from tests.benchmarks.figure import Figure, shown
from tests.benchmarks.items import resident
from tests.benchmarks.retrieval import catalogue, everything

FACTORS, DEPTH, BATCH, BEND = 32, 4, 65_536, 1.5
ROW_BYTES, SCALARS_BYTES = 4 * FACTORS, 16
FIXED = LearnerSpec(FACTORS, DEPTH, sketch_bytes=1 << 24, scalars_bytes=1 << 20, seed=1)
GROWING = "sketch, gamma 1"
MODELS = {"sketch, fixed": "sketch", GROWING: "sketch", "hybrid": "hybrid", "dense": "dense"}
COUNTS = 10, 100
PROBED = tuple(1 << bits for bits in (18, 20, 22, 24, 26, 28, 30))
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True)
class Sizes:
    """What is measured: numbers of users and of items, rounds, ratings and queries in a round."""

    users: Sequence[int] = (10_000, 100_000, 1_000_000, 10_000_000)
    items: Sequence[int] = (1_000, 100_000, 1_000_000)
    rounds: int = 5
    ratings: int = 200_000
    queries: int = 50
    probed: Sequence[int] = PROBED

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("ratings", 1), ("queries", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)}: use {least} or more")
        if min((*self.users, *self.items)) < 1:
            raise ValueError(f"{min((*self.users, *self.items))} users or items: use 1 or more")


@dataclass(frozen=True)
class Cost:
    """What one learner took at one size: nanoseconds of CPU time a rating, and bytes."""

    learner: str
    users: int
    items: int
    nanoseconds: float
    ratings: int  # learned in all, those that filled it and the unmeasured round included
    touched: int
    tracked: int
    resident: int


@dataclass
class Growth:
    """All that was measured: costs; microseconds of a query by users, items and count; bytes of
    indexes by items; nanoseconds of a read by bytes, in pages of 4 KiB and in huge ones."""

    costs: list[Cost] = field(default_factory=list)
    queries: dict[tuple[int, int, int], float] = field(default_factory=dict)
    indexes: dict[int, int] = field(default_factory=dict)
    reads: dict[int, tuple[float, float]] = field(default_factory=dict)


def measure() -> list[Figure]:
    """Return every figure of the default sizes; about five minutes."""
    return figures(grow(Sizes()))


def grow(sizes: Sizes, tick: Callable[[str], object] = lambda _: None) -> Growth:
    """Measure all sizes; `tick` gets what comes next, once for each of `steps`."""
    found = Growth()
    tick("reads of memory")
    for size in sizes.probed:
        found.reads[size] = read_nanoseconds(size, huge=False), read_nanoseconds(size, huge=True)
    for items in sizes.items:
        tick(f"index of {items:,} items")
        vectors, biases, wanted = catalogue(items)
        index = build_index("auto", FACTORS)
        index.update(np.arange(items), vectors, biases)
        found.indexes[items] = index.memory_bytes
        for users in sizes.users:
            tick(f"{users:,} users, {items:,} items")
            learner = _learned(found, sizes, users, items)
            _queried(found, sizes, users, items, learner, index, wanted)
    return found


def steps(sizes: Sizes) -> int:
    """Return how often `grow` ticks."""
    return 1 + len(sizes.items) * (1 + len(sizes.users))


def spec_of(name: str, users: int, items: int) -> LearnerSpec:
    """Return the sizes of a learner by its name in MODELS."""
    if name != GROWING:
        return FIXED
    # The least that a sketch accepts: one vector a row, and one bucket of four biases.
    entities = max(users + items, DEPTH)
    return replace(FIXED, sketch_bytes=ROW_BYTES * entities, scalars_bytes=SCALARS_BYTES * entities)


def _learned(found: Growth, sizes: Sizes, users: int, items: int) -> Learner:
    """Add the costs of all learners at a size; return the sketch that grows."""
    learners: dict[str, Learner] = {}
    grew: dict[str, int] = {}
    channels = Channels.from_mechanisms([Identity(5)])
    for name, model in MODELS.items():
        before = resident()
        learners[name] = build(model, channels, spec_of(name, users, items))
        for part in _everyone(users, items):
            _learn(learners[name], *part)
        grew[name] = resident() - before
    seconds = contest(
        [
            Contender(
                name,
                lambda part, learner=learner: _learn(learner, *part),  # type: ignore[misc]
                sizes.ratings,
                _rounds(sizes.ratings, users, items),
            )
            for name, learner in learners.items()
        ],
        sizes.rounds,
    )
    ratings = max(users, items) + (sizes.rounds + 1) * sizes.ratings
    distinct = sum(len(np.unique(keys)) for keys in drawn(0, sizes.ratings, users, items))
    for name, learner in learners.items():
        rows = DEPTH if MODELS[name] == "sketch" else 1
        vectors = sum(a.nbytes for n, a in learner.arrays().items() if a.dtype == np.float32)
        touched = min(distinct * ROW_BYTES * rows, vectors)
        found.costs.append(
            Cost(
                name, users, items, 1e9 * seconds[name].median, ratings, touched,
                learner.memory_bytes, grew[name],
            )
        )  # fmt: skip
    return learners[GROWING]


def _learn(learner: Learner, users: np.ndarray, items: np.ndarray) -> None:
    for first in range(0, len(users), BATCH):
        part = slice(first, first + BATCH)
        levels = (items[part] >> np.uint64(7)) % np.uint64(5)
        size = len(levels)
        learner.learn_many(
            users[part], items[part], levels.astype(np.uint8),
            np.zeros(size, np.uint16), np.ones(size, np.bool_),
        )  # fmt: skip


def _rounds(ratings: int, users: int, items: int) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """Return what draws the ratings of the next round at each call: a contender's own."""
    numbers = iter(range(1 << 30))
    return lambda: drawn(next(numbers), ratings, users, items)


def drawn(number: int, ratings: int, users: int, items: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys of users and items of a round of ratings."""
    rng = np.random.default_rng((number, users, items))
    people = users * rng.random(ratings) ** 2
    things = np.exp(rng.random(ratings) * np.log(items + 1)) - 1
    return (
        keys_of(np.minimum(people.astype(np.int64), users - 1), 1),
        keys_of(np.minimum(things.astype(np.int64), items - 1), 2),
    )


def keys_of(ranks: np.ndarray, side: int) -> np.ndarray:
    """Return the keys of users (side 1) or items (2): a bijection, so none is another's."""
    with np.errstate(over="ignore"):
        x = ranks.astype(np.uint64) * np.uint64(2) + np.uint64(side) * _GOLDEN
        x = (x ^ (x >> np.uint64(30))) * _M1
        x = (x ^ (x >> np.uint64(27))) * _M2
        return x ^ (x >> np.uint64(31))


def _everyone(users: int, items: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield keys of ratings in which every user and every item occurs, in no order of ranks."""
    # 1,000,003 is prime: i -> 1,000,003 i is a permutation of 0 .. n-1 for other n than multiples.
    for first in range(0, max(users, items), BATCH):
        i = np.arange(first, min(first + BATCH, max(users, items)))
        yield keys_of(i * 1_000_003 % users, 1), keys_of(i * 1_000_003 % items, 2)


def _queried(
    found: Growth,
    sizes: Sizes,
    users: int,
    items: int,
    learner: Learner,
    index: StoredIndex,
    wanted: np.ndarray,
) -> None:
    """Add microseconds of a query of each count."""
    keys, _ = drawn(0, sizes.queries, users, items)

    def queries(count: int) -> Callable[[object], None]:
        def run(_: object) -> None:
            for n in range(sizes.queries):
                learner.users(keys[n : n + 1])
                # Learned vectors are close to zero after so few ratings: those of the catalogue.
                index.search(wanted[n % len(wanted)], count, everything)

        return run

    names = {f"top {count}": count for count in COUNTS}
    contenders = [Contender(name, queries(c), sizes.queries) for name, c in names.items()]
    for name, seconds in contest(contenders, sizes.rounds).items():
        found.queries[users, items, names[name]] = 1e6 * seconds.median


@njit(cache=True)
def _follow(after, steps):
    at = np.int64(0)
    for _ in range(steps):
        at = after[at]
    return at


def read_nanoseconds(size: int, *, huge: bool, reads: int = 200_000) -> float:
    """Return nanoseconds of one dependent read of a random row of ROW_BYTES among `size` bytes."""
    memory = mmap.mmap(-1, size)
    advice = getattr(mmap, "MADV_HUGEPAGE" if huge else "MADV_NOHUGEPAGE", None)
    if advice is not None:
        memory.madvise(advice)
    after = np.frombuffer(memory, np.int64)
    words = ROW_BYTES // 8
    order = np.random.default_rng(1).permutation(size // ROW_BYTES) * words
    after[order] = np.roll(order, -1)
    run = Contender("read", lambda _: _follow(after, reads), reads)
    return 1e9 * contest([run], 3)["read"].median


def caches() -> dict[str, int]:
    """Return the bytes of the second and third level of the first processor; empty if unknown."""
    found: dict[str, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, size = ((folder / name).read_text().strip() for name in ("level", "size"))
        if level in "23":
            found[f"L{level}"] = int(size.removesuffix("K")) << 10
    return found


def level_of(size: int, known: dict[str, int]) -> str:
    """Return the smallest level that holds so many bytes."""
    return next((name for name, most in known.items() if size <= most), "DRAM") if known else "?"


def bend(costs: Sequence[Cost]) -> Cost | None:
    """Return the cost from which on all are BEND times that of the least memory touched."""
    ordered = sorted(costs, key=lambda cost: (cost.touched, cost.tracked))
    bent: Cost | None = None
    for cost in reversed(ordered):
        if cost.nanoseconds < BEND * ordered[0].nanoseconds:
            break
        bent = cost
    return bent


def figures(found: Growth) -> list[Figure]:
    """Return costs, memory and bends."""
    lines, known = [], caches()
    for cost in found.costs:
        name = f"growth {cost.learner}, {cost.users:,} users x {cost.items:,} items"
        lines.append(Figure(name, cost.nanoseconds, "ns/rating"))
        lines.append(Figure(f"{name}, tracked", cost.tracked / 1e6, "MB"))
        lines.append(Figure(f"{name}, resident", cost.resident / 1e6, "MB"))
    for (users, items, count), us in found.queries.items():
        lines.append(Figure(f"growth top {count}, {users:,} users x {items:,} items", us, "us"))
    lines += [Figure(f"index of {n:,} items", b / 1e6, "MB") for n, b in found.indexes.items()]
    for size, (small, huge) in found.reads.items():
        where = f"read among {size / 2**20:g} MiB ({level_of(size, known)})"
        lines.append(Figure(f"{where}, 4 KiB pages", small, "ns"))
        lines.append(Figure(f"{where}, huge pages", huge, "ns"))
    for learner in MODELS:
        costs = [cost for cost in found.costs if cost.learner == learner]
        bent, name = bend(costs), f"growth {learner}, bends where a round touches"
        if bent is None:
            lines.append(Figure(f"{name} (it does not)", float("nan"), "MB"))
        else:
            where = level_of(bent.touched, known)
            lines.append(Figure(f"{name} ({where})", bent.touched / 1e6, "MB"))
    return lines


def tables(found: Growth) -> list[Table]:
    """Return the costs of ratings, of queries and of reads, side by side with bytes."""
    known = caches()
    learn = Table(
        "learner", "users", "items", "ns", "touched", "in", "tracked", "resident",
        title="a rating; MB",
    )  # fmt: skip
    for learner in MODELS:
        learn.add_section()
        for cost in (cost for cost in found.costs if cost.learner == learner):
            sizes = (shown(n / 1e6) for n in (cost.touched, cost.tracked, cost.resident))
            touched, tracked, grew = sizes
            level = level_of(cost.touched, known)
            learn.add_row(learner, f"{cost.users:,}", f"{cost.items:,}", shown(cost.nanoseconds),
                          touched, level, tracked, grew)  # fmt: skip
    query = Table("items", "users", *(f"top {c}" for c in COUNTS), "index MB", title="a query; us")
    for users, items in dict.fromkeys((users, items) for users, items, _ in found.queries):
        times = (shown(found.queries[users, items, count]) for count in COUNTS)
        index = shown(found.indexes[items] / 1e6)
        query.add_row(f"{items:,}", f"{users:,}", *times, index)
    read = Table("MiB", "in", "4 KiB pages, ns", "huge pages, ns", title="a read that waits")
    for size, pair in found.reads.items():
        read.add_row(f"{size / 2**20:g}", level_of(size, known), *map(shown, pair))
    return [learn, query, read]


def main(words: list[str] | None = None) -> int:
    """Measure the sizes given and print tables and bends; 2 where a size is unusable."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    given = Sizes()
    for name in ("users", "items"):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=getattr(given, name))
    for name in ("rounds", "ratings", "queries"):
        parser.add_argument(f"--{name}", type=int, default=getattr(given, name))
    try:
        sizes = Sizes(**vars(parser.parse_args(words)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    console = Console()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=steps(sizes))

        def tick(what: str) -> None:
            progress.update(task, description=what, advance=1)

        found = grow(sizes, tick)
    for table in tables(found):
        console.print(table)
    for figure in figures(found):
        if "bends" in figure.name:
            console.print(f"{figure.name}: {shown(figure.value)} {figure.unit}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

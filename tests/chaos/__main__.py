"""Kill workers by the hundred (`make chaos`) and print what was found.

    python -m tests.chaos [--kills 200] [--workers 1|2] [--seed S]
    python -m tests.chaos --shards 2 [--kills 60]

Exits 1 where a state was wrong or a worker did not come back.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stream_app.broker.resolve import running
from stream_app.kafka.clients import Connection
from tests.chaos.deployment import Setup
from tests.chaos.driver import run
from tests.chaos.figures import Figures
from tests.chaos.shards import run as run_shards
from tests.conftest import cache_dir

# Of a hundred kills so many in each deployment: without a name in the group a restart waits for the
# session of the dead one, six seconds.
_SHARES = (
    (Setup(1, static=True), 45),
    (Setup(2, static=True, hurried_compaction=True), 35),
    (Setup(1, static=False, hurried_compaction=True), 10),
    (Setup(2, static=False), 10),
)


def main() -> int:
    """Run every deployment of the plan and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many workers are killed")
    parser.add_argument("--workers", type=int, choices=(1, 2), help="default: both deployments")
    parser.add_argument("--shards", type=int, default=1, help="a worker for each of so many")
    parser.add_argument("--seed", type=int, help="repeats the plan of an earlier run")
    arguments = parser.parse_args()
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    console = Console(stderr=True)
    console.print(f"seed {seed}")
    figures = Figures()
    try:
        _kill(arguments, seed, console, figures)
    finally:
        print("\n".join([f"seed {seed}", *figures.lines()]))
    return 1 if figures.wrong else 0


def _kill(arguments: argparse.Namespace, seed: int, console: Console, total: Figures) -> None:
    """Carry out the plan, deployment by deployment, and add to `total` what each has found."""
    kills, shards, workers = arguments.kills, arguments.shards, arguments.workers
    shares = [(s, n) for s, n in _SHARES if workers in (None, s.workers)]
    columns = TextColumn("{task.description:60}"), BarColumn(), MofNCompleteColumn()
    folder = Path(tempfile.mkdtemp(prefix="murmurec-chaos-"))
    configured = os.environ.get("MURMUREC_BOOTSTRAP_SERVERS")
    with (
        running(
            None, cache_dir(), configured=Connection(configured) if configured else None
        ) as broker,
        Progress(*columns, TimeElapsedColumn(), console=console) as bar,
    ):
        task = bar.add_task("starting", total=kills)
        if shards > 1:

            def struck(text: str, done: int) -> None:
                bar.update(task, description=text, completed=done)

            total.add(run_shards(shards, seed, kills, broker.bootstrap, folder, struck))
            return
        for number, (setup, share) in enumerate(shares):
            wanted = -(-kills * share // sum(n for _, n in shares))
            place = folder / str(number)
            place.mkdir()

            def report(text: str, dead: int, before: int = total.kills) -> None:
                bar.update(task, description=text, completed=before + dead)

            total.add(run(setup, seed + number, wanted, broker.bootstrap, place, report))


if __name__ == "__main__":
    sys.exit(main())

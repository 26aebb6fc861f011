"""`murmurec state shards`: divide the state of a deployment by device."""

from __future__ import annotations

from dataclasses import asdict

from stream_app.cli.commands import option
from stream_app.cli.options import JsonOption, WorkerSettings
from stream_app.cli.output import print_json, progress, say


def shards(
    workers: WorkerSettings,
    to: int = option(..., "How many shards; a divisor of partitions.", "S", "--to", min=2),
    as_json: JsonOption = False,
) -> None:
    """Divide the state by device into shards, each with workers of its own; stop all workers
    before.

    Nothing is replayed: each shard begins with its share of the newest state. The filter of seen
    items cannot be divided, and each shard has all of it.

    Example: murmurec state shards --to 4
    """
    from stream_app.operations.shards import divide

    found = divide(workers.settings(), to, progress)
    if as_json:
        print_json(asdict(found) | {"snapshot": str(found.snapshot)})
        return
    say(f"the state of cut {found.cut} is divided into {to} shards in {found.seconds:.1f} s")
    say(
        f"set shards = {to} and query_partitions = {found.query_partitions} everywhere, then start "
        "workers"
    )
    say(f"keep {found.snapshot}: murmurec state verify --snapshot begins with it")
    topics = "|".join(found.former)
    say(f"no longer used: kafka-topics.sh --delete --topic '{topics}'")

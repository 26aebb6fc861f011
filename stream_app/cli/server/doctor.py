"""`murmurec doctor`: what is wrong with a deployment, and how each fault is fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from stream_app.cli.commands import option
from stream_app.cli.options import Cluster, JsonOption, connection_from
from stream_app.cli.output import plural, print_json, say, status, table

if TYPE_CHECKING:
    from stream_app.operations.watching.members import Finding


def doctor(
    cluster: Cluster,
    worker: list[str] | None = option(None, "Ask a running worker; repeatable.", "URL"),
    gateway: list[str] | None = option(None, "Ask a running gateway; repeatable.", "URL"),
    as_json: JsonOption = False,
) -> None:
    """Look for faults of a deployment: broker, rights, topics, cut log, devices and workers.

    Run it with an operator's user and the workers' settings. Each fault comes with its fix, and
    the exit code is then 1. Nothing is changed.

    Example: murmurec doctor --worker http://127.0.0.1:8470
    """
    from stream_app.agents.warmup import is_cached
    from stream_app.operations.watching.examination import examine

    settings = cluster.settings()
    with status("looking at broker, topics and workers"):
        asked = tuple(worker or ()), tuple(gateway or ())
        found = list(examine(settings, connection_from(settings), *asked, cached=is_cached()))
    if as_json:
        print_json([each._asdict() for each in found], indent=2)
    else:
        _print(found)
    if not all(each.well for each in found):
        raise typer.Exit(1)


def _print(found: list[Finding]) -> None:
    """Print a row for each part, then how many have a fault."""
    marks = ["ok" if each.well else "FAULT" for each in found]
    table(
        ["", "part", "found"],
        [[mark, each.part, each.sentence] for mark, each in zip(marks, found, strict=True)],
    )
    say(f"{plural(marks.count('FAULT'), 'fault')} in {plural(len(found), 'part')}")

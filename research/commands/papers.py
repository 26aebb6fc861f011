"""`murmurec papers`: what is implemented of each paper, where, and which claim fails."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from stream_app.cli.output import print_json, table


def papers(
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a table.")
    ] = False,
) -> None:
    """List what is implemented of each paper, where, and which claim fails.

    Example: murmurec papers
    """
    from research.papers.systems import PAPERS

    if json_output:
        print_json([asdict(paper) for paper in PAPERS], indent=1)
        return
    table(
        ["paper", "system", "state", "claim that fails", "module"],
        [
            [f"{paper.key} {paper.authors}", system.name, system.state, system.fails or "-",
             system.module]
            for paper in PAPERS
            for system in paper.systems
        ],
    )  # fmt: skip

"""How the results of operations on a state are printed, and how their progress is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import typer

from stream_app.operations.inventory import Inventory
from stream_app.operations.verify import Findings


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr that takes (done, total) and disappears when it is done."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(label, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def show_values(values: dict[str, Any], as_json: bool) -> None:
    """Print names and values."""
    if as_json:
        typer.echo(json.dumps(values))
        return
    width = max(len(name) for name in values)
    for name, value in values.items():
        typer.echo(f"{name:{width}}  {f'{value:.2f}' if isinstance(value, float) else value}")


def show_findings(findings: Findings, as_json: bool) -> None:
    """Print the findings of `verify`."""
    if as_json:
        values = asdict(findings)
        typer.echo(json.dumps({"cut": values.pop("cut"), "base": values.pop("origin"), **values}))
        return
    typer.echo(f"cut            {findings.cut}")
    typer.echo(f"model_digest   {findings.model_digest}")
    typer.echo(f"ledger_digest  {findings.ledger_digest}")
    for label, rows in (
        ("compared", findings.compared),
        ("not compared", findings.missing),
        ("DIFFERS", findings.differences),
    ):
        for row in rows:
            typer.echo(f"{label}: {row}")
    if findings.differences:
        typer.echo("differs from the log")
    elif any("with the log" in row for row in findings.compared):
        typer.echo("nothing differs")
    else:
        typer.echo("nothing differs in what was compared; THE LOG WAS NOT COMPARED")


def show_inventory(found: Inventory, as_json: bool) -> None:
    """Print the generations of the state topic."""
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    typer.echo(
        f"{found.records:,} records ({found.record_bytes / 2**20:.1f} MiB), newest of each key: "
        f"{found.live:,} ({found.live_bytes / 2**20:.1f} MiB); "
        f"foreign {found.foreign}, damaged {found.damaged}"
    )
    for generation in found.generations:
        typer.echo(
            f"generation {generation.generation}: {generation.pages:,} pages, "
            f"{generation.bytes / 2**20:.1f} MiB, "
            f"written by {generation.worker or 'a worker whose claim is gone'}"
        )
        for checkpoint in generation.checkpoints:
            typer.echo(
                f"  checkpoint {checkpoint['number']} at cut {checkpoint['cut']}, positions "
                f"{checkpoint['positions']}, model {checkpoint['model_digest']}"
            )
    if not found.generations:
        typer.echo("no checkpoint yet")

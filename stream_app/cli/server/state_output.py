"""The results of operations on a state, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stream_app.cli.output import plural, print_json, say, table
from stream_app.operations.inventory import Inventory
from stream_app.operations.verify import Findings


def show_values(values: dict[str, Any], as_json: bool) -> None:
    """Print names and values."""
    if as_json:
        print_json(values)
        return
    rows = [(k, f"{v:.2f}" if isinstance(v, float) else str(v)) for k, v in values.items()]
    table(("", ""), rows)


def _say_shard(label: dict[str, int]) -> None:
    for shard in label.values():
        say(f"shard {shard}:")


def show_findings(findings: Findings, as_json: bool, label: dict[str, int]) -> None:
    """Print the findings of `verify`, of the shard of a `label` (`Session.label`)."""
    if as_json:
        values = asdict(findings)
        print_json({**label, "cut": values.pop("cut"), "base": values.pop("origin"), **values})
        return
    _say_shard(label)
    say(f"cut            {findings.cut}")
    say(f"model_digest   {findings.model_digest}")
    say(f"ledger_digest  {findings.ledger_digest}")
    for heading, rows in (
        ("compared", findings.compared),
        ("not compared", findings.missing),
        ("DIFFERS", findings.differences),
    ):
        for row in rows:
            say(f"{heading}: {row}")
    if findings.differences:
        say("differs from the log")
    elif any("with the log" in row for row in findings.compared):
        say("nothing differs")
    else:
        say("nothing differs in what was compared; THE LOG WAS NOT COMPARED")


def show_inventory(found: Inventory, as_json: bool, label: dict[str, int]) -> None:
    """Print the generations of a state topic."""
    if as_json:
        print_json(label | asdict(found))
        return
    _say_shard(label)
    say(
        f"{plural(found.records, 'record')} ({found.record_bytes / 2**20:.1f} MiB), "
        f"newest of each key: {found.live:,} ({found.live_bytes / 2**20:.1f} MiB); "
        f"foreign {found.foreign}, damaged {found.damaged}"
    )
    for generation in found.generations:
        say(
            f"generation {generation.generation}: {plural(generation.pages, 'page')}, "
            f"{generation.bytes / 2**20:.1f} MiB, "
            f"written by {generation.worker or 'a worker whose claim was removed'}"
        )
        for checkpoint in generation.checkpoints:
            say(
                f"  checkpoint {checkpoint['number']} at cut {checkpoint['cut']}, positions "
                f"{checkpoint['positions']}, model {checkpoint['model_digest']}"
            )
    if not found.generations:
        say("no checkpoint yet")

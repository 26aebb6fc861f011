"""`murmurec config`: show the settings, with secrets masked; compare them with the design in force
on a deployment, and put them into force."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stream_app.cli.commands import Commands, option
from stream_app.cli.options import Cluster, JsonOption
from stream_app.cli.output import print_json, progress, say, table
from stream_app.errors import UsageError
from stream_app.settings import place

if TYPE_CHECKING:
    from stream_app.operations.redesign import Plan

app = Commands(help="Show the settings; put changed ones into force. Example: murmurec config plan")


@app.command()
def show(cluster: Cluster, as_json: JsonOption = False) -> None:
    """Show the effective settings by the tables of the file; flags override environment, file and
    defaults.

    Example: murmurec config show --json
    """
    settings = cluster.settings()
    shown = settings.shown()
    if as_json:
        tables: dict[str, dict[str, Any]] = {}
        for name, value in shown.items():
            group, key = place(name)
            tables.setdefault(group, {})[key] = value
        print_json(tables, indent=2)
        return
    fields = type(settings).model_fields
    rows = [
        (
            "[{}] {}".format(*place(name)),
            value if isinstance(value, str) else json.dumps(value),
            fields[name].description or "",
        )
        for name, value in shown.items()
    ]
    table(("setting", "value", "meaning"), rows)


@app.command()
def plan(cluster: Cluster, as_json: JsonOption = False) -> None:
    """Show what putting these settings into force changes on the running deployment; changes
    nothing.

    Example: murmurec config plan
    """
    from stream_app.operations import redesign

    for planned in redesign.plans(cluster.settings()):
        if not as_json:
            _show(planned)
            continue
        rows = [
            {"setting": c.setting, "in_force": c.before, "planned": c.after, "way": str(c.way)}
            for c in planned.changes
        ]
        memory = {"memory_bytes": planned.memory, "memory_bytes_after": planned.memory_after}
        shown = planned.label | {"changes": rows, "next_cut": planned.next_cut, **memory}
        print_json(shown, indent=2)


@app.command()
def apply(
    cluster: Cluster,
    rebuild: str = option(
        "",
        "For changes that need a second state, computed while workers serve: beside: from "
        "the log; checkpoint: from the newest one, where the log does not reach back.",
        "beside|checkpoint",
    ),
) -> None:
    """Put these settings into force on the running deployment, from a cut on; no worker stops.

    Example: murmurec config apply
    """
    from stream_app.operations import redesign

    if rebuild and rebuild not in redesign.REBUILDS:
        raise UsageError(f"--rebuild {rebuild}: use {' or '.join(redesign.REBUILDS)}")
    planned = redesign.plans(cluster.settings())
    for each in planned:
        _show(each)
    if not any(each.changes for each in planned):
        return
    redesign.apply_all(planned, rebuild, progress)
    say("in force from the next cut on; give devices and gateways the same mechanisms")


def _show(planned: Plan) -> None:
    for shard in planned.label.values():
        say(f"shard {shard}:")
    if not planned.changes:
        say("nothing differs from the design in force")
        return
    rows = [(c.setting, c.before, c.after, f"{c.way}: {c.reason}" if c.reason else str(c.way))
            for c in planned.changes]  # fmt: skip
    table(("setting", "in force", "planned", "change"), rows)
    mib = [round(each / 2**20, 1) for each in (planned.memory, planned.memory_after)]
    say(f"from cut {planned.next_cut} at the earliest; fixed memory {mib[0]} -> {mib[1]} MiB")
    if planned.beside:
        say("beside: while a worker loads the second state, it holds both")
    if planned.raises_contract:
        say("workers of a release without designs in the log end at that cut: update them first")

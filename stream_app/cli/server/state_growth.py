"""`murmurec state contract` and `murmurec state migrate`: newer event formats, newer states."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.options import (
    AllowOption,
    Cluster,
    ConfigOption,
    JsonOption,
    ModelOption,
    PrefixOption,
    settings_from,
    writable,
)
from stream_app.cli.output import progress
from stream_app.errors import UserError


def contract(
    cluster: Cluster,
    version: Annotated[
        int | None,
        typer.Option("--set", metavar="VERSION", min=1, help="Raise it, from the next cut on."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the version of the event format in force, or raise it. It cannot be lowered.

    Install a release that knows the version on every worker before: one that does not ends.
    Version 2 ignores an extension block (field x) in events; version 1 rejects it.

    Example: murmurec state contract --set 2
    """
    import dataclasses

    from stream_app.cli.server.state_output import show_values
    from stream_app.operations.growth.contract import contract_status, set_contract
    from stream_app.operations.session import Session

    session = Session.from_settings(cluster.settings(), display=progress)
    status = set_contract(session, version) if version else contract_status(session)
    show_values(dataclasses.asdict(status), as_json)


def migrate(
    source: Annotated[Path, typer.Argument(metavar="OLD", help="A file of state export.")],
    target: Annotated[Path, typer.Argument(metavar="NEW", help="The file to write (.npz).")],
    config: ConfigOption = None,
    prefix: PrefixOption = None,
    allow: AllowOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a snapshot of the release before, or of other sizes, to the present settings.

    Prints what was carried over, converted or started empty. No broker is needed. While the log
    reaches back, worker --rebuild is exact and better. Start from the new file with worker
    --from-snapshot.

    Example: murmurec state migrate old.npz new.npz
    """
    from stream_app.cli.server.state_output import show_migration
    from stream_app.deployment import spec_from_settings
    from stream_app.operations.growth.migrate import migrate as convert

    settings = settings_from(config, prefix=prefix, allow=allow, model=model)
    if target.exists() and not target.is_dir():
        raise UserError(f"{target}: exists; remove it or give another name")
    show_migration(convert(source, writable(target), spec_from_settings(settings)), as_json)

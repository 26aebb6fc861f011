"""`murmurec state contract` and `murmurec state migrate`: newer event formats, newer states."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    settings_from,
)
from stream_app.cli.output import progress


def contract(
    version: Annotated[
        int | None,
        typer.Option("--set", metavar="VERSION", min=1, help="Raise it, from the next cut on."),
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the version of the event format in force, or raise it. It cannot be lowered.

    Install a release that knows the version on every worker before: one that does not ends.
    Version 2 ignores an extension block (field x) in events; version 1 rejects it.

    Example: murmurec state contract --set 2
    """
    import dataclasses

    from stream_app.cli.server.state_output import show_values
    from stream_app.operations.contract import contract_status, set_contract
    from stream_app.operations.session import Session

    settings = settings_from(config, bootstrap, prefix, kafka)
    session = Session.from_settings(settings, display=progress)
    status = set_contract(session, version) if version else contract_status(session)
    show_values(dataclasses.asdict(status), as_json)

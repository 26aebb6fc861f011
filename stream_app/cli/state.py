"""`murmurec state`: the state of a deployment, recomputed from its topics."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    servers_of,
    settings_from,
)

app = typer.Typer(no_args_is_help=True, help="Recompute the state from the topics.")


@app.callback()
def state() -> None:
    """Recompute the state from the topics."""


@app.command()
def digest(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="The workers' allow-list of mechanisms; repeatable."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The workers' model.")] = None,
    at_cut: Annotated[
        int | None, typer.Option(min=1, help="Stop at this cut; default: the newest.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute the digests from the log; they equal those of every worker's /state at the same
    cut.

    The settings must be the workers' own: their allow-list, model and sizes decide the state.
    """
    from rich.console import Console
    from rich.progress import Progress

    from stream_app.design import design_of
    from stream_app.recompute import recompute
    from stream_app.wire import Topics

    settings = settings_from(
        config,
        bootstrap,
        prefix,
        kafka,
        mechanisms=tuple(allow) if allow else None,
        model=model,
    )
    servers = servers_of(settings)
    from stream_app import clients, topics

    clients.reach(servers, settings.kafka)
    names = Topics(settings.topic_prefix)
    topics.check_deployment(servers, settings.kafka, names, settings.partitions)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replaying the log", total=None)
        replica = recompute(
            servers,
            settings.kafka,
            names,
            design_of(settings),
            at_cut,
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    found = {
        "cut": replica.cut,
        "positions": list(replica.ends),
        "model_digest": replica.model_digest(),
        "ledger_digest": replica.ledger_digest(),
        "design_digest": replica.design.digest,
        "counts": replica.ledger.counts(),
        "rejected": replica.ledger.rejected(),
    }
    if as_json:
        typer.echo(json.dumps(found))
        return
    width = max(len(name) for name in found)
    for name, value in found.items():
        typer.echo(f"{name:{width}}  {value}")

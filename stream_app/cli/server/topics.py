"""`murmurec topics`: the table of topics against a broker, as a plan that can be reviewed first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    connection_from,
    settings_from,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from stream_app.kafka.topic_admin import TopicPlanStep
    from stream_app.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Plan and create the topics.")


@app.command()
def plan(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is missing and what differs; change nothing. Exit code 1: it cannot be applied."""
    _, steps = _planned(settings_from(config, bootstrap, prefix, kafka))
    _show(steps, as_json)
    if any(step.action == "refuse" for step in steps):
        raise typer.Exit(1)


@app.command()
def apply(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    delete_records: Annotated[
        bool, typer.Option("--delete-records", help="Allow changes that delete stored records.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create what is missing and mend what differs; a wrong partition count is refused."""
    from stream_app.kafka import topic_admin as topics

    admin, steps = _planned(settings_from(config, bootstrap, prefix, kafka))
    topics.apply(admin, steps, delete_records)
    _show(steps, as_json)


def _planned(settings: Settings) -> tuple[AdminClient, Sequence[TopicPlanStep]]:
    from stream_app.kafka import clients
    from stream_app.kafka import topic_admin as topics
    from stream_app.wire import Topics

    connection = connection_from(settings)
    clients.describe_cluster(connection)
    admin = clients.admin(connection)
    table = Topics(settings.topic_prefix).table(
        settings.partitions, settings.ratings_retention_seconds
    )
    return admin, topics.plan(admin, table)


def _show(steps: Sequence[TopicPlanStep], as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "topic": step.topic.name,
                "action": step.action,
                "partitions": step.topic.partitions,
                "config": dict(step.topic.config),
                "difference": step.difference,
            }
            for step in steps
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    width = max(len(step.topic.name) for step in steps)
    for step in steps:
        what = step.difference or f"{step.topic.partitions} partitions, key: {step.topic.key}"
        typer.echo(f"{step.action:7} {step.topic.name:{width}}  {what}")

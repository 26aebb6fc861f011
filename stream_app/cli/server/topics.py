"""`murmurec topics`: compare the topics of a broker with the wanted ones, and create them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from stream_app.cli.output import plural, print_json, table

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from stream_app.kafka.topic_admin import TopicPlanStep
    from stream_app.settings import Settings

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))

app = typer.Typer(
    no_args_is_help=True, help="Plan and create the topics. Example: murmurec topics apply"
)


@app.command()
def plan(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what `topics apply` would do; change nothing. Exit code 1: it would be refused.

    Example: murmurec topics plan --bootstrap localhost:9092
    """
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
        bool, typer.Option("--delete-records", help="Allow changes that delete records.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create missing topics and fix configurations; a wrong partition count is refused.

    Example: murmurec topics apply --bootstrap localhost:9092
    """
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
    wanted = Topics(settings.topic_prefix).table(
        settings.partitions, settings.ratings_retention_seconds
    )
    return admin, topics.plan(admin, wanted)


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
        print_json(rows, indent=2)
        return
    table(
        ("action", "topic", "partitions", "key", "cleanup", "retention", "difference"),
        [
            (
                step.action,
                step.topic.name,
                str(step.topic.partitions),
                step.topic.key,
                step.topic.config.get("cleanup.policy", "broker's default"),
                retention(step.topic.config),
                step.difference,
            )
            for step in steps
        ],
    )


def retention(config: Mapping[str, str]) -> str:
    """Return for how long Kafka keeps a record under this configuration, in words."""
    if config.get("cleanup.policy") == "compact":
        return "newest of each key"
    kept = config.get("retention.ms")
    if kept is None:
        return "broker's default"
    if kept == "-1":
        return "unlimited"
    seconds = int(kept) // 1000
    unit, noun = next(pair for pair in _UNITS if seconds % pair[0] == 0)
    return plural(seconds // unit, noun)

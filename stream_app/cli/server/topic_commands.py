"""`murmurec topics`: compare the topics of a broker with the wanted ones, and create them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from stream_app.cli.commands import Commands, option
from stream_app.cli.options import Cluster, JsonOption, connection_from
from stream_app.cli.output import notice, plural, print_json, table

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from stream_app.kafka.topic_admin import TopicPlanStep
    from stream_app.settings import Settings

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))

app = Commands(help="Compare and create the topics. Example: murmurec topics apply")


@app.command()
def apply(
    cluster: Cluster,
    dry_run: bool = option(False, "Show what would be done; exit code 1: it would be refused."),
    delete_records: bool = option(False, "Allow changes that delete records."),
    as_json: JsonOption = False,
) -> None:
    """Create missing topics and fix configurations; a wrong partition count is refused.

    Example: murmurec topics apply --bootstrap localhost:9092
    """
    from stream_app.kafka import topic_admin as topics

    admin, steps = _planned(cluster.settings())
    if not dry_run:
        topics.apply(admin, steps, delete_records)
    _show(steps, as_json)
    _warn(steps)
    _say_fixed(steps)
    if any(step.action == "refuse" for step in steps):
        raise typer.Exit(1)


def _planned(settings: Settings) -> tuple[AdminClient, Sequence[TopicPlanStep]]:
    from stream_app.kafka import clients, topic_checks
    from stream_app.kafka import topic_admin as topics
    from stream_app.wire import Topics

    connection = connection_from(settings)
    names = Topics(settings.topic_prefix, settings.shards)
    brokers = len(clients.describe_cluster(connection).brokers)
    admin = clients.admin(connection)
    stated = topic_checks.is_of_log(connection, names, settings.partitions)
    wanted = names.table(
        settings.partitions,
        settings.ratings_retention_seconds,
        settings.query_partitions,
        settings.features,
    )
    replication = topics.replication(
        brokers, settings.replication_factor, settings.min_insync_replicas
    )
    stated = stated or settings.partitions_stated
    return admin, topics.plan(admin, wanted, replication, stated=stated)


def _warn(steps: Sequence[TopicPlanStep]) -> None:
    """Print what no configuration of a topic can change."""
    alone = [step.topic.name for step in steps if step.only_copy]
    if alone:
        what = "every topic" if len(alone) == len(steps) else ", ".join(alone)
        notice(
            f"warning: one broker holds the only copy of {what}: with its disk the records are "
            "lost; add brokers and set replication_factor"
        )
    few = [step.topic.name for step in steps if step.too_few_copies]
    if few:
        notice(
            f"warning: fewer copies than replication_factor: {', '.join(few)}; add copies with "
            "Kafka's kafka-reassign-partitions, then run murmurec topics apply"
        )


def _say_fixed(steps: Sequence[TopicPlanStep]) -> None:
    """Say of topics of ratings what cannot be changed later."""
    for step in (each for each in steps if each.topic.counted_by == "partitions"):
        name, count = step.topic.name, step.topic.partitions
        if step.action == "create":
            notice(
                f"{name}: {plural(count, 'partition')}, fixed for the life of the deployment: "
                "more of them need a new one (--prefix)"
            )
        elif step.is_grown:
            notice(
                f"warning: {name} has {step.found_partitions} partitions, and the deployment uses "
                f"the first {count}: no worker reads the others; murmurec doctor counts what they "
                "hold"
            )


def _show(steps: Sequence[TopicPlanStep], as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "topic": step.topic.name,
                "action": step.action,
                "partitions": step.topic.partitions,
                "copies": step.found_copies or (step.replication and step.replication.copies),
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

"""Compares a deployment's topics with its table, and creates, alters and deletes topics.

The table is `wire.Topics`. A topic's partition count is fixed for its life, because the partition
of a key depends on it: a wrong count is refused, never changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.wire import Topic, Topics

SECONDS = 30.0
_PAUSE_SECONDS = 0.05
_APPLY = "run murmurec topics apply, which sets it"
# librdkafka's largest batch of records: the broker checks max.message.bytes against a whole batch.
_BATCH_BYTES = 1_000_000


@dataclass(frozen=True)
class TopicPlanStep:
    """The action for one topic; `configs` maps the name of a configuration to (found, wanted)."""

    topic: Topic
    found_partitions: int | None
    configs: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def action(self) -> str:
        """`create`, `ok`, `alter`, or `refuse` where the partition count is wrong."""
        if self.found_partitions is None:
            return "create"
        if self.found_partitions != self.topic.partitions:
            return "refuse"
        return "alter" if self.configs else "ok"

    @property
    def deletes(self) -> bool:
        """Whether the wanted configuration would delete records that Kafka keeps now."""
        return any(
            (name == "cleanup.policy" and "compact" in want and "compact" not in found)
            or (name.startswith("retention.") and want != "-1" and _longer(found, want))
            for name, (found, want) in self.configs.items()
        )

    @property
    def difference(self) -> str:
        """How the broker's topic differs from the table, in words; empty if it does not."""
        words = [f"{name} is {found}, not {want}" for name, (found, want) in self.configs.items()]
        if self.action == "refuse":
            words.insert(0, f"{_partitions(self.found_partitions)}, not {self.topic.partitions}")
        return "; ".join(words)


def _partitions(count: int | None) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _longer(found: str, want: str) -> bool:
    return found == "-1" or not found.isdigit() or int(found) > int(want)


def plan(admin: AdminClient, table: Sequence[Topic]) -> tuple[TopicPlanStep, ...]:
    """Return one step per topic of the table; changes nothing."""
    found = partition_counts(admin, [topic.name for topic in table])
    configs = _configs(admin, [name for name, count in found.items() if count is not None])
    return tuple(
        TopicPlanStep(
            topic,
            found[topic.name],
            {
                name: (configs[topic.name].get(name, "unset"), want)
                for name, want in topic.config.items()
                if found[topic.name] is not None and configs[topic.name].get(name) != want
            },
        )
        for topic in table
    )


def apply(admin: AdminClient, steps: Sequence[TopicPlanStep], delete_records: bool = False) -> None:
    """Create missing topics and alter differing ones; returns when the broker shows the result.

    Raises `UserError`, before any change, for a wrong partition count and, without
    `delete_records`, for a configuration under which Kafka would delete records that it keeps now.
    """
    for step in steps:
        if step.deletes and not delete_records:
            raise UserError(
                f"topic {step.topic.name}: {step.difference}; setting it deletes records that "
                "Kafka keeps now: add --delete-records to allow it"
            )
        if step.action == "refuse":
            raise UserError(
                f"topic {step.topic.name} has {_partitions(step.found_partitions)}, not "
                f"{step.topic.partitions}: the count cannot be changed; set partitions to "
                f"{step.found_partitions} or start a new deployment (--prefix)"
            )
    new = [
        # -1: the broker's own default.
        NewTopic(t.name, num_partitions=t.partitions, replication_factor=-1, config=dict(t.config))
        for t in (step.topic for step in steps if step.action == "create")
    ]
    if new:
        # Another process may create the topic between plan and apply: not an error.
        _each(admin.create_topics(new), KafkaError.TOPIC_ALREADY_EXISTS)
    changed = [
        ConfigResource(
            ResourceType.TOPIC,
            step.topic.name,
            incremental_configs=[
                ConfigEntry(name, want, incremental_operation=AlterConfigOpType.SET)
                for name, (_, want) in step.configs.items()
            ],
        )
        for step in steps
        if step.action == "alter"
    ]
    if changed:
        _each(admin.incremental_alter_configs(changed))
    created = [step.topic.name for step in steps if step.action == "create"]
    # Metadata reaches the brokers after the controller has acknowledged the change.
    _wait_until(
        lambda: None not in partition_counts(admin, created).values(),
        "the new topics did not appear",
    )
    altered = [step.topic for step in steps if step.action == "alter"]
    _wait_until(
        lambda: not altered or all(step.action != "alter" for step in plan(admin, altered)),
        "the new configuration did not appear",
    )


def create(admin: AdminClient, table: Sequence[Topic]) -> None:
    """Create and alter the topics so that they match the table."""
    apply(admin, plan(admin, table))


def delete(admin: AdminClient, names: Sequence[str]) -> None:
    """Delete these topics and their records; an absent topic is not an error.

    Returns when the broker lists none of them, so a topic of the same name can be created next.
    For tests and the demo.
    """
    if not names:
        return
    _each(admin.delete_topics(list(names)), KafkaError.UNKNOWN_TOPIC_OR_PART)
    _wait_until(
        lambda: all(count is None for count in partition_counts(admin, names).values()),
        "the deleted topics did not disappear",
    )


def check_intake(admin: AdminClient, topic: str, partitions: int) -> dict[str, str]:
    """Return the configuration of a rating topic; refuses one that a publisher cannot use: absent,
    with another number of partitions, or compacted."""
    _check_partitions(admin, topic, partitions, "set partitions to {found}")
    configs = _configs(admin, [topic])[topic]
    _check_policy(topic, configs, "delete", "compaction drops ratings")
    return configs


def check_ratings(
    admin: AdminClient, topic: str, partitions: int, retention_seconds: float | None = None
) -> None:
    """Refuse a rating topic that is absent, has another number of partitions, is compacted, or
    keeps ratings for a shorter time than `retention_seconds` (None: without limit).

    Kafka may delete records older than that: a checkpoint holds their effect, and a worker refuses
    to start where records after its checkpoint are missing.
    """
    configs = check_intake(admin, topic, partitions)
    wanted = "-1" if retention_seconds is None else str(int(retention_seconds * 1000))
    for name, want in (("retention.ms", wanted), ("retention.bytes", "-1")):
        if configs[name] != want and _longer(want, configs[name]):
            raise UserError(
                f"topic {topic} has {name} {configs[name]}: ratings would be deleted sooner than "
                f"ratings_retention_seconds allows; {_APPLY} to {want}, or change the setting"
            )


def check_cut_log(admin: AdminClient, topic: str) -> None:
    """Refuse a cut log that is absent, has several partitions, or loses records."""
    _check_partitions(admin, topic, 1, "delete it and apply the topics")
    configs = _configs(admin, [topic])[topic]
    _check_policy(topic, configs, "delete", "compaction drops cuts")
    for name in ("retention.ms", "retention.bytes"):
        if configs[name] != "-1":
            raise UserError(
                f"topic {topic} has {name} {configs[name]}: cuts, which define the log's "
                f"order, would be deleted; {_APPLY} to -1"
            )


def check_state_topic(admin: AdminClient, topic: str) -> None:
    """Refuse a topic that cannot hold checkpoints: absent, with several partitions, not compacted,
    or with a record size limit below a batch of pages."""
    _check_partitions(admin, topic, 1, "delete it and apply the topics")
    configs = _configs(admin, [topic])[topic]
    _check_policy(
        topic, configs, "compact", "old pages would never be removed, or current ones would"
    )
    if int(configs["max.message.bytes"]) < _BATCH_BYTES:
        raise UserError(
            f"topic {topic} has max.message.bytes {configs['max.message.bytes']}: pages of "
            f"checkpoints come in batches of up to {_BATCH_BYTES}; {_APPLY} higher"
        )


def _check_partitions(admin: AdminClient, topic: str, wanted: int, fix: str) -> None:
    found = partition_counts(admin, [topic])[topic]
    if found is None:
        raise UserError(f"topic {topic} does not exist: create it with murmurec topics apply")
    if found != wanted:
        raise UserError(
            f"topic {topic} has {_partitions(found)}, not {wanted}: {fix.format(found=found)}, "
            "or start a new deployment (--prefix)"
        )


def _check_policy(topic: str, configs: Mapping[str, str], wanted: str, reason: str) -> None:
    if configs["cleanup.policy"] != wanted:
        raise UserError(
            f"topic {topic} has cleanup.policy {configs['cleanup.policy']}: {reason}; {_APPLY} to "
            f"{wanted}"
        )


def check_deployment(
    connection: Connection,
    topics: Topics,
    partitions: int,
    retention_seconds: float | None = None,
) -> None:
    """Refuse a deployment with absent topics, or whose configuration would lose the state."""
    admin = clients.admin(connection)
    check_ratings(admin, topics.ratings, partitions, retention_seconds)
    check_cut_log(admin, topics.cuts)
    check_state_topic(admin, topics.state)
    others = [topics.items, topics.queries, topics.recommendations, topics.rejected]
    for name, found in partition_counts(admin, others).items():
        if found is None:
            raise UserError(f"topic {name} does not exist: create it with murmurec topics apply")


def partition_counts(admin: AdminClient, names: Sequence[str]) -> dict[str, int | None]:
    """Return the number of partitions of each topic; None for one that does not exist."""
    try:
        # All topics at once: a request for one by name creates it where auto-creation is on.
        listed = admin.list_topics(timeout=SECONDS).topics
    except KafkaException as error:
        raise UserError(f"Kafka did not list its topics: {error.args[0].str()}") from None
    return {name: len(listed[name].partitions) if name in listed else None for name in names}


def _configs(admin: AdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    futures = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    return {
        resource.name: {name: entry.value for name, entry in _result(resource.name, future).items()}
        for resource, future in futures.items()
    }


def _each(futures: Mapping[Any, Future[Any]], *allowed: int) -> None:
    for topic, future in futures.items():
        _result(getattr(topic, "name", topic), future, *allowed)


def _result(topic: str, future: Future[Any], *allowed: int) -> Any:
    try:
        return future.result(timeout=SECONDS)
    except TimeoutError:
        raise UserError(
            f"topic {topic}: Kafka did not answer within {SECONDS:.0f} s; try again"
        ) from None
    except KafkaException as error:
        if error.args[0].code() in allowed:
            return None
        raise UserError(f"topic {topic}: Kafka refused: {error.args[0].str()}") from None


def _wait_until(reached: Callable[[], bool], sentence: str) -> None:
    """Poll the broker until `reached`; raises `UserError` with `sentence` at the deadline."""
    deadline = time.monotonic() + SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise UserError(f"{sentence} within {SECONDS:.0f} s: try again")
        time.sleep(_PAUSE_SECONDS)

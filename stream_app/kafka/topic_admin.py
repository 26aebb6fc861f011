"""The table of topics against a broker: what is missing, what differs, what can be fixed.

The table itself is `wire.Topics`; nothing here repeats it. A topic's partition count is fixed for
life, because a key's partition depends on it; so a wrong count is refused, never changed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
# librdkafka's largest batch of records, which the broker takes for one message.
_BATCH_BYTES = 1_000_000


@dataclass(frozen=True)
class TopicPlanStep:
    """What is to be done for one topic; `configs` maps a name to (found, wanted)."""

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
        """Whether the wanted configuration would delete records that are kept now."""
        return any(
            (name == "cleanup.policy" and "compact" in want and "compact" not in found)
            or (name.startswith("retention.") and want != "-1" and _longer(found, want))
            for name, (found, want) in self.configs.items()
        )

    @property
    def difference(self) -> str:
        """How the broker's topic differs, in words; empty where it does not."""
        words = [f"{name} is {found}, not {want}" for name, (found, want) in self.configs.items()]
        if self.action == "refuse":
            words.insert(0, f"{_partitions(self.found_partitions)}, not {self.topic.partitions}")
        return "; ".join(words)


def _partitions(count: int | None) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _longer(found: str, want: str) -> bool:
    return found == "-1" or not found.isdigit() or int(found) > int(want)


def plan(admin: AdminClient, table: Sequence[Topic]) -> tuple[TopicPlanStep, ...]:
    """Return one step for each topic of the table, without changing anything."""
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
    """Create what is missing and alter what differs, or refuse before anything is changed.

    Refused are a wrong partition count and, without `delete_records`, a configuration under which
    Kafka would delete records that it keeps now.
    """
    for step in steps:
        if step.deletes and not delete_records:
            raise UserError(
                f"topic {step.topic.name}: {step.difference}; to set it would delete records that "
                "are kept now: add --delete-records if they may go"
            )
        if step.action == "refuse":
            raise UserError(
                f"topic {step.topic.name} has {_partitions(step.found_partitions)}, not "
                f"{step.topic.partitions}: the count is fixed for life; set partitions to "
                f"{step.found_partitions} or start a new deployment (--prefix)"
            )
    new = [
        # -1: the broker's own default.
        NewTopic(t.name, num_partitions=t.partitions, replication_factor=-1, config=dict(t.config))
        for t in (step.topic for step in steps if step.action == "create")
    ]
    if new:
        # Somebody else may create it between plan and apply; then it is there, as it should be.
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
    _wait(admin, [step.topic for step in steps if step.action == "create"])
    _wait_for_configs(admin, [step.topic for step in steps if step.action == "alter"])


def create(admin: AdminClient, table: Sequence[Topic]) -> None:
    """Bring the broker to the table."""
    apply(admin, plan(admin, table))


def delete(admin: AdminClient, names: Sequence[str]) -> None:
    """Delete these topics for good; one that is not there is no error. For tests and the demo."""
    if names:
        _each(admin.delete_topics(list(names)), KafkaError.UNKNOWN_TOPIC_OR_PART)


def check_intake(admin: AdminClient, topic: str, partitions: int) -> dict[str, str]:
    """Refuse a rating topic that is absent, has another number of partitions or is compacted: what
    a publisher must know; return its configuration."""
    _check_partitions(admin, topic, partitions, "set partitions to {found}")
    configs = _configs(admin, [topic])[topic]
    _check_policy(topic, configs, "delete", "compaction drops ratings")
    return configs


def check_ratings(
    admin: AdminClient, topic: str, partitions: int, retention_seconds: float | None = None
) -> None:
    """Refuse a rating topic that is absent, has another number of partitions, is compacted, or
    keeps ratings for a shorter time than was said (None: for ever).

    Records past that time may be deleted: a checkpoint carries the state over, and a worker that
    starts where records are missing is refused.
    """
    configs = check_intake(admin, topic, partitions)
    wanted = "-1" if retention_seconds is None else str(int(retention_seconds * 1000))
    for name, want in (("retention.ms", wanted), ("retention.bytes", "-1")):
        if configs[name] != want and _longer(want, configs[name]):
            raise UserError(
                f"topic {topic} has {name} {configs[name]}: ratings would be deleted sooner than "
                f"is set; {_APPLY} to {want}, or set ratings_retention_seconds"
            )


def check_cut_log(admin: AdminClient, topic: str) -> None:
    """Refuse a cut log that is absent, has several partitions, or loses records."""
    _check_partitions(admin, topic, 1, "delete it and apply the topics")
    configs = _configs(admin, [topic])[topic]
    _check_policy(topic, configs, "delete", "compaction drops cuts")
    for name in ("retention.ms", "retention.bytes"):
        if configs[name] != "-1":
            raise UserError(
                f"topic {topic} has {name} {configs[name]}: cuts, without which the log has no "
                f"order, would be deleted; {_APPLY} to -1"
            )


def check_state_topic(admin: AdminClient, topic: str) -> None:
    """Refuse a topic that cannot hold checkpoints: absent, of several partitions, not compacted, or
    one that takes no record of the size of a page."""
    _check_partitions(admin, topic, 1, "delete it and apply the topics")
    configs = _configs(admin, [topic])[topic]
    _check_policy(topic, configs, "compact", "old pages would never go, or new ones would")
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


def _check_policy(topic: str, configs: Mapping[str, str], wanted: str, why: str) -> None:
    if configs["cleanup.policy"] != wanted:
        raise UserError(
            f"topic {topic} has cleanup.policy {configs['cleanup.policy']}: {why}; {_APPLY} to "
            f"{wanted}"
        )


def check_deployment(
    connection: Connection,
    topics: Topics,
    partitions: int,
    retention_seconds: float | None = None,
) -> None:
    """Refuse to work on topics that are absent, or on which the state would be lost."""
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
        # All topics at once: to ask for one by name would create it where auto-creation is on.
        there = admin.list_topics(timeout=SECONDS).topics
    except KafkaException as error:
        raise UserError(f"Kafka did not list its topics: {error.args[0].str()}") from None
    return {name: len(there[name].partitions) if name in there else None for name in names}


def _configs(admin: AdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    return {
        resource.name: {name: entry.value for name, entry in _result(resource.name, future).items()}
        for resource, future in asked.items()
    }


def _each(futures: Mapping[Any, Future[Any]], *allowed: int) -> None:
    for topic, future in futures.items():
        _result(getattr(topic, "name", topic), future, *allowed)


def _result(topic: str, future: Future[Any], *allowed: int) -> Any:
    try:
        return future.result(timeout=SECONDS)
    except TimeoutError:
        raise UserError(
            f"topic {topic}: Kafka has said nothing for {SECONDS:.0f} s; try again"
        ) from None
    except KafkaException as error:
        if error.args[0].code() in allowed:
            return None
        raise UserError(f"topic {topic}: Kafka refused: {error.args[0].str()}") from None


def _wait(admin: AdminClient, created: Sequence[Topic]) -> None:
    """Return when the broker lists the new topics; metadata spreads a little later."""
    deadline = time.monotonic() + SECONDS
    names = [topic.name for topic in created]
    while any(count is None for count in partition_counts(admin, names).values()):
        if time.monotonic() > deadline:
            raise UserError(f"the new topics did not appear within {SECONDS:.0f} s: try again")
        time.sleep(_PAUSE_SECONDS)


def _wait_for_configs(admin: AdminClient, altered: Sequence[Topic]) -> None:
    """Return when the broker reports the new configuration; it answers from its own copy."""
    deadline = time.monotonic() + SECONDS
    while altered and any(step.action == "alter" for step in plan(admin, altered)):
        if time.monotonic() > deadline:
            raise UserError(
                f"the new configuration did not appear within {SECONDS:.0f} s: try again"
            )
        time.sleep(_PAUSE_SECONDS)

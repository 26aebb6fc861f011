"""Compares a deployment's topics with its table, and creates, alters and deletes topics.

The table is `wire.Topics`. A topic's partition count is fixed for its life, because the partition
of a key depends on it: a wrong count is refused, never changed. The number of copies of an existing
topic is reported, not changed: moving copies between brokers is the operator's decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    PartitionMetadata,
    ResourceType,
)

from stream_app.errors import UserError
from stream_app.kafka import clients, passing
from stream_app.wire import Topic
from stream_app.wire.topics import absent, grown, lacking

SECONDS = 30.0
_PAUSE_SECONDS = 0.05
_IN_SYNC = "min.insync.replicas"


@dataclass(frozen=True)
class Replication:
    """On how many brokers a topic is stored, and how many must have a record to acknowledge it;
    by default all copies but one, so that writing goes on without one broker."""

    copies: int
    in_sync: int | None = None

    def __post_init__(self) -> None:
        if self.in_sync is not None and self.in_sync > self.copies:
            raise UserError(
                f"min_insync_replicas = {self.in_sync}: a topic has {self.copies} "
                f"{'copy' if self.copies == 1 else 'copies'}; set at most that many"
            )

    def in_sync_of(self, copies: int) -> int:
        """Return the wanted min.insync.replicas of a topic with so many copies."""
        return max(1, copies - 1) if self.in_sync is None else min(self.in_sync, copies)


def replication(brokers: int, copies: int | None = None, in_sync: int | None = None) -> Replication:
    """Return the wanted replication: by default on every broker, at most 3."""
    if copies is not None and copies > brokers:
        raise UserError(
            f"replication_factor = {copies}: Kafka lists {brokers} "
            f"{'broker' if brokers == 1 else 'brokers'}; set at most that many"
        )
    return Replication(copies or min(brokers, 3), in_sync)


@dataclass(frozen=True)
class TopicPlanStep:
    """The action for one topic; `configs` maps the name of a configuration to (found, wanted).

    `found_copies` is the least number of copies of a partition; None for an absent topic. `stated`:
    the number of rating partitions is no default, so added ones are left unused.
    """

    topic: Topic
    found_partitions: int | None
    configs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    found_copies: int | None = None
    replication: Replication | None = None
    stated: bool = False

    @property
    def action(self) -> str:
        """`create`, `ok`, `alter`, or `refuse` where the partition count is wrong."""
        if self.found_partitions is None:
            return "create"
        if self.found_partitions != self.topic.partitions and not (self.is_grown and self.stated):
            return "refuse"
        return "alter" if self.configs else "ok"

    @property
    def is_grown(self) -> bool:
        """Whether the topic has more partitions than the number by which devices choose theirs."""
        found, topic = self.found_partitions, self.topic
        return topic.counted_by == "partitions" and found is not None and found > topic.partitions

    @property
    def deletes(self) -> bool:
        """Whether the wanted configuration would delete records that Kafka keeps now."""
        return any(
            (name == "cleanup.policy" and "compact" in want and "compact" not in found)
            or (name.startswith("retention.") and want != "-1" and longer(found, want))
            for name, (found, want) in self.configs.items()
        )

    @property
    def too_few_copies(self) -> bool:
        """Whether the topic has fewer copies than wanted."""
        wanted, found = self.replication, self.found_copies
        return wanted is not None and found is not None and found < wanted.copies

    @property
    def only_copy(self) -> bool:
        """Whether one broker holds, or would hold, the only copy of a partition."""
        wanted = self.replication
        return wanted is not None and (self.found_copies or wanted.copies) == 1

    @property
    def difference(self) -> str:
        """How the broker's topic differs from the table, in words; empty if it does not."""
        words = [f"{name} is {found}, not {want}" for name, (found, want) in self.configs.items()]
        if self.too_few_copies and self.replication is not None:
            words.append(
                f"replication factor is {self.found_copies}, not {self.replication.copies}"
            )
        if self.found_partitions not in (None, self.topic.partitions):
            words.insert(
                0, f"{partitions_in_words(self.found_partitions)}, not {self.topic.partitions}"
            )
        return "; ".join(words)


def partitions_in_words(count: int | None) -> str:
    """Return a number of partitions in words."""
    return "1 partition" if count == 1 else f"{count} partitions"


def longer(found: str, want: str) -> bool:
    """Return whether a retention keeps records for longer than another; -1 is without limit."""
    return found == "-1" or not found.isdigit() or int(found) > int(want)


def plan(
    admin: AdminClient,
    table: Sequence[Topic],
    wanted: Replication | None = None,
    *,
    stated: bool = False,
) -> tuple[TopicPlanStep, ...]:
    """Return one step per topic of the table; changes nothing. Without `wanted` the broker's own
    default decides on the copies of a new topic, and those of an old one are not looked at."""
    listed = _listed(admin)
    found = {topic.name: listed.get(topic.name) for topic in table}
    _refuse_hidden(admin, [name for name, each in found.items() if each is None])
    configs = configurations(admin, [name for name, each in found.items() if each])
    steps = []
    for topic in table:
        partitions = found[topic.name]
        if partitions is None:
            steps.append(TopicPlanStep(topic, None, replication=wanted))
            continue
        copies = min(len(each.replicas) for each in partitions.values())
        has = configs[topic.name]
        differing = {
            name: (has.get(name, "unset"), want)
            for name, want in topic.config.items()
            if has.get(name) != want
        }
        if wanted is not None:
            differing |= _in_sync(has, wanted.in_sync_of(copies))
        steps.append(TopicPlanStep(topic, len(partitions), differing, copies, wanted, stated))
    return tuple(steps)


def _in_sync(has: Mapping[str, str], want: int) -> dict[str, tuple[str, str]]:
    """Return the difference in min.insync.replicas; a higher one is the operator's choice."""
    found = has.get(_IN_SYNC, "1")
    return {_IN_SYNC: (found, str(want))} if int(found) < want else {}


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
        if step.is_grown and not step.stated:
            raise UserError(grown(step.topic.name, step.found_partitions, step.topic.partitions))
        if step.action == "refuse":
            raise UserError(
                f"topic {step.topic.name} has {partitions_in_words(step.found_partitions)}, not "
                f"{step.topic.partitions}: the count cannot be changed; {_fix(step)}start a new "
                "deployment (--prefix)"
            )
    new = [_new(step) for step in steps if step.action == "create"]
    if new:
        # Another process may create the topic between plan and apply: not an error.
        _each(admin.create_topics(new), "CREATE", KafkaError.TOPIC_ALREADY_EXISTS)
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
        _each(admin.incremental_alter_configs(changed), "ALTER_CONFIGS")
    created = [step.topic.name for step in steps if step.action == "create"]
    # Metadata reaches the brokers after the controller has acknowledged the change.
    _wait_until(
        lambda: None not in partition_counts(admin, created).values(),
        "the new topics did not appear",
    )
    altered = [step.topic for step in steps if step.action == "alter"]
    wanted, stated = (steps[0].replication, steps[0].stated) if steps else (None, False)
    _wait_until(
        lambda: (
            not altered
            or all(step.action != "alter" for step in plan(admin, altered, wanted, stated=stated))
        ),
        "the new configuration did not appear",
    )


def _fix(step: TopicPlanStep) -> str:
    """Return which setting can be brought to the partitions found; empty where none decides."""
    setting = step.topic.counted_by
    return f"set {setting} to {step.found_partitions} or " if setting else ""


def _new(step: TopicPlanStep) -> NewTopic:
    topic, wanted = step.topic, step.replication
    if wanted is None:
        # -1: the broker's own default.
        return NewTopic(topic.name, topic.partitions, -1, config=dict(topic.config))
    in_sync = {_IN_SYNC: str(wanted.in_sync_of(wanted.copies))}
    return NewTopic(topic.name, topic.partitions, wanted.copies, config={**topic.config, **in_sync})


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
    _each(admin.delete_topics(list(names)), "DELETE", KafkaError.UNKNOWN_TOPIC_OR_PART)
    _wait_until(
        lambda: all(count is None for count in partition_counts(admin, names).values()),
        "the deleted topics did not disappear",
    )


def partition_counts(admin: AdminClient, names: Sequence[str]) -> dict[str, int | None]:
    """Return the number of partitions of each topic; None for one that does not exist."""
    listed = _listed(admin)
    return {name: len(listed[name]) if name in listed else None for name in names}


def _refuse_hidden(admin: AdminClient, unlisted: Sequence[str]) -> None:
    """Refuse topics that are not listed because this user may not see them: they may be there."""
    if unlisted:
        asked = admin.describe_topics(TopicCollection(list(unlisted)), request_timeout=SECONDS)
        _each(asked, "DESCRIBE", KafkaError.UNKNOWN_TOPIC_OR_PART)


def missing(admin: AdminClient, topic: str, operation: str = "READ") -> UserError:
    """Return the error for a topic that the broker does not list: absent, or hidden from a user who
    has no right to it, and needs that `operation`."""
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=SECONDS)[topic]
    try:
        described.result(timeout=SECONDS)
    except KafkaException as error:
        return UserError(passing.refusal(error.args[0], f"topic {topic}", operation, absent(topic)))
    except TimeoutError:
        pass
    return UserError(absent(topic))


def _listed(admin: AdminClient) -> dict[str, dict[int, PartitionMetadata]]:
    """Return the partitions of every topic."""
    return {name: topic.partitions for name, topic in clients.listed(admin, SECONDS).items()}


def configurations(
    admin: AdminClient,
    names: Sequence[str],
    seconds: float = SECONDS,
    *,
    allowed: Sequence[int] = (),
) -> dict[str, dict[str, str]]:
    """Return the configuration of each topic, by name; none of a topic for which the broker gives
    an `allowed` error."""
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=seconds)
    found = {
        each.name: _result(each.name, future, "DESCRIBE_CONFIGS", *allowed)
        for each, future in futures.items()
    }
    return {
        topic: {name: entry.value for name, entry in entries.items()}
        for topic, entries in found.items()
        if entries is not None
    }


def _each(futures: Mapping[Any, Future[Any]], operation: str, *allowed: int) -> None:
    for topic, future in futures.items():
        _result(getattr(topic, "name", topic), future, operation, *allowed)


def _result(topic: str, future: Future[Any], operation: str, *allowed: int) -> Any:
    what = f"topic {topic}"
    return passing.result(future, SECONDS, what, lacking(what, operation), *allowed)


def _wait_until(reached: Callable[[], bool], sentence: str) -> None:
    """Poll the broker until `reached`; raises `UserError` with `sentence` at the deadline."""
    deadline = time.monotonic() + SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise UserError(f"{sentence} within {SECONDS:.0f} s: try again")
        time.sleep(_PAUSE_SECONDS)

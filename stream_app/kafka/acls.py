"""The rights of each role at Kafka: one table, from which they are printed, granted and checked.

Without the check a missing right appears late or as another error: a topic that the user may not
describe looks absent, and a write is refused only at the first record, perhaps hours later. A
broker without access control grants every operation; one that reports none passes the check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import CODES, result
from stream_app.wire import Topics
from stream_app.wire.topics import absent, lacking

_SECONDS = 30.0
_RIGHTS = "rights at Kafka"
_NO_RIGHT = "this user has no right to {} the cluster: run this as a super user of Kafka"
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
# How a topic is kept: a server refuses one that loses records or takes what expands; a worker looks
# at each of its topics.
_SEE = AclOperation.DESCRIBE_CONFIGS
Operations = tuple[AclOperation, ...]
Rows = Mapping[str, Operations]


# Role -> feature ("": always) -> topic, as an attribute of `Topics` -> operations.
_WORKER: Mapping[str, Rows] = {
    "": {
        "ratings": (_READ, _SEE),
        "cuts": (_READ, _WRITE, _SEE),
        "state": (_READ, _WRITE, _SEE),
        "items": (_READ, _SEE),
        "item_table": (_WRITE, _SEE),
        "item_links": (_READ, _WRITE, _SEE),
        "queries": (_READ, _SEE),
        "recommendations": (_WRITE, _SEE),
        "rejected": (_WRITE, _SEE),
    },
    "campaigns": {
        "contributions": (_READ, _SEE),
        "rounds": (_READ, _WRITE, _SEE),
        "item_side": (_READ, _WRITE, _SEE),
    },
    # Queries: what an older client asks at another shard is written again.
    "shards": {"exchange": (_READ, _WRITE, _SEE), "queries": (_READ, _WRITE, _SEE)},
}
ROLES: Mapping[str, Mapping[str, Rows]] = {
    "device": {
        "": {
            "ratings": (_WRITE,),
            "item_table": (_READ,),
            "items": (_READ,),
            "item_links": (_READ,),
        },
        "campaigns": {"contributions": (_WRITE,), "rounds": (_READ,), "item_side": (_READ,)},
    },
    "reader": {"": {"queries": (_WRITE,), "recommendations": (_READ,)}},
    "editor": {"": {"items": (_READ, _WRITE)}},
    "gateway": {
        "": {
            "ratings": (_WRITE,),
            "queries": (_WRITE,),
            "recommendations": (_READ,),
            "items": (_READ,),
            "item_links": (_READ,),
        },
        "campaigns": {"contributions": (_WRITE,), "rounds": (_READ,), "item_side": (_READ,)},
    },
    "worker": _WORKER,
    "auditor": {
        "": {"ratings": (_READ,), "recommendations": (_READ,)},
        "campaigns": {"contributions": (_READ,), "rounds": (_READ,)},
    },
    "aggregator": {"campaigns": {"contributions": (_READ, _SEE), "rounds": (_READ, _WRITE, _SEE)}},
    "operator": {
        "": {
            "ratings": (_READ,),
            "cuts": (_READ, _WRITE),
            "state": (_READ, _WRITE),
            "rejected": (_READ, _WRITE),  # doctor names what devices use
        },
        "campaigns": {"rounds": (_READ, _WRITE)},
        "shards": {"exchange": (_READ,)},
    },
}
# Role -> operations on every topic of the deployment, also on one that does not exist yet. What may
# be altered may be seen; no role deletes a topic.
EVERY_TOPIC: Mapping[str, Operations] = {
    "auditor": (AclOperation.DESCRIBE,),
    "operator": (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS),
}
# Role -> operation on the workers' groups. The other roles join none and look at none.
GROUPS: Mapping[str, AclOperation] = {"worker": _READ, "operator": AclOperation.DESCRIBE}


def of_role(role: str, topics: Topics, features: Collection[str] = ()) -> dict[str, Operations]:
    """Return the operations that a role needs on each topic, those of every shard, by its name."""
    on = {"", *features}
    return {
        getattr(each, topic): operations
        for feature, rows in ROLES[role].items()
        if feature in on
        for topic, operations in rows.items()
        for each in topics.of_shards()
    }


def bindings(
    role: str, user: str, topics: Topics, features: Collection[str], group: str
) -> list[AclBinding]:
    """Return the rights of a role for a user, in the form of Kafka; `group`: how the names of the
    workers' consumer groups begin."""

    def allow(
        kind: ResourceType, name: str, operation: AclOperation, *, prefixed: bool = False
    ) -> AclBinding:
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        permitted = AclPermissionType.ALLOW
        return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permitted)

    found = [
        allow(ResourceType.TOPIC, topic, operation)
        for topic, operations in of_role(role, topics, features).items()
        for operation in operations
    ]
    found += [
        allow(ResourceType.TOPIC, f"{topics.prefix}.", operation, prefixed=True)
        for operation in EVERY_TOPIC.get(role, ())
    ]
    if role in GROUPS:
        found.append(allow(ResourceType.GROUP, group, GROUPS[role], prefixed=True))
    return found


def row(right: AclBinding) -> dict[str, str]:
    """Return a right by the words of Kafka."""
    return {
        "principal": right.principal,
        "operation": AclOperation(right.operation).name,
        "kind": ResourceType(right.restype).name.lower(),
        "name": right.name,
        "pattern": ResourcePatternType(right.resource_pattern_type).name.lower(),
    }


def grant(connection: Connection, wanted: list[AclBinding]) -> None:
    """Give rights; raises UserError where Kafka refuses, as one without an authorizer does."""
    admin = clients.admin(connection)
    for future in admin.create_acls(wanted, request_timeout=_SECONDS).values():
        result(future, _SECONDS, _RIGHTS, _NO_RIGHT.format("ALTER"))


def compare(connection: Connection, wanted: list[AclBinding]) -> None:
    """Refuse a user whose rights at Kafka, or denials, are not exactly these; what everyone has is
    the user's too."""
    anything: Any = ResourceType.ANY, None, ResourcePatternType.ANY, None, None
    anything += AclOperation.ANY, AclPermissionType.ANY
    admin = clients.admin(connection)  # held: a client that nothing holds answers nothing
    lacks = _NO_RIGHT.format("DESCRIBE")
    asked = admin.describe_cluster(include_authorized_operations=True, request_timeout=_SECONDS)
    cluster = result(asked, _SECONDS, _RIGHTS, lacks)
    # Without it librdkafka finds no rights, and no error.
    if AclOperation.DESCRIBE not in (cluster.authorized_operations or ()):
        raise UserError(lacks)
    asked = admin.describe_acls(AclBindingFilter(*anything), request_timeout=_SECONDS)
    found, user = result(asked, _SECONDS, _RIGHTS, lacks), wanted[0].principal
    has = {each for each in found if each.principal in (user, "User:*")}
    faults = [
        f"{what} {', '.join(sorted(map(_in_words, rights)))}; {fix}"
        for what, rights, fix in (
            ("lacks", set(wanted) - has, "murmurec acl apply grants it"),
            ("has besides its role", has - set(wanted), "take it away (kafka-acls.sh)"),
        )
        if rights
    ]
    if faults:
        raise UserError(f"{user} {'; and '.join(faults)}")


def _in_words(right: AclBinding) -> str:
    has, permission = row(right), AclPermissionType(right.permission_type).name
    place = f"{has['kind']} {has['name']} ({has['pattern']}, host {right.host})"
    return f"{permission} {has['operation']} on {place}"


def check(
    connection: Connection,
    wanted: Mapping[str, Operations],
    role: str = "worker",
    group: str | None = None,
) -> None:
    """Refuse a topic that is absent, hidden from this user, or that lacks an operation, and a
    `group` of which this user may see nothing."""
    admin: AdminClient = clients.admin(connection)
    described = admin.describe_topics(
        TopicCollection(list(wanted)), include_authorized_operations=True, request_timeout=_SECONDS
    )
    for topic, operations in wanted.items():
        lacks = lacking(what := f"topic {topic}", operations[0].name, role)
        answer = result(described[topic], _SECONDS, what, lacks, KafkaError.UNKNOWN_TOPIC_OR_PART)
        if answer is None:
            raise UserError(absent(topic))
        granted = set(answer.authorized_operations or ())
        for operation in (*operations, *EVERY_TOPIC.get(role, ())):
            if granted and not granted & {operation, AclOperation.ALL}:
                raise UserError(lacking(what, operation.name, role))
    if group is not None and role in GROUPS:
        # Ends before `result` does: a coordinator that is late passes, and denies nothing.
        asked = admin.describe_consumer_groups([group], request_timeout=_SECONDS / 3)
        of_group = asked[group]
        lacks = lacking(what := f"group {group}", GROUPS[role].name, role)
        result(of_group, _SECONDS, what, lacks, KafkaError.GROUP_ID_NOT_FOUND, *CODES)

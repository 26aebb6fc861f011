"""What this user may do with the topics of a deployment, asked before a worker starts.

    READ     ratings  cuts  state  items  queries
    WRITE             cuts  state  item table  recommendations  rejected

A right that is missing shows itself late or as something else: a topic that may not be seen looks
as if it did not exist, and a write is refused when the first record comes, hours after the start.
A broker without access control grants everything; one that reports no operations is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.wire import Topics

_SECONDS = 30.0
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
Operations = tuple[AclOperation, ...]


def of_a_worker(topics: Topics) -> dict[str, Operations]:
    """Return what a worker does with each topic."""
    return {
        topics.ratings: (_READ,),
        topics.cuts: (_READ, _WRITE),
        topics.state: (_READ, _WRITE),
        topics.items: (_READ,),
        topics.item_table: (_WRITE,),
        topics.queries: (_READ,),
        topics.recommendations: (_WRITE,),
        topics.rejected: (_WRITE,),
    }


def check(connection: Connection, wanted: Mapping[str, Operations]) -> None:
    """Refuse a topic that is absent, that this user may not see, or on which a right is missing."""
    admin: AdminClient = clients.admin(connection)
    asked = admin.describe_topics(
        TopicCollection(list(wanted)), include_authorized_operations=True, request_timeout=_SECONDS
    )
    for topic, operations in wanted.items():
        granted = _granted(topic, asked[topic])
        for operation in operations:
            if granted and not granted & {operation, AclOperation.ALL}:
                raise UserError(
                    f"topic {topic}: this user has no right to {operation.name.lower()} it; grant "
                    f"{operation.name} on it to the worker's user"
                )


def _granted(topic: str, asked: Future[Any]) -> set[AclOperation]:
    """Return what may be done with a topic; nothing where the broker reports nothing."""
    try:
        return set(asked.result(timeout=_SECONDS).authorized_operations or ())
    except TimeoutError:
        raise UserError(
            f"topic {topic} cannot be described: the broker has said nothing for {_SECONDS:.0f} s; "
            "try again"
        ) from None
    except KafkaException as error:
        reason: KafkaError = error.args[0]
    if reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise UserError(
            f"topic {topic} cannot be seen: this user has no right to it; grant READ or WRITE on "
            "it to the worker's user"
        )
    if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise UserError(f"topic {topic} does not exist: create it with murmurec topics apply")
    raise UserError(f"topic {topic} cannot be described: {reason.str()}")

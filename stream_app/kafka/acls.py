"""Checks the operations that a process needs on its topics: a worker or an aggregator before it
starts, a gateway before it is ready.

    worker       READ     ratings  cuts  state  items  item links  queries
                 WRITE             cuts  state  item table  item links  recommendations  rejected
    with similar_from = published
                 READ     similarities
    with private lists
                 READ     list debits
                 WRITE    list debits
    with campaigns
                 READ     contributions  rounds  item side
                 WRITE                   rounds  item side
    with profiles
                 READ     profiles
    aggregator   READ     contributions  rounds
                 WRITE                   rounds
    gateway      READ     items  item links  recommendations
                 WRITE    ratings  queries

Without this check a missing right appears late or as another error: a topic that the user may not
describe looks absent, and a write is refused only at the first record, perhaps hours later. A
broker without access control grants every operation; one that reports none passes the check.
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
from stream_app.wire.topics import absent, hidden

_SECONDS = 30.0
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
Operations = tuple[AclOperation, ...]


def of_a_worker(
    topics: Topics,
    *,
    campaigns: bool = False,
    similarities: bool = False,
    profiles: bool = False,
    private_lists: bool = False,
) -> dict[str, Operations]:
    """Return the operations that a worker needs on each topic, with campaigns, the public table of
    similarities, profiles and private lists, or without."""
    of_campaigns = of_an_aggregator(topics) | {topics.item_side: (_READ, _WRITE)}
    public = {topics.similarities: (_READ,)} if similarities else {}
    of_profiles = {topics.profiles: (_READ,)} if profiles else {}
    of_lists = {topics.list_debits: (_READ, _WRITE)} if private_lists else {}
    return (
        (of_campaigns if campaigns else {})
        | public
        | of_profiles
        | of_lists
        | {
            topics.ratings: (_READ,),
            topics.cuts: (_READ, _WRITE),
            topics.state: (_READ, _WRITE),
            topics.items: (_READ,),
            topics.item_table: (_WRITE,),
            topics.item_links: (_READ, _WRITE),
            topics.queries: (_READ,),
            topics.recommendations: (_WRITE,),
            topics.rejected: (_WRITE,),
        }
    )


def of_an_aggregator(topics: Topics) -> dict[str, Operations]:
    """Return the operations that a party of a campaign needs on each topic."""
    return {topics.contributions: (_READ,), topics.rounds: (_READ, _WRITE)}


def of_a_gateway(topics: Topics) -> dict[str, Operations]:
    """Return the operations that a gateway needs on each topic: it reads no ratings."""
    return {
        topics.ratings: (_WRITE,),
        topics.queries: (_WRITE,),
        topics.recommendations: (_READ,),
        topics.items: (_READ,),
        topics.item_links: (_READ,),
    }


def check(
    connection: Connection, wanted: Mapping[str, Operations], process: str = "worker"
) -> None:
    """Refuse a topic that is absent, hidden from this user, or that lacks an operation."""
    admin: AdminClient = clients.admin(connection)
    described = admin.describe_topics(
        TopicCollection(list(wanted)), include_authorized_operations=True, request_timeout=_SECONDS
    )
    for topic, operations in wanted.items():
        granted = _granted(topic, described[topic], process)
        for operation in operations:
            if granted and not granted & {operation, AclOperation.ALL}:
                raise UserError(
                    f"topic {topic}: this user has no right to {operation.name.lower()} it; grant "
                    f"{operation.name} on it to the {process}'s user"
                )


def _granted(topic: str, described: Future[Any], process: str) -> set[AclOperation]:
    """Return the operations granted on a topic; empty if the broker reports none."""
    try:
        return set(described.result(timeout=_SECONDS).authorized_operations or ())
    except TimeoutError:
        raise UserError(
            f"topic {topic} cannot be described: the broker did not answer within "
            f"{_SECONDS:.0f} s; try again"
        ) from None
    except KafkaException as error:
        reason: KafkaError = error.args[0]
    if reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise UserError(hidden(topic, f"the {process}'s user"))
    if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise UserError(absent(topic))
    raise UserError(f"topic {topic} cannot be described: {reason.str()}")

"""The two topics of campaigns, read without a group, from the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from consumers.audit.campaigns.checks import Read
from consumers.audit.campaigns.stated import Stated, stated
from stream_app.aggregation.round_topics import ContributionTopic
from stream_app.kafka import topic_follower
from stream_app.kafka.clients import Connection
from stream_app.wire import Topics


def read_rounds(connection: Connection, topics: Topics) -> Stated:
    """Return what the log of rounds states; nothing where there is none."""
    if not topic_follower.exists(connection, topics.rounds):
        return Stated()
    return stated(message.value() for message in topic_follower.records(connection, topics.rounds))


@contextmanager
def contributions(connection: Connection, topics: Topics) -> Iterator[Read]:
    """Give a function that reads the records of a closed stage."""
    topic = ContributionTopic(connection, topics.contributions)
    try:
        yield topic.read
    finally:
        topic.close()

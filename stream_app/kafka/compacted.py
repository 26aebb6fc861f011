"""The records of a public topic of one partition, from its start to where it ends now.

The consumer reports ends (`clients.consumer(partition_eof=True)`) and is assigned, never
subscribed: it joins no group and commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_app.errors import UserError
from stream_app.kafka import clients

_PATIENCE_SECONDS = 10.0


def exists(consumer: Consumer, topic: str) -> bool:
    """Return whether the broker knows the topic; raises `UserError` where it falls silent."""
    try:
        found = consumer.list_topics(topic, timeout=_PATIENCE_SECONDS).topics[topic]
    except KafkaException as error:
        raise UserError(f"{topic}: cannot be read ({error.args[0].str()})") from None
    return found.error is None or found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART


def records(consumer: Consumer, topic: str) -> Iterator[Message]:
    """Yield every record; raises `UserError` where the broker falls silent before the end."""
    place = TopicPartition(topic, 0)
    low, high = clients.offsets(consumer, place, _PATIENCE_SECONDS)
    consumer.assign([TopicPartition(topic, 0, low)])
    deadline, here = time.monotonic() + _PATIENCE_SECONDS, low
    while here < high:
        message = consumer.poll(0.2)
        error = None if message is None else message.error()
        if message is not None and error is None:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            here = (message.offset() or 0) + 1
            yield message
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            break
        elif time.monotonic() > deadline:
            raise UserError(
                f"{topic}: could not be read to its end in {_PATIENCE_SECONDS:g} seconds"
            )
    consumer.unassign()

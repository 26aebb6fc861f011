"""A plain Kafka echo: the least that an answer over a broker costs.

A thread with a consumer and a producer of its own sends every record of one topic back on another;
the asker sends one at a time and waits for it, as a reader of recommendations does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer

from stream_app.kafka import clients
from stream_app.kafka.broker_answers import ends
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.wire import Topics

_SECONDS = 10.0


class Echo:
    """Asks for echoes of a query's size; make it with `echoing`."""

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._there, self._back = topics.queries, topics.recommendations
        self._producer = clients.producer(connection, linger_ms=0)
        self._answers = _reading(connection, self._back)

    def seconds(self) -> float:
        """Return how long one record takes there and back."""
        began = time.perf_counter()
        self._producer.produce(self._there, key=b"echo", value=bytes(200))
        self._producer.poll(0)
        while time.perf_counter() - began < _SECONDS:
            message = self._answers.poll(_SECONDS)
            if message is not None and message.error() is None:
                return time.perf_counter() - began
        raise RuntimeError(f"no echo within {_SECONDS} s")

    def close(self) -> None:
        """End the clients."""
        self._producer.flush(_SECONDS)
        self._answers.close()


def _reading(connection: Connection, topic: str) -> Consumer:
    """Return a consumer at the end of every partition of a topic."""
    consumer = clients.consumer(connection, group=f"{topic}-echo", fetch_wait_max_ms=100)
    consumer.assign(ends(consumer, topic))
    return consumer


@contextmanager
def echoing(bootstrap: str, prefix: str) -> Iterator[Echo]:
    """Run the echo on the topics of a prefix, which it makes."""
    connection, topics, ended = Connection(bootstrap), Topics(prefix), threading.Event()
    create(clients.admin(connection), topics.table())
    arrivals = _reading(connection, topics.queries)
    producer = clients.producer(connection, linger_ms=0)

    def serve() -> None:
        while not ended.is_set():
            message = arrivals.poll(0.1)
            if message is not None and message.error() is None:
                producer.produce(topics.recommendations, key=message.key(), value=message.value())
            producer.poll(0)

    thread = threading.Thread(target=serve, name="echo", daemon=True)
    thread.start()
    echo = Echo(connection, topics)
    try:
        for _ in range(20):  # connections and leaders are found
            echo.seconds()
        yield echo
    finally:
        ended.set()
        thread.join(1.0)
        echo.close()
        producer.flush(_SECONDS)
        arrivals.close()

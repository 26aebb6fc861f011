"""The items of the public catalogue, as they stand in its topic now."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from confluent_kafka import KafkaError, TopicPartition
from numpy.typing import NDArray

from stream_app import clients
from stream_app.catalogue import Catalogue
from stream_app.errors import Refusal
from stream_app.wire import Topics

_PATIENCE_SECONDS = 10.0


def catalogue(bootstrap: str, extra: Mapping[str, str], prefix: str) -> NDArray[np.uint64]:
    """Return the keys of the items that are not withdrawn, rising; refuses an empty catalogue."""
    topic, read = Topics(prefix).items, Catalogue()
    reader = clients.consumer(bootstrap, extra, partition_eof=True)
    try:
        low, high = clients.offsets(reader, TopicPartition(topic, 0), _PATIENCE_SECONDS)
        reader.assign([TopicPartition(topic, 0, low)])
        deadline, here = time.monotonic() + _PATIENCE_SECONDS, low
        while here < high:
            message = reader.poll(0.2)
            error = None if message is None else message.error()
            if message is not None and error is None:
                here = (message.offset() or 0) + 1
                read.learn(message.key(), message.value())
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                break
            elif time.monotonic() > deadline:
                raise Refusal(
                    f"{topic}: could not be read to its end in {_PATIENCE_SECONDS:g} seconds"
                )
    finally:
        reader.close()
    keys = [key for key, entry in read.entries.items() if not entry.withdrawn]
    if not keys:
        raise Refusal(f"{topic}: the catalogue is empty; give the public items with --scope FILE")
    return np.sort(np.array(keys, np.uint64))

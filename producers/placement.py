"""A producer that places records by the deployment's number of partitions, not by the broker's.

The partition of a device is murmur2(pseudonym) mod the number that the deployment began with. A
client's own partitioner takes the number that the broker reports now: partitions that were added
since would get records that no worker reads, and others would get records of devices that belong
elsewhere, which workers reject.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stream_app.wire.ids import partition_of


@dataclass(frozen=True, eq=False)
class PlacedProducer:
    """A `Producer` whose records of one topic lie in the first `partitions` of it."""

    producer: Any
    topic: str
    partitions: int

    def produce(
        self, topic: str, *, key: bytes, value: bytes, headers: Any = None, on_delivery: Any
    ) -> None:
        """Put a record into the queue; BufferError when it is full."""
        where = {"partition": partition_of(key, self.partitions)} if topic == self.topic else {}
        self.producer.produce(
            topic, key=key, value=value, headers=headers, on_delivery=on_delivery, **where
        )

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for at most `timeout` seconds."""
        return int(self.producer.poll(timeout))

    def flush(self, timeout: float) -> int:
        """Wait for all reports; return how many records are still without one."""
        return int(self.producer.flush(timeout))

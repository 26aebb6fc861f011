"""A real Apache Kafka for the demo, the tests and a laptop: configured, local or in a container.

resolve    chooses one of the three, in that order, or reports why none is available
jars       Kafka's jars, fetched once by Maven, and the Java program
local      one KRaft node from jars that Maven fetches once into the user's cache
detached   the same node in the background, for `murmurec broker`
container  the same node where a container engine answers
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stream_app.kafka.clients import Connection

KAFKA_VERSION = "4.3.1"


@dataclass(frozen=True)
class Broker:
    """A running broker at `bootstrap`; `pid` and `log` if a process of this machine runs it."""

    bootstrap: str
    kind: str
    pid: int | None = None
    log: Path | None = None

    @property
    def connection(self) -> Connection:
        """The connection to it, without credentials."""
        return Connection(self.bootstrap)

"""One Kafka producer for each account, of which a bounded number are open.

A batch on the wire and on the broker's disk carries the producer id of the client that sent it, so
one client for many accounts ties their pseudonyms together, whatever their keys. Here each account
has a client of its own: its own producer id, batches and connections. What is left is that they
share an address and a time.

At most `most` clients are open. A further account takes the place of the one that was longest
without a record, once all records of that one are confirmed; until then `produce` raises
`BufferError`, as a full queue does. An account that comes back gets a new client, so its records
stay in order.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from producers.publishing import Producer

MOST = 64


@dataclass
class AccountProducers:
    """A `Producer` that gives each record key a client of its own, made by `make`."""

    make: Callable[[], Producer]
    most: int = MOST
    clock: Callable[[], float] = time.monotonic
    _open: OrderedDict[bytes, Producer] = field(default_factory=OrderedDict, init=False)

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"most {self.most}: at least 1 producer")

    def __len__(self) -> int:
        """Number of open clients."""
        return len(self._open)

    def produce(
        self, topic: str, *, key: bytes, value: bytes, headers: Any = None, on_delivery: Any
    ) -> None:
        """Put a record into the queue of its account; BufferError when it is full, or when no
        client can be closed yet."""
        client = self._open.get(key)
        if client is None:
            if len(self._open) >= self.most:
                self._close_oldest()
            client = self._open[key] = self.make()
        client.produce(topic, key=key, value=value, headers=headers, on_delivery=on_delivery)
        self._open.move_to_end(key)

    def poll(self, timeout: float) -> int:
        """Serve the delivery reports of all clients; wait for at most `timeout` seconds, on the
        account that was longest without a record."""
        clients = list(self._open.values())
        served = sum(client.poll(0) for client in clients)
        if not served and clients and timeout > 0:
            served = clients[0].poll(timeout)
        return served

    def flush(self, timeout: float) -> int:
        """Wait for all reports; return how many records are still without one."""
        deadline = self.clock() + timeout
        return sum(
            client.flush(max(0.0, deadline - self.clock())) for client in self._open.values()
        )

    def _close_oldest(self) -> None:
        key = next(iter(self._open))
        if self._open[key].flush(0.0):
            raise BufferError("the records of an earlier account are not confirmed yet")
        del self._open[key]

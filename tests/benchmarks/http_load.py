"""A load of HTTP requests in a process of its own: every connection sends its next request when it
has the reply to the one before.

    python -m tests.benchmarks.http_load HOST PORT PATH CONNECTIONS SECONDS MECHANISM

Each request is a new event, its bytes made beforehand. Prints JSON: replies by status, the
seconds, and the quantiles of the time from request to reply, the first half second left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter

import numpy as np

WARM_SECONDS = 0.5
_MOST = 400_000


class Caller(asyncio.Protocol):
    """One connection with its own device, of which it counts the events."""

    def __init__(self, load: Load) -> None:
        self._load, self._device, self._seq = load, os.urandom(16).hex(), 0
        self._sent, self._reply = 0.0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._reply += data
        head, separator, body = self._reply.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        if len(body) < length:
            return
        self._load.replied(int(head[9:12]), time.perf_counter() - self._sent)
        self._reply = b""
        self._send()

    def _send(self) -> None:
        if self._load.is_over():
            self._transport.close()
            return
        self._seq += 1
        body = (
            b'{"v":1,"device":"%s","seq":%d,"mechanism":"%s","epoch":20778,'
            b'"items":[%d],"reports":[%d]}'
        ) % (self._device.encode(), self._seq, self._load.mechanism, self._seq, self._seq % 5)
        self._sent = time.perf_counter()
        self._transport.write(self._load.head % len(body) + body)


class Load:
    """What all connections share."""

    def __init__(self, host: str, path: str, seconds: float, mechanism: str) -> None:
        self.mechanism = mechanism.encode()
        self.head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            "Content-Length: "
        ).encode() + b"%d\r\n\r\n"
        self._began = time.perf_counter()
        self._ends = self._began + WARM_SECONDS + seconds
        self.statuses: Counter[int] = Counter()
        self.times: list[float] = []

    def is_over(self) -> bool:
        """Return whether no further request is sent."""
        return time.perf_counter() >= self._ends or len(self.times) >= _MOST

    def replied(self, status: int, seconds: float) -> None:
        """Count a reply."""
        if time.perf_counter() >= self._began + WARM_SECONDS:
            self.statuses[status] += 1
            self.times.append(seconds)


async def run(arguments: list[str]) -> dict[str, object]:
    """Return the result of one load."""
    host, port, path, connections, seconds, mechanism = arguments
    load, loop = Load(host, path, float(seconds), mechanism), asyncio.get_running_loop()
    for _ in range(int(connections)):
        await loop.create_connection(lambda: Caller(load), host, int(port))
    await asyncio.sleep(WARM_SECONDS + float(seconds) + 0.5)
    p50, p99 = np.quantile(load.times or [np.inf], (0.5, 0.99)).tolist()
    return {
        "statuses": load.statuses,
        "seconds": float(seconds),
        "p50_seconds": p50,
        "p99_seconds": p99,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(sys.argv[1:]))))

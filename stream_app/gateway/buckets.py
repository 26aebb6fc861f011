"""Token buckets in bounded memory: how often a client's address, or a device, may send."""

from __future__ import annotations

import socket

BURST_SECONDS = 4.0
MOST = 20_000
_MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address as IPv6 writes it


class Buckets:
    """A bucket for each key: `rate` a second after a burst of `BURST_SECONDS` times as many.

    Of more keys than `most`, the bucket that was used least recently is dropped, which starts full
    again. One that was not used for `BURST_SECONDS` is full anyway.
    """

    def __init__(self, rate: float, most: int = MOST) -> None:
        self._rate, self._most = rate, most
        self._burst = max(1.0, rate * BURST_SECONDS)
        self._left: dict[bytes, tuple[float, float]] = {}  # tokens, and when they were counted

    def __len__(self) -> int:
        return len(self._left)

    def wait(self, key: bytes, now: float) -> float:
        """Take a token; return 0, or the seconds until there is one. A rate of 0 is no limit, and
        an empty key has none: behind a relay there is no address."""
        if not self._rate or not key:
            return 0.0
        left, then = self._left.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        taken = left >= 1
        self._left[key] = (left - taken, now)
        if len(self._left) > self._most:
            del self._left[next(iter(self._left))]
        return 0.0 if taken else (1 - left) / self._rate


def client(address: str | None) -> bytes:
    """Return the key of a client's address: an IPv4 address, or the /64 of an IPv6 address, since
    a household has all of it."""
    text = (address or "").partition("%")[0]
    try:
        return socket.inet_pton(socket.AF_INET, text)
    except OSError:
        pass
    try:
        found = socket.inet_pton(socket.AF_INET6, text)
    except OSError:
        return b""
    return found[12:] if found.startswith(_MAPPED) else found[:8]

"""A producer that sends through a relay to a gateway, instead of to Kafka.

    produce --> waiting, in order --> POST /reports, sealed --> relay --> gateway --> on_delivery

Each message is a request of its own, and after the first failure no later one is sent. A 202 inside
of the seal is the gateway's word that Kafka has confirmed the message. After anything else it stays
in the journal, and a later run sends the same bytes: what is not in the seal may be the relay's.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections import deque
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

import msgspec
from confluent_kafka import KafkaError

from stream_app.errors import OlderJournal, UserError
from stream_app.web import binary_http, oblivious_http

_SECONDS = 30.0
_MOST_BYTES = 2**20
_POLL_SECONDS = 0.3


class _Reply(msgspec.Struct):
    partition: int = 0
    offset: int | None = None
    error: str = "no reason is given"


@dataclass(frozen=True)
class _Record:
    """A confirmed message, as Kafka's delivery reports have it."""

    reply: _Reply

    def partition(self) -> int:
        return self.reply.partition

    def offset(self) -> int:
        return -1 if self.reply.offset is None else self.reply.offset


def is_key(key: bytes) -> bool:
    """Return whether something can be sealed to a key of 32 bytes."""
    try:
        oblivious_http.seal_request(key, b"")
    except ValueError:
        return False
    return True


class RelayProducer:
    """Sends through the relay at an address to the gateway with the public `key`. `forged`: another
    event under a number of this device is not its own, and this one counts as sent."""

    def __init__(self, relay: str, key: bytes, *, forged: bool = False) -> None:
        self._relay, self._key, self._forged = relay.rstrip("/"), key, forged
        self._waiting: deque[tuple[bytes, Any]] = deque()
        self._failure: KafkaError | None = None

    def produce(self, _: str, *, key: bytes, value: bytes, on_delivery: Any) -> None:  # noqa: ARG002
        """Take a message, whose key the gateway knows from it; a later call sends it."""
        self._waiting.append((value, on_delivery))

    def poll(self, _: float) -> int:
        """Send what waits, beginning within `_POLL_SECONDS`, and report what became of it;
        `OlderJournal` where the gateway knows another of a number."""
        return self._served(_POLL_SECONDS)

    def _served(self, seconds: float) -> int:
        served, deadline = 0, time.monotonic() + seconds
        while self._waiting and (not served or time.monotonic() < deadline):
            self._send_one()
            served += 1
        return served

    def _send_one(self) -> None:
        value, reported = self._waiting.popleft()
        record = None
        if self._failure is None:
            try:
                record = _Record(self._sent(value))
            except OlderJournal:
                raise
            except UserError as error:
                self._failure = KafkaError(KafkaError._FAIL, str(error))
        reported(self._failure, record)

    def flush(self, timeout: float) -> int:
        """Send what waits, beginning within so many seconds; return how many still wait."""
        self._served(timeout)
        return len(self._waiting)

    def _sent(self, event: bytes) -> _Reply:
        """Return the gateway's answer that an event is in the log; UserError for any other."""
        kind = "application/json" if event[:1] == b"{" else "application/octet-stream"
        control = ("POST", "https", "", "/reports")
        asked = binary_http.encode(
            binary_http.Message((("content-type", kind),), event, 0, control)
        )
        sealed, answer = oblivious_http.seal_request(self._key, binary_http.padded(asked))
        received = self._posted(sealed)
        try:
            found = binary_http.decode(answer.open(received))
            reply = msgspec.json.decode(found.content, type=_Reply)
        except ValueError:
            raise UserError(f"the answer of the relay {self._relay} does not open") from None
        if found.status == 409 and self._forged:
            return _Reply()
        if found.status == 409:
            raise OlderJournal(
                "the gateway has another event under the number of this one, so the device journal "
                "is an older copy, which would spend a spent budget again: put the newest copy "
                "back; if it is lost, begin with another path (--journal), whose budget adds to "
                "what was spent. Or another client has forged that event: --trust-journal passes "
                "over it"
            )
        if found.status != 202:
            raise UserError(f"the gateway answers {found.status}: {reply.error}")
        return reply

    def _posted(self, sealed: bytes) -> bytes:
        headers = {"Content-Type": oblivious_http.REQUEST}
        request = urllib.request.Request(f"{self._relay}/ohttp", sealed, headers)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
                return bytes(reply.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 400:
                    raise UserError(
                        f"the gateway behind the relay {self._relay} does not open what is sealed "
                        f"to {self._key.hex()}: take its key again, from its operator"
                    ) from None
                raise UserError(f"the relay {self._relay} has no answer ({error.code})") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise UserError(f"the relay {self._relay} cannot be reached ({reason})") from None

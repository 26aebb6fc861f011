"""A producer that sends through a relay to a gateway, instead of to Kafka.

    produce --> waiting, in order --> POST, sealed --> relay --> gateway --> on_delivery

Each message is a request of its own, and after the first failure no later one is sent. A 202 inside
of the seal is the gateway's word that Kafka has confirmed the message. After anything else it stays
in the journal, and a later run sends the same bytes: what is not in the seal may be the relay's.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from producers.device.sealed_gateway import Reply, SealedGateway
from stream_app.errors import OlderJournal, UserError
from stream_app.wire.signatures import digest_of

_POLL_SECONDS = 0.3
_REUSED = ("seq_reused", "contributed")
_OVER = ("stage", "contribution")  # no later request with these bytes is answered otherwise


@dataclass(frozen=True)
class _Record:
    """A confirmed message, as Kafka's delivery reports have it."""

    reply: Reply

    def partition(self) -> int:
        return self.reply.partition

    def offset(self) -> int:
        return -1 if self.reply.offset is None else self.reply.offset


class RelayProducer:
    """Sends to a page of a gateway. `tag` is `Journal.tag`, by which other bytes under a number or
    stage of this device are known as another copy's, unless it is `trusted`. A message whose number
    others have used counts as sent, as what is too late does: `over` takes why."""

    def __init__(
        self,
        gateway: SealedGateway,
        path: str = "/reports",
        *,
        tag: Callable[[str, bytes, bytes], bytes],
        trusted: bool = False,
        over: Callable[[str], object],
    ) -> None:
        self._gateway, self._path, self._over = gateway, path, over
        self._tag, self._trusted = tag, trusted
        self._waiting: deque[tuple[str, bytes, bytes, Any, Any]] = deque()
        self._failure: KafkaError | None = None

    def produce(
        self, topic: str, *, key: bytes, value: bytes, headers: Any = None, on_delivery: Any
    ) -> None:
        """Take a message, whose key the gateway knows from it; a later call sends it."""
        self._waiting.append((topic, key, value, headers, on_delivery))

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
        topic, key, value, headers, reported = self._waiting.popleft()
        record = None
        if self._failure is None:
            try:
                record = _Record(self._sent(topic, key, value, headers))
            except OlderJournal:
                raise
            except UserError as error:
                self._failure = KafkaError(KafkaError._FAIL, str(error))
        reported(self._failure, record)

    def flush(self, timeout: float) -> int:
        """Send what waits, beginning within so many seconds; return how many still wait."""
        self._served(timeout)
        return len(self._waiting)

    def _sent(self, topic: str, key: bytes, value: bytes, headers: Any) -> Reply:
        """Return the gateway's answer that a message is in the log; UserError for any other."""
        kind = "application/json" if value[:1] == b"{" else "application/octet-stream"
        for name, content in headers or ():
            kind += f"; {name}={content.hex()}"
        found = self._gateway.asked("POST", self._path, value, kind)
        reply = Reply.from_answer(found)
        if found.status == 202:
            return reply
        if reply.reason in _REUSED:
            digest, tag = bytes.fromhex(reply.held[:32]), bytes.fromhex(reply.held[32:])
            own = digest != digest_of(value)  # an echo of this message proves nothing
            own = own and self._tag(topic, bytes.fromhex(key.decode()), digest) == tag
            if own and not self._trusted:
                raise OlderJournal(
                    "the gateway has other bytes of this device under the number, or for the "
                    "stage, of this message, so the device journal is an older copy, which would "
                    "spend a spent budget again: put the newest copy back; if it is lost, begin "
                    "with another path (--journal), whose budget adds to what was spent; "
                    "--trust-journal goes on with this copy and spends again"
                )
            self._over(
                f"the gateway has other bytes under the number or stage of this message "
                f"({reply.reason}), not of this device: it stays paid and does not count"
            )
            return Reply()
        if reply.reason in _OVER:
            self._over(
                f"the gateway takes a contribution no more ({reply.reason}): it stays paid, "
                "counted or not, and the next stage is looked for as ever"
            )
            return Reply()
        raise UserError(f"the gateway answers {found.status}: {reply.error}")

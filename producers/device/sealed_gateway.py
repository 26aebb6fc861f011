"""A gateway that is asked through a relay, in requests sealed to its key (RFC 9458).

    asked --POST /ohttp, sealed--> relay --> gateway --the answer, sealed--> Message

A relay sees addresses, times and sizes. What it answers by itself is not in the seal, and an error.

    produce --> waiting, in order --> POST, sealed --> relay --> gateway --> on_delivery

A producer sends each message as a request of its own, and after the first failure no later one. A
202 inside of the seal is the gateway's word that Kafka has confirmed the message. After anything
else it stays in the journal, and a later run sends the same bytes.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from typing import Annotated, Any

import msgspec
from confluent_kafka import KafkaError

from stream_app.errors import OlderJournal, UserError
from stream_app.web import binary_http, oblivious_http
from stream_app.web.binary_http import Message
from stream_app.wire.limits import MAX_TABLE_BYTES
from stream_app.wire.signatures import digest_of

_SECONDS = 30.0
_MOST_BYTES = 2 * MAX_TABLE_BYTES  # a public side, and what is around it


class Reply(msgspec.Struct):
    """What a gateway says in JSON of a message: its place, or why it is refused. `held`: digest and
    tag of what stands in its place."""

    partition: int = 0
    offset: int | None = None
    error: Annotated[str, msgspec.Meta(pattern=r"\A[ -~]{0,500}\Z")] = "no reason is given"
    reason: str = ""
    held: Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")] = ""

    @classmethod
    def from_answer(cls, found: Message) -> Reply:
        """Return what an answer says; UserError where it is no JSON for a terminal."""
        try:
            return msgspec.json.decode(found.content, type=cls)
        except ValueError:
            raise UserError(f"the gateway answers {found.status} and no readable JSON") from None


def is_key(key: bytes) -> bool:
    """Return whether something can be sealed to a key of 32 bytes."""
    try:
        oblivious_http.seal_request(key, b"")
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class SealedGateway:
    """The gateway with the public `key` behind the relay at an address."""

    relay: str
    key: bytes

    @classmethod
    def named(cls, text: str) -> SealedGateway:
        """Return the gateway of `URL#KEY`, which was checked."""
        relay, _, key = text.partition("#")
        return cls(relay.rstrip("/"), bytes.fromhex(key))

    def asked(self, method: str, path: str, content: bytes = b"", kind: str = "") -> Message:
        """Return the gateway's answer, whatever its status is; UserError without one."""
        fields = (("content-type", kind),) if kind else ()
        request = binary_http.encode(Message(fields, content, 0, (method, "https", "", path)))
        sealed, answer = oblivious_http.seal_request(self.key, binary_http.padded(request))
        received = self._posted(sealed)
        try:
            return binary_http.decode(answer.open(received))
        except ValueError:
            raise UserError(f"the answer of the relay {self.relay} does not open") from None

    def _posted(self, sealed: bytes) -> bytes:
        headers = {"Content-Type": oblivious_http.REQUEST}
        request = urllib.request.Request(f"{self.relay}/ohttp", sealed, headers)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
                return bytes(reply.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 400:
                    raise UserError(
                        f"the gateway behind the relay {self.relay} does not open what is sealed "
                        f"to {self.key.hex()}: take its key again, from its operator"
                    ) from None
                raise UserError(f"the relay {self.relay} has no answer ({error.code})") from None
        except (OSError, HTTPException, ValueError) as error:
            printed = ascii(str(getattr(error, "reason", error))[:200])  # a relay may choose it
            raise UserError(f"the relay {self.relay} cannot be reached ({printed})") from None


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

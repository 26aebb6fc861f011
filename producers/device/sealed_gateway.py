"""A gateway that is asked through a relay, in requests sealed to its key (RFC 9458).

    asked --POST /ohttp, sealed--> relay --> gateway --the answer, sealed--> Message

A relay sees addresses, times and sizes. What it answers by itself is not in the seal, and an error.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Annotated

import msgspec

from stream_app.errors import UserError
from stream_app.web import binary_http, oblivious_http
from stream_app.web.binary_http import Message
from stream_app.wire.limits import MAX_TABLE_BYTES

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

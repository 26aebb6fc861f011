"""HTTP messages as bytes (RFC 9292), in the known-length form, for what is sealed.

    request     0, method, scheme, authority, path, fields, content, trailer
    response    1, status, fields, content, trailer

Each part but the status has its length before it; lengths are integers of QUIC (RFC 9000, 16). A
part that is missing at the end is empty, and zeros after it are padding. A trailer is passed over.
`decode` raises ValueError, without what the bytes hold, for another form, a part that ends too
early, and characters that a line of HTTP/1.1 cannot hold.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PADDED_TO = 1024
"""A sealed message shows its length: that of a padded one is a multiple of this."""
_WORD, _VALUE = re.compile(rb"[!-~]+"), re.compile(rb"[ -~\t\x80-\xff]*")


class Message(NamedTuple):
    """A request (`control`: method, scheme, authority, path) or a response (`status`); names of
    fields are in lower case."""

    fields: tuple[tuple[str, str], ...] = ()
    content: bytes = b""
    status: int = 0
    control: tuple[str, ...] = ()


def encode(message: Message) -> bytes:
    """Return the bytes of a message, without padding."""
    parts = [_part(each.encode("latin-1")) for each in message.control]
    pairs = [text for pair in message.fields for text in pair]
    fields = b"".join(_part(text.encode("latin-1")) for text in pairs)
    begin = b"\0" if message.control else b"\1" + _integer(message.status)
    return b"".join((begin, *parts, _part(fields), _part(message.content), b"\0"))


def padded(message: bytes) -> bytes:
    """Return an encoded message with zeros up to the next multiple of `PADDED_TO`."""
    return message + bytes(-len(message) % PADDED_TO)


def decode(message: bytes) -> Message:
    """Return the message in some bytes; of responses a final one."""
    left, control, status = message[1:], list[str](), 0
    if message[:1] == b"\0":
        for form in (_WORD, _WORD, _VALUE, _WORD):
            value, left = _taken(left, form)
            control.append(value.decode("latin-1"))
    elif message[:1] == b"\1":
        status, left = _number(left)
    if not control and not 200 <= status < 600:
        raise ValueError("it is no request and no final response of known length")
    section, left = _taken(left or b"\0")
    content, left = _taken(left or b"\0")
    if _taken(left or b"\0")[1].strip(b"\0"):
        raise ValueError("it has more than zeros after its end")
    fields = []
    while section:
        name, section = _taken(section, _WORD)
        value, section = _taken(section, _VALUE)
        fields.append((name.decode("latin-1").lower(), value.decode("latin-1")))
    return Message(tuple(fields), content, status, tuple(control))


def _integer(value: int) -> bytes:
    power = next(power for power in range(4) if value < 1 << (8 * (1 << power) - 2))
    return (value | power << (8 * (1 << power) - 2)).to_bytes(1 << power)


def _part(value: bytes) -> bytes:
    return _integer(len(value)) + value


def _number(left: bytes) -> tuple[int, bytes]:
    """Return the integer at the beginning, and what follows it."""
    size = 1 << (left[0] >> 6) if left else 1
    if len(left) < size:
        raise ValueError("a part ends too early")
    return int.from_bytes(left[:size]) & ((1 << (8 * size - 2)) - 1), left[size:]


def _taken(left: bytes, form: re.Pattern[bytes] | None = None) -> tuple[bytes, bytes]:
    """Return the part at the beginning, and what follows it."""
    size, left = _number(left)
    if len(left) < size:
        raise ValueError("a part ends too early")
    if form is not None and form.fullmatch(left, 0, size) is None:
        raise ValueError("a part has a character that HTTP does not allow there")
    return left[:size], left[size:]

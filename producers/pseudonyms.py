"""Pseudonyms: the server's names of users, computed with a key that never leaves the device.

    pseudonym = first 16 bytes of HMAC-SHA256(key, user id in UTF-8)          (RFC 2104)

A pseudonym is stable for a key, so that a server can learn about a user. Without the key a user id
cannot be turned into a pseudonym or back, not even by trying every id. A pseudonym is not
anonymity: it links all ratings of one user. An id is opaque text, of which no byte is changed; an
integer is its decimal text: 7 and "7" are one user, "007" is another. Only a name that a person
types has one form first (`producers.ids`).
"""

from __future__ import annotations

import hmac

from stream_app import wire

KEY_BYTES = 32
MAX_USER_BYTES = 1024


def pseudonym(key: bytes, user: int | str) -> bytes:
    """Return the 16-byte pseudonym of a user id; ValueError for an id that cannot be one."""
    return hmac.digest(_checked(key), encoded(user), "sha256")[: wire.DEVICE_BYTES]


def _checked(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise ValueError(f"device key of {len(key)} bytes: must be {KEY_BYTES}")
    return key


def encoded(user: int | str) -> bytes:
    """Return the UTF-8 of a user id, 1 to 1024 bytes without NUL; ValueError for any
    other."""
    if isinstance(user, bool) or not isinstance(user, int | str):
        raise ValueError("user: a user id is text or an integer")  # noqa: TRY004 (one error for bad input)
    try:
        text = str(user).encode()
    except UnicodeEncodeError:
        raise ValueError("user: the id must be valid Unicode (no lone surrogate)") from None
    if not 1 <= len(text) <= MAX_USER_BYTES:
        raise ValueError(
            f"user of {len(text)} bytes: an id has 1 to {MAX_USER_BYTES} bytes of UTF-8"
        )
    if b"\0" in text:
        raise ValueError("user: the id must not contain the character NUL")
    return text

"""Pseudonyms: the server's names of users, computed with a key that never leaves the device.

    pseudonym = first 16 bytes of HMAC-SHA256(key, user id in UTF-8)          (RFC 2104)

A pseudonym is stable for a key, so that a server can learn about a user. Without the key a user id
cannot be turned into a pseudonym or back, not even by trying every id. A pseudonym is not
anonymity: it links all ratings of one user. An id is opaque text, of which no byte is changed; an
integer is its decimal text: 7 and "7" are one user, "007" is another. Only a name that a person
types has one form first:

    normalised(name) Unicode NFKC; characters that show nothing removed (zero width, joiners, marks
                     of direction, soft hyphens, selectors of a variant, control characters); the
                     decimal digits of every script as those of ASCII; white space around it
                     removed, and within it one space; a name of digits without leading zeros

So `"Ann "` is `"Ann"` and `"007"` is `"7"`: who adds a blank gets no second budget. It is the form
of `--user` and of `murmurec.Device`, and of nothing else: ids of items, files, sites and records
are opaque.

What reads differently stays apart, and so do spellings that only look alike: upper and lower case
("Ann", "ann"), letters of different scripts (Latin A, Cyrillic A), accents ("Zoe", "Zo\u00eb"),
punctuation. A person with two such names has two accounts.
"""

from __future__ import annotations

import hmac
import re
import unicodedata

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


_DIGITS = re.compile(r"[0-9]+")
# Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties) beyond the category Cf: unicodedata
# does not know it. Assigned and reserved ones, so that a later Unicode changes no form.
_IGNORABLE = (
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0xFFF9),
    *range(0xE0000, 0xE1000),
)
_REMOVED = ("Cf", "Cc")


class _Shown(dict[int, str]):
    """What each code point is in a name, for `str.translate`; worked out at its first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = character
        if character.isdecimal():
            shown = str(unicodedata.decimal(character))
        # White space is joined later; NUL stays, which no user id may contain.
        elif code and not character.isspace() and unicodedata.category(character) in _REMOVED:
            shown = ""
        self[code] = shown
        return shown


_shown = _Shown(dict.fromkeys(_IGNORABLE, ""))


def normalised(text: str) -> str:
    """Return the one form of a name; see the module.

    >>> normalised("  Ann\tLee "), normalised("0010"), normalised("\uff11\u0662")
    ('Ann Lee', '10', '12')
    >>> normalised("A\u200bnn")
    'Ann'
    """
    text = unicodedata.normalize("NFKC", text).translate(_shown)
    # Again: letters may compose once nothing is between them.
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    return (text.lstrip("0") or "0") if _DIGITS.fullmatch(text) else text

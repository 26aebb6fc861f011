"""The one form of an id, of a user or an item, before it names an account or a cell.

    normalised(id)   Unicode NFKC; characters that show nothing removed (zero width, joiners, marks
                     of direction, soft hyphens, selectors of a variant, control characters); the
                     decimal digits of every script as those of ASCII; white space around it
                     removed, and within it one space; an id of digits without leading zeros

So `"Ann "` is `"Ann"` and `"007"` is `"7"`: another spelling of an id is no other user with another
budget, and no other item with another report. An integer is its decimal text.

What reads differently stays apart, and so do spellings that only look alike: upper and lower case
("Ann", "ann"), letters of different scripts (Latin A, Cyrillic A), accents ("Zoe", "Zo\u00eb"),
punctuation. A person with two such ids has two accounts.
"""

from __future__ import annotations

import re
import unicodedata

from stream_app import wire

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
    """What each code point is in an id, for `str.translate`; worked out at its first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = character
        if character.isdecimal():
            shown = str(unicodedata.decimal(character))
        # White space is joined later; NUL stays, which no id may contain.
        elif code and not character.isspace() and unicodedata.category(character) in _REMOVED:
            shown = ""
        self[code] = shown
        return shown


_shown = _Shown(dict.fromkeys(_IGNORABLE, ""))


def normalised(text: str) -> str:
    """Return the one form of an id; see the module.

    >>> normalised("  Ann\tLee "), normalised("0010"), normalised("\uff11\u0662")
    ('Ann Lee', '10', '12')
    >>> normalised("A\u200bnn")
    'Ann'
    """
    text = unicodedata.normalize("NFKC", text).translate(_shown)
    # Again: letters may compose once nothing is between them.
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    return (text.lstrip("0") or "0") if _DIGITS.fullmatch(text) else text


def item_of(name: wire.Item) -> wire.Item:
    """Return the item that a device means: an integer, or the item of a text's one form.

    >>> item_of("0010"), item_of(" Heat"), item_of(7)
    (10, 'Heat', 7)
    """
    return wire.parse_item(normalised(name)) if isinstance(name, str) else name

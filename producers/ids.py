"""The one form of an id, of a user or an item, before it names an account or a cell.

    normalised(id)   Unicode NFKC; white space around it removed, and within it one space; an id of
                     ASCII digits without leading zeros. Upper and lower case stay apart.

So `"Ann "` is `"Ann"` and `"007"` is `"7"`: another spelling of an id is no other user with another
budget, and no other item with another report. An integer is its decimal text.
"""

from __future__ import annotations

import re
import unicodedata

from stream_app import wire

_DIGITS = re.compile(r"[0-9]+")


def normalised(text: str) -> str:
    """Return the one form of an id; see the module.

    >>> normalised("  Ann\tLee "), normalised("0010"), normalised("\uff11\uff12")
    ('Ann Lee', '10', '12')
    """
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    return (text.lstrip("0") or "0") if _DIGITS.fullmatch(text) else text


def item_of(name: wire.Item) -> wire.Item:
    """Return the item that a device means: an integer, or the item of a text's one form.

    >>> item_of("0010"), item_of(" Heat"), item_of(7)
    (10, 'Heat', 7)
    """
    return wire.parse_item(normalised(name)) if isinstance(name, str) else name

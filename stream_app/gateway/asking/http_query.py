"""A query over HTTP becomes the query that it is over Kafka.

/recommendations/{user}?k=10                     the list of a user
/recommendations/{user}?k=10&private=1/2         drawn, of a stated guarantee
/recommendations/{user}?k=10&neighbours=1        what devices with a similar profile have
/recommendations/{user}?k=10&for=now             for this visit; for=next, as without it: the next
/similar?item=5&k=10                             items near to one; a text id as it is

A parameter that is unknown or comes twice is refused: a query whose `private` is misspelt would
otherwise be answered with a list that hides nothing. No sentence repeats what was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from stream_app.wire import LIST_LENGTH, Item, Query, Visit, key, parse_item

NO_ID = "0" * 16
"""Of a query that is not under way yet; the asker gives it an id and a deadline."""
_USER = re.compile(r"[0-9a-f]{32}")
_NUMBER = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,13}|/[0-9]{1,13})?", re.ASCII)
_OF_LISTS = ("k", "private", "neighbours", "for")
_OF_SIMILAR = ("item", "k")


def list_query(user: str, given: Sequence[tuple[str, str]]) -> Query:
    """Return the query for the list of a user; ValueError with one sentence for a bad one.

    `given`: the parameters by name, in the order in which they came.
    """
    if not _USER.fullmatch(user):
        raise ValueError("user: a pseudonym has 32 hex characters, lower case")
    options = _once(given, _OF_LISTS)
    if options.get("neighbours", "1") != "1":
        raise ValueError("neighbours: give 1, or leave it out")
    return Query(
        NO_ID,
        user,
        _length(options),
        0,
        private=_epsilon(options["private"]) if "private" in options else msgspec.UNSET,
        neighbours=True if "neighbours" in options else msgspec.UNSET,
        for_=_visit(options["for"]) if "for" in options else msgspec.UNSET,
    )


def similar_query(given: Sequence[tuple[str, str]]) -> Query:
    """Return the query for items near to one; ValueError with one sentence for a bad one."""
    options = _once(given, _OF_SIMILAR)
    if "item" not in options:
        raise ValueError("item: give the id of an item, /similar?item=ID")
    return Query(NO_ID, None, _length(options), 0, similar_to=_item(options["item"]))


def _once(given: Sequence[tuple[str, str]], known: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in given:
        if name not in known:
            raise ValueError(f"a parameter is not known here: give {', '.join(known)}")
        if name in found:
            raise ValueError(f"{name}: give it once")
        found[name] = value
    return found


def _length(given: Mapping[str, str]) -> int:
    k = given.get("k", "10")
    if not re.fullmatch(r"[0-9]{1,3}", k) or not 1 <= int(k) <= LIST_LENGTH:
        raise ValueError(f"k: ask for 1 to {LIST_LENGTH} items")
    return int(k)


def _visit(text: str) -> Visit:
    if text not in ("next", "now"):
        raise ValueError("for: give next or now")
    return "now" if text == "now" else "next"


def _item(text: str) -> Item:
    item = parse_item(text)
    key(item)
    return item


def _epsilon(text: str) -> Fraction:
    if not _NUMBER.fullmatch(text) or set(text.partition("/")[2]) == {"0"}:
        raise ValueError("private: give an epsilon, as 2, 0.5 or 1/2")
    epsilon = Fraction(text)
    if epsilon <= 0:
        raise ValueError("private: give an epsilon above 0")
    return epsilon

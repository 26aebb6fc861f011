"""A query over HTTP becomes the query that it is over Kafka.

/recommendations/{user}?k=10                     the list of a user
/recommendations/{user}?k=10&private=1/2         drawn, of a stated guarantee
/recommendations/{user}?k=10&neighbours=1        what devices with a similar profile have
/similar?item=5&k=10                             items near to one; a text id as it is
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from stream_app.wire import LIST_LENGTH, MAX_SEQ, Item, Query, key, parse_item

_USER = re.compile(r"[0-9a-f]{32}")
_NUMBER = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,13}|/[0-9]{1,13})?", re.ASCII)


def list_query(user: str, given: Mapping[str, str]) -> Query:
    """Return the query for the list of a user; ValueError with one sentence for a bad one."""
    if not _USER.fullmatch(user):
        raise ValueError("user: a pseudonym has 32 hex characters")
    if given.get("neighbours", "1") != "1":
        raise ValueError("neighbours: give 1, or leave it out")
    return Query(
        _NO_ID,
        user,
        _length(given),
        MAX_SEQ,
        private=_epsilon(given["private"]) if "private" in given else msgspec.UNSET,
        neighbours=True if "neighbours" in given else msgspec.UNSET,
    )


def similar_query(given: Mapping[str, str]) -> Query:
    """Return the query for items near to one; ValueError with one sentence for a bad one."""
    if "item" not in given:
        raise ValueError("item: give the id of an item, /similar?item=ID")
    return Query(_NO_ID, None, _length(given), MAX_SEQ, similar_to=_item(given["item"]))


_NO_ID = "0" * 16  # an HTTP reply needs no correlation


def _length(given: Mapping[str, str]) -> int:
    k = given.get("k", "10")
    if not re.fullmatch(r"[0-9]{1,3}", k) or not 1 <= int(k) <= LIST_LENGTH:
        raise ValueError(f"k: ask for 1 to {LIST_LENGTH} items")
    return int(k)


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

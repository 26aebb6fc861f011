"""Adjacency: the pairs of inputs whose reports epsilon makes hard to distinguish."""

from __future__ import annotations

from enum import StrEnum


class Adjacency(StrEnum):
    """The difference between two neighbouring inputs; epsilons of different kinds do not add."""

    CELL = "cell"  # one (user, item) cell, missing <-> present included
    VALUE = "value"  # the value of one rating whose presence is public
    EVENT = "event"  # one rating event, added or replaced by nothing
    USER = "user"  # one user's whole record
    NOTHING = "nothing"  # no neighbours: nothing is protected

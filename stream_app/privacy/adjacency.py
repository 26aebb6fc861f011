"""What an epsilon protects: the kind of neighbours that reports cannot distinguish."""

from __future__ import annotations

from enum import StrEnum


class Adjacency(StrEnum):
    """What two neighbouring inputs differ in; epsilons of different kinds do not add."""

    CELL = "cell"  # one (user, item) cell, missing <-> present included
    VALUE = "value"  # the value of one rating whose presence is public
    EVENT = "event"  # one rating event, added or replaced by nothing
    USER = "user"  # one user's whole record
    NOTHING = "nothing"  # no neighbours: nothing is protected

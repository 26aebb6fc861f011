"""Rating mechanisms by name: from a wire id or typed fields to the frozen value.

    rr:5:2            randomized response over 5 levels, epsilon 2 per rating
    partition:5:2     the same over a public partition of the levels, named by a mask per report
    cell:5:1/2        randomized response over 5 levels and "missing", epsilon 1/2 per cell
    ternary:5:2       levels rounded to -1 or +1 by a coin, then the same over three symbols
    laplace:5:2       discrete Laplace noise on the level, now and then "missing"
    cell:5:2:1/4      a quarter of the reports that are not "missing" published (as for ternary
                      and laplace)
    like:5:2          one bit, "rated and at least 4 of 5 stars", epsilon 2 per cell
    like:5:2:4        the same from level index 4 on, where that is not the default
    none:5:inf        no protection

`MECHANISMS` is the one table of families. Command line, certificates, contract tests and the tables
of docs/privacy.md read it; a new mechanism is one file and one row.

An id is canonical: one channel has one id, so an allow-list can compare text. `parse` therefore
refuses `rr:05:2`, `rr:5:2/4`, `rr:5:0.5`, `cell:5:2:1` and `like:5:2:3`, while `mechanism` accepts
such numbers and turns them into exact rationals.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from stream_app.privacy.exact.table_mechanism import PresenceMechanism
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.parsing import Number, parse_fraction, shorten
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary

MECHANISMS: tuple[type[Mechanism], ...] = (
    RandomizedResponse,
    PartitionResponse,
    RandomizedResponseWithMissing,
    Ternary,
    ModifiedLaplace,
    Like,
    Identity,
)
_EPSILON = "a number above 0 and at most 64, as 2, 0.5 or 1/2"
_THINNING = "a number above 0 and at most 1, as 0.25 or 1/4"
_EXACT = "[0-9]{1,9}(?:/[0-9]{1,9})?"
_ID = re.compile(rf"([a-z]{{1,16}}):([0-9]{{1,3}}):({_EXACT}|inf)(?::({_EXACT}))?", re.ASCII)
_INDEX = re.compile("[0-9]{1,3}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}|/[0-9]{1,9})?", re.ASCII)


def families(*adjacencies: Adjacency) -> tuple[str, ...]:
    """Return the names of all families in the order of the table, or those of some adjacencies."""
    wanted = adjacencies or tuple(Adjacency)
    return tuple(each.family for each in MECHANISMS if each.adjacency in wanted)


def protecting() -> tuple[str, ...]:
    """Return the families that claim an epsilon."""
    return tuple(each.family for each in MECHANISMS if each.adjacency is not Adjacency.NOTHING)


def family_class(family: str) -> type[Mechanism]:
    """Return the row of a family; ValueError, with the families, for an unknown name."""
    for each in MECHANISMS:
        if each.family == family:
            return each
    raise ValueError(f"mechanism {shorten(family)}: unknown; choose one of {', '.join(families())}")


def parse(id: str) -> Mechanism:
    """Return the mechanism of a canonical id; raises ValueError for any other text."""
    match = _ID.fullmatch(id) if isinstance(id, str) else None
    if match is None:
        raise ValueError(
            f"mechanism {shorten(id)}: an id is family:levels:epsilon, "
            "such as rr:5:2, rr:5:1/2 or none:5:inf"
        )
    family, levels, epsilon, more = match.groups()
    asked = {} if more is None else {_fourth(family): more}
    found = mechanism(family, int(levels), epsilon, **asked)
    if found.id != id:
        raise ValueError(f"mechanism {id!r}: not the canonical id; write {found.id!r}")
    return found


def _fourth(family: str) -> str:
    """Return the name of a family's fourth field."""
    return "threshold" if issubclass(family_class(family), Like) else "thinning"


def mechanism(
    family: str,
    levels: int,
    epsilon: Number | None,
    thinning: Number | None = None,
    threshold: int | str | None = None,
) -> Mechanism:
    """Return a family's mechanism; epsilon as "2", "0.5", "1/2" or Fraction, None for `none`.

    `thinning` is the published fraction of the reports of a mechanism that protects presence; None
    means all. `threshold` is the lowest level index that `like` reports as a like; None means 7/10
    of the scale.
    """
    found = family_class(family)
    make: Callable[..., Mechanism] = found
    if thinning is not None and not issubclass(found, PresenceMechanism):
        raise ValueError(
            f"thinning {shorten(thinning)}: only {', '.join(_kinds(PresenceMechanism))} can "
            "publish a part of their reports; leave it out"
        )
    if threshold is not None and not issubclass(found, Like):
        raise ValueError(
            f"threshold {shorten(threshold)}: only {', '.join(_kinds(Like))} asks for likes; "
            "leave it out"
        )
    if found.adjacency is Adjacency.NOTHING:
        if epsilon not in (None, "inf"):
            raise ValueError(
                f"epsilon {shorten(epsilon)}: the family {family} protects nothing and has no "
                "epsilon; leave it out"
            )
        return make(levels)
    exact = parse_fraction(epsilon, _NUMBER, "epsilon", _EPSILON)
    if thinning is not None:
        return make(levels, exact, parse_fraction(thinning, _NUMBER, "thinning", _THINNING))
    return make(levels, exact) if threshold is None else make(levels, exact, _index(threshold))


def _kinds(kind: type) -> list[str]:
    """Return the names of the families that are of a kind."""
    return [each.family for each in MECHANISMS if issubclass(each, kind)]


def _index(threshold: int | str) -> int:
    """Return a threshold as an index; the mechanism checks the range."""
    if isinstance(threshold, str) and _INDEX.fullmatch(threshold):
        return int(threshold)
    if type(threshold) is int:
        return threshold
    raise ValueError(f"threshold {shorten(threshold)}: give the index of a level, as 3")

"""Rating mechanisms by name: from a wire id or typed fields to the frozen value.

    rr:5:2            randomized response over 5 levels, epsilon 2 per rating
    partition:5:2     the same over a public partition of the levels, named by a mask per report
    cell:5:1/2        randomized response over 5 levels and "missing", epsilon 1/2 per cell
    ternary:5:2       levels rounded to -1 or +1 by a coin, then the same over three symbols
    laplace:5:2       discrete Laplace noise on the level, now and then "missing"
    cell:5:2:1/4      a quarter of the reports that are not "missing" published (as for ternary
                      and laplace)
    none:5:inf        no protection

`MECHANISMS` is the one table of families. Command line, certificates, contract tests and the tables
of PRIVACY.md read it; a new mechanism is one file and one row.

An id is canonical: one channel has one id, so an allow-list can compare text. `parse` therefore
refuses `rr:05:2`, `rr:5:2/4`, `rr:5:0.5` and `cell:5:2:1`, while `mechanism` accepts such numbers
and turns them into exact rationals. Mechanisms over whole profiles have their own registry
(`stream_app.privacy.profiles.registry`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.exact.table_mechanism import PresenceMechanism
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.parsing import Number, parse_fraction, shorten
from stream_app.privacy.ratings.identity import Identity
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
    Identity,
)
_EPSILON = "a number above 0 and at most 64, as 2, 0.5 or 1/2"
_THINNING = "a number above 0 and at most 1, as 0.25 or 1/4"
_EXACT = "[0-9]{1,9}(?:/[0-9]{1,9})?"
_ID = re.compile(rf"([a-z]{{1,16}}):([0-9]{{1,3}}):({_EXACT}|inf)(?::({_EXACT}))?", re.ASCII)
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
    family, levels, epsilon, thinning = match.groups()
    found = mechanism(family, int(levels), epsilon, thinning)
    if found.id != id:
        raise ValueError(f"mechanism {id!r}: not the canonical id; write {found.id!r}")
    return found


def mechanism(
    family: str, levels: int, epsilon: Number | None, thinning: Number | None = None
) -> Mechanism:
    """Return a family's mechanism; epsilon as "2", "0.5", "1/2" or Fraction, None for `none`.

    `thinning` is the published fraction of the reports of a mechanism that protects presence; None
    means all.
    """
    found = family_class(family)
    make: Callable[..., Mechanism] = found
    thinnable = issubclass(found, PresenceMechanism)
    if thinning is not None and not thinnable:
        raise ValueError(
            f"thinning {shorten(thinning)}: only {', '.join(families(Adjacency.CELL))} can publish "
            "a part of their reports; leave it out"
        )
    if found.adjacency is Adjacency.NOTHING:
        if epsilon not in (None, "inf"):
            raise ValueError(
                f"epsilon {shorten(epsilon)}: the family {family} protects nothing and has no "
                "epsilon; leave it out"
            )
        return make(levels)
    exact = parse_fraction(epsilon, _NUMBER, "epsilon", _EPSILON)
    if thinning is None:
        return make(levels, exact)
    return make(levels, exact, parse_fraction(thinning, _NUMBER, "thinning", _THINNING))

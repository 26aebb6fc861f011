"""Rating mechanisms by name: from the wire id, or what a person types, to the frozen value.

    rr:5:2            randomized response over 5 levels, epsilon 2 per rating
    partition:5:2     the same over a public partition of the levels, named by a mask per report
    cell:5:1/2        randomized response over 5 levels and "missing", epsilon 1/2 per cell
    ternary:5:2       levels rounded to -1 or +1 by a coin, then the same over three symbols
    laplace:5:2       discrete Laplace noise on the level, now and then "missing"
    cell:5:2:1/4      a quarter of what says something published (as for ternary and laplace)
    none:5:inf        no protection

An id is canonical: one channel has one id, so that an allow-list can compare text. `parse`
therefore refuses `rr:05:2`, `rr:5:2/4`, `rr:5:0.5` and `cell:5:2:1`; people write what they like
and `mechanism` turns it into exact rationals. Mechanisms over whole profiles have ids of their own.
"""

from __future__ import annotations

import re
from fractions import Fraction

from stream_app.privacy.exact.table_mechanism import PresenceMechanism
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.parsing import Number, parse_fraction, shorten
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary

_VALUE: dict[str, type[RandomizedResponse] | type[PartitionResponse]] = {
    "rr": RandomizedResponse,
    "partition": PartitionResponse,
}
_PRESENCE: dict[str, type[PresenceMechanism]] = {
    "cell": RandomizedResponseWithMissing,
    "ternary": Ternary,
    "laplace": ModifiedLaplace,
}
_SHARE = "a number above 0 and at most 1, as 0.25 or 1/4"
FAMILIES = (*_VALUE, *_PRESENCE, "none")
_EXACT = "[0-9]{1,9}(?:/[0-9]{1,9})?"
_ID = re.compile(rf"([a-z]{{1,16}}):([0-9]{{1,3}}):({_EXACT}|inf)(?::({_EXACT}))?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}|/[0-9]{1,9})?", re.ASCII)


def parse(id: str) -> Mechanism:
    """Return the mechanism that a canonical id names; raises ValueError for any other text."""
    match = _ID.fullmatch(id) if isinstance(id, str) else None
    if match is None:
        raise ValueError(
            f"mechanism {shorten(id)}: an id is family:levels:epsilon, "
            "such as rr:5:2, rr:5:1/2 or none:5:inf"
        )
    family, levels, epsilon, share = match.groups()
    found = mechanism(family, int(levels), epsilon, share)
    if found.id != id:
        raise ValueError(f"mechanism {id!r}: not the canonical id; write {found.id!r}")
    return found


def mechanism(
    family: str, levels: int, epsilon: Number | None, share: Number | None = None
) -> Mechanism:
    """Return a family's mechanism; epsilon as "2", "0.5", "1/2" or Fraction, None for `none`.

    `share` is what is published of a mechanism that protects presence; None for all of it.
    """
    if family in _PRESENCE:
        kept = Fraction(1) if share is None else parse_fraction(share, _NUMBER, "share", _SHARE)
        return _PRESENCE[family](levels, _epsilon(epsilon), kept)
    if share is not None:
        raise ValueError(
            f"share {shorten(share)}: only {', '.join(_PRESENCE)} can publish a share; leave it out"
        )
    if family in _VALUE:
        return _VALUE[family](levels, _epsilon(epsilon))
    if family == "none":
        if epsilon not in (None, "inf"):
            raise ValueError(
                f"epsilon {shorten(epsilon)}: the family none protects nothing and has no epsilon; "
                "leave it out"
            )
        return Identity(levels)
    raise ValueError(f"mechanism {shorten(family)}: unknown; there are {', '.join(FAMILIES)}")


def _epsilon(written: Number | None) -> Fraction:
    wanted = "a number above 0 and at most 64, as 2, 0.5 or 1/2"
    return parse_fraction(written, _NUMBER, "epsilon", wanted)

"""Mechanisms by name: from `family:levels:epsilon`, or what a person types, to the frozen value.

    rr:5:2         randomized response over 5 levels, epsilon 2 per rating
    rr:10:1/2      the same over 10 levels, epsilon 1/2
    none:5:inf     no protection

An id is canonical: one channel has one id, so that an allow-list can compare text. `parse`
therefore refuses `rr:05:2`, `rr:5:2/4` and `rr:5:0.5`; people write what they like and `mechanism`
turns it into the exact rational.
"""

from __future__ import annotations

import re
from fractions import Fraction

from stream_app.privacy.identity import Identity
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomized_response import RandomizedResponse

FAMILIES = ("rr", "none")
_ID = re.compile(r"([a-z]{1,16}):([0-9]{1,3}):([0-9]{1,9}(?:/[0-9]{1,9})?|inf)", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}|/[0-9]{1,9})?", re.ASCII)


def parse(id: str) -> Mechanism:
    """Return the mechanism that a canonical id names; raises ValueError for any other text."""
    match = _ID.fullmatch(id) if isinstance(id, str) else None
    if match is None:
        raise ValueError(
            f"mechanism {_shown(id)}: an id is family:levels:epsilon, "
            "such as rr:5:2, rr:5:1/2 or none:5:inf"
        )
    family, levels, epsilon = match.groups()
    found = mechanism(family, int(levels), epsilon)
    if found.id != id:
        raise ValueError(f"mechanism {id!r}: not the canonical id; write {found.id!r}")
    return found


def mechanism(family: str, levels: int, epsilon: Fraction | str | None) -> Mechanism:
    """Return a family's mechanism; epsilon as "2", "0.5", "1/2" or Fraction, None for `none`."""
    if family == "none":
        if epsilon not in (None, "inf"):
            raise ValueError(
                f"epsilon {_shown(epsilon)}: the family none protects nothing and has no epsilon; "
                "leave it out"
            )
        return Identity(levels)
    if family == "rr":
        return RandomizedResponse(levels, _exact(epsilon))
    raise ValueError(f"mechanism {_shown(family)}: unknown; there are {', '.join(FAMILIES)}")


def _exact(epsilon: Fraction | str | None) -> Fraction:
    """Return the rational that a person wrote; its range is checked by the mechanism."""
    if isinstance(epsilon, Fraction):
        return epsilon
    text = epsilon.strip() if isinstance(epsilon, str) else ""
    try:
        if _NUMBER.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise ValueError(
        f"epsilon {_shown(epsilon)}: give a number above 0 and at most 64, as 2, 0.5 or 1/2"
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

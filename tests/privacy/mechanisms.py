"""Every mechanism that there is, for the tests of what all promise; a new one joins the table."""

from __future__ import annotations

from fractions import Fraction

from stream_app.privacy.identity import Identity
from stream_app.privacy.randomized_response import RandomizedResponse

EPSILONS = tuple(Fraction(text) for text in ("1/10", "1/2", "1", "2", "3", "4", "8"))
LEVELS = (2, 5, 10)
EVERY_RANDOMIZED_RESPONSE = tuple(RandomizedResponse(d, e) for d in LEVELS for e in EPSILONS)
EVERY_MECHANISM = (*EVERY_RANDOMIZED_RESPONSE, *(Identity(d) for d in LEVELS))


def name(mechanism: object) -> str:
    return mechanism.id  # type: ignore[attr-defined, no-any-return]

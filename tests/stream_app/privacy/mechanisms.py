"""Every rating mechanism that there is, for the tests of what all promise; a new one joins the
table.
"""

from __future__ import annotations

from fractions import Fraction

from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary

EPSILONS = tuple(Fraction(text) for text in ("1/10", "1/2", "1", "2", "3", "4", "8"))
LEVELS = (2, 5, 10)
QUARTER = Fraction(1, 4)
PRESENCE = (RandomizedResponseWithMissing, Ternary, ModifiedLaplace)

EVERY_RANDOMIZED_RESPONSE = tuple(RandomizedResponse(d, e) for d in LEVELS for e in EPSILONS)
EVERY_PARTITION = tuple(PartitionResponse(d, e) for d in LEVELS for e in EPSILONS)
EVERY_PRESENCE = (
    *(family(d, e) for family in PRESENCE for d in LEVELS for e in EPSILONS),
    *(family(5, e, QUARTER) for family in PRESENCE for e in EPSILONS),
)
EVERY_PROTECTING = (*EVERY_RANDOMIZED_RESPONSE, *EVERY_PARTITION, *EVERY_PRESENCE)
EVERY_MECHANISM = (*EVERY_PROTECTING, *(Identity(d) for d in LEVELS))


def name(mechanism: object) -> str:
    return mechanism.id  # type: ignore[attr-defined, no-any-return]

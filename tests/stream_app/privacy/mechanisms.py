"""Every row of the registry at many claims, for the tests of what all mechanisms promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from stream_app.privacy import registry
from stream_app.privacy.exact.table_mechanism import PresenceMechanism
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary

EPSILONS = tuple(Fraction(text) for text in ("1/10", "1/2", "1", "2", "3", "4", "8"))
LEVELS = (2, 5, 10)
QUARTER = Fraction(1, 4)
PRESENCE = (RandomizedResponseWithMissing, Ternary, ModifiedLaplace)


def of_families(families: Sequence[type[Mechanism]]) -> tuple[Mechanism, ...]:
    """Return the families at every scale and epsilon; thinned too, and with other
    thresholds, where they can be."""
    found: list[Mechanism] = []
    for family in families:
        make: Callable[..., Mechanism] = family
        if family.adjacency is Adjacency.NOTHING:
            found += [make(levels) for levels in LEVELS]
            continue
        found += [make(levels, epsilon) for levels in LEVELS for epsilon in EPSILONS]
        if issubclass(family, PresenceMechanism):
            found += [make(5, epsilon, QUARTER) for epsilon in EPSILONS]
        if issubclass(family, Like):
            found += [make(5, epsilon, level) for epsilon in EPSILONS for level in (0, 4)]
    return tuple(found)


EVERY_RANDOMIZED_RESPONSE = tuple(RandomizedResponse(d, e) for d in LEVELS for e in EPSILONS)
EVERY_PARTITION = tuple(PartitionResponse(d, e) for d in LEVELS for e in EPSILONS)
EVERY_PRESENCE = of_families(PRESENCE)
EVERY_MECHANISM = of_families(registry.MECHANISMS)
EVERY_PROTECTING = tuple(
    each for each in EVERY_MECHANISM if each.adjacency is not Adjacency.NOTHING
)


def name(mechanism: object) -> str:
    return mechanism.id  # type: ignore[attr-defined, no-any-return]

"""Randomized response over a public partition of the levels: reports a group, not a level.

    mask    bit v set  =  a group ends after level v              1 .. 2^(levels-1) - 1
    groups  g(v) = number of set bits of mask below bit v         0 .. Z-1,   Z = popcount(mask) + 1
    report  randomized response over the Z groups (Zheng 2016, Def. 3 without "missing"):

            P(z | v) = e^eps / (e^eps + Z - 1)  for z = g(v),   1 / (e^eps + Z - 1)  otherwise

Five levels under mask 0b0100: {0, 1, 2} {3, 4}. Fewer groups make a true report more probable at
the same epsilon (Zheng's d enters only through Z), so a device may choose the most informative
partition for each item. The mask is sent beside the report and is public: it must be chosen from
public data or earlier reports alone. Given the mask, the likelihoods of a report under two values
of one rating differ by at most a factor e^eps. Mask 0 has a single group and no information, so it
is refused.

A channel with fewer groups than levels cannot be inverted, so it has no unbiased estimate of the
level. The mask of all singletons has one, but `value` and `square` return NaN even there, because
they see the report without its mask; decode with `likelihood(mask)` instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import Certificate, certify
from stream_app.privacy.exact.integer_tables import Table
from stream_app.privacy.mechanism import (
    VALUE_OBSERVED,
    VALUE_PROTECTED,
    Mechanism,
    check_epsilon,
    check_inputs,
    check_levels,
)
from stream_app.privacy.privacy_map import Adjacency, OutputMeasure
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ticket import admitted

MOST_LEVELS = 11  # a mask has levels - 1 bits and each has its own channel on the server


@dataclass(frozen=True)
class PartitionResponse(Mechanism):
    """Report the group of the true level under a public mask; see the module.

    Adjacency: value. Pure epsilon-DP per rating under every mask, certified on construction. Raises
    ValueError outside 2 <= levels <= 11 and 1/1000000 <= epsilon <= 64.

    >>> PartitionResponse(5, Fraction(2)).id
    'partition:5:2'
    """

    levels: int
    epsilon: Fraction
    _responses: tuple[Table, ...] = field(init=False, repr=False, compare=False)
    _groups: NDArray[np.uint8] = field(init=False, repr=False, compare=False)

    family: ClassVar[str] = "partition"
    adjacency: ClassVar[Adjacency] = Adjacency.VALUE
    output_measure: ClassVar[OutputMeasure] = OutputMeasure.PURE
    protected: ClassVar[str] = f"{VALUE_PROTECTED}; the groups are public"
    observed: ClassVar[str] = f"{VALUE_OBSERVED}, and the groups"
    limit: ClassVar[str] = "no unbiased value without the model; use `rr` for sums and means"
    no_estimate: ClassVar[frozenset[str]] = frozenset({"value", "square"})

    def __post_init__(self) -> None:
        check_levels(self.levels, MOST_LEVELS, self.family)
        check_epsilon(self.epsilon)
        sizes = range(2, self.levels + 1)
        responses = tuple(RandomizedResponse(z, self.epsilon).table() for z in sizes)
        object.__setattr__(self, "_responses", responses)
        bits = np.arange(2 ** (self.levels - 1))[:, None] >> np.arange(self.levels - 1) & 1
        groups = np.zeros((len(bits), self.levels), np.uint8)
        groups[:, 1:] = bits.cumsum(axis=1)
        groups.flags.writeable = False
        object.__setattr__(self, "_groups", groups)

    @property
    def masks(self) -> range:
        """All masks with two or more groups."""
        return range(1, 2 ** (self.levels - 1))

    def groups(self, mask: int) -> NDArray[np.uint8]:
        """Return the group of each level under `mask`, shape (levels,)."""
        if mask not in self.masks:
            raise ValueError(f"mask {mask}: {self.id} takes masks 1 to {self.masks[-1]}")
        return np.asarray(self._groups[mask], np.uint8)

    def table(self, mask: int = 0) -> Table:
        """Return the integer table of a mask, shape (levels, groups); ValueError for mask 0."""
        groups = self.groups(mask)
        return Table(tuple(self._response(groups).counts[g] for g in groups))

    def certify(self) -> tuple[Certificate, ...]:
        """Prove the claim again for each number of groups; the masks share these tables."""
        return tuple(
            certify(table, self.id, self.epsilon, self.adjacency) for table in self._responses
        )

    def release(
        self,
        inputs: NDArray[np.uint8],
        source: RandomSource,
        masks: NDArray[np.uint16] | None = None,
    ) -> NDArray[np.uint8]:
        """Turn (n,) level indices under (n,) uint16 masks into (n,) groups, one word for each.

        All rows are checked before a word is drawn: a wrong mask in one row releases nothing.
        """
        check_inputs(inputs, self.levels)
        checked = self._checked(masks, len(inputs))
        words = admitted(source, self, len(inputs)).words(len(inputs))
        groups = self._groups[checked, inputs]
        last = self._groups[checked, self.levels - 1]  # public, like the mask
        reports = np.empty(len(inputs), np.uint8)
        for size, response in enumerate(self._responses, start=1):
            rows = np.flatnonzero(last == size)
            reports[rows] = response.sample(groups[rows], words[rows])
        return reports

    def likelihood(self, mask: int = 0) -> NDArray[np.float64]:
        """Return P(z | v) under `mask`, shape (groups, levels)."""
        groups = self.groups(mask)
        return np.asarray(self._response(groups).probabilities()[:, groups], np.float64)

    def value(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return NaN: a group without its mask gives no unbiased estimate of the level."""
        return np.full(np.shape(reports), np.nan)

    def square(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return NaN, as `value`."""
        return np.full(np.shape(reports), np.nan)

    def variance(self) -> NDArray[np.float64]:
        """Return NaN for each level: without an estimate there is no variance."""
        return np.full(self.levels, np.nan)

    def _response(self, groups: NDArray[np.uint8]) -> Table:
        return self._responses[int(groups[-1]) - 1]

    def _checked(self, masks: NDArray[np.uint16] | None, count: int) -> NDArray[np.uint16]:
        if masks is None:
            raise ValueError(f"masks: {self.id} needs a mask for each report")
        if not isinstance(masks, np.ndarray) or masks.dtype != np.uint16 or masks.ndim != 1:
            raise ValueError("masks: give a one-dimensional uint16 array")
        if len(masks) != count:
            raise ValueError(f"masks: {len(masks)} for {count} ratings; give one for each")
        wrong = (masks == 0) | (masks > self.masks[-1])
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"row {row}: mask {int(masks[row])} is not in 1 to {self.masks[-1]} of {self.id}"
            )
        return masks

"""One bit a cell, "rated and at least L": protects whether the user likes the item.

    b(v)     = 1 for a rating of level v >= L, else 0; "missing" (input d) is 0
    P(z | v) = e^eps / (e^eps + 1)   for z = b(v)    = p
               1     / (e^eps + 1)   for z != b(v)   = q = 1 - p

Warner 1965 for one bit of a cell; d levels, L an index of a level that is public. Report 0 means
"liked" and report 1 "not liked, or not rated". Neighbours differ in one cell (user, item) in any
way, so epsilon also covers whether the user rated the item, provided that the device reports every
cell of a public scope. A cell without a like becomes a fake like with probability q.

The bit has the unbiased estimate (1[z is "liked"] - q) / (p - q), with the same variance for every
input,

    p q / (p - q)^2 = e^eps / (e^eps - 1)^2          .921 at eps 1; .181 at 2

where "liked" read from `cell:5:1` costs 3.9 at an empty cell: two symbols instead of six. The price
is the stars. The level has no estimate, nor has presence unless L is 0, where the bit is presence
itself. A server learns which items go together; its error is the log-loss of the bit, not the RMSE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.debiasing import unbiased
from stream_app.privacy.exact.integer_tables import compiled_ratio
from stream_app.privacy.exact.table_mechanism import TableMechanism, Weights
from stream_app.privacy.mechanism import Mechanism, check_levels, short
from stream_app.privacy.privacy_map import Adjacency, InputMetric

LIKED, NOT_LIKED = 0, 1  # the two reports


def default_threshold(levels: int) -> int:
    """Return the smallest level index that is at least 7/10 of the scale: 4 stars of 1 .. 5."""
    return -(-7 * (levels - 1) // 10)


def check_one_question(mechanisms: Sequence[Mechanism]) -> None:
    """Raise ValueError where an allow-list mixes likes and stars, or two meanings of a like.

    A model learned from bits predicts P(liked), not stars: mixed reports would teach it neither.
    """
    asked = [each for each in mechanisms if isinstance(each, Like)]
    if asked and len(asked) < len(mechanisms):
        stars = next(each.id for each in mechanisms if not isinstance(each, Like))
        raise ValueError(
            f"mechanisms: {asked[0].id} reports likes and {stars} stars, which one model cannot "
            "learn; allow one kind, and deploy the other under its own topic prefix"
        )
    chosen = {(each.levels, each.threshold) if each.chosen else (): each.id for each in asked}
    if len(chosen) > 1:
        first, second, *_ = chosen.values()
        raise ValueError(
            f"mechanisms: {first} and {second} call different ratings a like; allow one threshold"
        )


@dataclass(frozen=True)
class Like(TableMechanism):
    """Report whether the cell holds a rating of at least `threshold`, a level index; see above.

    Adjacency: cell. Pure epsilon-DP per cell, certified on construction. Without a threshold it is
    `default_threshold(levels)`, and the id leaves it out. Raises ValueError outside 2 <= levels <=
    255, 1/1000000 <= epsilon <= 64 and 0 <= threshold < levels.

    >>> Like(5, Fraction(2)).id, Like(5, Fraction(2)).threshold
    ('like:5:2', 3)
    >>> Like(5, Fraction(2), 4).id
    'like:5:2:4'
    """

    threshold: int = -1

    family: ClassVar[str] = "like"
    adjacency: ClassVar[Adjacency] = Adjacency.CELL
    input_metric: ClassVar[InputMetric] = InputMetric.CELL
    protected: ClassVar[str] = "whether there is a rating, and whether it is a like"
    observed: ClassVar[str] = "that the device took part in the epoch, and the public scope"
    limit: ClassVar[str] = (
        "many reported likes are fakes: a report multiplies the odds of a like by at most "
        "e^epsilon; no star is predicted from it"
    )
    no_estimate: ClassVar[frozenset[str]] = frozenset({"presence", "value", "square"})
    most_levels: ClassVar[int] = 255

    def __post_init__(self) -> None:
        check_levels(self.levels, self.most_levels, self.family)
        if self.threshold == -1:
            object.__setattr__(self, "threshold", default_threshold(self.levels))
        if type(self.threshold) is not int or not 0 <= self.threshold < self.levels:
            raise ValueError(
                f"threshold {short(self.threshold)}: the lowest level that is a like, an index "
                f"from 0 to {self.levels - 1}"
            )
        super().__post_init__()

    @property
    def id(self) -> str:
        """The wire id, `like:levels:epsilon`, and the threshold where it is not the default."""
        return f"{super().id}:{self.threshold}" if self.chosen else super().id

    @property
    def chosen(self) -> bool:
        """Whether the threshold is another than the default."""
        return self.threshold != default_threshold(self.levels)

    def liked(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return an unbiased estimate of 1[the cell holds a like] for each report."""
        return np.asarray(self._liked[reports], np.float64)

    def unbiased(self, targets: list[Fraction]) -> list[Fraction] | None:
        """Return the exact g_hat of targets that are functions of the bit; None for any other."""
        likes, others = set(targets[self.threshold : -1]), {*targets[: self.threshold], targets[-1]}
        if len(likes) != 1 or len(others) != 1:
            return None
        counts = self._table.counts
        return unbiased([counts[self.threshold], counts[-1]], [*likes, *others])

    def _weights(self) -> Weights:
        ratio, one = compiled_ratio(self.epsilon), Fraction(1)
        likes = [v >= self.threshold for v in range(self.levels)]
        return [[ratio, one] if like else [one, ratio] for like in (*likes, False)]

    @cached_property
    def _liked(self) -> NDArray[np.float64]:
        bits = [Fraction(v >= self.threshold) for v in range(self.levels)]
        return np.array(self.unbiased([*bits, Fraction(0)]), np.float64)

"""The error to expect of predictions learned from reports, from a table that was measured.

`make bench ARGS=budget_plans` measures it on MovieLens-1M (6,040 people, 1 .. 5 stars): each
person has the same budget, of 5 to 320, and reports by the plan; a dense learner of 8 factors
learns all reports in one pass; the mean of three random splits, which
differ by .008 at few reports and by .002 at many.

The error depends on the information that a person reports, in clean ratings, and within .007 not on
how many reports carry it: 24 plans from .6 to 49 clean ratings a person lie on one curve. More
people lower it, and other ratings have another one.
"""

from __future__ import annotations

from itertools import pairwise
from math import log

LEVELS = 5
SOURCE = "measured on MovieLens-1M, 6,040 people with this budget, 1 to 5 stars"
_MEASURED = (  # information of a person, RMSE, RMSE with the device's own ratings folded in
    (1.088, 1.0637, 0.9936),  # 2 reports of 5/2: a budget of 5
    (2.175, 1.0338, 0.9751),  # 4 of 5/2: 10
    (4.106, 1.0024, 0.9577),  # 5 of 4: 20
    (8.213, 0.9731, 0.9413),  # 10 of 4: 40
    (16.262, 0.9473, 0.9273),  # 20 of 4: 80; from here on some people have fewer ratings
    (29.549, 0.9308, 0.9182),  # 40 of 4: 160
    (48.675, 0.9182, 0.9065),  # 80 of 4: 320
)


def expected_error(information: float) -> tuple[float, float] | None:
    """Return the RMSE in stars after `information` clean ratings a person, without and with fold-in
    on the device: linear in ln information between measured points, None outside of them.
    """
    if not _MEASURED[0][0] <= information <= _MEASURED[-1][0]:
        return None
    for (low, *before), (high, *after) in pairwise(_MEASURED):
        if information <= high:
            share = log(information / low) / log(high / low)
            alone, folded = (a + share * (b - a) for a, b in zip(before, after, strict=True))
            return alone, folded
    return None

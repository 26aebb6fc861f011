"""Campaigns over time: the public side is refreshed while ratings go on.

    timeline    ratings in time order, and what devices predict before each
    forms       campaigns again and again, and running sums
    over_time   the errors of both over time

This is an evaluation: live, a campaign is begun again with `murmurec rounds begin`; there are no
running sums.
"""

from research.continual.over_time import (
    CampaignsOverTime,
    OverTime,
    evaluate_over_time,
)

__all__ = ["CampaignsOverTime", "OverTime", "evaluate_over_time"]

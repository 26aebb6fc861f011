"""Noise once: sums of what devices rated together, noised when released, free afterwards.

    sums       what one device adds: a bounded integer vector of its list       (`sums.py`)
    releasing  noise for a budget, and the table that anyone may read           (`releasing.py`)

Everything that one device ever reported is one contribution of bounded norm (McSherry and Mironov
2009, section 4); its cost is a certificate, and Slope One, cosine and any number of lists made from
the released table cost nothing more.
"""

from stream_app.campaigns.noise_once.releasing import (
    NoisedTable,
    NoisePlan,
    exact_sums,
    plan_for,
    release,
    table_of,
)
from stream_app.campaigns.noise_once.sums import Contribution, contribution, place_count

__all__ = [
    "Contribution",
    "NoisePlan",
    "NoisedTable",
    "contribution",
    "exact_sums",
    "place_count",
    "plan_for",
    "release",
    "table_of",
]

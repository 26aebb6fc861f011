"""Campaigns over time over the people of a data set, as `murmurec.campaigns` has them once."""

from __future__ import annotations

from fractions import Fraction

from murmurec.campaigns import budget_of, evaluated
from murmurec.common import Progress
from murmurec.ranking import shuffled
from murmurec.ratings import Ratings, columns_of
from producers.datasets.descriptions import Metadata
from research import continual
from research.continual import CampaignsOverTime


def campaigns_over_time(
    ratings: Ratings,
    mode: str,
    epsilon: Fraction,
    rounds: int,
    *,
    metadata: Metadata | None = None,
    seed: int = 0,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
) -> CampaignsOverTime:
    """Predict every rating in time order, while noisy sums are released in so many rounds.

    `epsilon` covers what a person sends in all of them, in either form: whole campaigns again and
    again, or running sums. Ratings without times are put in a random order. The others are as for
    `campaign_stars`.
    """
    budget = budget_of(mode, epsilon)
    columns = columns_of(ratings, None)
    if columns.timestamps is None:
        columns = shuffled(columns, seed)
    data, features = evaluated(columns, metadata, seed)
    return continual.evaluate_over_time(
        data, budget, rounds, features=features, seed=seed, progress=progress
    )

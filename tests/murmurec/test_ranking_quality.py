"""What is chosen is never below the most popular items, on generated data and on those of
$MURMUREC_DATA.

Noise: with n tested users the mean of the difference of two nDCGs has a standard error of about
.15 / sqrt(n), so .02 is 3 of them at 500 users; the seeds are fixed.

Where presence is hidden, popularity itself is known from reports alone, and with few devices and
strong noise it is worse than the true one: that is the measure then.
"""

from __future__ import annotations

import pytest

from murmurec import evaluate_ranking
from murmurec.ranking import RankingOptions
from producers.datasets import synthetic
from producers.datasets.load import Dataset, load
from stream_app.evaluation.ranking import RankingResult
from tests.fixtures.rating_files import rating_files

pytestmark = pytest.mark.thorough

NOISE = 0.02
FILES = rating_files()


@pytest.fixture(scope="module")
def world() -> Dataset:
    return synthetic.generate(3, users=500, items=150, ratings=20_000).dataset


def popular(result: RankingResult) -> float:
    """Return nDCG of the most popular items, by the reports where presence is hidden."""
    reported = (row for row in result.rows if (row.method, row.where) == ("popular", "server"))
    return min(result.ndcg_popular, next(reported).ndcg if result.scope else 1.0)


def chosen(result: RankingResult) -> float:
    """Return nDCG of the method that the server has chosen to serve by."""
    return next(row.ndcg for row in result.rows if row.where == "server")


@pytest.mark.parametrize("mechanism", ["rr:5:1", "rr:5:2"])
def test_with_public_presence_lists_are_above_popularity(world: Dataset, mechanism: str) -> None:
    result = evaluate_ranking(world, mechanism, model="dense", options=RankingOptions(factors=4))
    assert result.ndcg > result.ndcg_popular
    assert chosen(result) > result.ndcg_popular - NOISE


@pytest.mark.parametrize("epsilon", [1, 2, 4])
def test_with_hidden_presence_lists_are_not_below_popularity(world: Dataset, epsilon: int) -> None:
    options = RankingOptions(factors=4, scope=100)
    result = evaluate_ranking(world, f"like:5:{epsilon}", model="dense", options=options)
    assert result.ndcg > popular(result) - NOISE
    assert chosen(result) > popular(result) - NOISE


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["rr:{}:1", "rr:{}:2", "like:{}:1", "like:{}:2", "like:{}:4"])
@pytest.mark.parametrize("name", FILES or [pytest.param("none", marks=pytest.mark.skip)])
def test_on_every_data_set_lists_are_not_below_popularity(name: str, family: str) -> None:
    data = load(FILES[name])
    result = evaluate_ranking(data, family.format(data.scale.levels))
    assert result.ndcg > popular(result) - NOISE
    assert chosen(result) > popular(result) - NOISE

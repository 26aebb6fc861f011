"""Lists are never below the most popular items, on generated data and on those of $MURMUREC_DATA.

The bound is three standard errors of the difference on the same users; the seeds are fixed. Where
presence is hidden, popularity itself is known from reports alone, and with few devices and strong
noise it is worse than the true one: a device without ratings has it, and that is the measure then.
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

FILES = rating_files()


@pytest.fixture(scope="module")
def world() -> Dataset:
    return synthetic.generate(3, users=500, items=150, ratings=20_000).dataset


def below_popularity(result: RankingResult) -> list[str]:
    """Return the rows of lists with all that is known that are below the most popular items, by
    the reports where presence is hidden."""
    reported = result.row(where="device", history="clean, 0 ratings")
    least = min(result.ndcg_popular, reported.ndcg) if result.scope else result.ndcg_popular
    return [
        f"{row.method} {row.where} {row.messages} {row.ndcg:.3f} < {least:.3f}"
        for row in result.rows
        if row.where == "server" or (row.method, row.history) == ("next", "clean")
        if row.ndcg < least - 3 * row.above_popular_error
    ]


@pytest.mark.parametrize("mechanism", ["rr:5:1", "rr:5:2"])
def test_with_public_presence_lists_are_above_popularity(world: Dataset, mechanism: str) -> None:
    options = RankingOptions(factors=4, messages=("single",))
    result = evaluate_ranking(world, mechanism, options=options)
    assert result.ndcg > result.ndcg_popular
    assert below_popularity(result) == []


@pytest.mark.parametrize("epsilon", [1, 2, 4])
def test_with_hidden_presence_lists_are_not_below_popularity(world: Dataset, epsilon: int) -> None:
    options = RankingOptions(factors=4, scope=100)
    result = evaluate_ranking(world, f"like:5:{epsilon}", options=options)
    assert below_popularity(result) == []


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["rr:{}:1", "rr:{}:2", "like:{}:1", "like:{}:2", "like:{}:4"])
@pytest.mark.parametrize("name", FILES or [pytest.param("none", marks=pytest.mark.skip)])
def test_on_every_data_set_lists_are_not_below_popularity(name: str, family: str) -> None:
    data = load(FILES[name])
    options = RankingOptions(messages=("single",))
    result = evaluate_ranking(data, family.format(data.scale.levels), options=options)
    assert below_popularity(result) == []

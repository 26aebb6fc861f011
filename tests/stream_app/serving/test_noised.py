"""Answers by the public table of noised similarities: by it alone, and none before it is there."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.agents.public_tables.published_similarities import NewestSimilarities
from stream_app.ranking.domains.noised_similarities import Noise, Terms, similarity_table
from stream_app.ranking.domains.similarity_table import SimilarityTable
from stream_app.ranking.domains.table_bytes import encode_table
from stream_app.ranking.similarity import METHODS
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import Ingredients
from stream_app.serving.together.co_rated import NoisedSimilarities
from stream_app.serving.together.similar_items import (
    NOT_IN_TABLE,
    NOT_PUBLISHED,
    WITHDRAWN,
    similar_items,
)
from stream_app.wire import CatalogueEntry, encode_message
from stream_app.wire.public_tables import TableVersion
from tests.fixtures.clusters import HALF, device_of, half_of, learned, liked
from tests.fixtures.similarity_tables import a_table
from tests.stream_app.serving.sides import CO_RATED, trained


def recommender_of(method: str | None, catalogue: Catalogue | None = None) -> Recommender:
    replica = trained(spec=CO_RATED).replica
    made = Recommender(
        replica, catalogue or Catalogue(), "exact", listed_by=method, from_published=True
    )
    adopt(made)
    return made


def adopt(recommender: Recommender) -> None:
    ingredients = Ingredients.taken_from(
        recommender.replica, recommender.listed_by, co_ratings=not recommender.from_published
    )
    assert ingredients is not None
    assert ingredients.co_ratings is None
    previous = recommender.served.derived if recommender.served else None
    recommender.adopt(ingredients.derived(previous))


def released(recommender: Recommender) -> SimilarityTable:
    """Return a table of what the replica holds, in one domain, without noise."""
    sums = recommender.replica.co_rating_snapshot().table()
    assert sums is not None
    return similarity_table(sums, [""] * len(sums.keys), Noise(0.01, 2.0), Terms(1, 1.0, 1e-6, 1.0))


def near(recommender: Recommender, item: int) -> RankedItems:
    found = similar_items(recommender, item, 50)
    assert isinstance(found, RankedItems)
    return found


def test_before_a_table_is_published_near_items_are_refused_and_lists_popular() -> None:
    recommender = recommender_of("cosine")
    assert similar_items(recommender, 3, 5) == Refused(NOT_PUBLISHED)
    assert recommender.answer(device_of(1), 5).method == "popular"


@pytest.mark.parametrize("method", METHODS)
def test_lists_come_from_the_table_with_a_rated_item_behind_each_entry(method: str) -> None:
    recommender = recommender_of(method)
    table = released(recommender)
    recommender.take_published(NoisedSimilarities(table, method))
    for number in range(8):
        seen = set(recommender.replica.history(device_of(number))[0].tolist())
        answer = recommender.answer(device_of(number), 5)
        assert answer.method == f"{method}/published"
        assert set(answer.items.tolist()) <= set(half_of(number)) - seen
        assert set(answer.because) <= seen
        if method == "cosine":
            means = dict(zip(table.keys.tolist(), table.means.tolist(), strict=True))
            assert answer.scores.tolist() == [means[item] for item in answer.items.tolist()]
    adopt(recommender)  # a newer item side keeps the table
    assert recommender.answer(device_of(1), 5).method == f"{method}/published"


def test_near_items_are_the_links_of_the_table_whatever_is_learned_since() -> None:
    catalogue = Catalogue()
    catalogue.learn(b"13", encode_message(CatalogueEntry(13, withdrawn=True)))
    recommender = recommender_of(None, catalogue)
    table = released(recommender)
    recommender.take_published(NoisedSimilarities(table))
    found = near(recommender, 3)
    links = table.links("", "")
    row = int(links.rows([3])[0])
    linked = {int(links.targets[place]) for place in links.places[row] if place >= 0}
    assert set(found.items.tolist()) == linked - {13}
    assert (found.method, found.as_of) == ("cosine/published", table.version)
    assert np.isin(found.scores, table.means.astype(np.float64)).all()
    for device in range(600, 640):
        learned(recommender.replica, liked(device, [3, 2 * HALF - 1], 1))
    recommender.replica.end_round(2, recommender.replica.end_offsets)
    adopt(recommender)
    again = near(recommender, 3)
    assert again.items.tolist() == found.items.tolist()
    assert again.scores.tolist() == found.scores.tolist()
    assert similar_items(recommender, 13, 5) == Refused(WITHDRAWN)
    assert similar_items(recommender, 999_999, 5) == Refused(NOT_IN_TABLE)


def test_deviations_are_known_in_both_directions() -> None:
    table = a_table(items=12, links=4)
    found = NoisedSimilarities(table, "slope-one")
    assert found.predicts_stars
    deviations = found._deviations
    assert deviations is not None
    for into, item, rank in zip(*np.nonzero(table.targets >= 0), strict=True):
        target = table.targets[into, item, rank]
        assert found.similarities[target, item] == found.similarities[item, target]
        assert found.similarities[item, target] >= table.similarities[into, item, rank]
        if item not in table.targets[table.domain[item], target]:
            stated = table.deviations[into, item, rank]
            assert deviations[item, target] == stated == -deviations[target, item]


def test_a_worker_reads_each_table_once_and_keeps_it_when_a_later_one_is_unreadable() -> None:
    data, ends = [encode_table(a_table())], [3]
    newest = NewestSimilarities(lambda: ends[0], lambda: TableVersion(0, 7, data[0]))
    assert newest.due() is not None
    assert newest.due() is None
    ends[0] = 4  # a page of a version that is not whole yet
    assert newest.due() is None
    ends[0], data[0] = 6, encode_table(a_table(seed=2))
    assert newest.due() is not None
    ends[0], data[0] = 8, data[0][:4] + b"\2" + data[0][5:]
    assert newest.due() is None

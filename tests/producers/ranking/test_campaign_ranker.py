"""Lists by the side of a campaign: the taste of the user, nothing seen, and popular items else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from producers.ranking import LocalRecommender, RatedItem
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.published import PublicTable
from stream_app.campaigns.public_side import PublicSide, PublishedSide
from stream_app.campaigns.together import TogetherSide
from stream_app.wire import CatalogueEntry
from tests.fixtures.tastes import SCOPE, TASTES, campaign_of, person, side_of
from tests.naive import campaign_lists as naive


@pytest.fixture(scope="module")
def published() -> PublishedSide:
    return side_of()


@pytest.fixture(scope="module")
def local(published: PublishedSide) -> LocalRecommender:
    entries = {1: CatalogueEntry(1, "One"), 2: CatalogueEntry(2, "Two", withdrawn=True)}
    return LocalRecommender(PublicTable(published, entries), "by campaign, as asked for")


def test_lists_hit_the_taste_of_the_user(local: LocalRecommender) -> None:
    """Of what is left, a third is of the own taste: the popular items hit no more than that. Over
    400 lists of 6, a mean below .9 has a chance below 1e-6 where the true one is .97."""
    random = np.random.default_rng(7)
    hits = {"together": [], "popular": []}
    for number in range(400):
        history = person(random, number % 2)
        liked = [row for row in history if number % 4 < 2 or row.stars == 1.0]
        found = local.recommend(liked, 6)
        seen = {row.item for row in liked}
        assert not seen & {row.item for row in found.items}
        rest = [item for item in SCOPE if item not in seen and item != 2][:6]
        assert found.method == "together" or [row.item for row in found.items] == rest
        hits[found.method] += [row.item in TASTES[number % 2] for row in found.items]
    assert np.mean(hits["together"]) > 0.9
    assert np.mean(hits["popular"]) < 0.6


def parts_of(side: TogetherSide, rated: list[RatedItem], item: int) -> dict[int, float]:
    """What the links of each like add to the score of an item, by the equation."""
    likes = [row for row in rated if row.stars is None or row.stars >= 4]
    terms = (side.vectors.tolist(), side.weights.tolist())
    return {
        row.item: naive.like(age, row.stars or 4.0)
        * naive.links(*terms, SCOPE.index(row.item), SCOPE.index(item))
        for age, row in enumerate(reversed(likes))
    }


def test_scores_and_reasons_are_those_of_the_equation(published: PublishedSide) -> None:
    side = published.side.together
    assert side is not None
    rated = person(np.random.default_rng(3), 1)
    listed = CampaignRanker(published.side).rank(rated, 30, because=True)
    shares, counted = naive.public_shares(len(SCOPE)), naive.prior_likes(len(side.weights))
    for row in listed:
        parts = parts_of(side, rated, row.item)
        expected = sum(parts.values()) + counted * shares[SCOPE.index(row.item)]
        assert row.score == pytest.approx(expected, rel=1e-4, abs=1e-6)
        strongest = sorted(parts, key=lambda item: -parts[item])[:3]
        assert row.because == tuple(item for item in strongest if parts[item] > 0)
    assert [row.score for row in listed] == sorted((row.score for row in listed), reverse=True)


def test_reasons_are_likes_of_the_user(local: LocalRecommender) -> None:
    rated = person(np.random.default_rng(4), 0)
    found = local.recommend(rated, 10, because=True)
    likes = {row.item for row in rated if row.stars and row.stars >= 4}
    assert all(row.because and set(row.because) <= likes for row in found.items)
    assert local.recommend([], 3, because=True).items[0].because == ()


def test_the_list_says_which_campaign_it_is_from(local: LocalRecommender) -> None:
    found = local.recommend([("unknown", 5.0), (5, 5.0)], 3)
    assert found.campaign is not None
    terms = found.campaign
    assert (terms.number, terms.epsilon, terms.parties, terms.released) == (1, 2, 1, 1)
    assert (found.rated, found.known, found.method, found.as_of) == (2, 1, "together", None)
    assert found.reason == "by campaign, as asked for"


def test_withdrawn_items_are_not_offered_and_titles_are_shown(local: LocalRecommender) -> None:
    found = local.recommend([], 100)
    assert [row.item for row in found.items] == [item for item in SCOPE if item != 2]
    assert {row.item: row.title for row in found.items}[1] == "One"
    assert found.method == "popular"


@pytest.mark.parametrize("rated", [[], [("elsewhere", 5.0)], [(3, 2.0)]])
def test_without_a_like_in_the_scope_the_order_is_that_of_the_scope(
    local: LocalRecommender, rated: list[tuple[int, float]]
) -> None:
    found = local.recommend(rated, 4)
    seen = {item for item, _ in rated} | {2}
    assert [row.item for row in found.items] == [x for x in SCOPE if x not in seen][:4]
    assert found.method == "popular"


def test_too_few_directions_are_the_popular_items() -> None:
    few = LocalRecommender(PublicTable(side_of(people=40)))
    found = few.recommend([(21, 5.0)], 3)
    assert (found.method, [row.item for row in found.items]) == ("popular", [1, 2, 22])


def test_genres_of_the_catalogue_make_a_personal_list_before_any_sum() -> None:
    """Popular items of the own genre come first, and nothing but the public scope is needed."""
    side = PublishedSide.of_campaign(campaign_of(), 1, PublicSide(1, SCOPE))
    entries = {
        item: CatalogueEntry(item, genres=("war" if item in TASTES[0] else "drama",))
        for item in SCOPE
    }
    rated = [(item, 5.0) for item in TASTES[1][:9]]
    found = LocalRecommender(PublicTable(side, entries)).recommend(rated, 4, because=True)
    assert (found.method, [row.item for row in found.items]) == ("metadata", [30, 31, 32, 33])
    assert {row.because for row in found.items} == {()}
    plain = LocalRecommender(PublicTable(side)).recommend(rated, 4)
    assert (plain.method, [row.item for row in plain.items]) == ("popular", [1, 2, 3, 4])


def of_names(side: PublishedSide) -> PublishedSide:
    scope = tuple(f"film {item}" for item in SCOPE)
    return replace(side, side=replace(side.side, scope=scope))


def test_items_without_directions_come_after_those_that_have_them(
    published: PublishedSide,
) -> None:
    """As where *together* is over the first items of a larger scope."""
    more = tuple(range(41, 61))
    larger = replace(published.side, scope=(*SCOPE, *more))
    rated = [RatedItem(item, item, 5.0) for item in (*TASTES[1], *TASTES[0][:15], 41)]
    listed = CampaignRanker(larger).rank(rated, 12, because=True)
    assert {row.item for row in listed[:5]} == set(TASTES[0][15:])
    assert [row.item for row in listed[5:]] == list(range(42, 49))
    assert [row.score for row in listed] == sorted((row.score for row in listed), reverse=True)
    assert all(row.because == () for row in listed[5:])


def test_items_of_words_keep_their_names_without_the_catalogue(published: PublishedSide) -> None:
    found = LocalRecommender(PublicTable(of_names(published))).recommend([("film 3", 5.0)], 4)
    assert {str(row.item).partition(" ")[0] for row in found.items} == {"film"}


def test_an_item_of_the_number_zero_is_offered() -> None:
    scope = (0, *SCOPE[1:])
    side = PublicSide(1, scope, None)
    found = LocalRecommender(PublicTable(PublishedSide.of_campaign(campaign_of(), 1, side)))
    assert found.recommend([], 1).items[0].item == 0

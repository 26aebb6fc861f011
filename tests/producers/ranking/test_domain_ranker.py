"""Lists of one domain from ratings in others, made on the device."""

from __future__ import annotations

import pytest

from producers.ranking import LocalRecommender
from producers.ranking.published import PublicTable
from stream_app.errors import UserError
from stream_app.wire import CatalogueEntry, key
from tests.fixtures.similarity_tables import BOOKS, FILMS, TASTES, by_taste

ENTRIES = {
    key(entry.item): entry
    for entry in (CatalogueEntry(200, "Two hundred"), CatalogueEntry(202, withdrawn=True))
}


@pytest.fixture(scope="module")
def films() -> LocalRecommender:
    return LocalRecommender(PublicTable(by_taste(), ENTRIES), to="films")


def test_books_lead_to_films_of_the_same_taste(films: LocalRecommender) -> None:
    for taste in range(TASTES):
        rated = [(book, 5.0) for book in BOOKS if book % TASTES == taste][:3]
        found = films.recommend(rated, 3, because=True)
        assert {row.item for row in found.items} <= set(FILMS)
        assert all(int(row.item) % TASTES == taste for row in found.items)
        assert all(set(row.because) <= {item for item, _ in rated} for row in found.items)
        assert all(len(row.because) == 1 for row in found.items)
        assert all(1 <= (row.stars or 0) <= 5 for row in found.items)
        assert (found.method, found.known, found.rated) == ("alter-ego", 3, 3)


def test_the_list_states_what_the_table_cost(films: LocalRecommender) -> None:
    found = films.recommend([(100, 5.0)], 1)
    terms = found.similarities
    assert terms is not None
    assert (terms.release, terms.epsilon, terms.delta, terms.spent) == (1, 2.0, 1e-6, 2.0)
    assert found.as_of == 5
    assert found.items[0].because == ()


def test_rated_and_withdrawn_items_are_not_listed(films: LocalRecommender) -> None:
    found = films.recommend([(100, 5.0), (204, 2.0), (102, None)], 100)
    listed = {row.item for row in found.items}
    assert listed == set(FILMS) - {204, 202}
    assert {row.title for row in found.items if row.item == 200} == {"Two hundred"}


def test_a_user_without_a_history_elsewhere_is_refused(films: LocalRecommender) -> None:
    for rated in ([], [(200, 5.0)], [(999, 5.0)], [("word", None)]):
        with pytest.raises(UserError, match="no rated item of a domain other than films is known"):
            films.recommend(rated)
    with pytest.raises(UserError, match="none of 1 rated items of other domains has a link"):
        films.recommend([(300, 5.0)])


def test_a_domain_without_a_bridge_is_refused() -> None:
    with pytest.raises(UserError, match="domain games: no item of another domain has a link"):
        LocalRecommender(PublicTable(by_taste()), to="games")


def test_an_unknown_domain_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="domain 'music' is not in the table; it has books, films"):
        LocalRecommender(PublicTable(by_taste()), to="music")


def test_a_table_of_similarities_needs_a_domain() -> None:
    with pytest.raises(ValueError, match="ranks one domain: give to="):
        LocalRecommender(PublicTable(by_taste()))


@pytest.mark.parametrize("rows", [[(100, 0.5)], [(100, 6.0)], [(-1, 3.0)]])
def test_invalid_rows_are_refused(films: LocalRecommender, rows: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match=r"."):
        films.recommend(rows)
    with pytest.raises(ValueError, match="k 0: give 1 to 100"):
        films.recommend([(100, 5.0)], 0)

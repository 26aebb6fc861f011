"""Ratings of two domains: from two files, from labels of one, from genres."""

from __future__ import annotations

import numpy as np
import pytest

from research.xmap.two_domains import of_one_file, of_two_files
from stream_app.errors import UserError


def ratings(path, users, items, stars, **columns):
    arrays = {"user": users, "item": items, "rating": stars} | columns
    np.savez(path, **{name: np.array(values) for name, values in arrays.items()})
    return path


def beside(tmp_path, **columns):
    arrays = {"item": [1, 2, 3], "title": ["a", "b", "c"]} | columns
    np.savez(tmp_path / "movies.npz", **{name: np.array(each) for name, each in arrays.items()})


def test_two_files_are_two_domains_of_the_same_people(tmp_path):
    books = ratings(tmp_path / "books.npz", [1, 2, 2], [7, 7, 8], [1, 5, 3])
    films = ratings(tmp_path / "films.npz", [2, 3], [7, 9], [5, 1])
    found = of_two_files(books, films)
    assert found.users.tolist() == [1, 2, 2, 2, 3]
    assert len(set(found.items.tolist())) == 4  # book 7 is not film 7
    assert found.stars.tolist() == [1, 5, 3, 5, 1]
    assert found.in_target.tolist() == [False] * 3 + [True] * 2


def test_labels_of_ratings_name_the_domain_and_items_of_both_are_left_out(tmp_path):
    users, items, stars = [1, 1, 2, 2, 3, 3], [1, 2, 1, 3, 4, 4], [1, 5, 3, 4, 2, 5]
    path = ratings(tmp_path / "r.npz", users, items, stars, category=[6, 2, 6, 2, 6, 2])
    found = of_one_file(path, "6", "2")
    assert found.items.tolist() == [1, 2, 1, 3]
    assert found.in_target.tolist() == [False, True, False, True]
    assert found.left_out == 2


def test_genres_are_domains_where_ratings_have_no_labels(tmp_path):
    beside(tmp_path, genre_names=["Comedy", "War"], genres=[[1, 0], [0, 1], [1, 1]])
    path = ratings(tmp_path / "r.npz", [1, 1, 2, 3], [1, 2, 3, 4], [1, 2, 5, 3])
    found = of_one_file(path, "Comedy", "War")
    assert found.items.tolist() == [1, 2]  # nothing is known of item 4
    assert found.left_out == 1


def test_what_is_no_pair_of_domains_is_refused_in_a_sentence(tmp_path):
    path = ratings(tmp_path / "r.npz", [1, 2], [1, 2], [1, 5], domain=["a", "b"])
    plain = ratings(tmp_path / "p.npz", [1, 2], [1, 2], [1, 5])
    short = ratings(tmp_path / "s.npz", [1, 2], [1, 2], [1, 5], domain=["a"])
    for call, words in (
        (lambda: of_two_files(path, path), "source domain too"),
        (lambda: of_one_file(path, "a", "a"), "source domain too"),
        (lambda: of_one_file(path, "a", "z"), "no domain 'z'; there are a, b"),
        (lambda: of_one_file(plain, "a", "b"), "no items of 'a'.*none"),
        (lambda: of_one_file(short, "a", "b"), "1 domains for 2 ratings"),
        (lambda: of_one_file(tmp_path / "none.npz", "a", "b"), "no such file"),
    ):
        with pytest.raises(UserError, match=words):
            call()

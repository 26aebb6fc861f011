"""The lists of a demo with privacy off: made of the genres that a user leans to, and its own."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import numpy as np

from producers.datasets.synthetic import GENRES, generate
from producers.fleet.population import populate
from stream_app.cli.demo.demo_options import DemoOptions
from stream_app.cli.demo.ground_truth import guessed_right
from stream_app.cli.demo.lists.page_facts import PageFacts
from stream_app.cli.demo.lists.people import People
from stream_app.cli.demo.lists.privacy_off import PrivacyOffTwin
from stream_app.cli.demo.setup import Ratings
from stream_app.gateway.reads.demo_files import FACTS_NAME
from stream_app.privacy import registry


def test_lists_with_privacy_off_are_of_the_genres_that_a_user_leans_to() -> None:
    world = generate(1, users=300, items=600, ratings=24_000, factors=3)
    people = populate(world.dataset, bytes(32))
    users = list(range(0, 300, 5))
    rows = len(world.dataset)
    twin = PrivacyOffTwin(people, world.dataset.ratings)
    lists = twin.lists(twin.side(rows), rows, users, 10)
    favourites = world.favourites()
    fitting = [
        GENRES[world.genres[key - 1]] in favourites[user + 1]
        for user, keys in zip(users, lists, strict=True)
        for key in keys
    ]
    rated = set(zip(world.dataset.users.tolist(), world.dataset.items.tolist(), strict=True))
    popular = [key for key, _ in Counter(world.dataset.items.tolist()).most_common()]
    others = (
        GENRES[world.genres[key - 1]] in favourites[user + 1]
        for user in users
        for key in islice((key for key in popular if (user + 1, key) not in rated), 10)
    )
    assert np.mean(fitting) > 1.4 * np.mean(list(others))  # three tenths of the share count, too
    listed = {(u + 1, key) for u, keys in zip(users, lists, strict=True) for key in keys}
    assert not rated & listed


def test_two_people_of_middling_lists_and_different_favourites_are_shown() -> None:
    world = generate(1, users=130, items=320, ratings=4_000, factors=3)
    people = People(world.dataset, world.favourites())
    users = np.unique(people.users).tolist()
    gains = dict(zip(users, np.linspace(0, 1, len(users)).tolist(), strict=True))
    first, second = people.shown(gains, {})
    assert abs(gains[first] - 0.5) <= abs(gains[second] - 0.5) < 0.1
    assert people.likes(first)[0] != people.likes(second)[0]
    assert people.shown({users[0]: float("nan")}, {}) == []


def test_the_share_of_a_list_in_liked_genres() -> None:
    world = generate(1, users=130, items=320, ratings=4_000, factors=3)
    people, favourites = People(world.dataset, world.favourites()), world.favourites()
    fitting = [key for key in people.items if people.fits(1, key)]
    assert {people.about(key).genres[0] for key in fitting} <= set(favourites[1])
    other = next(key for key in people.items if not people.fits(1, key))
    assert people.fit({1: [fitting[0], other], 2: []}) == {1: 0.5}


def test_what_people_like_is_found_in_a_file_without_their_tastes() -> None:
    world = generate(1, users=130, items=320, ratings=12_000, factors=3)
    known, favourites = People(world.dataset, {}), world.favourites()
    found = [known.likes(user) for user in favourites]
    right = [bool(set(own) & set(favourites[n])) for n, own in enumerate(found, 1) if own]
    assert len(right) > 100
    assert np.mean(right) > 0.9


def test_a_report_without_noise_tells_the_rating_and_one_of_noise_alone_nothing() -> None:
    data = generate(1, users=130, items=320, ratings=4_000, factors=3).dataset
    ratings = People(data, {}).keys, data.levels
    without, with_ = guessed_right(*ratings, registry.parse("none:5:inf"))
    assert without < 0.6
    assert with_ > 0.99
    blind = guessed_right(*ratings, registry.parse("rr:5:1/1000"))
    assert blind[0] == without
    assert abs(blind[1] - without) < 0.01


def test_items_of_a_file_without_titles_are_shown_by_id(tmp_path, capsys) -> None:
    file = tmp_path / "own.csv"
    rows = "".join(
        f"{user},{item},{1 + (user * item) % 5},{user + item}\n"
        for user in range(9)
        for item in range(9)
    )
    file.write_text("user,item,rating,timestamp\n" + rows)
    found = Ratings.given(DemoOptions(), file)
    assert "has no titles" in capsys.readouterr().err
    people = People(found.dataset, found.favourites)
    assert [people.about(key).title for key in people.items][:3] == ["0", "1", "2"]
    assert people.likes(1) == ()


def test_nobody_of_a_file_is_an_example_for_visitors(tmp_path) -> None:
    for simulated in (True, False):
        facts = PageFacts(tmp_path, simulated)
        facts.update(mode="local", people=2, ratings=3)
        facts.update(example={"likes": ["war"]})
        found = json.loads((tmp_path / FACTS_NAME).read_text())
        assert (found["people"], found["example"] is not None) == (2, simulated)

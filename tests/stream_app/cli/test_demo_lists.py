"""The lists of a demo with privacy off: made of the genres that a user leans to, and its own."""

from __future__ import annotations

from math import isnan

import numpy as np
from stream_app.cli.demo.sample_lists import PrivacyOffTwin, shared

from producers.datasets.synthetic import GENRES, generate
from producers.fleet.population import populate


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
    by_chance = (world.leanings > 0).mean()
    assert np.mean(fitting) > 1.4 * by_chance  # three tenths of the share count, too
    rated = set(zip(world.dataset.users.tolist(), world.dataset.items.tolist(), strict=True))
    listed = {(u + 1, key) for u, keys in zip(users, lists, strict=True) for key in keys}
    assert not rated & listed


def test_shared_is_the_mean_share_that_two_lists_have_in_common() -> None:
    assert shared([["a", "b"], ["b", "c"], ["d", "e"]]) == (0.5 + 0 + 0) / 3
    assert isnan(shared([["a"], []]))

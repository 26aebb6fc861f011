"""The recommender in this process: learning, predicting, lists, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from murmurec import Recommender, recommender
from producers.datasets import synthetic


@pytest.fixture(scope="module")
def ratings() -> dict[str, Any]:
    data = synthetic.generate(3, users=150, items=60, ratings=3000).dataset
    # With times, because rows without them that are sorted by user are learned in a random order.
    times = np.arange(1, len(data) + 1)
    return {"user": data.users, "item": data.items, "rating": data.ratings, "timestamp": times}


def part(ratings: dict[str, Any], rows: slice) -> dict[str, Any]:
    return {name: column[rows] for name, column in ratings.items()}


SMALL: dict[str, Any] = {"factors": 8, "sketch_bytes": 1 << 14}


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["hybrid", "sketch"])
def test_parts_teach_what_the_whole_teaches(ratings: dict[str, Any], model: str) -> None:
    whole = Recommender(model=model, **SMALL).fit(ratings)
    parts = Recommender(model=model, scale=(1, 5, 1), **SMALL)
    for rows in (slice(0, 10), slice(10, 700), slice(700, None)):
        parts.partial_fit(part(ratings, rows))
    users, items = ratings["user"][:50], ratings["item"][:50]
    np.testing.assert_array_equal(whole.predict(users, items), parts.predict(users, items))


def test_only_a_whole_file_sorted_by_user_is_mixed(ratings: dict[str, Any]) -> None:
    """Parts are pieces of a stream: their order is the order of arrival."""
    rows = np.argsort(ratings["user"], kind="stable")
    by_user = {name: ratings[name][rows] for name in ("user", "item", "rating")}
    ids = ratings["user"][:50], ratings["item"][:50]
    whole, parts, each = (Recommender(scale=(1, 5, 1), **SMALL) for _ in range(3))
    parts.partial_fit(by_user)
    for row in range(len(rows)):
        each.partial_fit(part(by_user, slice(row, row + 1)))
    np.testing.assert_array_equal(each.predict(*ids), parts.predict(*ids))
    assert (whole.fit(by_user).predict(*ids) != parts.predict(*ids)).any()


def test_fit_forgets_what_was_learned_before(ratings: dict[str, Any]) -> None:
    once = Recommender(**SMALL).fit(ratings)
    twice = Recommender(**SMALL).fit(part(ratings, slice(0, 100))).fit(ratings)
    np.testing.assert_array_equal(once.predict([0, 1], [0, 1]), twice.predict([0, 1], [0, 1]))


def test_progress_is_given_where_it_is_asked_for_and_nothing_is_printed(
    ratings: dict[str, Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommender, "_BATCH", 1400)
    steps: list[tuple[int, int]] = []
    model = Recommender(**SMALL).fit(ratings, progress=lambda *step: steps.append(step))
    assert steps == [(1400, 3000), (2800, 3000), (3000, 3000)]
    model.partial_fit(part(ratings, slice(5)), progress=lambda *step: steps.append(step))
    assert steps[3:] == [(5, 5)]
    model.fit(ratings).partial_fit(part(ratings, slice(5)))
    assert len(steps) == 4
    assert capfd.readouterr() == ("", "")


def test_it_learns(ratings: dict[str, Any]) -> None:
    model = Recommender(model="dense", factors=8).fit(ratings)
    errors = model.predict(ratings["user"], ratings["item"]) - ratings["rating"]
    assert np.sqrt(np.mean(errors**2)) < 0.93 * np.std(ratings["rating"])


def test_predictions_are_on_the_scale_of_the_ratings() -> None:
    model = Recommender(scale=(0, 100, 10), **SMALL)
    model.fit(([1, 1, 2, 2] * 20, [1, 2, 1, 2] * 20, [100, 100, 90, 100] * 20))
    assert 80 < model.predict([1], [1])[0] <= 100


def test_a_list_has_unseen_items_beside_their_predicted_ratings(ratings: dict[str, Any]) -> None:
    model = Recommender(model="dense", factors=8).fit(ratings)
    user = int(ratings["user"][0])
    seen = set(ratings["item"][ratings["user"] == user].tolist())
    listed = model.recommend(user, k=100)
    assert {item for item, _ in listed} == set(ratings["item"].tolist()) - seen
    stars = model.predict([user] * len(listed), [item for item, _ in listed])
    assert [s for _, s in listed] == pytest.approx(stars)
    assert model.recommend(user, k=3) == listed[:3]
    again = model.recommend(user, k=100, exclude_seen=False)
    assert {item for item, _ in again} == set(ratings["item"].tolist())


def test_text_ids_come_back_as_they_were_given() -> None:
    model = Recommender(**SMALL).fit(
        (["ann", "ann", "bob"], ["alien", "brazil", "alien"], [5, 1, 4])
    )
    assert [item for item, _ in model.recommend("bob")] == ["brazil"]
    assert len(model.recommend("a new user", k=2)) == 2


def test_sanitized_ratings_teach_less_than_clean_ones(ratings: dict[str, Any]) -> None:
    def error(mechanism: str | None) -> float:
        model = Recommender(mechanism, model="dense", factors=8).fit(ratings)
        misses = model.predict(ratings["user"], ratings["item"]) - ratings["rating"]
        return float(np.sqrt(np.mean(misses**2)))

    assert error(None) < error("rr:5:2") < error("rr:5:1/10")


def test_before_the_first_fit_there_is_nothing_to_list() -> None:
    assert Recommender(**SMALL).recommend(1) == []


def test_a_scale_that_was_read_off_the_first_ratings_holds_for_the_next() -> None:
    model = Recommender(**SMALL).fit(([1, 2], [1, 2], [1, 5]))
    with pytest.raises(ValueError, match=r"rating in row 0: not on the scale 1\.\.5"):
        model.partial_fit(([1], [1], [8]))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"model": "deep"}, "model 'deep'"),
        ({"factors": 0}, "factors 0"),
        ({"factors": "x"}, "factors 'x': give a whole number"),
        ({"mechanism": "rr:5"}, "mechanism 'rr:5'"),
        ({"mechanism": "cell:5:2"}, "needs a public scope or item table"),
        ({"mechanism": "partition:5:2"}, "needs a public scope or item table"),
        ({"mechanism": "rr:10:2", "scale": (1, 5, 1)}, "has 10 levels"),
        ({"scale": (5, 1, 1)}, "scale"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Recommender(**arguments)


@pytest.mark.parametrize("k", [0, -1, "10", True, 2.0])
def test_a_list_of_no_length_is_refused(k: Any) -> None:
    with pytest.raises(ValueError, match="ask for 1 or more"):
        Recommender(**SMALL).recommend(1, k=k)


def test_a_list_is_for_the_next_visit_or_for_this_one(ratings: dict[str, Any]) -> None:
    model = Recommender(**SMALL).fit(ratings)
    assert model.recommend(1, for_="next") == model.recommend(1)
    assert len(model.recommend(1, for_="now")) == 10
    with pytest.raises(ValueError, match="for_ 'later': give next or now"):
        model.recommend(1, for_="later")  # type: ignore[arg-type]


def test_unequal_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="2 users and 1 items"):
        Recommender(**SMALL).predict([1, 2], [1])

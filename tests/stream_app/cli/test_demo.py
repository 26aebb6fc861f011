"""A demo's parts: choices of protection, honest accounts, what is held back, and when it fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from producers.datasets.synthetic import generate
from stream_app.cli.demo import story
from stream_app.cli.demo.demo_processes import allowed_mechanisms
from stream_app.cli.demo.quality import LEAST_USERS, HeldBack, Judged, K, ListQuality, Lists
from stream_app.cli.demo.run import Figures
from stream_app.errors import UserError
from stream_app.evaluation.ranking import RankingTask
from stream_app.privacy import registry

DATA = generate(2, users=260, items=320, ratings=12_000, factors=3).dataset


@pytest.fixture(scope="module")
def task() -> RankingTask:
    """Give the task of a generated population."""
    return HeldBack(DATA).task()


def liked_later(task: RankingTask) -> Lists:
    """Return what each tested user liked later: the best list."""
    keys = task.users[task.tested].tolist()
    relevant = (task.relevant.of_user(place)[0] for place in range(len(keys)))
    return {
        user: task.items[places[:K]].tolist() for user, places in zip(keys, relevant, strict=True)
    }


@pytest.mark.parametrize(
    ("mechanism", "found"),
    [
        ("rr:5:2", ("rr:5:2", "rr:5:1/2", "rr:5:1", "rr:5:4")),
        ("rr:5:3", ("rr:5:3", "rr:5:1/2", "rr:5:1", "rr:5:2", "rr:5:4")),
        ("rr:10:2", ("rr:10:2",)),
    ],
)
def test_a_visitor_chooses_among_strengths_where_the_scale_is_the_page_s(
    mechanism: str, found: tuple[str, ...]
) -> None:
    assert allowed_mechanisms(registry.parse(mechanism)) == found


def test_ratings_of_visitors_are_accounted_for_and_a_demo_that_loses_one_fails() -> None:
    figures = Figures(rows=10, published=10, applied=12, held_out=1, visitors=3)
    figures.check()
    for wrong, reason in (
        (replace(figures, visitors=2), r"\+ 2 of visitors of the page = applied 12 \+ held out 1"),
        (replace(figures, model_digest="a"), "not that of the log"),
    ):
        with pytest.raises(UserError, match=reason):
            wrong.check()


def test_the_last_fifth_of_two_hundred_users_is_never_sent() -> None:
    sent = HeldBack(DATA).published
    before, left = (np.bincount(data.users) for data in (DATA, sent))
    fewer = np.flatnonzero(before != left)
    assert len(fewer) <= 200 <= (before > 1).sum()
    assert np.array_equal(before[fewer] - left[fewer], before[fewer] // 5)
    for user in fewer[:20].tolist():
        assert np.array_equal(
            DATA.items[DATA.users == user][: left[user]], sent.items[sent.users == user]
        )


def test_only_users_of_whom_something_is_held_back_are_tested(task: RankingTask) -> None:
    held = HeldBack(DATA)
    assert np.array_equal(task.users, np.unique(held.published.users))
    before, left = (np.bincount(data.users) for data in (DATA, held.published))
    assert set(task.users[task.tested].tolist()) <= set(np.flatnonzero(before != left).tolist())


def test_lists_of_what_is_liked_later_are_better_than_popular_ones(task: RankingTask) -> None:
    found = ListQuality.measured(task, liked_later(task))
    assert (found.served, found.users) == (1, len(task.tested))
    assert 0 < found.popular < 1
    assert found.above_popular == pytest.approx(1 - found.popular)
    found.check()
    assert str(found) == f"here 1.000, popular {found.popular:.3f}"


def test_lists_without_a_hit_are_below_popularity_and_fail(task: RankingTask) -> None:
    found = ListQuality.measured(task, dict.fromkeys(liked_later(task), ()))
    with pytest.raises(UserError, match=r"below the most popular items, by nDCG@10 0\.\d{3} ± "):
        Judged(found).check()
    replace(found, above_popular=-found.above_popular_error).check()


def test_users_without_an_answer_are_left_out_of_every_mean(task: RankingTask) -> None:
    best = liked_later(task)
    some = dict(list(best.items())[:LEAST_USERS])
    assert ListQuality.measured(task, some).users == LEAST_USERS
    few = dict(list(best.items())[: LEAST_USERS - 1])
    with pytest.raises(ValueError, match="29 users with a list and a later like; 30 are needed"):
        ListQuality.measured(task, few)


def test_the_story_says_why_a_quality_is_not_known() -> None:
    lists = Judged(None, "no user has a later like")
    lists.check()
    assert story.of_lists(lists) == "lists: quality unknown: no user has a later like"

"""The quality of the lists of a demo: what is held back, and when the demo fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from murmurec.ratings import columns_of
from producers.datasets.synthetic import generate
from stream_app.cli.demo.figures import Figures
from stream_app.cli.demo.lists import story
from stream_app.cli.demo.lists.people import Lists
from stream_app.cli.demo.lists.quality import LEAST_USERS, HeldBack, Judged, K, ListQuality
from stream_app.errors import UserError
from stream_app.evaluation.ranking import RankingTask

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
    best = liked_later(task)
    found = ListQuality.measured(task, best, {user: items[:1] for user, items in best.items()})
    assert (found.served, found.users) == (1, len(task.tested))
    assert 0 < found.popular < found.privacy_off < 1
    assert found.above_popular == pytest.approx(1 - found.popular)
    found.check()
    shown = f"here 1.000, popular {found.popular:.3f}, with privacy off {found.privacy_off:.3f}"
    assert str(found) == shown


def test_lists_without_a_hit_are_below_popularity_and_fail(task: RankingTask) -> None:
    best = liked_later(task)
    found = ListQuality.measured(task, dict.fromkeys(best, ()), best)
    with pytest.raises(UserError, match=r"below the most popular items, by nDCG@10 0\.\d{3} ± "):
        found.check()
    replace(found, above_popular=-found.above_popular_error).check()


def test_users_without_an_answer_are_left_out_of_every_mean(task: RankingTask) -> None:
    best = liked_later(task)
    some = dict(list(best.items())[:LEAST_USERS])
    assert ListQuality.measured(task, some, best).users == LEAST_USERS
    few = dict(list(best.items())[: LEAST_USERS - 1])
    with pytest.raises(ValueError, match="29 users with a list and a later like; 30 are needed"):
        ListQuality.measured(task, few, best)


@pytest.mark.parametrize(("rating", "reason"), [(5, "no user has learned"), (1, "no rating")])
def test_a_file_without_later_likes_has_no_quality(rating: int, reason: str) -> None:
    users, items = np.arange(40) % 10, np.arange(40)
    data = columns_of((users, items, np.array([1, 5] + [rating] * 38)), None)
    if rating == 1:
        data = replace(data, levels=np.zeros_like(data.levels))
    with pytest.raises(ValueError, match=reason):
        HeldBack(data).task()


def test_the_story_says_why_a_quality_is_not_known(tmp_path: Path) -> None:
    lists = Judged(None, None, "no user has a later like")
    assert list(story.of_lists(lists)) == ["lists: quality unknown: no user has a later like"]
    Figures(quality_absent=lists.absent).write(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["quality"] is None


def test_the_demo_fails_below_popularity_and_where_something_is_lost(task: RankingTask) -> None:
    best = liked_later(task)
    below = ListQuality.measured(task, dict.fromkeys(best, ()), best)
    Figures().check()
    for figures, reason in (
        (Figures(quality=below), "below the most popular"),
        (Figures(rows=1), "not every rating is accounted for"),
        (Figures(model_digest="a"), "not that of the log"),
    ):
        with pytest.raises(UserError, match=reason):
            figures.check()

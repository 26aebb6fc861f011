"""F3 to F5 on a small generated file: the shapes that the paper shows, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from research.papers import park_2011
from research.papers.figure import StarRatings

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def ratings() -> StarRatings:
    generator = np.random.default_rng(12)
    cells = np.argwhere(generator.random((150, 120)) < 0.3)
    user, item = generator.normal(0, 0.7, 150), generator.normal(0, 0.7, 120)
    stars = 3.4 + user[cells[:, 0]] + item[cells[:, 1]] + generator.normal(0, 0.7, len(cells))
    return StarRatings(
        cells[:, 0].astype(np.uint64) + 5,
        cells[:, 1].astype(np.uint64) * 3,
        np.clip(np.rint(stars), 1, 5),
    )


@pytest.mark.thorough
def test_f3_falls_as_printed_and_the_list_of_one_epsilon_does_not(ratings: StarRatings) -> None:
    figure = park_2011.f3(ratings, people=20)
    printed, damped, once = figure.series
    assert printed.y[0] > 0.6
    assert printed.y[-1] < 0.1
    assert damped.y[4] > 0.6 > damped.y[-1]
    assert once.y[-1] < 0.5 < once.y[0]
    assert [each.agrees for each in figure.published] == [printed.y[0] > 0.9, False]


def test_f4_is_chance_where_the_guess_stays_on_the_scale(ratings: StarRatings) -> None:
    progress: list[tuple[int, int]] = []
    figure = park_2011.f4(
        ratings, people=60, progress=lambda done, total: progress.append((done, total))
    )
    plain, clamped, averaged = figure.series
    assert plain.y[0] < 0.08
    assert 0.02 < clamped.y[0] < 0.45
    assert plain.y[-1] > 0.9
    assert averaged.y[6] > plain.y[6]
    assert figure.published[-1].agrees
    assert progress[-1] == (len(park_2011.EPSILONS), len(park_2011.EPSILONS))


def test_f5_understates_the_risk_at_seventy_percent_utility(ratings: StarRatings) -> None:
    figure = park_2011.f5(ratings, people=60)
    plain, clamped, averaged = (each.at(0.7) for each in figure.series)
    assert plain < clamped
    assert plain < averaged
    assert not figure.published[0].agrees
    assert "70 %" in figure.published[0].what


def test_a_file_without_such_users_is_refused() -> None:
    few = StarRatings(
        np.arange(30, dtype=np.uint64), np.arange(30, dtype=np.uint64), np.full(30, 3.0)
    )
    with pytest.raises(ValueError, match="no user has 20"):
        park_2011.f4(few)

"""A figure's values refuse what cannot be drawn."""

from __future__ import annotations

import pytest

from research.papers.figure import Figure, Series


def figure(*series: Series) -> Figure:
    return Figure("F0", "Park and Acharya 2011", "title", "epsilon", "share", True, False, series)


def test_a_curve_is_read_between_its_points() -> None:
    curve = Series("lists", (1.0, 3.0), (0.0, 1.0))
    assert figure(curve).named("lists").at(2.0) == 0.5
    assert curve.at(1.0) == 0.0
    assert curve.at(3.0) == 1.0
    with pytest.raises(ValueError, match="no value at 4"):
        curve.at(4.0)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="2 x and 1 y"):
        Series("lists", (1.0, 2.0), (0.0,))
    with pytest.raises(ValueError, match="finite"):
        Series("lists", (1.0,), (float("nan"),))
    with pytest.raises(ValueError, match="two series"):
        figure(Series("a", (), ()), Series("a", (), ()))
    with pytest.raises(ValueError, match="no series 'b'"):
        figure(Series("a", (), ())).named("b")

"""F20 on a generated world: the shape of the surface, and that its numbers are those of X-Map."""

from __future__ import annotations

import pytest

from research.papers.guerraoui_2017 import f20
from tests.fixtures.two_domains import world

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def figure():
    return f20(
        world(people=300), epsilons=(0.5, 5.0, 500.0), neighbour_epsilons=(1.0,), draws=2, seed=3
    )


@pytest.mark.thorough
def test_every_epsilon_of_neighbours_is_a_curve_beside_what_has_no_noise(figure):
    names = [each.name for each in figure.series]
    assert names == ["epsilon' = 1", "no noise on neighbours", "no noise at all", "item means"]
    assert all(each.x == (0.5, 5.0, 500.0) for each in figure.series)
    assert (figure.id, figure.log_x, figure.log_y) == ("F20", True, False)


def test_mae_falls_to_that_without_noise(figure):
    curve, free = figure.named("no noise on neighbours"), figure.named("no noise at all").y[0]
    assert curve.y[0] > curve.y[2] + 0.02
    assert curve.y[2] == pytest.approx(free, abs=0.02)
    assert free < figure.named("item means").y[0]
    assert figure.published[0].agrees


def test_what_a_reply_costs_is_beside_the_epsilons_of_the_authors(figure):
    assert "costs 10 and 20 neighbourhoods" in figure.published[-1].measured


def test_a_fall_within_the_noise_of_the_draws_is_none():
    flat = f20(world(), epsilons=(0.1, 0.2), neighbour_epsilons=(1.0,), draws=3, seed=1)
    curve = flat.named("no noise on neighbours")
    assert abs(curve.y[0] - curve.y[1]) < 0.05
    assert not flat.published[0].agrees


def test_one_seed_gives_one_figure():
    runs = [
        f20(world(), epsilons=(2.0,), neighbour_epsilons=(), draws=1, seed=seed)
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]

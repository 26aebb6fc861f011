"""What a demo adds for visitors of its page: choices of protection, and honest accounts."""

from __future__ import annotations

import numpy as np
import pytest

from producers.datasets.synthetic import generate
from producers.fleet.population import populate
from stream_app.cli.demo.demo_processes import allowed_mechanisms
from stream_app.cli.demo.figures import Figures, accounts
from stream_app.cli.demo.ground_truth import GroundTruth
from stream_app.privacy import registry


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


def test_a_rating_of_a_visitor_has_no_true_rating() -> None:
    world = generate(1, users=50, items=80, ratings=800, factors=3)
    people = populate(world.dataset, bytes(32))
    truth = GroundTruth(people, world.dataset.ratings)
    users = np.array([people.devices[people.users[0]][:8], b"\xff" * 8])
    words = np.frombuffer(b"".join(users.tolist()), "<u8")
    stars = truth.stars(words, people.items[[0, 0]])
    assert stars[0] == world.dataset.ratings[0]
    assert np.isnan(stars[1])


@pytest.mark.parametrize(("visitors", "whole"), [(3, True), (2, False)])
def test_ratings_of_visitors_are_accounted_for(visitors: int, whole: bool) -> None:
    figures = Figures(rows=10, published=10, applied=12, held_out=1, visitors=visitors)
    assert f"+ {visitors} of visitors of the page = applied 12" in accounts(figures)
    assert figures.is_accounted_for is whole
    assert ("NOT ALL" in accounts(figures)) != whole

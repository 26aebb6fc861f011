"""Lists and figures on PostgreSQL are those on SQLite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import astuple

from producers.edge.http.contract.edge_bodies import Quality
from producers.edge.lists.wishes import MODELS, EdgeList, Wish
from producers.edge.quality.impressions import Impressions
from producers.edge.quality.model_figures import quality
from producers.edge.site_terms import SiteTerms
from producers.edge.store.store_tables import offers
from tests.fixtures.postgres import Server, postgres
from tests.producers.edge.lists.site import NOW, Site, numbered, numbered_side, row

__all__ = ["postgres"]
pytestmark = pytest.mark.thorough


def run(site: Site, seed: int) -> tuple[list[EdgeList], Quality, int]:
    rng = np.random.default_rng(seed)
    site.publish(numbered_side(rng, 40))
    site.add_many(
        [
            (f"u{rng.integers(6)}", str(rng.integers(1, 41)), float(rng.integers(1, 6)), None, n)
            for n in range(90, 0, -1)
        ]
    )
    site.catalogue.put_many([row("new", added=1000 * NOW)])
    maker = site.open(SiteTerms(explore=0.3))
    kept = Impressions(site.database, keep_days=30, now=lambda: site.seconds)
    lists = [maker.for_user(f"u{n}", Wish(model=model)) for n in range(8) for model in MODELS]
    lists += [maker.for_user(f"u{n}") for n in range(8)]
    for each in lists:
        kept.shown(each)
    kept.write()
    with site.database.writing() as connection:
        for each in lists[::3]:
            place = rng.integers(len(each.items)) if each.items else 0
            chosen = (offers.c.list == each.id) & (offers.c.place == int(place))
            connection.execute(offers.update().where(chosen).values(clicked=1, bought=2))
    site.renew(anew=True)
    lists += [maker.popular(), maker.latest(), maker.similar("3")]
    found = quality(site.database, ("local", "asked:own"), 1000 * NOW)
    site.seconds += 31 * 86_400
    return lists, found, kept.purge()


def test_a_site_on_postgresql_has_the_lists_and_figures_of_one_on_sqlite(
    postgres: Server, tmp_path: Path, seed: int
) -> None:
    plain = run(Site.at(tmp_path, numbered(40)), seed)
    served = run(Site.on(postgres.database(), numbered(40)), seed)
    arms = [[each.model for each in lists] for lists in (plain[0], served[0])]
    assert arms[0] == arms[1]
    assert [[(item.item, item.by) for item in each.items] for each in served[0]] == [
        [(item.item, item.by) for item in each.items] for each in plain[0]
    ]
    for one, other in zip(plain[1].models, served[1].models, strict=True):
        assert astuple(one)[:6] == astuple(other)[:6]
        assert astuple(one.click_through) == pytest.approx(astuple(other.click_through))
        assert (one.ndcg is None) == (other.ndcg is None)
    assert served[2] == plain[2] > 0

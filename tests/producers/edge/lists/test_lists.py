"""The contract of lists, over every model; falling back, filters, sessions, reasons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from producers.edge.catalogue.filters import Filter, parse
from producers.edge.lists.stored_history import history
from producers.edge.lists.wishes import MODELS, Wish
from producers.edge.site_terms import SiteTerms, read
from producers.ranking import LocalRecommender
from producers.ranking.clean_history import RatedItem
from producers.ranking.published import PublicTable
from stream_app import wire
from stream_app.errors import UserError
from stream_app.wire import CatalogueEntry
from tests.fixtures.tastes import side_of
from tests.producers.edge.lists.site import (
    DAY_MS,
    NOW,
    Site,
    items,
    numbered,
    numbered_side,
    row,
)

ITEMS, USERS = 120, 12
NAMED = "named later"


@pytest.fixture
def site(tmp_path: Path, rng: np.random.Generator) -> Site:
    """A site with a catalogue, a public table with factors, and users with tastes."""
    site = Site.at(tmp_path, numbered(ITEMS))
    site.publish(numbered_side(rng, ITEMS, r=4))
    rows = []
    for user in range(USERS):
        taste = 1 + (np.arange(ITEMS)[user % 3 :: 3])
        for place, item in enumerate(rng.choice(taste, 25, replace=False).tolist()):
            kind = place % 5
            stars = float(rng.integers(1, 6)) if kind < 3 else None
            rows.append((f"u{user}", str(item), stars, 0.6 if kind == 3 else None, 60 - place))
    site.add_many(rows)
    return site


def category(name: str) -> Filter:
    return parse(f'category = "{name}"')


def answers(device: bytes, count: int) -> list[int]:
    return [(int.from_bytes(device, "big") * 7 + n) % ITEMS + 1 for n in range(count)]


@pytest.mark.parametrize("model", MODELS)
def test_no_list_holds_what_was_seen_hidden_excluded_withdrawn_or_filtered(
    site: Site, model: str, rng: np.random.Generator
) -> None:
    entries = [CatalogueEntry(n, withdrawn=True) for n in (5, 6)]
    site.publish(site.tables.ranker.table.side, entries)
    maker = site.open(SiteTerms(explore=0.3), server=answers)
    site.change("11", hidden=True)
    site.change("12", available=False)
    site.catalogue.remove("13")
    for user in range(USERS):
        excluded = tuple(map(str, rng.integers(1, ITEMS + 1, 10)))
        only = category(f"c{user % 4}") if user % 2 else None
        wish = Wish(
            n=int(rng.integers(1, 30)), exclude=excluded, filter=only, model=model,
            diversity=[None, 0.3][user % 2], most_per_category=[None, 3][user // 2 % 2],
        )  # fmt: skip
        found = maker.for_user(f"u{user}", wish)
        with site.database.reading() as connection:
            seen = {str(row.item) for row in history(connection, site.users[f"u{user}"])}
        rows = site.catalogue.snapshot().rows
        listed = items(found)
        assert len(set(listed)) == len(listed) <= wish.n
        assert not {*listed} & {*seen, *excluded, "5", "6", "11", "12", "13"}
        assert all(only is None or only.allows(rows[item]) for item in listed)
        if wish.most_per_category:
            counts = [
                sum(c in rows[item].categories for item in listed) for c in ["c0", "c1", "c2", "c3"]
            ]
            assert max(counts) <= wish.most_per_category
        assert found.model == model
        assert found.ranked_by in (*MODELS, "explore")


@pytest.mark.parametrize("model", MODELS)
def test_a_filter_is_that_of_a_naive_scan(site: Site, model: str) -> None:
    maker = site.open(server=answers)
    for user in ("u0", "u1", "eve"):
        whole = items(maker.for_user(user, Wish(n=100, model=model)))
        for name in ("c0", "c3"):
            only = category(name)
            naive = [i for i in whole if only.allows(site.catalogue.snapshot().rows[i])]
            for _ in range(2):  # the second is of the cached mask
                found = items(maker.for_user(user, Wish(n=100, model=model, filter=only)))
                assert found[: len(naive)] == naive or set(naive) <= set(found)


@pytest.mark.parametrize("model", MODELS)
def test_lists_repeat_with_the_generator(site: Site, model: str) -> None:
    wish, eager = Wish(model=model, diversity=0.2), SiteTerms(explore=0.5)
    site.catalogue.put_many([row(f"new{n}", added=1000 * NOW) for n in range(9)])
    first = [site.open(eager, seed=3, server=answers).for_user("u1", wish) for _ in range(2)]
    assert first[0] == first[1]
    assert {each.by for each in first[0].items} >= {"explore"}
    other = site.open(eager, seed=4, server=answers).for_user("u1", wish)
    assert other.id != first[0].id
    assert len(other.id) == 16
    int(other.id, 16)


@pytest.mark.parametrize("visit", ["next", "now"])
def test_lists_by_the_public_table_are_those_of_a_device(
    site: Site, visit: str, rng: np.random.Generator
) -> None:
    side = numbered_side(rng, ITEMS, r=4, after=5, later=5, learned=True)
    for each in (site.tables.ranker.table.side, side):
        site.publish(each)
        maker = site.open()
        for user in range(USERS):
            with site.database.reading() as connection:
                rated = history(connection, site.users[f"u{user}"])
            seen = set(site_seen(site, f"u{user}"))
            device = site.tables.ranker.recommend(rated, 100, because=True, for_=visit)
            edge = maker.for_user(f"u{user}", Wish(n=20, visit=visit))
            expected = [row for row in device.items if str(row.item) not in seen][:20]
            assert items(edge) == [str(row.item) for row in expected]
            assert [row.score for row in edge.items] == [row.score for row in expected]
            assert [row.because for row in edge.items] == [
                tuple(map(str, row.because)) for row in expected
            ]
            assert (edge.method, edge.rated, edge.known, edge.as_of) == (
                device.method, device.rated, device.known, device.as_of,
            )  # fmt: skip


def site_seen(site: Site, user: str) -> list[str]:
    with site.database.reading() as connection:
        rows = connection.exec_driver_sql(
            f"SELECT DISTINCT item FROM feedback WHERE account = {site.users[user]}"
        )
        return [row[0] for row in rows]


def test_lists_by_a_campaign_are_those_of_a_device(tmp_path: Path) -> None:
    site = Site.at(tmp_path)
    published = side_of()
    site.tables.ranker = LocalRecommender(PublicTable(published))
    scope = [str(item) for item in published.side.scope]
    site.add_many([("ann", item, 5.0, None, 9 - n) for n, item in enumerate(scope[:6:2])])
    maker = site.open()
    with site.database.reading() as connection:
        rated = history(connection, site.users["ann"])
    device = site.tables.ranker.recommend(rated, 10, because=True)
    edge = maker.for_user("ann", Wish())
    assert items(edge) == [str(row.item) for row in device.items]
    assert edge.ranked_by == "local"
    assert edge.method == device.method == "together"
    assert [row.because for row in edge.items] == [tuple(map(str, r.because)) for r in device.items]
    assert items(maker.for_user("ann", Wish(diversity=0.5)))[0] == items(edge)[0]


def test_without_a_table_the_edge_ranks_by_its_own_likes_then_by_popularity_and_time(
    tmp_path: Path,
) -> None:
    site = Site.at(tmp_path)
    maker = site.open()
    empty = maker.for_user("ann")
    assert (empty.items, empty.ranked_by, empty.account) == ((), "", 0)
    assert empty.reason.endswith("no items are left, without what was seen or excluded")
    for user in range(6):
        site.add_many([(f"a{user}", item, 5.0, None, 5) for item in ("x1", "x2", f"x{3 + user}")])
        site.add_many([(f"b{user}", item, 5.0, None, 5) for item in ("y1", "y2", f"y{3 + user}")])
    site.add("ann", "x1")
    site.renew()
    own = maker.for_user("ann", Wish(n=20))
    assert (own.ranked_by, own.method, own.model) == ("own", "pairs", "local")
    assert items(own)[0] == "x2"
    assert all(each.startswith("x") for each in items(own)[:7])
    assert own.items[0].because == ("x1",)
    assert "not by local: no public table was read yet" in own.reason
    assert {each.by for each in own.items} == {"own", "popular"}  # filled up
    assert maker.for_user("eve", Wish(n=3)).ranked_by == "popular"
    assert set(items(maker.for_user("eve", Wish(n=2)))) < {"x1", "x2", "y1", "y2"}
    latest = maker.latest(Wish(n=20))
    assert latest.ranked_by == "latest"
    assert set(items(latest)) == {"x1", "x2", "y1", "y2"}  # the others have one person each


def test_an_event_is_in_the_next_list_and_seen_items_come_back_after_a_time(site: Site) -> None:
    maker = site.open(SiteTerms(read_again_days=30))
    before = items(maker.for_user("u0", Wish(n=100)))
    site.add("u0", before[0], None, None, days_ago=0)
    after = items(maker.for_user("u0", Wish(n=100)))
    assert before[0] not in after
    site.seconds += 31 * DAY_MS / 1000
    again = items(maker.for_user("u0", Wish(n=100)))
    assert before[0] in again
    assert len(again) == 100
    site.maker = site.open(SiteTerms())
    assert not set(site_seen(site, "u0")) & set(items(site.maker.for_user("u0", Wish(n=100))))


def test_a_filter_that_leaves_nothing_gives_an_empty_list_with_its_reason(site: Site) -> None:
    maker = site.open()
    found = maker.for_user("u0", Wish(filter=category("none such")))
    assert found.items == ()
    assert (
        found.reason
        == "no items of the catalogue are left by the filter, without what was seen or excluded"
    )
    few = maker.for_user("u0", Wish(n=100, filter=category("c1")))
    assert 0 < len(few.items) < 100
    assert few.reason.startswith(f"{len(few.items)} items of the catalogue are left by the filter")


def test_an_item_is_out_of_every_list_from_the_moment_that_it_is_taken_down(site: Site) -> None:
    maker = site.open()
    for model in MODELS:
        wish = Wish(model=model, n=1)
        first = items(maker.for_user("eve", wish))[0]
        site.change(first, hidden=True)
        assert items(maker.for_user("eve", wish))[0] != first
        site.change(first, hidden=False)
        assert items(maker.for_user("eve", wish))[0] == first


def test_a_session_is_ranked_by_what_is_sent_along_and_leaves_nothing(site: Site) -> None:
    maker = site.open()
    before = site_rows(site)
    found = maker.for_session(["3", "6", "9"], Wish(n=5))
    rated = [RatedItem(n, n, None, NOW // 86_400, k) for k, n in enumerate([3, 6, 9])]
    device = site.tables.ranker.recommend(rated, 5, for_="now")
    assert items(found) == [str(row.item) for row in device.items]
    assert (found.account, found.rated) == (None, 3)
    assert site_rows(site) == before


def site_rows(site: Site) -> list[int]:
    with site.database.reading() as connection:
        return [
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in ("accounts", "feedback", "impressions", "offers", "items")
        ]


def test_similar_items_by_the_table_the_own_likes_or_the_categories(site: Site) -> None:
    maker = site.open(SiteTerms(least_people=1))
    side = site.tables.ranker.table.side
    linked = side.link_weights[6].tolist(), side.link_targets[6].tolist()
    links = sorted(zip(*linked, strict=True), reverse=True)
    expected = [str(slot + 1) for weight, slot in links if slot != 6][:3]
    found = maker.similar("7", Wish(n=3))
    assert (items(found), found.ranked_by) == (expected, "local")
    site.catalogue.put_many([row("cold", categories=("c2",), added=1000 * NOW)])
    site.renew()
    cold = maker.similar("cold", Wish(n=4))
    assert cold.ranked_by == "popular"
    assert cold.method == "categories"
    assert len(cold.items) == 4
    assert all("c2" in each.categories for each in cold.items)
    site.tables.ranker = None
    site.renew()
    own = maker.similar(items(maker.popular(Wish(n=1)))[0], Wish(n=3))
    assert own.ranked_by == "own"
    assert maker.similar("never met").items == ()


def test_the_reasons_for_an_item_are_items_of_the_history(site: Site) -> None:
    maker = site.open()
    listed = maker.for_user("u0", Wish(n=1)).items[0]
    found = maker.because("u0", listed.item)
    assert (found.by, found.items) == ("local", listed.because)
    assert set(found.items) <= set(site_seen(site, "u0"))
    assert maker.because("eve", listed.item).items == ()
    assert maker.because("u0", "never met").reason


def test_popular_items_by_category_and_the_latest_by_when_they_came(site: Site) -> None:
    maker = site.open(SiteTerms(least_people=1))
    popular = maker.popular(Wish(n=5, filter=category("c2")))
    assert popular.ranked_by == "popular"
    assert all("c2" in each.categories for each in popular.items)
    counts = [each.score for each in maker.popular(Wish(n=20)).items]
    assert counts == sorted(counts, reverse=True)
    assert items(maker.latest(Wish(n=3))) == ["120", "119", "118"]
    site.catalogue.put_many([row("new", added=1000 * NOW)])
    eager = site.open(SiteTerms(explore=1.0, least_people=1))
    assert {each.by for each in eager.popular(Wish(n=20)).items} == {"popular"}
    assert "explore" in {each.by for each in eager.for_user("u0").items}


def test_a_server_that_does_not_answer_or_is_not_asked_is_replaced(site: Site) -> None:
    def silent(device: bytes, count: int) -> list[int]:
        raise UserError("no worker answered within 2 s; start one")

    wish = Wish(model="server", n=3)
    asked = site.open(server=answers).for_user("u2", wish)
    assert (asked.ranked_by, asked.method) == ("server", "server")
    replaced = site.open(server=silent).for_user("u2", wish)
    assert replaced.ranked_by == "local"
    assert "no worker answered" in replaced.reason
    assert "does not ask the workers" in site.open().for_user("u2", wish).reason


def test_items_that_the_edge_cannot_name_or_that_are_not_its_own_are_not_offered(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    site = Site.at(tmp_path)
    side = numbered_side(rng, 6)
    side.keys[:2] = [2**63 + 5, wire.key(NAMED)]  # ids of text that nobody has named yet
    site.publish(side)
    maker = site.open()
    assert sorted(items(maker.for_user("eve"))) == ["3", "4", "5", "6"]
    site.catalogue.put_many([row(NAMED)])
    site.renew()
    assert items(maker.for_user("eve")) == [NAMED]
    site.catalogue.remove(NAMED)
    site.catalogue.put_many([row("4", "Four")])
    found = maker.for_user("eve")
    assert items(found) == ["4"]
    assert found.items[0].title == "Four"


def test_the_least_people_behind_what_visitors_see_are_those_of_the_sites_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "edge.toml"
    file.write_text("[lists]\nleast_people = 7\n")
    assert read(file).least_people == 7
    file.write_text("[lists]\nleast_people = 0\n")
    with pytest.raises(UserError, match="least_people"):
        read(file)
    assert SiteTerms().least_people == 5


def test_terms_with_a_model_that_there_is_not_are_refused(site: Site) -> None:
    with pytest.raises(UserError, match="models: best is no model; give some of local, server"):
        site.open(SiteTerms(models=("local", "best")))

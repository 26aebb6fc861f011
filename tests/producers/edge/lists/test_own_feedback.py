"""Statistics of the edge's own feedback: against a plain count, as rows come, and read anew."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from producers.edge.lists import own_feedback
from producers.edge.lists.item_index import ItemIndex, named
from producers.edge.lists.own_feedback import (
    DAMPING,
    KNOWN_BEFORE,
    PAIR_DAYS,
    POPULAR_DAYS,
    SHRINK,
    UNKNOWN_RATE,
    OwnFeedback,
    OwnPairs,
)
from producers.edge.lists.stored_history import Done
from producers.edge.lists.wishes import Wish
from producers.edge.site_terms import SiteTerms
from producers.edge.store.store_tables import impressions, offers
from tests.producers.edge.lists.site import DAY_MS, NOW, Site, items, numbered, row


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.at(tmp_path)


def read(site: Site) -> tuple[OwnFeedback, ItemIndex]:
    index = ItemIndex()
    found = OwnFeedback(site.database, index)
    found.read(1000 * NOW)
    return found, index


def popular(found: OwnFeedback, index: ItemIndex) -> dict[str, float]:
    pairs = zip(found.popular.places.tolist(), found.popular.scores.tolist(), strict=True)
    return {index.texts[place]: share for place, share in pairs}


def liked(item: str) -> Done:
    """Return what somebody has done who rated one item with five stars."""
    one = np.ones(1, np.bool_)
    return Done(np.array([named(item)[1]], np.uint64), np.full(1, 5.0), one.astype(np.int64), one)


def scores_after(found: OwnFeedback, item: str) -> dict[int, float]:
    ranked = found.shelf.ranked(liked(item))
    assert (ranked.scores > 0).all()
    return dict(zip(ranked.places.tolist(), ranked.scores.tolist(), strict=True))


def random_rows(rng: np.random.Generator, count: int) -> list[tuple]:
    rows = []
    for n in range(count):
        explicit = float(rng.integers(1, 6)) if rng.random() < 0.5 else None
        part = None if explicit is not None or rng.random() < 0.1 else 0.3
        user, item = f"u{rng.integers(8)}", str(rng.integers(1, 25))
        rows.append((user, item, explicit, part, 50 - 40 * n / count))
    return rows


def naive(rows: list[tuple]) -> tuple[dict, dict, dict]:
    """Popularity (total, recent) by item, and pairs of likes, by their definitions."""
    newest = min(row[4] for row in rows)
    part, total, recent = {}, {}, {}
    liked, pairs = {}, {}
    for user, item, stars, likes, days_ago in rows:
        if stars is None and likes is None:
            continue
        before = part.get((user, item), 0.0)
        after = before
        if stars is not None:
            after = 1.0 if stars >= 4 else -1.0
        elif before >= 0:
            after = min(1.0, before + likes)
        part[user, item] = after
        gain = (0.2 if after < 0 else after) - (0.2 if before < 0 else before)
        age = days_ago - newest
        if gain > 0:
            total[item] = total.get(item, 0.0) + gain
            recent[item] = recent.get(item, 0.0) + gain * 0.5 ** (age / POPULAR_DAYS)
        own = liked.setdefault(user, [])
        sign = (3 + 2 * after >= 3.8) - (item in own)
        if sign < 0:
            own.remove(item)
        for other in [*own, item] if sign else ():
            cells = {(item, other), (other, item)}
            for cell in cells:
                new = pairs.get(cell, 0.0) + sign * 0.5 ** (age / PAIR_DAYS)
                pairs[cell] = max(new, 0.0)
        if sign > 0:
            own.append(item)
    return total, recent, pairs


def test_popularity_and_pairs_are_those_of_a_plain_count(site: Site, rng) -> None:
    rows = random_rows(rng, 400)
    site.add_many(rows)
    found, index = read(site)
    total, recent, pairs = naive(rows)
    share = {
        item: (total[item] / sum(total.values()) + recent[item] / sum(recent.values())) / 2
        for item in total
    }
    assert popular(found, index) == pytest.approx(share)
    shares = found.popular.scores
    assert (np.diff(shares) <= 0).all()
    for item in total:
        scores = scores_after(found, item)
        for place in found.shelf.places.tolist():
            other = index.texts[place]
            score = scores.get(place, 0.0)
            both = pairs.get((item, other), 0.0) if other != item else 0.0
            own, theirs = pairs.get((item, item), 0.0), pairs.get((other, other), 0.0)
            expected = both / ((own + SHRINK) * (theirs + SHRINK) ** DAMPING)
            assert score == pytest.approx(expected, rel=1e-3, abs=1e-6)


def people(found: OwnFeedback) -> tuple[dict, dict]:
    """Who stands behind each item, and who likes each two, by the kept parts of all people."""
    behind, pairs = Counter(), Counter()
    for parts in found._people.values():
        behind.update(place for place, part in parts.items() if part > 0 or part == -1)
        liked = [place for place, part in parts.items() if 3 + 2 * part >= 3.8]
        pairs.update((one, other) for one in liked for other in liked)
    return behind, pairs


@pytest.mark.parametrize(("items", "persons"), [(100, 200_000), (6, 5)])
def test_people_are_counted_exactly_whatever_they_take_back_and_whoever_is_left_out(
    site: Site, rng, monkeypatch, items: int, persons: int
) -> None:
    monkeypatch.setattr(own_feedback, "_MOST_PARTS", items)
    monkeypatch.setattr(own_feedback, "_MOST_PEOPLE", persons)
    monkeypatch.setattr(own_feedback, "_MOST_LIKES", 3)
    found, _ = read(site)
    for _ in range(6):
        site.add_many(random_rows(rng, 120))
        found.read(1000 * NOW)
        behind, pairs = people(found)
        counted = {n: c for n, c in enumerate(found._columns[4].tolist()) if c}
        assert counted == behind
        places = found._pairs.places.tolist()
        assert found._pairs._people[: len(places), : len(places)].tolist() == [
            [pairs[one, other] for other in places] for one in places
        ]
    assert len(found._people) == min(persons, 8)


def test_visitors_see_no_pair_of_fewer_people_even_of_two_items_that_many_like(
    site: Site, monkeypatch
) -> None:
    monkeypatch.setattr(own_feedback, "_NEW_LIKES", 1.0)
    rows = [(f"i{n}", "i", 5.0, None, 1) for n in range(9)]
    rows += [(f"j{n}", "j", 5.0, None, 1) for n in range(9)]
    rows += [("i0", "j", 5.0, None, 1)]
    rows += [(f"i{n}", "k", 5.0, None, 1) for n in range(5)]
    site.add_many(rows)
    maker = site.open()

    def by_own() -> list[str]:
        return [each.item for each in maker.similar("i").items if each.by == "own"]

    assert by_own() == ["k"]
    assert maker.because("i7", "k").items == ("i",)
    assert maker.because("i7", "j").items == ()
    site.add("i0", "k", 1.0, days_ago=0)  # at once, though few likes are new
    site.renew()
    assert by_own() == []


@pytest.mark.parametrize("catalogue", [False, True])
def test_what_four_people_do_changes_no_list_of_a_visitor(
    tmp_path: Path, seed: int, catalogue: bool
) -> None:
    """Two sites, of which one has four buyers more of each of some items, some of them new."""

    def seen(folder: str, rare: int) -> list[tuple]:
        rng = np.random.default_rng(seed)
        (tmp_path / folder).mkdir()
        new = [row(f"r{n}", categories=("c1",), added=1000 * NOW - n) for n in range(4)]
        site = Site.at(tmp_path / folder, [*numbered(30), *new] if catalogue else ())
        common = [(f"u{n}", str(1 + k), 5.0, None, 3) for n in range(40) for k in rng.choice(30, 6)]
        few = [(f"u{n}", f"r{k}", 5.0, None, 4) for k in range(4) for n in range(rare)]
        site.add_many([*common[:99], *few, *common[99:]])
        maker = site.open(SiteTerms(explore=0.4))
        wish = Wish(n=30)
        made = [maker.popular(wish), maker.latest(wish), maker.for_user("nobody", wish)]
        made += [maker.similar(item, wish) for item in ("1", "9", "r0", "r3", "never met")]
        made += [maker.for_session([item], wish) for item in ("1", "9", "r0", "never met")]
        shown = [(found.items, found.ranked_by, found.known, found.reason) for found in made]
        return [*shown, maker.because("u30", "r0"), maker.because("u30", "1")]

    assert seen("without", 0) == seen("with", 4)


def test_the_order_of_alike_items_does_not_tell_which_one_an_event_named_first(
    tmp_path: Path,
) -> None:
    found = []
    for bought in ((), ("z2",)):
        folder = tmp_path / f"{len(bought)}"
        folder.mkdir()
        site = Site.at(folder)
        maker = site.open()
        for item in bought:
            site.add("ann", item)
        site.renew()
        site.catalogue.put_many([row(f"z{n}", categories=("c",)) for n in range(4)])
        site.renew()
        found.append(items(maker.similar("z0")))
    assert found[0] == found[1] == ["z1", "z2", "z3"]


def test_rows_that_come_later_count_as_if_they_had_been_there(site: Site, rng, monkeypatch) -> None:
    monkeypatch.setattr(own_feedback, "_PAGE", 7)
    rows = random_rows(rng, 200)
    site.add_many(rows[-1:] + rows[:100])
    found, index = read(site)
    site.add_many(rows[100:-1])
    found.read(1000 * NOW + 3000)
    whole = found.anew(1000 * NOW + 3000)
    assert popular(found, index) == pytest.approx(popular(whole, index))
    fresh, other = read(site)
    assert popular(found, index) == pytest.approx(popular(fresh, other))


def test_only_the_newest_rows_are_read_and_deleted_ones_are_gone_when_read_anew(
    site: Site, monkeypatch
) -> None:
    monkeypatch.setattr(own_feedback, "WINDOW", 2)
    site.add_many([("ann", item, 5.0, None, 1) for item in ("old", "a", "b")])
    found, index = read(site)
    assert set(popular(found, index)) == {"a", "b"}
    with site.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM feedback WHERE item = 'a'")
    found.read(1000 * NOW)
    assert set(popular(found, index)) == {"a", "b"}
    assert set(popular(found.anew(1000 * NOW), index)) == {"b"}


def test_a_person_who_repeats_an_event_counts_as_one_like(site: Site) -> None:
    site.add_many([("ann", "a", None, 0.3, 1)] * 50 + [("bob", "b", 5.0, None, 1)] * 50)
    found, index = read(site)
    assert popular(found, index) == pytest.approx({"a": 0.5, "b": 0.5})


def test_the_pairs_keep_to_their_size_and_hold_what_is_liked_most_when_read_anew(
    site: Site, monkeypatch
) -> None:
    monkeypatch.setattr(own_feedback, "MOST_ITEMS", 300)
    monkeypatch.setattr(own_feedback, "OwnPairs", lambda: OwnPairs(300))
    rows = [(f"u{n % 7}", f"once{n}", 5.0, None, 2) for n in range(400)]
    rows += [(f"u{n}", "often", 5.0, None, 1) for n in range(7)]
    site.add_many(rows)
    found, index = read(site)
    assert len(found.shelf.places) == 300
    assert index.find("often") not in found.shelf.places
    anew = found.anew(1000 * NOW)
    assert anew.shelf.places[0] == index.find("often")


def test_offers_of_new_items_are_counted_once_and_with_their_age(site: Site) -> None:
    site.catalogue.put_many([*numbered(3), row("new", added=1000 * NOW - DAY_MS)])
    with site.database.writing() as connection:
        for n, days in enumerate((0.01, 0.01, 30.0, 900.0)):
            at = int(1000 * NOW - days * DAY_MS)
            connection.execute(
                impressions.insert(), {"list": f"{n}", "account": 0, "model": "local", "at": at}
            )
            connection.execute(offers.insert(), {"list": f"{n}", "place": 0, "item": "new"})
    maker = site.open(SiteTerms(explore=1.0))
    for _ in range(2):
        site.renew()
        places, hits, misses = maker.models.own(b"", visitor=False).new
        assert [maker.models._index.texts[place] for place in places] == ["new"]
        assert hits + misses == pytest.approx([KNOWN_BEFORE + 2.5], rel=0.01)
    assert items(maker.for_user("eve"))[0] == "new"


def test_an_old_import_counts_as_much_as_its_own_days(site: Site) -> None:
    site.add_many([("ann", "a", 5.0, None, 9000), ("bob", "b", 5.0, None, 9000 + POPULAR_DAYS)])
    found, index = read(site)
    assert popular(found, index) == pytest.approx({"a": 7 / 12, "b": 5 / 12})


def test_an_old_import_after_the_start_counts_as_well(site: Site) -> None:
    found, index = read(site)
    assert popular(found, index) == {}
    rows = [(f"u{n}", item, 5.0, None, 9000 - n) for n in range(4) for item in ("a", "b")]
    for part in (rows[:4], rows[4:]):
        site.add_many(part)
        found.read(1000 * NOW)
    assert scores_after(found, "a")[index.find("b")] == pytest.approx(
        4 / (24 * 24**DAMPING), rel=0.02
    )


def chances(likes: list[float], offered: list[float]) -> tuple[np.ndarray, np.ndarray]:
    found = OwnFeedback(None, ItemIndex())
    found._columns = np.array([likes, likes, likes, offered, likes], float)
    return found.chances(np.arange(len(likes)))


def test_the_chance_of_a_new_item_is_that_of_its_posterior_being_the_largest(rng) -> None:
    """Two items, 20,000 draws: a frequency off by .02 has a chance below 1e-7 (.5 / sqrt 20,000 =
    .0035, more than 5.6 standard errors)."""
    hits, misses = chances([8.0, 2.0], [16.0, 9.0])
    frequency = np.mean([rng.beta(hits, misses).argmax() == 0 for _ in range(20_000)])
    rate = (10 + KNOWN_BEFORE * UNKNOWN_RATE) / (25 + KNOWN_BEFORE)
    a, b = KNOWN_BEFORE * rate, KNOWN_BEFORE * (1 - rate)
    grid = (np.arange(200_000) + 0.5) / 200_000
    first = grid ** (a + 8 - 1) * (1 - grid) ** (b + 8 - 1)
    second = grid ** (a + 2 - 1) * (1 - grid) ** (b + 7 - 1)
    below = np.cumsum(second) / second.sum()
    assert abs(frequency - float((first / first.sum()) @ below)) < 0.02


def test_an_item_that_nobody_likes_is_drawn_less_and_less(rng) -> None:
    counts = []
    for offered in (0.0, 30.0, 300.0):
        draws = rng.beta(*chances([0.0, 2.0], [offered, 20.0]), size=(2000, 2))
        counts.append((draws.argmax(axis=1) == 0).sum())
    assert counts[0] > counts[1] > counts[2]

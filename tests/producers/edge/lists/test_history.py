"""What a user has done: each item once, by its newest event, with the stars of all its events."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from producers.edge.lists.stored_history import NOTHING, Histories, history
from producers.edge.store.store_tables import DELETIONS
from producers.ranking.ranker import LIKED_STARS, rated_of
from stream_app import wire
from tests.producers.edge.lists.site import DAY_MS, NOW, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.at(tmp_path)


def stars(site: Site, user: str = "ann") -> dict[str, float | None]:
    with site.database.reading() as connection:
        return {str(row.item): row.stars for row in history(connection, site.users[user])}


def test_the_newest_explicit_stars_count_whatever_comes_after(site: Site) -> None:
    site.add("ann", "heat", 2.0, days_ago=3)
    site.add("ann", "heat", 4.0, days_ago=2)
    site.add("ann", "heat", None, 1.0, days_ago=1)
    assert stars(site) == {"heat": 4.0}


def test_parts_of_a_like_add_up_to_one_like_at_most(site: Site) -> None:
    site.add("ann", "once", None, 0.3)
    for _ in range(2):
        site.add("ann", "twice", None, 0.3)
    for _ in range(9):
        site.add("ann", "often", None, 0.3)
    found = stars(site)
    assert found == pytest.approx({"once": 3.6, "twice": 4.2, "often": 5.0})
    assert found["once"] < LIKED_STARS <= found["twice"]


def test_what_only_marks_as_seen_is_seen_and_is_no_rating(site: Site) -> None:
    site.add("ann", "heat", None, None)
    site.add("ann", "big", 3.0)
    done = Histories(site.database).done_by("ann")
    assert sorted(done.keys.tolist()) == sorted([wire.key("big"), wire.key("heat")])
    assert [row.key for row in done.rows] == [wire.key("big")]


def test_items_are_in_the_order_of_their_newest_event_with_day_and_second(site: Site) -> None:
    site.add("ann", "a", days_ago=5)
    site.add("ann", "7", days_ago=4)
    site.add("ann", "a", None, 0.3, days_ago=2)
    site.add("ann", "b", days_ago=2)
    with site.database.reading() as connection:
        rows = history(connection, site.users["ann"])
    assert [row.item for row in rows] == [7, "a", "b"]
    assert [row.key for row in rows] == [7, wire.key("a"), wire.key("b")]
    at = NOW - 2 * DAY_MS // 1000
    assert (rows[1].at, rows[1].day) == (at, at // 86_400)


def test_users_do_not_see_each_other_and_an_unknown_or_removed_one_has_done_nothing(
    site: Site,
) -> None:
    site.add("ann", "a")
    site.add("bob", "b")
    assert stars(site) == {"a": 5.0}
    histories = Histories(site.database)
    assert [row.key for row in histories.done_by("ann").rows] == [wire.key("a")]
    with site.database.writing() as connection:
        connection.exec_driver_sql("UPDATE accounts SET removed = 1 WHERE number = 1")
    for user in ("ann", "eve"):
        assert all(map(np.array_equal, histories.done_by(user), NOTHING))
    assert histories.done_by("bob").account == site.users["bob"]


def test_it_is_what_a_plain_reading_of_all_events_gives(
    site: Site, rng: np.random.Generator
) -> None:
    events = []
    for n in range(300):
        kind = rng.integers(3)
        explicit = float(rng.integers(1, 6)) if kind == 0 else None
        part = float(rng.choice([0.3, 0.6])) if kind == 1 else None
        events.append((str(rng.integers(40)), explicit, part, 300.0 - n))
    site.add_many([("ann", item, *rest) for item, *rest in events])
    expected = {}
    for item in {event[0] for event in events}:
        own = [event for event in events if event[0] == item]
        given = [event[1] for event in own if event[1] is not None]
        parts = [event[2] for event in own if event[2] is not None]
        if given or parts:
            expected[item] = given[-1] if given else 3 + 2 * min(1, sum(parts))
    assert stars(site) == pytest.approx(expected)


def test_what_is_kept_is_what_reading_all_gives_whatever_comes_and_goes(
    site: Site, rng: np.random.Generator
) -> None:
    kept = Histories(site.database, most=40)  # less than all users have done
    for step in range(150):
        user, days = f"u{rng.integers(5)}", 9.0 - step / 20
        if rng.random() < 0.1:
            days += 3  # an event that comes late
        site.add(user, str(rng.integers(30)), [None, 4.0, 2.0][rng.integers(3)], 0.3, days_ago=days)
        if rng.random() < 0.1:
            with site.database.writing() as connection:
                connection.exec_driver_sql(
                    f"DELETE FROM feedback WHERE number = {rng.integers(1, site.events + 1)} "
                    "AND number < (SELECT max(number) FROM feedback)"  # SQLite uses it again
                )
        asked = f"u{rng.integers(5)}"
        found = kept.done_by(asked)
        read = Histories(site.database).done_by(asked)
        assert found.rows == read.rows
        assert found.keys.tolist() == read.keys.tolist()
        if asked in site.users:
            with site.database.reading() as connection:
                rows = history(connection, site.users[asked])
            assert found.rows == [replace(row, item=row.key) for row in rows]
            assert found.rated.items.tolist() == [row.key for row in rows]
            of_rows = rated_of(rows)
            assert all(map(np.array_equal, found.rated, of_rows))
    assert sum(len(done.keys) for _, done in kept._kept.values()) <= 40 + 30
    with site.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM feedback")
    assert not len(kept.done_by("u0").keys)


def test_what_was_kept_of_a_user_is_gone_after_a_deletion_though_numbers_come_again(
    site: Site,
) -> None:
    kept = Histories(site.database)
    site.add("ann", "before")
    assert kept.done_by("ann").keys.tolist() == [wire.key("before")]
    with site.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM feedback")
        site.database.retag(connection, DELETIONS)
    site.add("ann", "after")
    assert kept.done_by("ann").keys.tolist() == [wire.key("after")]


def test_threads_that_ask_at_once_learn_each_row_once(site: Site) -> None:
    kept, wrong = Histories(site.database), list[object]()

    def ask() -> None:
        for _ in range(60):
            found = kept.done_by("ann")
            counts = {row.stars for row in found.rows}
            if not counts <= {3.6, 4.2, 4.8, 5.0}:
                wrong.append(counts)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(30):
        site.add("ann", str(n % 10), None, 0.3, days_ago=1 - n / 100)
    for thread in threads:
        thread.join()
    assert not wrong
    assert {row.stars for row in kept.done_by("ann").rows} == {4.8}

"""What lists bring: intervals against known values, figures against a plain count, impressions."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import astuple

from producers.edge.http.contract.edge_bodies import Listed
from producers.edge.lists.wishes import EdgeList
from producers.edge.quality.impressions import Impressions
from producers.edge.quality.model_figures import difference, quality, ratio, wilson
from producers.edge.store.database import Database
from producers.edge.store.store_tables import impressions, offers
from stream_app.errors import Unwritable
from tests.fixtures.waiting import until

DAY = 86_400


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path}/edge.db")


def ratio_of(y, n):
    return ratio(len(y), y.sum(), n.sum(), (y * y).sum(), (y * n).sum(), (n * n).sum())


def figures(database: Database, since_ms: int = 0) -> list:
    return quality(database, ("local",), since_ms, days=0).models


def compared(database: Database, first: str, second: str):
    return quality(database, (first, second), 0, days=0).comparisons[0]


def shown(name: int, account: int | None = 1, by: str = "local", **more: object) -> EdgeList:
    found = tuple(Listed(f"i{n}", "", 0.0, (), (), None, "") for n in range(10))
    return EdgeList(f"{name:016x}", found, by, "local", account=account, **more)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        # Newcombe 1998, table I (method 3, without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_has_the_published_values(hits, trials, low, high) -> None:
    found = wilson(hits, trials)
    assert astuple(found) == pytest.approx((hits / trials, low, high), abs=5e-5)
    assert astuple(wilson(trials - hits, trials))[1:] == pytest.approx(
        (1 - high, 1 - low), abs=5e-5
    )


def test_intervals_of_ratios_cover_the_truth_as_often_as_they_say(rng) -> None:
    """400 draws of 200 users whose lists are alike: 95 % of the intervals hold the truth. A share
    below .90 has a chance below 1e-5 where the true one is .95."""
    covered = 0
    for _ in range(400):
        own, other = (rng.beta(2, 6, 200) for _ in range(2))
        counts = rng.integers(1, 12, (2, 200)).astype(float)
        sums = rng.binomial(counts.astype(int), [own, other]).astype(float)
        found = difference(*map(ratio_of, sums, counts))
        covered += found.low <= 0 <= found.high
    assert covered / 400 > 0.90
    assert wilson(0, 0) is ratio_of(np.ones(1), np.ones(1)) is difference(None, None) is None


def record(database: Database, rows, rng) -> list[dict]:
    """Write random lists, and return them as plain values."""
    kept, found = Impressions(database, now=lambda: 1000.0), []
    for n in range(rows):
        account, model = int(rng.integers(0, 12)), ["local", "own"][rng.integers(2)]
        kept.shown(replace(shown(n, account), model=model, ranked_by=model))
        clicks = sorted(rng.choice(10, rng.integers(0, 4), replace=False).tolist())
        bought = [place for place in clicks if rng.random() < 0.3]
        found.append(
            {"model": model, "account": account or f"-{n}", "clicks": clicks, "bought": bought}
        )
    kept.write()
    with database.writing() as connection:
        for n, row in enumerate(found):
            for kind in ("clicks", "bought"):
                column = {"clicks": "clicked", "bought": "bought"}[kind]
                for place in row[kind]:
                    connection.execute(
                        offers.update()
                        .where(offers.c.list == f"{n:016x}", offers.c.place == place)
                        .values({column: 1_000_001})
                    )
    return found


def gain(places: list[int]) -> float:
    ideal = sum(1 / np.log2(n + 2) for n in range(len(places)))
    return sum(1 / np.log2(n + 2) for n in places) / ideal


def test_figures_are_those_of_a_plain_count(database: Database, rng) -> None:
    rows = record(database, 150, rng)
    found = {row.model: row for row in figures(database)}
    assert sorted(found) == ["local", "own"]
    for model, row in found.items():
        own = [each for each in rows if each["model"] == model]
        clicked = [each for each in own if each["clicks"]]
        assert (row.lists, row.offers, row.clicked) == (len(own), 10 * len(own), len(clicked))
        assert row.clicks == sum(len(each["clicks"]) for each in own)
        assert row.purchases == sum(len(each["bought"]) for each in own)
        assert row.click_through == wilson(len(clicked), len(own))
        assert row.ndcg.value == pytest.approx(np.mean([gain(r["clicks"]) for r in clicked]))
        assert row.ndcg.low < row.ndcg.value < row.ndcg.high
    assert figures(database, since_ms=2_000_000) == []


def test_arms_are_compared_over_users(database: Database, rng) -> None:
    rows = record(database, 150, rng)
    found = compared(database, "local", "own")
    sides = {}
    for model in ("local", "own"):
        own = [each for each in rows if each["model"] == model]
        users = sorted({str(each["account"]) for each in own})
        by_user = [[e for e in own if str(e["account"]) == user] for user in users]
        clicked = np.array([sum(bool(e["clicks"]) for e in each) for each in by_user], float)
        sides[model] = ratio_of(clicked, np.array([len(each) for each in by_user], float))
    expected = astuple(difference(sides["local"], sides["own"]))
    assert astuple(found.click_through) == pytest.approx(expected)
    assert compared(database, "own", "local").ndcg.value == pytest.approx(-found.ndcg.value)
    assert compared(database, "local", "server").click_through is None


def test_arms_count_what_another_model_ranked_but_not_what_was_asked_for(
    database: Database,
) -> None:
    kept = Impressions(database)
    kept.shown(shown(1))
    kept.shown(shown(2, by="own"))
    kept.shown(shown(3, asked=True))
    kept.shown(shown(4, account=None))  # of a session
    kept.shown(replace(shown(5), items=()))
    kept.write()
    assert [(row.model, row.lists) for row in figures(database)] == [
        ("asked:local", 1), ("local", 1), ("local>own", 1),
    ]  # fmt: skip
    assert kept.written == 3


def test_lists_are_written_by_a_thread_and_the_rest_at_the_end(database: Database) -> None:
    kept = Impressions(database)
    kept.start()
    threads = [
        threading.Thread(target=lambda first=first: [*map(kept.shown, map(shown, first))])
        for first in (range(n, n + 50) for n in (0, 1000, 2000, 3000))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: kept.written == 200 and not kept.waiting, "all lists are in the store")
    kept.shown(shown(9000))
    kept.stop()
    assert kept.written == 201
    with database.reading() as connection:
        assert len(connection.execute(offers.select()).all()) == 2010


def test_lists_beyond_the_bound_are_dropped_and_counted_and_a_full_disk_keeps_the_others(
    database: Database, tmp_path: Path
) -> None:
    kept = Impressions(database, most_waiting=5)
    for n in range(8):
        kept.shown(shown(n))
    assert (kept.waiting, kept.dropped) == (5, 3)
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE offers RENAME TO away")
    with pytest.raises(Unwritable, match="store sqlite"):
        kept.write()
    assert (kept.waiting, kept.written) == (5, 0)
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO offers")
    kept.write()
    assert (kept.waiting, kept.written) == (0, 5)


def test_old_lists_go_with_their_offers(database: Database) -> None:
    clock = [1000.0 * DAY]
    kept = Impressions(database, keep_days=30, now=lambda: clock[0])
    for n in range(1200):
        kept.shown(shown(n, by=["local", "own"][n % 2]))
    kept.write()
    clock[0] += 20 * DAY
    kept.shown(shown(5000))
    kept.write()
    assert kept.purge() == 0
    clock[0] += 11 * DAY
    assert kept.purge() == 1200
    with database.reading() as connection:
        assert [row.list for row in connection.execute(impressions.select())] == [f"{5000:016x}"]
        assert len(connection.execute(offers.select()).all()) == 10

"""A whole edge without a recommender: events are kept, lists go on, and it ends in order."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import Counter
from contextlib import asynccontextmanager
from itertools import permutations
from urllib.parse import quote

import pytest

from consumers.site_edge import Edge as Client
from consumers.site_edge import EdgeRefused
from producers.edge.edge_service import Service
from producers.edge.http.contract.edge_endpoints import ENDPOINTS
from producers.edge.http.edge_serving import serving
from producers.edge.http.site import Edge
from producers.edge.reporting.ways_out import ReportingOptions
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.ranking.published import Missing
from stream_app.errors import UserError
from tests.fixtures.awkward_ids import LONG_USERS, PAIRS, REFUSED
from tests.fixtures.postgres import postgres
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.producers.edge import stores

__all__ = ["postgres"]
CSV = b"item_id,title,genres,price\n" + b"".join(
    f"SKU-{n},Shoe {n},{'Trail' if n % 2 else 'Road'},{n}.5\n".encode() for n in range(40)
)


def away():
    raise UserError("no broker answers")


def no_table():
    raise Missing("no table was published yet")


def edge_in(folder, **changed):
    given = {
        "store": f"sqlite:///{folder}/edge.db",
        "terms": SiteTerms(models=("local", "popular")),
        "source": no_table,
        "reporting": ReportingOptions(topic="murmurec.ratings.v1", connect=away),
    }
    return Service(**given | changed)


@asynccontextmanager
async def interface(service):
    async with serving(Edge(service.site), "127.0.0.1", 0) as address:

        def ask(method, path, body=None, kind="application/json"):
            request = urllib.request.Request(
                address + path, body, {"Content-Type": kind}, method=method
            )
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.loads(reply.read())

        yield lambda *given: asyncio.to_thread(ask, *given)


async def first(ask, path, count):
    """Return the first list that has so many items: a new catalogue is looked at in a thread."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len((listed := await ask("GET", path))["items"]) < count:
            await asyncio.sleep(0.01)
    return listed


def test_with_the_recommender_away_events_are_kept_and_lists_go_on(tmp_path):
    async def play(service):
        async with interface(service) as ask:
            stored = await ask("POST", "/items", CSV, "text/csv")
            assert stored["stored"] == 40
            events = [
                {"user": f"u{n}", "item": f"SKU-{(3 * n + k) % 40}", "type": "purchase"}
                for n in range(12)
                for k in range(5)
            ]
            taken = await ask("POST", "/events", json.dumps(events).encode())
            assert taken["accepted"] == 60
            listed = await first(ask, "/recommendations/u1?n=5&category=Trail", 5)
            assert all(each["categories"] == ["Trail"] for each in listed["items"])
            seen = {event["item"] for event in events if event["user"] == "u1"}
            assert not seen & {each["item"] for each in listed["items"]}
            click = {"user": "u1", "item": listed["items"][0]["item"], "type": "click"}
            body = json.dumps({**click, "list": listed["list"]}).encode()
            assert (await ask("POST", "/events", body))["accepted"] == 1
            status = await ask("GET", "/status")
            assert status["accounts"] == 12
            assert status["reporting"]["connected"] is False
            assert status["reporting"]["messages"] == 0
            assert status["terms"]["mechanism"] == "rr:5:2"
            shown = await ask("GET", "/users/u1")
            assert shown["events"] == 6
            assert shown["budget"] is None or not shown["budget"]["spent"]
            assert len((await ask("GET", "/users/u1/export"))["events"]) == 6
            receipt = await ask("DELETE", "/users/u1")
            assert receipt["events_removed"] == 6
            assert receipt["upstream"] == "nothing"
            assert (await ask("GET", "/readyz"))["ready"]

    with edge_in(tmp_path) as service:
        asyncio.run(play(service))
        assert service.failure() is None


def test_an_edge_whose_store_cannot_be_written_is_not_ready_until_it_can(tmp_path):
    with Database(f"sqlite:///{tmp_path}/edge.db") as database:
        assert database.probe()
        with database.engine.connect() as connection:  # else it waits for five seconds
            connection.exec_driver_sql("PRAGMA busy_timeout = 10")
        with stores.locked(tmp_path / "edge.db"):
            assert not database.probe()
        assert database.probe()


def bought_by(customer):
    """Four items of a taste that 30 share, one more, and one of the five rare items."""
    items = [f"SKU-{4 * (customer % 10) + n}" for n in range(4)] + [
        f"SKU-{13 * (customer // 10) % 40}"
    ]
    return items + [f"RARE-{n}" for n, buyers in enumerate(RARE) if n <= customer < n + buyers]


RARE = (1, 2, 3, 4, 4)  # buyers
OPERATION = {"events", "putItem", "putItems", "removeItem", "user", "deleteUser", "exportUser"}
OPERATION |= {"accounts", "status", "quality", "metrics", "item"}  # the site's own, with a token


@pytest.mark.parametrize("catalogue", [False, True])
def test_300_customers_show_a_visitor_no_item_and_no_pair_of_fewer_than_five(tmp_path, catalogue):
    own = {f"c{n}": bought_by(n) for n in range(300)}
    people = Counter(item for items in own.values() for item in set(items))
    pairs = Counter(pair for items in own.values() for pair in permutations(set(items), 2))
    assert min(pairs[pair] for pair in pairs if "RARE" not in f"{pair}") < 5
    events = [
        {"user": user, "item": item, "type": "purchase", "time": 1_700_000_000 + n}
        for n, user in enumerate(own)
        for item in own[user]
    ]
    rows = CSV + b"".join(f"RARE-{n},Rare {n},Rare,9\n".encode() for n in range(len(RARE)))

    async def play(service):
        async with interface(service) as ask:
            if catalogue:
                await ask("POST", "/items", rows, "text/csv")
            await ask("POST", "/events", json.dumps(events).encode())
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await ask("GET", "/popular"))["ranked_by"] != "popular":
                    await asyncio.sleep(0.01)
            answers = dict[str, list]()
            for asked in (*people, "never met"):
                item = quote(asked)
                similar = await ask("GET", f"/similar/{item}?n=100")
                body = json.dumps({"items": [asked], "n": 100}).encode()
                session = await ask("POST", "/recommendations", body)
                answers.setdefault("similar", []).append((asked, similar["items"]))
                answers.setdefault("lists", []).append((asked, session["items"]))
                assert (await ask("GET", f"/because/nobody/{item}"))["items"] == []
                for user in ("c0", "c150"):
                    reasons = (await ask("GET", f"/because/{user}/{item}"))["items"]
                    assert all(pairs[asked, each] >= 5 for each in reasons)
            for name, path in (
                ("popular", "/popular"),
                ("latest", "/latest"),
                ("recommendations", "/recommendations/nobody"),
            ):
                answers[name] = [("", (await ask("GET", f"{path}?n=100"))["items"])]
            opened = {each.name for each in ENDPOINTS if each.open}
            assert {*answers, "because", *OPERATION, *opened} == {each.name for each in ENDPOINTS}
            for path in ("/livez", "/readyz", "/openapi.json"):
                assert "RARE" not in json.dumps(await ask("GET", path))
            return answers

    with edge_in(tmp_path, terms=SiteTerms(explore=0.2)) as service:
        answers = asyncio.run(play(service))
    ranked_by = Counter[str]()
    for name, asked, each in (
        (name, asked, each)
        for name, made in answers.items()
        for asked, items in made
        for each in items
    ):
        ranked_by[each["by"]] += 1
        if each["by"] == "own":
            assert pairs[asked, each["item"]] >= 5
        by_people = each["by"] == "popular" and name != "similar"  # which is by categories
        if by_people or not catalogue:
            assert people[each["item"]] >= 5
    popular = [each["item"] for each in answers["popular"][0][1] if each["by"] == "popular"]
    assert set(popular) == {item for item in people if people[item] >= 5}
    assert ranked_by["own"] > 100


def test_a_list_of_a_store_that_was_opened_again_is_the_same(tmp_path):
    async def fill(service):
        async with interface(service) as ask:
            await ask("POST", "/items", CSV, "text/csv")
            body = b'{"user":"a","item":"SKU-1","type":"like"}'
            await ask("POST", "/events", body)

    async def look(service):
        async with interface(service) as ask:
            assert (await ask("GET", "/users/a"))["events"] == 1
            assert (await ask("GET", "/items/SKU-7"))["title"] == "Shoe 7"

    with edge_in(tmp_path) as service:
        asyncio.run(fill(service))
    with edge_in(tmp_path) as service:
        asyncio.run(look(service))


def test_two_edges_on_one_file_are_refused_and_nothing_stays_open(tmp_path):
    with (
        edge_in(tmp_path),
        pytest.raises(UserError, match="another edge uses it"),
        edge_in(tmp_path),
    ):
        raise AssertionError("unreachable")
    with edge_in(tmp_path):
        pass


def test_what_the_recommender_waits_for_is_shown(tmp_path):
    problems = ["the worker is starting"]
    with edge_in(tmp_path, beside=lambda: problems[0] if problems else None) as service:
        assert service.site.problem() == "the worker is starting"
        problems.clear()
        until(lambda: "table" in (service.site.problem() or ""), "the table is missing")


def test_the_quality_of_each_arm_is_measured_from_clicks(tmp_path):
    async def play(service):
        async with interface(service) as ask:
            await ask("POST", "/items", CSV, "text/csv")
            for n in range(6):
                listed = await first(ask, f"/recommendations/v{n}?n=3", 3)
                if n % 2:
                    event = {
                        "user": f"v{n}",
                        "item": listed["items"][1]["item"],
                        "type": "click",
                        "list": listed["list"],
                    }
                    await ask("POST", "/events", json.dumps(event).encode())
            return await ask("GET", "/quality")

    with edge_in(tmp_path) as service:
        quality = asyncio.run(play(service))
    assert quality["comparisons"][0]["first"] == "local"


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("sqlite", 12),
        pytest.param("sqlite", 1, marks=pytest.mark.thorough),
        pytest.param("postgresql", 1, marks=pytest.mark.thorough),
    ],
)
def test_ids_that_look_alike_are_none_the_less_themselves(tmp_path, request, kind, step):
    """Every id is a user who bought a different item, and an item in a category of its own."""
    assert len(PAIRS) >= 200
    pairs = PAIRS[::step]
    items = list(dict.fromkeys(each for pair in pairs for each in pair))
    users = [*items, *(each for pair in LONG_USERS for each in pair)]
    bought = {user: items[(n + 1) % len(items)] for n, user in enumerate(users)}
    gone = {one for one, _ in pairs} - {other for _, other in pairs}

    def play(edge):
        events = [{"user": user, "item": bought[user], "type": "purchase"} for user in users]
        events += [{"user": one, "item": two, "type": "view"} for one, two in pairs]
        events += [{"user": "the buyer", "item": item, "type": "like"} for item in pairs[-1]]
        rows = [
            {"item": item, "title": f"title {n}", "category": f"c{n}"}
            for n, item in enumerate(items)
        ]
        stored = edge.put_items(rows)
        assert (stored["stored"], stored["refused"]) == (len(items), [])
        taken = edge.events(events)
        assert (taken["accepted"], taken["refused"]) == (len(events), [])
        found = {row["user"] for row in edge._ask("GET", "/accounts", {"n": 100})["accounts"]}
        assert found == set(sorted([*users, "the buyer"])[-100:])  # enrolled in this order

        def first(path, **given):
            return edge._ask("GET", path, given)["items"]

        until(lambda: first("/latest", category=f"c{len(items) - 1}"), "the catalogue is listed")
        viewed = {user: {two for one, two in pairs if one == user} for user in users}
        for user in users:
            export = edge.export_user(user)
            done = {event["item"] for event in export["events"]}
            assert (export["user"], done) == (user, {bought[user]} | viewed[user])
            assert {row["item"] for row in export["record"]["history"]} <= done
        for start in range(0, len(items), 50):
            part = dict(list(enumerate(items))[start : start + 50])
            listed = first("/latest", n=50, category=[f"c{n}" for n in part])
            assert {(each["item"], each["title"]) for each in listed} == {
                (item, f"title {n}") for n, item in part.items()
            }
        for one, two in pairs[::10]:
            assert edge._ask("GET", "/items", {"item": one})["item"] == one
            assert edge.recommend(one, category=f"c{items.index(two)}")["items"] == []  # is seen
        for one, two in (pairs[-1], pairs[-1][::-1]):
            near = {"item": one, "category": f"c{items.index(two)}"}
            until(lambda near=near: first("/similar", **near), "they go together")
            assert [each["item"] for each in first("/similar", **near)] == [two]
        for user in gone:
            assert edge.delete_user(user)["events_removed"] == 1 + len(viewed[user])
        for user in users:
            found = edge.user(user)
            expected = 0 if user in gone else 1 + len(viewed[user])
            assert found["events"] == expected, user
        for item in pairs[0]:
            assert edge._ask("DELETE", "/items", {"item": item}) == {"removed": True}
        for text in REFUSED:
            body = {"user": text, "item": "a", "type": "view"}
            with pytest.raises(EdgeRefused) as caught:
                edge.events(body)
            assert caught.value.reason == "rows"

    async def run(service):
        async with serving(Edge(service.site), "127.0.0.1", 0) as address:
            with Client(address) as edge:
                await asyncio.to_thread(play, edge)

    store = f"sqlite:///{tmp_path}/edge.db"
    if kind == "postgresql":
        store = request.getfixturevalue("postgres").database()
    with edge_in(tmp_path, store=store, terms=SiteTerms(least_people=1)) as service:
        asyncio.run(run(service))

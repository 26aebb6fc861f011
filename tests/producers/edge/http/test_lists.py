"""The lists of an edge over HTTP: what is asked reaches the maker of lists, or is refused."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import urlencode

import pytest

from stream_app.errors import Unreadable
from tests.producers.edge.http.shop import HOSTILE, open_shop

ODD_USERS = {
    "a slash": ("a%2Fb", "a/b"),
    "a percent sign": ("100%25", "100%"),
    "an encoded escape": ("a%252Fb", "a%2Fb"),
    "a question mark": ("who%3F", "who?"),
    "braces": ("%7Bx%7D", "{x}"),
    "a space and a plus": ("Ann+Lee%20Jr", "Ann+Lee Jr"),
    "two dots": ("%2E%2E", ".."),
    "letters of another script": ("%D0%90%D0%BD%D0%BD%D0%B0", "Анна"),
    "zeros in front": ("007", "007"),
    "a mark of direction": ("a%E2%80%8Fb", "a\u200fb"),
    "a blank": ("%20", " "),
    "HTML": ("%3Cb%3E", "<b>"),
}


@pytest.mark.parametrize(("sent", "user"), ODD_USERS.values(), ids=ODD_USERS)
def test_any_text_is_a_user(tmp_path, sent, user):
    async def play():
        async with open_shop(tmp_path) as shop:
            shop.people.known.add(user)
            status, value = await shop.get(f"/recommendations/{sent}")
            assert (status, value["user"]) == (200, user)
            assert shop.lists.asked[0][:2] == ("user", user)
            assert (await shop.get(f"/users/{sent}"))[1]["user"] == user
            assert (await shop.get(f"/users/{sent}/export"))[0] == 200
            assert (await shop.ask("DELETE", f"/users/{sent}"))[0] == 200
            assert (await shop.get(f"/users/{sent}"))[0] == 404

    asyncio.run(play())


@pytest.mark.parametrize("user", ["..", ".", "a/b", "", "export", "7 ", "a+b", "%2e"])
def test_an_id_that_clients_would_change_in_a_path_is_asked_in_the_query(tmp_path, user):
    async def play():
        async with open_shop(tmp_path) as shop:
            shop.people.known.add(user)
            query = urlencode({"user": user, "item": user})
            own = urlencode({"user": user})
            asked = [
                ("GET", f"/recommendations?{own}&n=3"),
                ("GET", f"/similar?{urlencode({'item': user})}"),
                ("GET", f"/because?{query}"),
                ("GET", f"/export?{own}"),
                ("GET", f"/users?{own}"),
                ("DELETE", f"/users?{own}"),
            ]
            for method, path in asked:
                status, value, _ = await shop.ask(method, path)
                assert status == (200 if user else 400), value
            names = [each[1] for each in shop.lists.asked]
            assert names == ([user] * 3 if user else [])
            assert (user in shop.people.known) == (not user)

    asyncio.run(play())


@pytest.mark.parametrize(
    "path", ["/users", "/users?item=a", "/users?user=a&user=b", "/users/a?user=b"]
)
def test_a_deletion_names_one_user(tmp_path, path):
    async def play():
        async with open_shop(tmp_path) as shop:
            shop.people.known |= {"a", "b"}
            assert (await shop.ask("DELETE", path))[0] == 400
            assert shop.people.known == {"a", "b"}

    asyncio.run(play())


@pytest.mark.parametrize("sent", ["%FF", "%00", "u" * 1025, "%ED%A0%80"], ids=lambda text: text[:9])
def test_what_is_no_id_is_refused(tmp_path, sent):
    async def play():
        async with open_shop(tmp_path) as shop:
            status, value = await shop.get(f"/recommendations/{sent}")
            assert (status, value["reason"]) == (400, "id")
            assert sent not in value["error"]

    asyncio.run(play())


def test_every_part_of_a_wish_arrives(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            query = (
                "n=5&category=Shoes&category=Say+%22hi%22&not_category=Socks&filter=price+%3C+50"
                "&exclude=SKU-1&exclude=007&for=now&diversity=0.3&most_per_category=2&model=popular"
            )
            assert (await shop.get(f"/recommendations/a?{query}"))[0] == 200
            wish = shop.lists.asked[0][2]
            assert (wish.n, wish.exclude, wish.visit) == (5, ("SKU-1", "007"), "now")
            assert (wish.diversity, wish.most_per_category, wish.model) == (0.3, 2, "popular")

            def allows(price, *categories):
                return wish.filter.allows(row(price, *categories))

            assert allows(10, "Shoes")
            assert allows(10, 'Say "hi"')
            assert not allows(10, "Shoes", "Socks")
            assert not allows(60, "Shoes")
            assert not allows(10, "Hats")

    asyncio.run(play())


def test_a_filter_that_takes_long_lets_others_be_answered(tmp_path):
    """The list waits for the answer of another request: on the event loop it never came."""

    async def play():
        async with open_shop(tmp_path, at_once=True) as shop:
            answered = threading.Event()
            shop.lists.waits_for = answered
            slow = asyncio.ensure_future(shop.get("/recommendations/a?filter=price+%3C+50"))
            while not shop.lists.waiting:
                assert (await shop.get("/livez"))[0] == 200
            answered.set()
            assert (await slow)[0] == 200

    asyncio.run(play())


def row(price, *categories):
    from producers.edge.catalogue.site_catalogue import ItemRow

    return ItemRow(item="x", price=price, categories=categories)


WRONG = {
    "n=0": "n:",
    "n=101": "n:",
    "n=ten": "n:",
    "n=5&n=6": "n:",
    "n=%D9%A3": "n:",
    "for=later": "for:",
    "diversity=2": "diversity:",
    "diversity=nan": "diversity:",
    "most_per_category=0": "most_per_category:",
    "model=secret": "model:",
    "kategorie=Shoes": "not known",
    "category=": "category:",
    "category=%FF": "UTF-8",
    "category=%00": "category:",
}


@pytest.mark.parametrize(("query", "named"), WRONG.items(), ids=WRONG)
def test_a_wrong_parameter_is_named_and_its_value_is_not_repeated(tmp_path, query, named):
    async def play():
        async with open_shop(tmp_path) as shop:
            status, value = await shop.get(f"/recommendations/a?{query}")
            assert (status, value["reason"]) == (400, "query")
            assert named in value["error"]
            assert not any(word in value["error"] for word in ("secret", "later", "kategorie"))
            assert shop.lists.asked == []

    asyncio.run(play())


@pytest.mark.parametrize("text", ["price <", "secret = 3 3", "((", '"', "x" * 3000])
def test_a_wrong_filter_is_refused_with_its_sentence(tmp_path, text):
    async def play():
        async with open_shop(tmp_path) as shop:
            asked = {"items": ["a"], "filter": text}
            status, value = await shop.post("/recommendations", asked)
            assert status == 400
            assert value["reason"] in ("filter", "query")
            assert "secret" not in value["error"]

    asyncio.run(play())


def test_a_filter_cannot_leave_its_brackets(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            escape = "category=Shoes&filter=price+%3E+0)+or+(price+%3E+0"
            assert (await shop.get(f"/popular?{escape}"))[0] == 400

    asyncio.run(play())


def test_lists_of_several_users_and_of_a_session(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            status, value = await shop.post("/recommendations", {"users": ["a", 7], "n": 3})
            assert status == 200
            assert [each["user"] for each in value["lists"]] == ["a", "7"]
            asked = {"items": ["SKU-1", 8, "SKU-1"], "for": "now", "category": ["Shoes"]}
            status, value = await shop.post("/recommendations", asked)
            assert (status, value["user"]) == (200, None)
            assert shop.lists.asked[-1][:2] == ("session", ("SKU-1", "8"))
            assert shop.lists.asked[-1][2].visit == "now"

    asyncio.run(play())


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"users": ["a"], "items": ["b"]},
        {"users": []},
        {"users": ["a"] * 101},
        {"users": ["a"], "n": 1000},
        {"users": ["a"], "n": "5"},
        {"users": ["a"], "category": ["c" * 501]},
        {"users": [None]},
        {"users": [""]},
        {"items": ["i"] * 501},
        {"users": ["a"], "secret": 1},
        ["a"],
        b"{",
        b"\xff",
        b"[" * 9999,
    ],
    ids=str,
)
def test_a_wrong_body_is_refused(tmp_path, asked):
    async def play():
        async with open_shop(tmp_path) as shop:
            status, value = await shop.post("/recommendations", asked)
            assert status == 400
            assert value["reason"] in ("body", "query", "id")
            assert "secret" not in value["error"]
            assert shop.lists.asked == []

    asyncio.run(play())


def test_similar_popular_latest_and_because(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            for path in ("/similar/SKU%2F1?n=2", "/popular?n=2", "/latest?category=Shoes"):
                status, value = await shop.get(path)
                assert (status, value["list"]) == (200, "00000000000000aa")
            assert [each[0] for each in shop.lists.asked] == ["similar", "popular", "latest"]
            assert shop.lists.asked[0][1] == "SKU/1"
            status, value = await shop.get("/because/a/SKU-1")
            assert (status, value["items"]) == (200, ["SKU-2"])

    asyncio.run(play())


def test_a_hostile_title_is_data_of_a_json_reply(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            _, value, headers = await shop.ask("GET", "/popular")
            assert value["items"][0]["title"] == HOSTILE
            assert headers["Content-Type"].startswith("application/json")
            assert headers["X-Content-Type-Options"] == "nosniff"

    asyncio.run(play())


def test_a_store_that_cannot_be_read_is_503_and_a_defect_500_without_its_words(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            shop.lists.fails = Unreadable("store x: cannot be reached")
            assert (await shop.get("/popular"))[0] == 503
            shop.lists.fails = KeyError("a rating of cust-44")
            status, value = await shop.get("/popular")
            assert (status, value["reason"]) == (500, "defect")
            assert "cust-44" not in value["error"]

    asyncio.run(play())

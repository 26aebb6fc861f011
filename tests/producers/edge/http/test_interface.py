"""The interface as a whole: token, names, origins, contract, page, metrics, catalogue, users."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from producers.edge.http import pages
from producers.edge.http.contract.edge_endpoints import ENDPOINTS, REASONS
from producers.edge.http.contract.edge_openapi import openapi
from producers.edge.http.edge_serving import ATTACHED
from stream_app.errors import Unreadable, UserError
from tests.producers.edge.http.shop import HOSTILE, open_shop

TOKEN = "a-token-of-the-site-0123456789"
WEB = Path(__file__).parents[4] / "deploy" / "web" / "edge"


def test_the_contract_is_openapi():
    validate(openapi())


def test_every_endpoint_has_a_view_and_every_view_an_endpoint():
    views = {name for part in ATTACHED for name in part.VIEWS} | set(pages.documents({}))
    assert views == {each.name for each in ENDPOINTS}


def test_every_reason_has_a_sentence():
    for each in ENDPOINTS:
        assert {name for names in each.refusals.values() for name in names} <= set(REASONS)


def filled(endpoint):
    path = endpoint.path
    for each in endpoint.parameters:
        path = path.replace(f"{{{each.name}}}", each.example)
    return path


def test_the_contract_shows_every_endpoint_with_its_ids_in_the_query():
    paths = openapi()["paths"]
    forms = [each.by_query for each in ENDPOINTS if "{user}" in each.path or "{item}" in each.path]
    assert len(forms) == 9
    for form in forms:
        given = paths[form.path][form.method.lower()]["parameters"]
        assert {each["name"] for each in given if each["required"]} <= {"user", "item"}
        assert all(each["in"] == "query" for each in given)
        assert any(each["required"] for each in given)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
def test_the_example_of_every_endpoint_is_answered(tmp_path, endpoint):
    async def play():
        async with open_shop(tmp_path) as shop:
            shop.people.known.add("cust-44")
            item = b'{"title":"Trail shoe"}'
            await shop.ask("PUT", "/items/SKU-2571", item)
            body = endpoint.example.encode() or None
            kind = {"Content_Type": endpoint.takes[0]} if endpoint.takes else {}
            status, _, headers = await shop.ask(endpoint.method, filled(endpoint), body, **kind)
            assert status == endpoint.status
            assert headers["Content-Type"].startswith(endpoint.content_type)

    asyncio.run(play())


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
def test_with_a_token_only_probes_and_the_page_are_open(tmp_path, endpoint):
    async def play():
        async with open_shop(tmp_path, token=TOKEN) as shop:
            shop.people.known.add("cust-44")
            await shop.ask(
                "PUT", "/items/SKU-2571", b'{"title":"a"}', Authorization=f"Bearer {TOKEN}"
            )
            body = endpoint.example.encode() or None
            kind = {"Content_Type": endpoint.takes[0]} if endpoint.takes else {}
            asked = endpoint.method, filled(endpoint), body
            for given in ({}, {"Authorization": "Bearer x"}, {"Authorization": TOKEN}):
                status, value, headers = await shop.ask(*asked, **kind, **given)
                if endpoint.open:
                    assert status == endpoint.status
                else:
                    assert (status, value["reason"]) == (401, "token")
                    assert "MURMUREC_EDGE_TOKEN" in value["error"]
                    assert headers["WWW-Authenticate"] == "Bearer"
            given = {"Authorization": f"Bearer {TOKEN}"}
            assert (await shop.ask(*asked, **kind, **given))[0] == endpoint.status

    asyncio.run(play())


@pytest.mark.parametrize(
    "path", ["/web/../users/cust-44", "/web/..%2Fusers%2Fcust-44", "//users/cust-44", "/docs/.."]
)
def test_no_path_leads_around_the_token(tmp_path, path):
    async def play():
        async with open_shop(tmp_path, token=TOKEN) as shop:
            shop.people.known.add("cust-44")
            assert (await shop.get(path))[0] in (401, 404)

    asyncio.run(play())


def test_another_name_and_a_page_of_another_site_are_refused(tmp_path):
    async def play():
        async with open_shop(tmp_path, names=frozenset({"edge.shop.example"})) as shop:
            assert (await shop.get("/popular", Host="evil.example"))[0] == 421
            assert (await shop.get("/popular", Host="edge.shop.example"))[0] == 200
            event = {"user": "a", "item": "x", "type": "view"}
            for origin in ("https://evil.example", "null"):
                kind = {"Content_Type": "application/x-www-form-urlencoded"}
                status, value = await shop.post("/events", event, Origin=origin, **kind)
                assert (status, value["reason"]) == (403, "origin")
            own = shop.address
            status, _, headers = await shop.ask("GET", "/popular", Origin=own)
            assert status == 200
            assert "Access-Control-Allow-Origin" not in headers

    asyncio.run(play())


def test_what_is_no_endpoint_is_refused_in_the_one_form(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            status, value = await shop.get("/nothing?secret=1")
            assert (status, value) == (404, {"error": "there is none", "reason": "not_found"})
            status, value, headers = await shop.ask("DELETE", "/events")
            assert (status, value["reason"], headers["Allow"]) == (405, "method", "POST")

    asyncio.run(play())


def test_items_are_written_read_and_removed(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            body = json.dumps({"title": HOSTILE, "categories": ["Shoes"], "price": 9.5}).encode()
            assert (await shop.ask("PUT", "/items/a%2Fb", body))[0] == 200
            status, value = await shop.get("/items/a%2Fb")
            assert (status, value["item"], value["title"]) == (200, "a/b", HOSTILE)
            assert (await shop.ask("DELETE", "/items/a%2Fb"))[1] == {"removed": True}
            assert (await shop.ask("DELETE", "/items/a%2Fb"))[1] == {"removed": False}
            assert (await shop.get("/items/a%2Fb"))[0] == 404
            for wrong in (b"[]", b"7", b"{", b"\xff", b'{"price":"dear"}', b'{"nonsense":1}'):
                status, value, _ = await shop.ask("PUT", "/items/x", wrong)
                assert (status, value["reason"]) == (400, "rows"), wrong
            assert shop.shelf.rows == {}

    asyncio.run(play())


def test_a_file_of_items_says_what_was_recognised_and_what_was_not(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            csv = b"item_id,title,genres,price\nSKU-1,Shoe,Shoes|Trail,89.9\n,none,,1\n"
            status, value = await shop.post("/items", csv, Content_Type="text/csv")
            assert (status, value["stored"]) == (200, 1)
            assert len(value["refused"]) == 1
            assert value["recognised"]
            assert shop.shelf.rows["SKU-1"].title == "Shoe"
            status, value = await shop.post("/items", b"nonsense", Content_Type="text/csv")
            assert (status, value["reason"]) == (400, "rows")

    asyncio.run(play())


def test_what_cannot_be_done_is_409_and_its_words_stay_in_the_log(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            shop.lists.fails = UserError("cust-44: something")
            status, value = await shop.get("/popular")
            assert (status, value["reason"]) == (409, "refused")
            assert "cust-44" not in value["error"]

    asyncio.run(play())


def test_metrics_hold_counts_and_no_user_or_item(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            shop.people.known.add("cust-44")
            event = {"user": "cust-44", "item": "SKU-2571", "type": "view"}
            await shop.post("/events", event)
            await shop.get("/recommendations/cust-44")
            text = (await shop.get("/metrics"))[1].decode()
            assert 'murmurec_edge_events_total{answer="accepted"} 1.0' in text
            assert 'murmurec_edge_lists_total{list="user"} 1.0' in text
            assert 'murmurec_edge_clicked_lists{model="local"} 1.0' in text
            assert "murmurec_edge_accounts 1.0" in text
            assert "cust-44" not in text
            assert "SKU" not in text

    asyncio.run(play())


def test_without_its_store_an_edge_is_not_ready_and_its_metrics_say_so(tmp_path):
    def away():
        raise Unreadable("store x: cannot be reached")

    async def play():
        for given in ({"writable": lambda: False}, {"status": away}):
            async with open_shop(tmp_path, **given) as shop:
                status, text = await shop.get("/metrics")
                ready = 0 if "writable" in given else 1
                assert (status, f"murmurec_edge_ready {ready}.0" in text.decode()) == (200, True)
                assert "murmurec_edge_store 0.0" in text.decode()
                assert (await shop.get("/readyz"))[0] == (200 if ready else 503)

    asyncio.run(play())


def test_the_page_loads_nothing_from_elsewhere_and_writes_no_markup(tmp_path):
    for path in WEB.iterdir():
        text = path.read_text()
        assert not re.search(r"(innerHTML|outerHTML|insertAdjacent|document\.write|eval\()", text)
        assert not re.search(r"(?:src|href|from|import)[ =(]+['\"]https?://", text)
        assert not re.search(r"\son[a-z]+=|\sstyle=|<script>", text)

    async def play():
        async with open_shop(tmp_path) as shop:
            status, value, headers = await shop.ask("GET", "/")
            assert status == 200
            assert "default-src 'self'" in headers["Content-Security-Policy"]
            for name in re.findall(rb'(?:src|href)="(/web/[a-z.]+)"', value):
                assert (await shop.get(name.decode()))[0] == 200
            tag = headers["ETag"]
            assert (await shop.ask("GET", "/", If_None_Match=tag))[0] == 304

    asyncio.run(play())


def test_the_docs_show_a_call_of_every_endpoint(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            text = (await shop.get("/docs"))[1].decode()
            assert all(f'<article id="{each.name}">' in text for each in ENDPOINTS)

    asyncio.run(play())

"""The client of an edge, against the interface of an edge in a thread."""

from __future__ import annotations

import socket
from concurrent.futures import Future

import pytest

import murmurec
from consumers.site_edge import EdgeRefused
from producers.edge.events.intake import Busy
from stream_app.errors import UserError
from tests.producers.edge.http.shop import beside

EVENT = {"user": "cust-44", "item": "SKU-2571", "type": "purchase"}
TOKEN = "a-token-of-the-site-0123456789"


def test_the_client_sends_events_and_reads_lists(tmp_path):
    with beside(tmp_path, token=TOKEN) as shop, murmurec.Edge(shop.address, TOKEN) as edge:
        shop.people.known.add("a/b")
        assert edge.events(EVENT)["accepted"] == 1
        assert edge.events([EVENT, EVENT])["accepted"] == 2  # each has a key of its own
        assert edge.recommend("a/b", n=3, for_="now", exclude=["x", "y"])["user"] == "a/b"
        wish = shop.lists.asked[-1][2]
        assert (wish.n, wish.visit, wish.exclude) == (3, "now", ("x", "y"))
        assert edge.recommend_session(["x", 7], for_="next", n=2)["items"]
        assert shop.lists.asked[-1][1] == ("x", "7")
        assert edge.similar("x/y")["items"]
        assert edge.put_items([{"item": "SKU-1", "title": "Shoe"}])["stored"] == 1
        assert edge.user("a/b")["user"] == "a/b"
        assert edge.delete_user("a/b")["removed"] == 1
        assert edge.user("a/b") is None
        assert edge.delete_user("a/b") is None


def test_a_refusal_has_the_sentence_and_the_reason(tmp_path):
    with beside(tmp_path, token=TOKEN) as shop:
        with murmurec.Edge(shop.address) as edge, pytest.raises(EdgeRefused) as caught:
            edge.events(EVENT)
        assert (caught.value.status, caught.value.reason) == (401, "token")
        with (
            murmurec.Edge(shop.address, TOKEN) as edge,
            pytest.raises(EdgeRefused, match=r"row 1: item is missing"),
        ):
            edge.events({"user": "a", "type": "view"})


class Recovering:
    """An intake that is full at first, and that keeps the keys of what it was sent."""

    waiting = 0

    def __init__(self, busy: int) -> None:
        self.busy, self.keys = busy, list[list[str]]()

    def take(self, events):
        self.keys.append([event.key for event in events])
        if len(self.keys) <= self.busy:
            raise Busy("full")
        answer: Future[list[bool]] = Future()
        answer.set_result([True] * len(events))
        return answer


def test_after_503_the_same_events_are_sent_with_the_same_keys(tmp_path):
    intake = Recovering(busy=1)
    with beside(tmp_path, intake=intake) as shop, murmurec.Edge(shop.address) as edge:
        assert edge.events([EVENT, {**EVENT, "key": "own"}])["accepted"] == 2
    first, second = intake.keys
    assert first == second
    assert first[1] == "own"


def test_a_client_gives_up_at_last(tmp_path):
    with beside(tmp_path, intake=Recovering(busy=10)) as shop:
        with murmurec.Edge(shop.address, retries=0) as edge, pytest.raises(EdgeRefused) as caught:
            edge.events(EVENT)
        assert caught.value.status == 503


def test_an_edge_that_is_away_is_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        murmurec.Edge(f"http://127.0.0.1:{port}", retries=1) as edge,
        pytest.raises(UserError, match=f"127.0.0.1:{port} does not answer"),
    ):
        edge.recommend("a")


@pytest.mark.parametrize("url", ["", "edge:8490", "ftp://edge", "http://"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ValueError, match="url"):
        murmurec.Edge(url)

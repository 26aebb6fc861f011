"""POST /events: durable, idempotent, row by row; busy and broken stores are said."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from producers.edge.events.intake import Busy
from producers.edge.http.contract.edge_endpoints import EVENT_BYTES
from producers.edge.http.contract.given import Bodies
from stream_app.errors import Unwritable
from tests.producers.edge.http.shop import open_shop

EVENT = {"user": "cust-44", "item": "SKU-2571", "type": "purchase", "key": "a"}
ODD_RATING = 4.123456


def test_an_event_counts_once_however_often_it_is_sent(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            assert await shop.post("/events", EVENT) == (
                202,
                {"accepted": 1, "repeated": 0, "refused": []},
            )
            more = [EVENT, {**EVENT, "key": "b"}]
            assert await shop.post("/events", more) == (
                202,
                {"accepted": 1, "repeated": 1, "refused": []},
            )

    asyncio.run(play())


def test_an_event_by_curl_without_a_content_type_is_taken(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            form = {"Content_Type": "application/x-www-form-urlencoded"}
            status, value = await shop.post("/events", EVENT, **form)
            assert (status, value["accepted"]) == (202, 1)

    asyncio.run(play())


def test_a_bad_row_gets_its_reason_and_the_others_are_taken(tmp_path):
    lines = (
        b'{"user":"a","item":"x","type":"view"}\n'
        b'{"user":"a","type":"view"}\n'
        b"nonsense\n"
        b'{"user":"b","item":"x","type":"view"}'
    )

    async def play():
        async with open_shop(tmp_path) as shop:
            kind = {"Content_Type": "application/x-ndjson"}
            status, value = await shop.post("/events", lines, **kind)
            assert (status, value["accepted"]) == (202, 2)
            found = [(row["row"], row["reason"]) for row in value["refused"]]
            assert found == [(2, "item_missing"), (3, "not_json")]

    asyncio.run(play())


WRONG = {
    "nothing": (b"", "empty"),
    "no JSON": (b"{", "not_json"),
    "not UTF-8": (b'{"user":"\xff"}', "not_utf8"),
    "a number": (b"7", "not_an_object"),
    "another field": (b'{"user":"a","item":"x","type":"view","who":1}', "field_unknown"),
    "an unknown type": (b'{"user":"a","item":"x","type":"secret-type"}', "type_unknown"),
    "a rating off the scale": (
        f'{{"user":"a","item":"x","rating":{ODD_RATING}e9}}'.encode(),
        "value_off_scale",
    ),
    "the future": (b'{"user":"a","item":"x","type":"view","time":99999999999}', "time_future"),
    "a megabyte of an id": (
        b'{"user":"' + b"u" * (1 << 20) + b'","item":"x","type":"view"}',
        "user_invalid",
    ),
    "a deep nest": (b"[" * 5000, "nested"),
}


@pytest.mark.parametrize(("body", "reason"), WRONG.values(), ids=WRONG)
def test_a_body_without_an_event_is_refused_and_not_repeated(tmp_path, body, reason):
    async def play():
        async with open_shop(tmp_path) as shop:
            status, value = await shop.post("/events", body)
            assert status == 400
            assert value["reason"] == "rows"
            assert value["refused"][0]["reason"] in (reason, "not_json", "not_utf8")
            shown = str(value)
            assert not any(word in shown for word in ("secret-type", "who", str(ODD_RATING), "uuu"))

    asyncio.run(play())


def test_bodies_that_are_too_large_packed_or_of_another_kind_are_refused(tmp_path):
    async def play():
        async with open_shop(tmp_path) as shop:
            status, value = await shop.post("/events", b" " * (EVENT_BYTES + 1))
            assert (status, value["reason"]) == (413, "too_large")
            status, value = await shop.post("/events", EVENT, Content_Encoding="gzip")
            assert (status, value["reason"]) == (415, "content_type")
            status, value = await shop.post("/events", EVENT, Content_Type="image/png")
            assert (status, value["reason"]) == (415, "content_type")

            async def endless():
                for _ in range(EVENT_BYTES // 65536 + 2):
                    yield b" " * 65536

            status, value, _ = await shop.ask("POST", "/events", endless())
            assert (status, value["reason"]) == (413, "too_large")

    asyncio.run(play())


class Overrun:
    """An intake that is full."""

    waiting = 10**9

    def take(self, events):
        raise Busy("too many events wait")


class Broken:
    """An intake whose disk is full."""

    waiting = 0

    def take(self, events):
        answer: Future[list[bool]] = Future()
        answer.set_exception(Unwritable("store x: the disk is full"))
        return answer


@pytest.mark.parametrize(("intake", "reason"), [(Overrun(), "busy"), (Broken(), "store")])
def test_what_cannot_be_written_is_503_with_the_seconds_to_wait(tmp_path, intake, reason):
    async def play():
        async with open_shop(tmp_path, intake=intake) as shop:
            status, value, headers = await shop.ask(
                "POST", "/events", b'{"user":"a","item":"x","type":"view"}'
            )
            assert (status, value["reason"]) == (503, reason)
            assert int(headers["Retry-After"]) >= 1
            ready = (await shop.get("/readyz"))[0]
            assert ready == (503 if reason == "busy" else 200)

    asyncio.run(play())


def test_bodies_together_take_a_bounded_amount_of_memory(tmp_path):
    async def play():
        async with open_shop(tmp_path, bodies=Bodies(most=100)) as shop:
            status, value = await shop.post("/events", [EVENT] * 10)
            assert (status, value["reason"]) == (503, "busy")
            assert (await shop.post("/events", EVENT))[0] == 202

    asyncio.run(play())


class Slow:
    """An intake that answers when it is told to."""

    waiting = 0

    def __init__(self):
        self.answers: list[Future[list[bool]]] = []

    def take(self, events):
        self.answers.append(Future())
        return self.answers[-1]


def test_a_client_that_leaves_takes_nothing_back(tmp_path):
    async def play():
        intake = Slow()
        async with open_shop(tmp_path, intake=intake) as shop:
            sending = asyncio.create_task(shop.post("/events", EVENT))
            async with asyncio.timeout(60):
                while not intake.answers:
                    await asyncio.sleep(0.01)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            async with asyncio.timeout(60):
                while len(shop.edge.connections):
                    await asyncio.sleep(0.01)
            assert not intake.answers[0].cancelled()
            intake.answers[0].set_result([True])

    asyncio.run(play())

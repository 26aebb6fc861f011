"""No raw rating leaves the browser: what a gateway receives, byte for byte.

A relay in front of the gateway keeps all bytes of all requests. The gateway stands for every server
behind it: the events in Kafka are the bytes that it received.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.fixtures.relays import Relay, Request, relaying
from tests.page.conftest import Visit
from tests.page.world import World, counts_of

pytestmark = pytest.mark.kafka
DEVICES, RATINGS, LEVELS = 10, 100, 5
# 100 reports of rr:5:2 cost a person some 150: far more than a person should spend.
BUDGET = {"epsilon": 200, "delta": 1e-6}
# What a browser sends by itself; none of it depends on what was clicked.
OWN_HEADERS = {
    *("host", "connection", "user-agent", "accept", "accept-encoding", "accept-language"),
    *("origin", "cache-control", "pragma", "content-type", "content-length", "if-none-match"),
    *("upgrade-insecure-requests", "last-event-id"),
}
_RATE_MANY = """async ([plans, mechanism, budget]) => {
  const { Device } = await import("/web/device.js");
  return Promise.all(plans.map(async (plan, number) => {
    const device = await Device.open({ database: `device ${number}`, budget });
    for (const { film: { item, key }, level } of plan) {
      await device.rate({ item, key, level, mechanism });
    }
    await device.send();
    return { pseudonym: device.pseudonym, records: await device.records() };
  }));
}"""


def reports(relay: Relay) -> list[Request]:
    return [found for found in relay.requests() if found.method == "POST"]


def fields_of(body: bytes | str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body)
    return found


@pytest.mark.thorough
def test_a_thousand_ratings_send_reports_of_the_table_and_nothing_else(
    demo: World, visit: Visit, rng: np.random.Generator
) -> None:
    """False alarms of the chi-square: 1e-6 by its law with 20 degrees of freedom; no cell expects
    fewer than 17. A device that sent the level itself fails with certainty, one with the table of
    epsilon 3 in place of 2 with more than .999."""
    films = json.loads(demo.gateway.get("/catalogue"))["items"][: DEVICES * RATINGS]
    levels = rng.permutation(np.arange(DEVICES * RATINGS) % LEVELS).tolist()
    pairs = [{"film": film, "level": level} for film, level in zip(films, levels, strict=True)]
    plans = [pairs[start : start + RATINGS] for start in range(0, len(pairs), RATINGS)]
    with relaying(demo.gateway.port) as relay:
        visitor = visit(relay.url)
        devices = visitor.page.evaluate(_RATE_MANY, [plans, "rr:5:2", BUDGET])
        sent = reports(relay)
    assert len(sent) == DEVICES * RATINGS
    drawn = Counter[tuple[int, int]]()
    for plan, device in zip(plans, devices, strict=True):
        name, journal = device["pseudonym"], device["records"]
        assert [record["level"] for record in journal] == [pair["level"] for pair in plan]
        # The journal, the wire and the topic hold the same bytes, and the topic in their order.
        bodies = [record["body"].encode() for record in journal]
        assert {r.body for r in sent if name.encode() in r.body} == set(bodies)
        stored = demo.stored(name)
        assert [value for _, _, value in stored] == bodies
        assert [record["place"] for record in journal] == [
            {"partition": partition, "offset": offset} for partition, offset, _ in stored
        ]
        for seq, (pair, record) in enumerate(zip(plan, journal, strict=True), start=1):
            # Only the report is free: all else follows from the device, the item and the day.
            assert fields_of(record["body"]) == {
                **{"v": 1, "device": name, "seq": seq, "mechanism": "rr:5:2"},
                **{"epoch": record["epoch"], "items": [pair["film"]["item"]]},
                "reports": [record["report"]],
            }
            drawn[record["level"], record["report"]] += 1
    # Around the body nothing differs from one request to the next.
    assert len({around(request) for request in sent}) == 1
    # So a request depends on the level through the report alone, and the report through the table.
    statistic = chi_square(drawn, counts_of(demo.gateway, "rr:5:2"))
    assert statistic < critical(degrees=LEVELS * (LEVELS - 1), alarm=1e-6)


def around(request: Request) -> tuple[object, ...]:
    """Return a request without its body, the length of it, and its tag, which the device's key and
    the body decide."""
    assert int(dict(request.headers)["content-length"]) == len(request.body)
    rest = tuple(
        (name, re.sub("; tag=[0-9a-f]{32}$", "; tag", value))
        for name, value in request.headers
        if name != "content-length"
    )
    assert {name for name, _ in rest if not name.startswith("sec-")} <= OWN_HEADERS
    return request.method, request.path, rest


def chi_square(drawn: Counter[tuple[int, int]], counts: list[list[int]]) -> float:
    """Return the statistic of reports against the table, summed over the true levels."""
    total = 0.0
    for level, row in enumerate(counts):
        number = sum(drawn[level, report] for report in range(len(row)))
        for report, count in enumerate(row):
            wanted = number * count / 2**64
            total += (drawn[level, report] - wanted) ** 2 / wanted
    return total


def critical(degrees: int, alarm: float) -> float:
    """Return what a chi-square with an even number of degrees exceeds with this probability:
    P(X > x) = exp(-x/2) sum over i < degrees / 2 of (x/2)^i / i!."""

    def above(x: float) -> float:
        terms = (x / 2) ** np.arange(degrees // 2)
        factorials = [math.factorial(i) for i in range(degrees // 2)]
        return float(math.exp(-x / 2) * (terms / factorials).sum())

    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) > alarm else (low, middle)
    return high


# --- two visitors who differ in their stars alone -------------------------------------------------

# The key of the device, and words that lead to the wanted reports, in place of what is drawn.
_FIXED = """(() => {
  const drawn = crypto.getRandomValues.bind(crypto);
  crypto.getRandomValues = (array) => {
    if (array instanceof BigUint64Array) return array.fill(BigInt(globalThis.nextWord));
    if (array.length === 32) return array.fill(7);
    return drawn(array);
  };
})()"""


def word(counts: list[list[int]], level: int, report: int) -> str:
    """Return a word that leads from the level to the report, for JavaScript."""
    return str(sum(counts[level][:report]))


def session(
    visit: Visit, demo: World, levels: list[int], wanted: list[int], **options: Any
) -> tuple[list[Request], str]:
    """Rate films on the page, with draws that give the wanted reports; return all requests and the
    list that the page made."""
    counts = counts_of(demo.gateway, "rr:5:2")
    with relaying(demo.gateway.port) as relay:
        visitor = visit("about:blank", site=relay.url)
        visitor.context.add_init_script(_FIXED)
        visitor.page.goto(relay.url)
        visitor.ready()
        for level, report in zip(levels, wanted, strict=True):
            visitor.page.evaluate("word => { nextWord = word }", word(counts, level, report))
            visitor.rate(level)
        visitor.all_confirmed(len(levels))
        visitor.page.locator("#asked li").first.wait_for()
        # What is fetched again and again must have come once more after all ratings.
        seen = len(relay.requests())
        visitor.page.reload()
        visitor.all_confirmed(len(levels))
        visitor.page.locator("#asked li").first.wait_for()
        assert len(relay.requests()) > seen
        visitor.says("#own-note", "From your true stars")  # the public side has arrived
        port, found, own = relay.url.rpartition(":")[2], relay.requests(), visitor.text("#own")
        visitor.page.goto("about:blank")  # it follows the stream until it is left
    return [neutral(request, port) for request in found], own


def neutral(request: Request, port: str) -> Request:
    """Return a request without the port of its relay and the version of a cached file."""
    headers = tuple(
        (name, value.replace(f":{port}", ":PORT"))
        for name, value in request.headers
        if name not in ("if-none-match", "connection", "cache-control", "last-event-id")
    )
    return Request(request.method, request.path, headers, request.body, b"")


@pytest.mark.thorough
def test_other_stars_with_the_same_reports_are_the_same_requests(demo: World, visit: Visit) -> None:
    wanted = [0, 4, 2, 1]
    first, liked = session(visit, demo, [4, 4, 4, 4], wanted)
    second, disliked = session(visit, demo, [0, 1, 0, 2], wanted)
    assert liked != disliked  # the stars decide what is seen on the page
    # A browser may use several connections, which are listed one after the other.
    bodies = [
        sorted(
            (r.body for r in each if r.method == "POST"), key=lambda body: fields_of(body)["seq"]
        )
        for each in (first, second)
    ]
    assert [fields_of(body)["reports"] for body in bodies[0]] == [[report] for report in wanted]
    assert bodies[0] == bodies[1]
    assert set(first) == set(second)
    for request in first:
        if request.method != "POST":
            assert request.body == b""
            assert request.method == "GET"


def test_what_a_gateway_is_asked_names_no_film_that_was_searched_for(
    demo: World, visit: Visit
) -> None:
    with relaying(demo.gateway.port) as relay:
        visitor = visit(relay.url)
        visitor.ready()
        film = json.loads(demo.gateway.get("/catalogue"))["items"][500]
        title, _ = film["title"].split(" (")  # its year stands beside it
        visitor.page.locator("#filter").fill(film["title"])
        visitor.says("#films .title", title)
        visitor.page.locator("#others").click()
        visitor.open("yours")
        visitor.page.locator("#search").fill(film["title"])
        visitor.says("#cards .title", title)
        visitor.page.locator("#cards .stars label").nth(3).click()
        visitor.says("#kept", "1 rating kept here and not sent")
        asked = b"".join(request.raw for request in relay.requests())
        visitor.page.goto("about:blank")
    assert max(title.split(), key=len).encode() not in asked
    assert str(film["key"]).encode() not in asked

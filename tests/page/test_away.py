"""The page while Kafka, the gateway, the worker or an item side is away: it says so, and all that
was recorded arrives in order.

The broker is one of this file's own, which stops and starts; the gateway has no worker behind it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from itertools import groupby

import pytest

from stream_app.kafka.clients import Connection
from tests.faults.brokers import Node
from tests.faults.own_broker import own
from tests.fixtures.waiting import until
from tests.page.conftest import Visit
from tests.page.visitor import Visitor
from tests.page.world import World, world

__all__ = ["own"]  # a fixture
pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


@pytest.fixture(scope="module")
def alone(own: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a deployment without a worker, on the file's own broker."""
    prefix, folder = f"test-{secrets.token_hex(6)}", tmp_path_factory.mktemp("alone")
    with world(Connection(own.bootstrap), prefix, folder, worker=False) as made:
        until(lambda: made.gateway.answers("/readyz") == 200, "Kafka behind the gateway")
        yield made
        own.start()


def arrived(visitor: Visitor, deployment: World, count: int) -> None:
    """Fail unless the topic holds the journal's bytes in their order, each message once.

    What was on its way when the page or the broker went may be stored twice; a worker drops one.
    """
    visitor.all_confirmed(count)
    bodies = [record["body"] for record in visitor.records()]
    stored = deployment.stored(json.loads(bodies[0])["device"])
    assert [value for value, _ in groupby(value.decode() for _, _, value in stored)] == bodies
    assert len(bodies) == count


def test_without_a_worker_and_an_item_side_the_page_works_and_says_what_is_missing(
    alone: World, visit: Visit
) -> None:
    visitor = visit(alone.gateway.url, unanswered=True)
    visitor.ready()
    visitor.says("#live", "server is away")
    visitor.says("#own-note", "popular films")
    assert visitor.count("#own > li") == 10
    visitor.rate(4)
    arrived(visitor, alone, 1)
    visitor.page.locator("#problem").wait_for(state="hidden")


def test_kafka_stops_while_films_are_rated_and_all_arrives_in_order(
    alone: World, own: Node, visit: Visit
) -> None:
    visitor = visit(alone.gateway.url, unanswered=True)
    visitor.ready()
    visitor.rate(4)
    visitor.all_confirmed(1)
    own.kill()
    for level in (0, 3, 2):
        visitor.rate(level)  # drawn and recorded without waiting for Kafka
    visitor.says("#problem", "Kafka")
    visitor.says("#problem", "3 answers waiting in this browser")
    assert visitor.count("#events .place") == 4
    before = visitor.records()
    visitor.page.reload()  # what waits is in the journal, not in the page
    visitor.says("#problem", "3 answers waiting in this browser")
    own.start()
    arrived(visitor, alone, 4)
    assert [record["body"] for record in visitor.records()] == [r["body"] for r in before]
    visitor.page.locator("#problem").wait_for(state="hidden")


def test_a_gateway_that_restarts_loses_nothing_and_the_page_goes_on(
    alone: World, visit: Visit
) -> None:
    visitor = visit(alone.gateway.url, unanswered=True)
    visitor.ready()
    visitor.rate(1)
    visitor.all_confirmed(1)
    alone.gateway.stop()
    visitor.rate(4)
    visitor.says("#problem", "1 answer waiting in this browser")
    alone.gateway.start()
    arrived(visitor, alone, 2)
    visitor.page.locator("#problem").wait_for(state="hidden")
    visitor.rate(3)
    arrived(visitor, alone, 3)

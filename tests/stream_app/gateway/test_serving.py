"""The life of a gateway: a signal ends it, and so does a client of Kafka that cannot go on."""

from __future__ import annotations

import asyncio
import os
import signal
from types import SimpleNamespace

import pytest

from stream_app.errors import UserError
from stream_app.gateway.context import Gateway
from stream_app.gateway.serving import run
from stream_app.kafka import acls, clients
from stream_app.settings import Settings
from tests.fixtures.gateways import running
from tests.fixtures.waiting import PATIENCE_SECONDS


def gateway() -> Gateway:
    return Gateway.from_settings(Settings(bootstrap_servers="127.0.0.1:1", gateway_port=0))


def test_a_signal_ends_it():
    addresses: list[str] = []

    def started(address: str) -> None:
        addresses.append(address)
        os.kill(os.getpid(), signal.SIGTERM)

    asyncio.run(run(gateway(), started))
    assert addresses[0].startswith("http://127.0.0.1:")


def test_a_client_that_cannot_go_on_ends_it_with_a_sentence():
    made = gateway()
    with pytest.raises(UserError, match="start the gateway again"):
        asyncio.run(run(made, lambda _: made.readiness.fail("x: start the gateway again")))


def test_a_gateway_that_lacks_a_right_is_not_ready_and_names_it(monkeypatch):
    ratings = SimpleNamespace(error=None, partitions=range(4))
    monkeypatch.setattr(clients, "listed", lambda *_: {"murmurec.ratings.v1": ratings})
    asked = []

    def lacking(_, wanted, process):
        asked.append((set(wanted), process))
        raise UserError("topic murmurec.ratings.v1: this user has no right to write it")

    monkeypatch.setattr(acls, "check", lacking)

    async def run() -> None:
        async with running() as at, asyncio.timeout(PATIENCE_SECONDS):
            while at.gateway.readiness.waiting_for == "Kafka":
                await asyncio.sleep(0)
            status, shown, _ = await at.get("/readyz")
            assert (status, b"no right to write it" in shown) == (503, True)
            assert asked[0] == (set(acls.of_role("gateway", at.gateway.topics)), "gateway")

    asyncio.run(run())


@pytest.mark.parametrize("mechanism", ["rr:5:0", "nothing:5:2"])
def test_a_mechanism_that_is_none_is_refused(mechanism):
    settings = Settings(bootstrap_servers="127.0.0.1:1", mechanisms=(mechanism,))
    with pytest.raises(UserError):
        Gateway.from_settings(settings)


def test_without_a_broker_it_does_not_start():
    with pytest.raises(UserError, match="--bootstrap"):
        Gateway.from_settings(Settings())

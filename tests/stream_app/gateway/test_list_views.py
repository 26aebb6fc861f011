"""What a gateway without Kafka answers to queries."""

from __future__ import annotations

import asyncio
import json

from tests.fixtures.gateways import DEVICE, running


def test_queries_of_one_address_have_a_rate_and_wrong_ones_cost_nothing() -> None:
    async def check() -> None:
        async with running(gateway_rate=0.01) as at:
            for _ in range(3):
                assert (await at.get("/similar?item="))[0] == 400
            paths = "/similar?item=5", f"/recommendations/{DEVICE}"
            found = await asyncio.gather(*map(at.get, paths))
        ((status, body, headers),) = [answer for answer in found if answer[0] != 503]
        assert (status, json.loads(body)["reason"]) == (429, "rate")
        assert int(headers["Retry-After"]) >= 1

    asyncio.run(check())

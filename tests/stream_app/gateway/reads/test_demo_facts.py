"""GET /demo: what a demo has measured, and nothing elsewhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.fixtures.gateways import running


def test_only_a_demo_has_the_page(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"

    def page(demo_facts: Path | None, path: str = "/demo") -> tuple[int, bytes]:
        async def ask() -> tuple[int, bytes]:
            async with running(demo_facts=demo_facts) as at:
                return (await at.get(path))[:2]

        return asyncio.run(ask())

    status, body = page(None)
    assert status == 404
    assert b'"not_a_demo"' in body
    assert page(None, "/demo?user=1")[0] == 400
    assert page(file) == (204, b"")
    for people in (3, 4):  # what is written later is read
        facts = {"mode": "local", "people": people, "ratings": 9, "quality": None}
        file.write_text(json.dumps(facts))
        status, body = page(file)
        assert (status, json.loads(body)) == (200, facts)

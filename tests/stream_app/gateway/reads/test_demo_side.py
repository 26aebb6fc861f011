"""The item side of a demo's true ratings: read again when its file changes, never by half."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import numpy as np
import pytest

from stream_app.gateway.reads.demo_files import DemoFile
from stream_app.ranking.compact_side import decode_side, encode_side
from tests.fixtures.gateways import running
from tests.fixtures.item_sides import item_side


def of_side(file: Path) -> DemoFile:
    return DemoFile(file, decode_side, "application/octet-stream")


@pytest.fixture
def sides(rng: np.random.Generator) -> list[bytes]:
    """Give the bytes of three item sides."""
    return [encode_side(item_side(rng, 40, 5, 5, 2, version=n)) for n in range(3)]


def test_the_file_is_read_again_when_it_changes_and_only_whole(
    tmp_path: Path, sides: list[bytes]
) -> None:
    file = tmp_path / "side"
    side = of_side(file)
    assert side.current() is None
    file.write_bytes(b"")
    assert side.current() is None
    for table in sides:
        file.write_bytes(table[:100])
        before = side.current()
        file.write_bytes(table)
        document = side.current()
        assert document is not None
        assert document.plain == table
        assert document is not before
        assert side.current() is document
    file.write_bytes(b"murmurec" * 10_000_000)
    assert side.current() is document
    file.unlink()
    assert side.current() is document
    file.mkdir()
    assert side.current() is document


def test_a_file_of_the_same_size_that_takes_its_place_is_read(
    tmp_path: Path, sides: list[bytes]
) -> None:
    file = tmp_path / "side"
    file.write_bytes(sides[0])
    side, state = of_side(file), file.stat()
    assert side.current() is not None
    (tmp_path / "next").write_bytes(sides[1])
    os.utime(tmp_path / "next", ns=(state.st_atime_ns, state.st_mtime_ns))
    (tmp_path / "next").replace(file)
    document = side.current()
    assert document is not None
    assert document.plain == sides[1]


def test_only_a_demo_has_the_pages(tmp_path: Path, sides: list[bytes]) -> None:
    file = tmp_path / "side"
    facts = dict.fromkeys(("quality", "genres", "attacker", "example"))
    facts |= {"mode": "local", "people": 3, "ratings": 9}

    def page(demo_side: Path | None, path: str = "/demo/item-links") -> tuple[int, bytes]:
        async def ask() -> tuple[int, bytes]:
            async with running(demo_side=demo_side) as at:
                return (await at.get(path))[:2]

        return asyncio.run(ask())

    status, body = page(None)
    assert status == 404
    assert b'"not_a_demo"' in body
    assert page(None, "/demo/item-links?user=1")[0] == 400
    assert page(file) == (204, b"")
    file.write_bytes(sides[0])
    assert page(file) == (200, sides[0])
    assert page(None, "/demo")[0] == 404
    assert page(file, "/demo") == (204, b"")
    (tmp_path / "demo.json").write_text('{"mode": "local"')
    assert page(file, "/demo") == (204, b"")
    (tmp_path / "demo.json").write_text(json.dumps(facts))
    status, body = page(file, "/demo")
    assert (status, json.loads(body)) == (200, facts)

"""What devices may release, as a page in a browser reads it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_app.cli import run
from stream_app.gateway.contract.bodies import Mechanisms
from stream_app.gateway.reads import mechanism_view as mechanisms
from stream_app.privacy import registry
from stream_app.privacy.exact.integer_tables import TOTAL, Table
from tests.fixtures.gateways import running

STARS = ("partition:5:2", "cell:5:1/2", "rr:5:2", "ternary:5:2", "laplace:5:2", "rr:10:1/2")


def page(allowed: tuple[str, ...], **settings: Any) -> Any:
    async def ask() -> Any:
        async with running(mechanisms=allowed, **settings) as at:
            status, body, headers = await at.get("/mechanisms")
            assert status == 200
            assert headers["Content-Type"] == "application/json"
            again, none, _ = await at.get("/mechanisms", If_None_Match=headers["ETag"])
            assert (again, none) == (304, b"")
            msgspec.json.decode(body, type=Mechanisms)
            return json.loads(body)

    return asyncio.run(ask())


def test_the_counts_are_those_that_a_device_samples_from_and_only_randomized_response_has_any() -> (
    None
):
    boards = "https://grafana.example.org/d/overview"
    found = page(STARS, privacy_mode="local", gateway_grafana=boards)
    assert found["grafana"] == boards
    assert [row["id"] for row in found["allowed"]] == list(STARS)
    assert (found["default"], found["devices"]) == ("rr:5:2", "open")
    assert found["topic"] == "murmurec.ratings.v1"
    words = np.random.default_rng(1).integers(0, 2**64, 5000, np.uint64)
    for row in found["allowed"]:
        mechanism = registry.parse(row["id"])
        assert row["epsilon"] == str(mechanism.epsilon)
        assert row["levels"] == mechanism.levels
        assert row["in_browser"] is (row["family"] == "rr")
        if row["family"] != "rr":
            assert row["counts"] is None
            assert row["why_not"] in (mechanisms.PARTITION, mechanisms.PRESENCE)
            continue
        assert all(text == str(int(text)) for counts in row["counts"] for text in counts)
        table = Table(tuple(tuple(map(int, counts)) for counts in row["counts"]))
        assert {sum(counts) for counts in table.counts} == {TOTAL}
        real = mechanism.table()
        assert real is not None
        for level in range(mechanism.levels):
            levels = np.full(len(words), level, np.uint8)
            assert (table.sample(levels, words) == real.sample(levels, words)).all()
    reasons = {row["family"]: row["why_not"] for row in found["allowed"]}
    assert reasons["partition"] == mechanisms.PARTITION
    assert reasons["rr"] is None
    assert reasons["cell"] == reasons["laplace"] == mechanisms.PRESENCE


def test_a_page_can_use_like_whose_last_row_is_of_an_item_without_a_rating() -> None:
    (row,) = page(("like:5:2",))["allowed"]
    table = registry.parse("like:5:2").table()
    assert table is not None
    assert (row["in_browser"], row["why_not"], len(row["counts"])) == (True, None, 6)
    assert row["counts"] == [[*map(str, counts)] for counts in table.counts]


def test_the_digest_is_the_one_that_certify_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = page(("rr:5:1/2",))["allowed"]
    capsys.readouterr()
    assert run(["certify", "--mechanism", "rr", "--epsilon", "1/2"]) == 0
    assert f"digest {row['certificate']}\n" in capsys.readouterr().out


def test_a_mechanism_without_noise_claims_nothing_and_is_not_for_a_page() -> None:
    found = page(("none:5:inf",), privacy_mode="local")
    (row,) = found["allowed"]
    assert (row["epsilon"], row["certificate"], row["counts"]) == (None, None, None)
    assert (row["in_browser"], row["why_not"]) == (False, mechanisms.NOTHING)
    assert found["default"] == "none:5:inf"


def test_where_devices_sign_a_page_can_use_no_mechanism() -> None:
    found = page(("rr:5:2",), devices="signed")
    (row,) = found["allowed"]
    assert found["devices"] == "signed"
    assert (row["in_browser"], row["counts"], row["why_not"]) == (False, None, mechanisms.SIGNED)

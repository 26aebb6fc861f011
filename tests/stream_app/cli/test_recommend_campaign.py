"""`murmurec recommend --local` by the side of a campaign, without a broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from murmurec import Device
from producers.ranking.published import CachedTable, TableCache
from stream_app.campaigns.public_side import encode_published
from stream_app.cli import run
from stream_app.wire import CatalogueEntry
from stream_app.wire.public_tables import table_digest
from tests.fixtures.tastes import TASTES, campaign_of, side_of

NOWHERE = "127.0.0.1:1"
ASK = ["recommend", "--local", "--user", "ann"]


@pytest.fixture(autouse=True)
def _device(environment: Callable[..., None]) -> None:
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=NOWHERE,
        MURMUREC_TUNING_CACHE_DIR="cache",
        MURMUREC_DEVICE_JOURNAL="device.journal",
        MURMUREC_PRIVACY_MODE="split",
    )


def put_in_cache(value: bytes | None = None) -> None:
    """Cache the side of campaign 3 as it was read two hours ago."""
    if value is None:
        value = encode_published(side_of(1500, campaign=campaign_of(1, number=3, parties=2)))
    cache = TableCache.for_deployment(Path("cache"), NOWHERE, "murmurec", "item-side")
    entries = (CatalogueEntry(30, "Thirty"),)
    assert cache.write(CachedTable(time.time() - 7300, table_digest(value), value, entries))


def test_a_list_names_campaign_cost_and_age(capsys: pytest.CaptureFixture[str]) -> None:
    put_in_cache()
    with Device("ann", "device.journal").enrol() as device:
        device.rate(21, 5)
        device.rate(22, 4)
        device.rate(23, 1)
    assert run([*ASK, "-k", "6", "--because"]) == 0
    output = capsys.readouterr()
    words = " ".join(output.out.split())
    assert "ranked with the table that was read 2 hours ago" in " ".join(output.err.split())
    assert (
        "method together, for this visit, campaign 3 (split, 1 of 1 stage released, epsilon 1 at "
        "delta 1e-06 for everything that a person has rated)" in words
    )
    assert "no rating and no query was sent" in words
    assert "by campaign: privacy_mode is split" in words
    assert "because of 2" in words
    assert run([*ASK, "-k", "6", "--json", "--by", "campaign", "--because"]) == 0
    answer = json.loads(capsys.readouterr().out)
    listed = [row["item"] for row in answer["items"]]
    assert len(set(listed) & set(TASTES[1])) >= 5
    assert {21, 22, 23}.isdisjoint(listed)
    assert all(row["because"] and set(row["because"]) <= {21, 22} for row in answer["items"])
    assert answer["campaign"] == {
        "number": 3,
        "epsilon": 1.0,
        "delta": 1e-06,
        "parties": 2,
        "released": 1,
        "stages": 1,
    }
    assert (answer["method"], answer["known"], answer["as_of"]) == ("together", 3, None)
    assert answer["reason"] == "by campaign, as asked for"


def test_a_user_without_likes_gets_the_order_of_the_scope_and_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_in_cache()
    assert run([*ASK, "-k", "2", "--offline"]) == 0
    assert "the popular items: no rating of this user is kept" in capsys.readouterr().out
    Path("rated.csv").write_text("1,2\n")
    assert run([*ASK, "-k", "2", "--offline", "--rated", "rated.csv"]) == 0
    output = capsys.readouterr().out
    assert [line.split()[1] for line in output.splitlines()[:2]] == ["21", "2"]
    assert "nothing that the user likes is among the items" in " ".join(output.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--by", "links", "--offline"], "no item side in the cache"),
        (["--by", "sums"], "is not one of"),
        (["--offline"], "the cache holds no side of a campaign of this version"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_cache(b"random bytes")
    assert run([*ASK, *arguments]) != 0
    assert sentence in " ".join(capsys.readouterr().err.split())

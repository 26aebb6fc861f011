"""`murmurec recommend --local` without a broker: mistakes are one sentence, the cache serves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from murmurec import Device
from producers.ranking import CleanHistory
from producers.ranking.published import CachedTable, TableCache
from producers.scale import Scale
from stream_app.cli import run
from stream_app.cli.device.recommend import _ago
from stream_app.ranking.compact_side import encode_side
from stream_app.wire import CatalogueEntry
from stream_app.wire.public_tables import table_digest
from tests.fixtures.item_sides import item_side

NOWHERE = "127.0.0.1:1"
ASK = ["recommend", "--local", "--user", "ann"]


@pytest.fixture(autouse=True)
def _device(environment: Callable[..., None]) -> None:
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=NOWHERE,
        MURMUREC_TUNING_CACHE_DIR="cache",
        MURMUREC_DEVICE_JOURNAL="device.journal",
    )


def put_in_cache(fetched: float | None = None) -> None:
    """Cache the item side of the items 1 .. 8, each linked to its neighbour; 8 is withdrawn."""
    n = 8
    plain = item_side(np.random.default_rng(0), n)
    side = replace(
        plain,
        version=31,
        keys=np.arange(1, n + 1, dtype=np.uint64),
        popularity=np.linspace(0.9, 0.1, n).astype(np.float32),
        link_targets=(np.arange(n)[:, None] ^ 1).astype(np.uint16),
        link_weights=np.ones((n, 1), np.float32),
    )
    data = encode_side(side)
    entries = (
        CatalogueEntry(4, "Four", ("Drama", "War"), 1995),
        CatalogueEntry(8, "Eight", withdrawn=True),
    )
    cache = TableCache.for_deployment(Path("cache"), NOWHERE, "murmurec")
    when = time.time() if fetched is None else fetched
    assert cache.write(CachedTable(when, table_digest(data), data, entries))


@pytest.mark.parametrize(
    ("arguments", "expected", "code"),
    [
        (["--user", "ann"], "give --local to rank on this device", 2),
        (["--user", "ann"], "murmurec ask", 2),
        (["--local"], "give --user ID, --rated FILE or both", 2),
        (["--local", "--user", "ann", "-k", "0"], "-k 0: give 1 to 100", 2),
        (["--local", "--user", "ann", "-k", "101"], "-k 101: give 1 to 100", 2),
        (["--local", "--user", "ann", "--for", "later"], "'later' is not one of 'next', 'now'", 2),
        (["--local", "--user", "ann", "--rated", "none"], "none: cannot be read", 1),
        (["--local", "--user", "ann"], f"nothing listens at {NOWHERE}", 1),
        (["--local", "--user", "ann", "--offline"], "no item side in the cache", 1),
        (["--local", "--user", "ann", "--scale", "5", "1", "1", "--rated", "x"], "above", 2),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_bad_input_is_one_sentence(
    arguments: list[str], expected: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x").write_text("1,5\n")
    assert run(["recommend", *arguments]) == code
    err = capsys.readouterr().err
    assert expected in err.splitlines()[-1]
    assert not Path("device.journal").exists()


def test_kept_ratings_decide_and_the_broker_is_not_needed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_in_cache(time.time() - 7300)
    with Device("ann", "device.journal").enrol() as device:
        device.rate(3, 5)
    with Device("bob", "device.journal").enrol() as device:
        device.rate(6, 5)
    assert run([*ASK, "-k", "3", "--because"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[0] == "   1  4  Four (1995) [Drama, War]"
    assert output.out.splitlines()[1] == "      because of 3"
    assert "ranked with the table that was read 2 hours ago" in output.err
    assert f"at {NOWHERE}" in output.err
    assert "no rating and no query was sent" in output.out
    assert run([*ASK, "--offline", "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    answer = json.loads(output.out)
    first = {"item": 4, "title": "Four", "genres": ["Drama", "War"], "year": 1995}
    assert answer["items"][0].items() >= first.items()
    assert (answer["items"][1]["genres"], answer["items"][1]["year"]) == ([], None)
    assert {3, 8}.isdisjoint(row["item"] for row in answer["items"])
    assert len(answer["items"]) == 6
    assert (answer["method"], answer["where"], answer["as_of"]) == ("links", "device", 31)
    assert (answer["rated"], answer["known"], answer["cached"]) == (1, 1, True)
    assert 7300 <= answer["table_age_seconds"] < 7400


def test_a_list_is_for_this_visit_after_a_rating_unless_another_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_in_cache()
    with Device("ann", "device.journal").enrol() as device:
        device.rate(3, 5)
    for given, visit in (([], "now"), (["--for", "next"], "next"), (["--for", "now"], "now")):
        assert run([*ASK, "--offline", "--json", *given]) == 0
        assert json.loads(capsys.readouterr().out)["for"] == visit
    assert run([*ASK, "--offline"]) == 0
    assert "method links, for this visit, as of cut 31" in capsys.readouterr().out
    Path("rated.csv").write_text("3,5\n")
    assert run(["recommend", "--local", "--rated", "rated.csv", "--offline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["for"] == "next"


def test_a_file_of_ratings_counts_as_older_than_what_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_in_cache()
    Path("rated.csv").write_text("".join(f"{item},5\n" for item in ("x", "y", "z", 5)))
    assert run(["recommend", "--local", "--rated", "rated.csv", "-k", "1", "--offline"]) == 0
    assert capsys.readouterr().out.startswith("   1  6\n1 of 4 rated items are in the table")
    with Device("ann", "device.journal").enrol() as device:
        device.rate(1, 5)
    assert run([*ASK, "--rated", "rated.csv", "-k", "2", "--offline"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[:2]] == ["2", "6"]


def test_a_user_without_ratings_gets_the_popular_items_and_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_in_cache()
    assert run([*ASK, "-k", "2", "--offline"]) == 0
    output = capsys.readouterr()
    assert [line.split()[1] for line in output.out.splitlines()[:2]] == ["1", "2"]
    assert "the popular items: no rating of this user is kept on this device" in output.out
    assert "device journal device.journal: does not exist" in output.err
    Path("rated.csv").write_text("unknown\n")
    assert run([*ASK, "-k", "2", "--offline", "--rated", "rated.csv"]) == 0
    output = capsys.readouterr()
    assert "the popular items: none of 1 rated item is in the table" in output.out
    Path("rated.csv").write_text("\n".join(map(str, range(1, 9))))
    assert run([*ASK, "--offline", "--rated", "rated.csv"]) == 0
    assert "every item of the table is rated or withdrawn" in capsys.readouterr().out


def test_ratings_are_read_on_their_scale(capsys: pytest.CaptureFixture[str]) -> None:
    put_in_cache()
    Path("rated.csv").write_text("1,1\n5,10\n")
    given = [*ASK, "--offline", "--rated", "rated.csv", "-k", "1"]
    assert run([*given, "--scale", "1", "10", "1"]) == 0
    assert capsys.readouterr().out.startswith("   1  6")
    assert run(given) == 1
    assert "line 2: rating: must be a number on the scale 1..5" in capsys.readouterr().err


def test_kept_ratings_are_shown_and_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    for user, item in (("ann", 3), ("bob", "heat")):
        with Device(user, "device.journal").enrol() as device:
            device.rate(item, 4)
    status = ["device", "status", "--ratings"]
    assert run([*status, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["ratings"]
    assert [(row["item"], row["rating"]) for row in rows] == [(3, 4.0), ("heat", 4.0)]
    assert run(["device", "forget"]) == 2
    assert "give either --user ID or --all" in capsys.readouterr().err
    assert run(["device", "forget", "--user", "ann"]) == 0
    assert "forgot 1 rating" in capsys.readouterr().out
    assert run([*status, "--user", "bob"]) == 0
    out = capsys.readouterr().out
    assert "heat" in out
    assert "1 rating kept in clear" in out
    assert run([*status, "--user", "ann"]) == 0
    assert "0 ratings kept in clear" in capsys.readouterr().out
    assert run(["device", "forget", "--all"]) == 0
    assert Path("device.journal.history").read_bytes() == b""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "just now"), (1.5, "1 second ago"), (7300, "2 hours ago"), (200_000, "2 days ago")],
)
def test_an_age_is_given_in_its_largest_unit(seconds: float, words: str) -> None:
    assert _ago(time.time() - seconds) == words
    assert _ago(time.time() + 60) == "just now"


@pytest.mark.parametrize(("age", "visit"), [(60, "now"), (3600, "next"), (-3600, "next")])
def test_the_time_of_the_newest_kept_rating_says_which_visit_a_list_is_for(
    age: int, visit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rating that lies ahead says that the clock was moved."""
    put_in_cache()
    with Device("ann", "device.journal").enrol() as device:
        pseudonym = bytes.fromhex(device.pseudonym)
    CleanHistory(Path("device.journal")).append(pseudonym, 3, 5, Scale(), time.time() - age)
    assert run([*ASK, "--offline", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["for"], answer["known"]) == (visit, 1)

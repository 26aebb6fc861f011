"""The catalogue: a word gets its name back, and what is withdrawn is not recommended from now
on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from consumers.recommendations import Recommendations
from stream_app.cli import run
from stream_app.wire import Event, Listed, key, unlisted
from tests.conftest import Kafka
from tests.fixtures.streams import publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka


def event(device: bytes, *items: int | str) -> Event:
    keys = np.array([key(item) for item in items], np.uint64)
    return Event(device, 1, "none:5:inf", 0, keys, np.full(len(keys), 4, np.uint8))


def test_words_are_named_and_withdrawn_items_stay_away(
    start: Start, send: Send, kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    ann, bea = bytes(16), bytes([1] * 16)
    records = [publish(event(ann, 7)), publish(event(bea, 7, "film", 8))]
    send(records)
    start().wait_for(ends_of(records))
    with Recommendations(kafka.bootstrap, topics) as ask:

        def items() -> tuple[Listed, ...]:
            return ask.best(ann.hex(), 10, PATIENCE_SECONDS).items

        assert set(items()) == {8, unlisted(key("film"))}
        about = (
            "--title",
            "A Film",
            "--genre",
            "Drama",
            "--genre",
            "War",
            "--year",
            "1995",
        )
        assert run(["items", "put", "film", *where, *about]) == 0
        until(lambda: set(items()) == {8, "film"}, "the catalogue is in the answers")
        capsys.readouterr()
        assert run(["ask", "--device", ann.hex(), *where, "--json"]) == 0
        rows = {row.pop("item"): row for row in json.loads(capsys.readouterr().out)["items"]}
        assert rows[8]["title"] == ""
        assert rows["film"]["title"] == "A Film"
        assert (rows["film"]["genres"], rows["film"]["year"]) == (["Drama", "War"], 1995)
        assert run(["ask", "--device", ann.hex(), *where]) == 0
        assert "film  A Film (1995) [Drama, War]" in capsys.readouterr().out
        assert run(["items", "put", "8", "--withdraw", *where]) == 0
        assert "item 8 is withdrawn, but was not in the catalogue" in capsys.readouterr().out
        until(lambda: set(items()) == {"film"}, "the catalogue is in the answers")
        assert run(["items", "put", "8", "--withdraw", *where]) == 0
        assert capsys.readouterr().out == "item 8 is withdrawn\n"
        assert run(["items", "put", "8", *where]) == 0
        until(lambda: set(items()) == {8, "film"}, "the catalogue is in the answers")
    capsys.readouterr()
    assert run(["items", "list", *where]) == 0
    assert capsys.readouterr().out == "8\nfilm  A Film (1995) [Drama, War]\n"
    assert run(["items", "list", "--ids", *where]) == 0
    assert capsys.readouterr().out == "8\nfilm\n"
    assert run(["items", "list", *where, "--json"]) == 0
    _, row = json.loads(capsys.readouterr().out)
    assert (row["item"], row["year"], row["withdrawn"]) == ("film", 1995, False)
    assert run(["items", "put", "film", "--title", "", "--genre", "War", *where]) == 0
    assert run(["items", "list", *where]) == 0
    assert "film  (1995) [War]\n" in capsys.readouterr().out
    assert run(["items", "put", "film", "--withdraw", *where]) == 0
    assert run(["items", "list", *where]) == 0
    assert "film  (1995) [War]  withdrawn" in capsys.readouterr().out
    assert run(["items", "put", "08\u200d ", *where]) == 0
    capsys.readouterr()
    assert run(["items", "list", "--ids", *where]) == 0
    assert capsys.readouterr().out == "8\n08\u200d \n"
    assert run(["items", "put", "a\nb", *where]) == 0
    assert run(["items", "list", "--ids", *where]) == 1
    assert "item a?b: an id with a line break is no line; take --json" in capsys.readouterr().err
    assert run(["items", "put", "x" * 200, *where]) == 2
    assert run(["items", "put", "8", "--title", "t" * 501, *where]) == 2
    assert "up to 500" in capsys.readouterr().err
    assert run(["items", "put", "8", "--year", "10000", *where]) == 2
    assert "a year is 1 to 9999" in capsys.readouterr().err
    assert run(["items", "put", "8", "--genre", "Drama ", *where]) == 2
    assert "1 to 50 printable characters without blanks" in capsys.readouterr().err


def test_the_titles_of_a_file_are_published(
    kafka: Kafka,
    topics: str,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path_factory.mktemp("data")
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    file = folder / "ratings.csv"
    file.write_text("user,item,rating\nann,film,4\nann,7,5\nbea,film,3\n")
    assert run(["items", "publish", str(file), *where]) == 0
    assert "1 entry published" in capsys.readouterr().out
    shop = folder / "shop.csv"
    shop.write_text("sku;name;price\nhat;<b>Hat</b>;5\nscarf;Scarf;x\n")
    assert run(["items", "publish", str(shop), *where]) == 0
    said = "shop.csv: sku as item, name as title; ignored: price\n2 entries published\n"
    assert capsys.readouterr().out == said
    shop.write_text(f"sku;name\nnew;New\nlong;{'t' * 501}\n")
    assert run(["items", "publish", str(shop), *where]) == 1
    assert "title: Expected str of length <= 500" in " ".join(capsys.readouterr().err.split())
    assert run(["items", "list", *where]) == 0
    assert capsys.readouterr().out == "film\nhat  <b>Hat</b>\nscarf  Scarf\n"

"""Noised similarities with a real Kafka: published once for each debit, ranked by on a device."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from murmurec import LocalRecommender
from producers.catalogue_reader import publish as publish_catalogue
from producers.publishing import Publisher
from stream_app.checkpoints.offline_writer import append, remove
from stream_app.cli import run
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.topic_follower import records
from stream_app.operations.similarities.debits import Debit, decode_debit
from stream_app.ranking.domains.table_bytes import FORMAT, decode_table, encode_table
from stream_app.wire import CatalogueEntry, Event, Topics
from stream_app.wire.public_tables import TableReader, TableVersion, encode_table_record
from stream_app.wire.public_tables import table_records as records_of
from stream_app.wire.topics import FEATURES
from tests.conftest import Kafka
from tests.fixtures.similarity_tables import BOOKS, FILMS, GAMES, TASTES, rated_by_taste
from tests.fixtures.streams import Published, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import SOON, Send, Start, ends_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def session_seconds() -> float:
    return SOON


PUBLISH = ["similarities", "--epsilon", "8"]
PEOPLE = 700


def ratings() -> list[Published]:
    """Return one event a person, in the tastes of `rated_by_taste`, in clear."""
    rows = np.array(rated_by_taste(PEOPLE))
    made = []
    for user in range(PEOPLE):
        own = rows[rows[:, 0] == user]
        device = (user + 1).to_bytes(16, "little")
        items, levels = own[:, 1].astype(np.uint64), (own[:, 2] - 1).astype(np.uint8)
        made.append(publish(Event(device, 1, "none:5:inf", 0, items, levels)))
    return made


def scope_file() -> str:
    """Write the public items, and return the name of the file."""
    path = Path("scope.txt").absolute()
    path.write_text("".join(f"{item}\n" for item in (*BOOKS, *FILMS, *GAMES)))
    return str(path)


def catalogue() -> Iterator[CatalogueEntry]:
    for domain, items in (("books", BOOKS), ("films", FILMS), ("games", GAMES)):
        for item in items:
            yield CatalogueEntry(item, f"{domain} {item}", domain=domain)


@pytest.fixture
def filled(
    start: Start,
    send: Send,
    kafka: Kafka,
    topics: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fill a deployment with books and films, and stop its worker, which leaves a checkpoint; the
    test runs in an empty folder."""
    monkeypatch.chdir(tmp_path_factory.mktemp("device"))
    for name, value in {
        "BOOTSTRAP_SERVERS": kafka.bootstrap, "TOPIC_PREFIX": topics, "CO_RATINGS": "true",
        "TUNING_HEAD_ITEMS": "64", "TUNING_RECENT_ITEMS": "32", "TUNING_HELD_OUT": "0",
        "SIMILARITY_BUDGET": "20", "LIST_SCOPE": scope_file(),
        "DATA_DIR": str(Path("data").absolute()), "TUNING_CACHE_DIR": str(Path("cache").absolute()),
    }.items():  # fmt: skip
        monkeypatch.setenv(f"MURMUREC_{name}", value)
    publish_catalogue(
        Publisher(clients.producer(kafka.connection), Topics(topics).items), catalogue()
    )
    made = ratings()
    send(made)
    worker = start()
    worker.wait_for(ends_of(made))
    worker.process.terminate()
    worker.process.wait(PATIENCE_SECONDS)


def table(kafka: Kafka, topics: str) -> TableVersion | None:
    reader = TableReader()
    for message in records(kafka.connection, Topics(topics).similarities):
        reader.learn(message.key(), message.value())
    return reader.newest()


def write(kafka: Kafka, topics: str, data: bytes, cut: int, slot: int) -> None:
    """Write the bytes of a table as a version, as another program might."""
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).similarities)
    for record in records_of(data, cut, slot):
        writer.send_patiently(key=record.key, value=encode_table_record(record))
    writer.wait()


def debits(kafka: Kafka, topics: str) -> list[Debit]:
    topic = Topics(topics).similarity_releases
    return [decode_debit(message.value()) for message in records(kafka.connection, topic)]


def ends(kafka: Kafka, topics: str) -> dict[str, int]:
    """Return how many records each topic of the deployment has had."""
    consumer = clients.consumer(kafka.connection)
    try:
        return {
            f"{topic.name}/{number}": clients.offsets(consumer, TopicPartition(topic.name, number))[
                1
            ]
            for topic in Topics(topics).table(features=FEATURES.keys() - {"shards"})
            for number in range(topic.partitions)
        }
    finally:
        consumer.close()


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    capsys.readouterr()
    assert run(list(arguments)) == code
    return capsys.readouterr().err


def test_a_device_goes_from_books_to_films_and_nothing_is_sent(
    filled: None, kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, *PUBLISH)
    assert (found["release"], found["items"], found["resumed"]) == (1, 20, False)
    shown = answer(capsys, "similarities")
    assert (shown["release"], shown["counted"], shown["budget"]) == (1, 1, 20)
    assert shown["spent"] == pytest.approx(8, abs=0.01)
    assert [each["name"] for each in shown["domains"]] == ["books", "films", "games"]
    before = ends(kafka, topics)
    for taste in range(TASTES):
        rated = [book for book in BOOKS if book % TASTES == taste][:3]
        Path("books.csv").write_text("".join(f"{book},5\n" for book in rated))
        ask = ("recommend", "--local", "--rated", "books.csv", "--to", "films", "-k", "3")
        found = answer(capsys, *ask, "--because")
        assert [row["domain"] for row in found["items"]] == ["films"] * 3
        assert all(row["item"] % TASTES == taste for row in found["items"])
        assert all(set(row["because"]) <= set(rated) for row in found["items"])
        assert (found["method"], found["similarities"]["release"]) == ("alter-ego", 1)
        assert answer(capsys, *ask, "--offline", "--because")["items"] == found["items"]
    local = LocalRecommender.from_kafka(kafka.connection, topics, to="films")
    assert {row.item for row in local.recommend([(100, 5.0)], 20).items} == set(FILMS)
    assert "domain 'music' is not in the table; it has books, films, games" in refusal(
        capsys, *ask[:5], "music"
    )
    Path("films.csv").write_text("200,5\n")
    assert "no rated item of a domain other than films is known" in refusal(
        capsys, "recommend", "--local", "--rated", "films.csv", "--to", "films"
    )
    assert ends(kafka, topics) == before
    whole = table(kafka, topics)
    assert whole is not None
    other = whole.table[:4] + bytes([FORMAT + 1]) + whole.table[5:]
    write(kafka, topics, other, whole.cut, 1 - whole.slot)
    assert answer(capsys, *ask)["cached"]
    assert "format 2: this version reads format 1" in refusal(capsys, "similarities")
    Path("cache").rename("gone")
    assert "format 2: this version reads format 1" in refusal(capsys, *ask)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--epsilon", "0"], "--epsilon 0: give a number above 0"),
        (["--epsilon", "inf"], "--epsilon inf: give a number above 0"),
        (["--epsilon", "nan"], "--epsilon nan: give a number above 0"),
        (["--epsilon", "1", "--delta", "0"], "--delta 0: give a number"),
        (["--epsilon", "1", "--delta", "1"], "--delta 1: give a number"),
        (["--epsilon", "1", "--delta", "nan"], "--delta nan: give a number"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_terms_out_of_range_are_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refusal(capsys, "similarities", *arguments, code=2)


def test_a_worker_answers_by_the_published_table_alone(
    filled: None,
    start: Start,
    kafka: Kafka,
    topics: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MURMUREC_SIMILAR_FROM", "published")
    monkeypatch.setenv("MURMUREC_TUNING_ITEM_LINKS_SECONDS", "0.1")
    first = start()
    ask = ["ask", "--similar-to", "204"]
    until(lambda: "has read no table of similarities" in refusal(capsys, *ask), "a side")
    answer(capsys, *PUBLISH)
    until(lambda: run([*ask, "--json"]) == 0, "the worker has read the table")
    found = answer(capsys, *ask)
    whole = table(kafka, topics)
    assert whole is not None
    links = decode_table(whole.table)
    place = int(np.flatnonzero(links.keys == 204)[0])
    strongest = links.keys[links.targets[1, place, 0]]
    assert found["method"] == "cosine/published"
    assert strongest in [row["item"] for row in found["items"]]
    assert found["as_of"] == whole.cut
    first.process.terminate()
    first.process.wait(PATIENCE_SECONDS)
    monkeypatch.setenv("MURMUREC_TUNING_ITEM_LINKS_SECONDS", "600")
    start()
    until(lambda: run([*ask, "--json"]) == 0, "another worker has read it at its start")


def killed(label: str, done: int = 0) -> None:
    """Publish in a process of its own that is killed at a step."""
    command = [sys.executable, "-m", "tests.kafka.similarity_publisher", label, str(done)]
    ended = subprocess.run(command, check=False, cwd=Path(__file__).parents[2])
    assert ended.returncode == -9


@pytest.mark.thorough
@pytest.mark.nightly
def test_no_kill_draws_twice_under_one_debit(
    filled: None,
    kafka: Kafka,
    topics: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def budget(epsilon: str) -> None:
        monkeypatch.setenv("MURMUREC_SIMILARITY_BUDGET", epsilon)
        assert run(["config", "apply"]) == 0
        capsys.readouterr()

    budget("40")
    killed("writing the debit")
    assert debits(kafka, topics) == []
    killed("drawing the noise")
    killed("keeping the table")
    assert len(debits(kafka, topics)) == 2
    assert table(kafka, topics) is None
    assert not list(Path("data").rglob("*.pending"))
    killed("sending the table")
    (waiting,) = Path("data").rglob("*.pending")
    kept = waiting.read_bytes()
    assert len(debits(kafka, topics)) == 3
    killed("sending the table", 1)  # it sends what waits; the page may be in the topic
    assert waiting.read_bytes() == kept
    found = answer(capsys, *PUBLISH)
    assert (found["release"], found["resumed"]) == (3, True)
    whole = table(kafka, topics)
    assert whole is not None
    assert whole.table in kept
    assert decode_table(whole.table).spent == pytest.approx(found["spent"])
    assert len(debits(kafka, topics)) == 3
    assert not waiting.exists()
    # The next release has a debit and noise of its own.
    found = answer(capsys, *PUBLISH)
    assert (found["release"], found["resumed"]) == (4, False)
    newer = table(kafka, topics)
    assert newer is not None
    assert (newer.slot, newer.table == whole.table) == (1 - whole.slot, False)
    budget("20")
    said = refusal(capsys, *PUBLISH)
    assert "similarity_budget is 20" in said
    assert "nothing was drawn" in said
    assert len(debits(kafka, topics)) == 4
    budget("0")
    assert "similarity_budget is 0, so nothing may be released" in refusal(capsys, *PUBLISH)
    budget("40")
    # A log that was emptied, or holds what is no debit, says no more what was spent.
    later = replace(decode_table(newer.table), release=99)
    write(kafka, topics, encode_table(later), newer.cut, whole.slot)
    assert "has fewer debits (4) than the newest table" in refusal(capsys, *PUBLISH)
    assert len(debits(kafka, topics)) == 4
    append(kafka.connection, Topics(topics).similarity_releases, b'{"v":2}')
    assert "at offset 4 that is no debit of this version" in refusal(capsys, *PUBLISH)
    assert "at offset 4 that is no debit of this version" in refusal(capsys, "similarities")


@pytest.mark.nightly
@pytest.mark.thorough
def test_without_a_checkpoint_the_lists_come_from_the_log(
    filled: None, kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    state = Topics(topics).state
    pages = [message.key() for message in records(kafka.connection, state)]
    assert pages
    for page in pages:
        remove(kafka.connection, state, page)
    found = answer(capsys, *PUBLISH)
    assert (found["release"], found["items"]) == (1, 20)
    assert found["cut"] > 0


def test_a_log_without_ratings_is_no_release(
    kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "BOOTSTRAP_SERVERS": kafka.bootstrap, "TOPIC_PREFIX": topics, "CO_RATINGS": "true",
        "SIMILARITY_BUDGET": "20", "LIST_SCOPE": scope_file(),
    }.items():  # fmt: skip
        monkeypatch.setenv(f"MURMUREC_{name}", value)
    publish_catalogue(
        Publisher(clients.producer(kafka.connection), Topics(topics).items), catalogue()
    )
    assert "holds no cut, so no rating counts yet" in refusal(capsys, *PUBLISH)
    assert not debits(kafka, topics)

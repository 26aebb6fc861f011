"""Devices against a real broker: what they send is accepted, decodes, and is sent once."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from murmurec import Device
from producers.device import requests as device
from producers.journal import Message, read_journal, read_key
from producers.pseudonyms import pseudonym
from stream_app import wire
from stream_app.cli import run
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.privacy import registry
from tests.conftest import Kafka
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.producers.journals import at

pytestmark = pytest.mark.kafka
INTAKE = wire.Intake(
    {"rr:5:2": 5, "none:5:inf": 5, "cell:5:2": 6, "partition:5:2": 5}, masked={"partition:5:2": 5}
)


@pytest.fixture
def ratings_topic(environment: Callable[..., None], kafka: Kafka, topics: str) -> str:
    """Work in an empty folder with the broker and the topics configured; give the rating topic."""
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL="device.journal",
        MURMUREC_MECHANISMS=",".join(INTAKE.mechanisms),
    )
    return wire.Topics(topics).ratings


def enrol(*users: str) -> None:
    for user in users:
        assert run(["device", "enrol", "--user", user]) == 0


def everything(kafka: Kafka, topic: str) -> list[wire.Event]:
    """Read the topic from its start to its end and decode as a server does."""
    from confluent_kafka import TopicPartition

    reader = clients.consumer(kafka.connection, group="test-devices")
    try:
        places = [TopicPartition(topic, p, 0) for p in range(wire.PARTITIONS)]
        reader.assign(places)
        left = sum(clients.offsets(reader, place, 10)[1] for place in places)
        events = []
        while left:
            record = reader.poll(10)
            assert record is not None, f"{left} records did not arrive within 10 seconds"
            assert record.error() is None
            events.append(wire.decode(record.key(), record.value(), record.partition(), INTAKE))
            left -= 1
        return events
    finally:
        reader.close()


def test_a_published_rating_is_accepted_where_its_key_belongs(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    rating = ["publish", "--user", "ann", "--item", "1193", "--rating", "4"]
    assert run(rating) == 1
    assert "ann is not enrolled" in (refused := capsys.readouterr().err)
    assert "run murmurec device enrol --user ann" in refused
    assert everything(kafka, ratings_topic) == []
    enrol("ann")
    assert "(20, 1e-06) in any 365 days for ann as a person" in capsys.readouterr().out
    assert run(rating) == 0
    output = capsys.readouterr().out
    assert "sent       at once: the time and size of a message" in output
    assert f"accepted   {ratings_topic}, partition " in output
    assert "protected  the value of each rating" in output
    assert "adjacency: value" in output
    assert "public     that the ratings exist" in output
    assert (
        run(
            [
                "publish",
                "--user",
                "ann",
                "--item",
                "tt01",
                "--rating",
                "4",
                "--json-encoding",
                "--json",
            ]
        )
        == 0
    )
    output = json.loads(capsys.readouterr().out)
    events = everything(kafka, ratings_topic)
    device_id = pseudonym(read_key("device.journal"), "ann")
    assert {(event.device, event.seq) for event in events} == {(device_id, 1), (device_id, 2)}
    assert {int(event.items[0]) for event in events} == {1193, wire.key("tt01")}
    assert (output["device"], output["seq"], output["mechanism"]) == (device_id.hex(), 2, "rr:5:2")
    assert run(["publish", "--user", "ann", "--item", "1193", "--rating", "4"]) == 1
    assert "published already" in capsys.readouterr().err
    assert run([*rating, "--republish"]) == 0
    assert run(["device", "withdraw", "--user", "ann"]) == 0
    assert run(["publish", "--user", "ann ", "--item", "9", "--rating", "4"]) == 1
    assert "was withdrawn in epoch" in capsys.readouterr().err


def test_a_missing_topic_costs_no_epsilon(
    ratings_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--user", "ann", "--item", "1", "--rating", "4", "--prefix", "missing"]
    assert run(["publish", *arguments]) == 1
    assert "create it with murmurec topics apply" in capsys.readouterr().err
    assert not Path("device.journal").exists()


def test_a_replay_sends_every_rating_once_and_continues(
    ratings_topic: str, kafka: Kafka, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = rng.choice(40 * 100, 2000, replace=False)
    ratings = rng.integers(1, 6, 2000)
    users, items = cells // 100, cells % 100
    users[-1], items[-1] = users[0], items[0]  # one repeated cell
    np.savez("mine.npz", user=users, item=items, rating=ratings)
    replay = ["replay", "mine.npz", "--mechanism", "none"]
    assert run([*replay, "--limit", "700"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[-1] == "rows 700 = published 700 + refused 0"
    assert "nothing is protected" in output.err
    assert run([*replay, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["rows"], row["published"], row["refused"]) == (1300, 1299, 1)
    assert (row["skipped"], row["events_failed"]) == (700, 0)
    key = read_key("device.journal")
    sent = sorted(
        (event.device, int(item), int(report))
        for event in everything(kafka, ratings_topic)
        for item, report in zip(event.items, event.reports, strict=True)
    )
    assert sent == sorted(
        (pseudonym(key, user), item, rating - 1)
        for user, item, rating in zip(
            users[:-1].tolist(), items[:-1].tolist(), ratings[:-1].tolist(), strict=True
        )
    )
    assert run(replay) == 1
    assert "published already" in capsys.readouterr().err


def test_what_was_published_from_one_file_is_not_published_from_another(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("first.npz", user=[1], item=[10], rating=[4])
    assert run(["replay", "first.npz"]) == 0
    np.savez("mine.npz", user=[1, 1, 2], item=[10, 11, 10], rating=[3, 4, 5])
    assert run(["replay", "mine.npz"]) == 0
    printed = capsys.readouterr()
    assert "enrolled   1 device as a simulation, without a limit; 1 device enrolled" in printed.err
    output = printed.out
    assert "1 of the refused were published before: --republish" in output
    assert output.splitlines()[-1] == "rows 3 = published 2 + refused 1"
    np.savez("grown.npz", user=[1, 1, 2, 2], item=[10, 11, 10, 11], rating=[3, 4, 5, 1])
    assert run(["replay", "grown.npz", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["published"], row["published_before"]) == (1, 3)
    cells = [(e.device, int(item)) for e in everything(kafka, ratings_topic) for item in e.items]
    assert len(cells) == len(set(cells)) == 4


def test_the_lines_of_the_readme_leave_a_person_alone_in_their_journal(
    ratings_topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MURMUREC_DEVICE_JOURNAL")
    monkeypatch.setenv("MURMUREC_DATA_DIR", "data")
    np.savez("mine.npz", user=["ann", "bob", "bob"], item=[1, 2, 3], rating=[5, 4, 3])
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    murmurec ((?:device enrol|publish|replay) [^#\n]*)", readme, re.M)
    assert len(lines) == 3
    for line in lines:
        assert run(line.replace("ml-1m.zip", "mine.npz").split()) == 0
    capsys.readouterr()
    assert run(["device", "status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["users"], status["enrolled"], status["simulated"]) == (1, 1, 0)
    assert status["journal"] == "data/device.journal"
    assert len(read_journal("data/simulation.journal").book.accounts) == 2


def test_a_simulation_and_a_person_refuse_each_others_journal(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    enrol("ann")
    np.savez("mine.npz", user=["ann"], item=[1], rating=[5])
    Path("scope.txt").write_text("1\n")
    epoch = ["--mechanism", "cell", "--emission", "epoch", "--scope", "scope.txt"]
    stranger = ["replay", "people.npz"]
    np.savez("people.npz", user=["ann", "bob"], item=[1, 1], rating=[5, 4])
    before = Path("device.journal").read_bytes()
    for command in (["replay", "mine.npz"], ["replay", "mine.npz", *epoch], stranger):
        assert run(command) == 1
        assert "holds the account of a person, and a simulation" in capsys.readouterr().err
        assert Path("device.journal").read_bytes() == before
    people = ["--journal", "people/journal"]
    assert run(["replay", "mine.npz", *people, "--budget", "20"]) == 0
    before, user = Path("people/journal").read_bytes(), ["--user", "ann", *people]
    capsys.readouterr()
    for command in (
        ["publish", *user, "--item", "7", "--rating", "4"],
        ["device", "enrol", *user],
        ["device", "enrol", *people, "--user", "eve"],
        ["device", "run", *user],
        ["device", "run", *people],
        ["device", "contribute", *user, "--scope", "scope.txt"],
    ):
        assert run(command) == 1
        assert "holds a simulation, and a person has a journal of" in capsys.readouterr().err
        assert Path("people/journal").read_bytes() == before
    with pytest.raises(UserError, match="holds a simulation"):
        Device("ann", "people/journal")
    assert sum(len(event.items) for event in everything(kafka, ratings_topic)) == 1


def test_a_mechanism_that_is_not_allowed_costs_no_epsilon(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1, 1, 2], item=[10, 11, 10], rating=[3, 4, 5])
    for command in (
        ["publish", "--user", "ann", "--item", "1", "--rating", "4"], ["replay", "mine.npz"],
    ):  # fmt: skip
        assert run([*command, "--epsilon", "1"]) == 1
        assert "rr:5:1 is not allowed" in capsys.readouterr().err
    assert not Path("device.journal").exists()
    assert everything(kafka, ratings_topic) == []


def test_a_replay_prints_the_epsilon_of_the_user_with_the_most(
    ratings_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1] * 30 + [2], item=[*range(30), 1], rating=[3] * 30 + [4])
    assert run(["replay", "mine.npz", "--epsilon", "2", "--speed", "1000"]) == 0
    output = capsys.readouterr().err
    assert "30 x 2 = 60 for the user with the most" in output
    assert "weakly protected" in output


def test_a_journal_in_use_is_refused_before_anything_is_sent(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1, 2], item=[1, 1], rating=[3, 4])
    with at("device.journal"):
        assert run(["replay", "mine.npz"]) == 1
        assert "another process is using it" in capsys.readouterr().err
        assert run(["publish", "--user", "ann", "--item", "1", "--rating", "4"]) == 1
    assert everything(kafka, ratings_topic) == []


def test_pending_messages_of_an_earlier_process_are_sent_first_unchanged(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    left = released_at(ratings_topic, int(time.time()) // wire.EPOCH_SECONDS, 1, 2)
    assert run(["publish", "--user", "ann", "--item", "3", "--rating", "4"]) == 0
    assert "sending 2 events again" in capsys.readouterr().err
    events = sorted(everything(kafka, ratings_topic), key=lambda event: event.seq)
    assert [wire.encode(event) for event in events[:2]] == [message.value for message in left]
    assert [event.items.tolist() for event in events] == [[1], [2], [3]]
    assert read_journal("device.journal").pending == 0


def released_at(
    topic: str, epoch: int, *items: int, path: str = "device.journal", epsilon: int | None = 1000
) -> list[Message]:
    """Release ratings of ann without sending them; a simulation's without `epsilon`."""
    line = device.ReportSettings(topic, registry.parse("rr:5:2"))
    with at(path, epsilon) as journal:
        device_id = pseudonym(journal.key, "ann")
        level = np.array([3], np.uint8)
        return [
            journal.release(device.request(level, [item], line, device=device_id, epoch=epoch))[0]
            for item in items
        ]


def test_a_clock_far_beyond_the_last_release_needs_the_option(
    ratings_topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    early, people = int(time.time()) // wire.EPOCH_SECONDS - 400, "people/journal"
    released_at(ratings_topic, early, 1)
    released_at(ratings_topic, early, 1, path=people, epsilon=None)
    np.savez("mine.npz", user=["ann", "bob"], item=[4, 5], rating=[3, 4])
    commands = (
        ["publish", "--user", "ann", "--item", "3", "--rating", "4"],
        ["replay", "mine.npz", "--journal", people],
        ["device", "enrol", "--user", "bob"],
    )
    for command in commands:
        assert run(command) == 1
        assert "400 days after the last release" in capsys.readouterr().err
    before = {path: Path(path).read_bytes() for path in ("device.journal", people)}
    for command in commands[:2]:
        for path, data in before.items():
            Path(path).write_bytes(data)
        monkeypatch.setenv("XDG_STATE_HOME", command[0])  # the copy is nobody's newest journal
        known = ["--trust-journal"] if command[0] == "replay" else []
        assert run([*command, "--trust-clock", *known]) == 0


def test_a_replay_that_is_killed_loses_nothing_and_draws_nothing_twice(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    users, items = np.divmod(np.arange(3000), 100)
    np.savez("mine.npz", user=users, item=items, rating=1 + items % 5)
    program = "import sys; from stream_app.cli import run; sys.exit(run(sys.argv[1:]))"
    replay = ["replay", "mine.npz", "--mechanism", "none"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *replay, "--speed", "200"], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (Path("device.journal").exists() and look_or_none("device.journal")):
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline, "no record of the replay in its journal"
    process.kill()
    process.communicate()
    before = read_journal("device.journal")
    assert 0 < sum(replayed.reserved for replayed in before.book.replays.values()) < 3000
    assert run(replay) == 0
    output = capsys.readouterr().out
    assert "continued after" in output
    # What was acknowledged to a dead process may be there twice: the same bytes, dropped by seq.
    events = {
        (event.device, event.seq): wire.encode(event) for event in everything(kafka, ratings_topic)
    }
    for event in everything(kafka, ratings_topic):
        assert events[event.device, event.seq] == wire.encode(event)
    cells = {
        (event.device, int(item)): int(report)
        for event in map(decoded, events.values())
        for item, report in zip(event.items, event.reports, strict=True)
    }
    key = read_key("device.journal")
    assert cells == {
        (pseudonym(key, int(user)), int(item)): int(item) % 5
        for user, item in zip(users, items, strict=True)
    }
    assert read_journal("device.journal").pending == 0


def look_or_none(path: str) -> bool:
    """Whether the journal has recorded rows of a data set."""
    try:
        return any(replayed.reserved for replayed in read_journal(path).book.replays.values())
    except UserError:  # it is just being made
        return False


def decoded(value: bytes) -> wire.Event:
    key = msgspec.msgpack.decode(value)["device"].hex().encode()
    where = int(wire.partitions_of(np.frombuffer(key, np.uint8).reshape(1, 32), wire.PARTITIONS)[0])
    return wire.decode(key, value, where, INTAKE)


def test_an_epoch_is_sent_as_a_whole_whatever_was_rated(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1, 1, 2, 3], item=[10, 11, 10, 99], rating=[3, 4, 5, 1])
    Path("scope.txt").write_text("\n".join(map(str, range(5, 25))))
    replay = ["replay", "mine.npz", "--mechanism", "cell", "--emission", "epoch"]
    assert run([*replay, "--scope", "scope.txt"]) == 0
    output = capsys.readouterr()
    assert "60 reports of 3 devices; 3 of them on ratings" in output.out
    assert "1 rating of items outside the scope: never reported" in output.out
    assert "protected  whether each item was rated, and how" in output.err
    assert "sent       at the end of the epoch" in output.err
    assert "20 x 2 = 40 for the user with the most" in output.err
    events = everything(kafka, ratings_topic)
    assert sorted(sorted(event.items.tolist()) for event in events) == [list(range(5, 25))] * 3
    assert {event.mechanism for event in events} == {"cell:5:2"}
    assert run([*replay, "--scope", "scope.txt", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["reports"], row["idle"], row["events_accepted"]) == (0, 3, 0)


def test_the_public_catalogue_is_the_scope_only_where_it_is_trusted(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1, 2], item=[10, 11], rating=[3, 4])
    replay = ["replay", "mine.npz", "--mechanism", "cell", "--emission", "epoch"]
    assert run(replay) == 2
    assert "give it with --scope FILE, or take the server's with" in capsys.readouterr().err
    replay.append("--trust-catalogue")
    assert run(replay) == 1
    assert "the catalogue is empty; give the public items with --scope FILE" in (
        capsys.readouterr().err
    )
    assert not Path("device.journal").exists()
    for item in ("7", "8", "tt01"):
        assert run(["items", "put", item, "--title", "A Film"]) == 0
    assert run(["items", "put", "8", "--withdraw"]) == 0
    assert run(replay) == 0
    capsys.readouterr()
    expected = sorted([7, wire.key("tt01")])
    assert [sorted(event.items.tolist()) for event in everything(kafka, ratings_topic)] == [
        expected
    ] * 2


def test_a_sample_spends_its_budget_once_per_user(
    ratings_topic: str,
    kafka: Kafka,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MURMUREC_MECHANISMS", "cell:5:5/2")
    np.savez("mine.npz", user=[1, 1, 2, 3], item=[10, 11, 10, 99], rating=[3, 4, 5, 1])
    Path("scope.txt").write_text("\n".join(map(str, range(5, 25))))
    replay = ["replay", "mine.npz", "--mechanism", "cell", "--emission", "epoch"]
    assert run([*replay, "--scope", "scope.txt", "--sample", "10", "--json"]) == 0
    output = capsys.readouterr()
    row = json.loads(output.out)
    assert (row["reports"], row["events_accepted"]) == (12, 3)
    assert "4 x 5/2 = 10 for the user with the most" in output.err
    # A grown catalogue is no second sample, and --republish no second budget.
    Path("scope.txt").write_text("\n".join(map(str, range(5, 500))))
    replay += ["--scope", "scope.txt", "--sample", "10", "--json"]
    assert run(replay) == 1
    assert "who changes the scope chooses on what the budget is spent" in capsys.readouterr().err
    accepted = hashlib.sha256(Path("scope.txt").read_bytes()).hexdigest()
    for more in ([], ["--republish"]):
        asked = [*replay, "--accept-scope", accepted, *more]
        assert run(asked) == 0
        row = json.loads(capsys.readouterr().out)
        assert (row["reports"], row["events_accepted"]) == (0, 0)
    key = read_key("device.journal")
    for user in (1, 2, 3):
        spent = read_journal("device.journal").book.accounts[pseudonym(key, user)].by_adjacency()
        assert spent["cell"].reports == 4


def test_a_budget_is_kept_by_every_command_and_shown(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1] * 9 + [2], item=[*range(9), 1], rating=[3] * 9 + [4])
    assert run(["replay", "mine.npz", "--budget", "7", "--json"]) == 0
    output = capsys.readouterr()
    row = json.loads(output.out)
    assert (row["published"], row["refused"], row["over_budget"]) == (4, 6, 6)
    assert "enrolled   2 devices as a simulation, with a budget of (7, 1e-06) in all" in output.err
    assert "3 x 2 = 6 for the user with the most" in output.err
    assert "is new: new pseudonyms" in output.err
    assert "1..5 by 1, found in the ratings" in output.err
    assert run(["device", "status", "--user", "1"]) == 0
    shown = capsys.readouterr().out
    assert "(7, 1e-06) for you as a person in all; 0 reports left at 2 (rr:5:2)" in shown
    assert "epsilon 6 on 3 reports" in shown
    # What the budget held back goes with a larger one, and nothing goes twice.
    capsys.readouterr()
    assert run(["replay", "mine.npz", "--budget", "10", "--json"]) == 0
    output = capsys.readouterr()
    row = json.loads(output.out)
    assert (row["published"], row["published_before"], row["over_budget"]) == (2, 4, 4)
    assert "2 devices raised to it" in output.err
    assert "6 rows over budget when this data set was published" in output.err
    assert "a user before this run: 6" in output.err
    cells = [(e.device, int(item)) for e in everything(kafka, ratings_topic) for item in e.items]
    assert len(cells) == len(set(cells)) == 6


def test_the_masks_of_a_partition_are_sent(
    ratings_topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    rating = ["--user", "1", "--item", "77", "--rating", "4", "--mechanism", "partition"]
    enrol("1")
    assert run(["publish", *rating]) == 0
    np.savez("mine.npz", user=[1, 2, 2], item=[1, 1, 2], rating=[3, 4, 5])
    replay = ["replay", "mine.npz", "--mechanism", "partition", "--emission", "epoch"]
    assert run([*replay, "--journal", "people/journal"]) == 0
    capsys.readouterr()
    events = everything(kafka, ratings_topic)
    # That the ratings exist is public, so the account of today reports at once.
    assert sum(len(event.items) for event in events) == 4
    assert all(event.masks is not None and event.masks.all() for event in events)

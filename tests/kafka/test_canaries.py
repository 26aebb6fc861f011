"""Nothing raw leaves the device: the whole stack at DEBUG, ratings that can be recognised anywhere,
every way of failing taken, and then every byte that was written is searched.

A canary rating is looked for as text and as the bytes of a number; a canary user rates two hundred
items alike under an epsilon that makes reports independent of them, so a raw column of levels would
show as a run of equal bytes that noise makes once in 5^32. The clean history beside the
device's journal is the one exception: it holds raw ratings, and only its owner may read it.
"""

from __future__ import annotations

import json
import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from stream_app import wire
from stream_app.cli import run
from stream_app.kafka import clients
from tests.conftest import Kafka
from tests.fixtures.streams import Published, partition_of
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send, Start

pytestmark = pytest.mark.kafka

SCALE = ("73313371", "73313373", "0.5")  # its ends are public and printed, its middle is not
CANARIES = ("73313371.5", "73313372", "73313372.5")
ABSURD = "88442266.625"  # off the scale: no message may contain it
FOREIGN = "55117799"  # what another user's careless device puts into a record
USER = "canary-3f9a71-user"
QUIET = "1/1000"  # epsilon per report: a release reveals almost nothing
TOP_LEVEL = 3
RUN = 32


def wanted() -> dict[str, bytes]:
    """Return everything that must not be found, by what it is."""
    found = {"user": USER.encode(), "absurd": ABSURD.encode(), "foreign": FOREIGN.encode()}
    for text in (*CANARIES, ABSURD, FOREIGN):
        number = float(text)
        found |= {f"{text} {form}": struct.pack(form, number) for form in ("<d", ">d", "<f", ">f")}
        found |= {f"{text} text": text.encode(), f"{text} repr": repr(number).encode()}
    level = TOP_LEVEL
    return found | {
        "raw column": bytes([level]) * RUN,
        "raw list": (f"{level}," * RUN).encode(),
        "raw wide column": struct.pack("<Q", level) * RUN,
    }


def records(kafka: Kafka, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield every record of every topic of a deployment, as (where, key + value + headers)."""
    reader = clients.consumer(kafka.connection, group=f"{prefix}-scan", fetch_wait_max_ms=20)
    try:
        listed = reader.list_topics(timeout=PATIENCE_SECONDS).topics
        ends = {}
        for name, topic in listed.items():
            for partition in topic.partitions if name.startswith(prefix) else ():
                place = TopicPartition(name, partition, 0)
                low, high = reader.get_watermark_offsets(place, timeout=PATIENCE_SECONDS)
                if low < high:
                    ends[name, partition] = low, high
        reader.assign([TopicPartition(*place, low) for place, (low, _) in ends.items()])
        while ends:
            record = reader.poll(PATIENCE_SECONDS)
            assert record is not None, f"nothing more comes; waited for: {ends}"
            assert record.error() is None
            place, offset = (record.topic(), record.partition()), record.offset()
            if place in ends and offset >= ends[place][1] - 1:
                del ends[place]
            parts = [record.key() or b"", record.value() or b""]
            parts += [b"%r" % (pair,) for pair in record.headers() or []]
            yield f"{place[0]}/{place[1]}/{offset}", b" ".join(parts)
    finally:
        reader.close()


def files(folder: Path, but: set[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield every file under a folder but those that a user wrote."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path not in but:
            yield str(path), path.read_bytes()


def test_a_canary_is_found_in_what_holds_one() -> None:
    raw = wanted()
    assert raw["raw column"] in b"x" + bytes([TOP_LEVEL]) * 200
    assert raw["73313371.5 <d"] in struct.pack("<3d", 1, 73313371.5, 2)
    assert raw["73313372 text"] in b'{"rating":73313372}'
    assert raw["user"] in USER.encode()


def test_nothing_raw_is_written_anywhere(
    start: Start,
    send: Send,
    kafka: Kafka,
    topics: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    mechanisms = [f"{family}:5:{QUIET}" for family in ("rr", "partition", "cell", "laplace")]
    monkeypatch.setenv("MURMUREC_MECHANISMS", ",".join(mechanisms))
    monkeypatch.setenv("MURMUREC_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("MURMUREC_TUNING_ITEM_TABLE_SECONDS", "0.2")
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "device"))
    (tmp_path / "device").mkdir()
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    # `start` sets what a test's worker learns with, so it comes first.
    monkeypatch.setenv("MURMUREC_TUNING_HELD_OUT", "0.2")
    worker = start()
    ours = written(tmp_path)
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    quiet = ["--epsilon", QUIET, "--scale", *SCALE, *where]
    publish = ["publish", "--user", USER, *quiet]
    rating = ["--rating", CANARIES[0]]

    # What works: an account, one rating, a file in each way of sending.
    terms = ["--budget", "1000000", "--plan", "adaptive"]
    assert run(["device", "enrol", "--user", USER, *terms]) == 0
    capsys.readouterr()  # the one command that repeats the id, to the person who typed it
    assert run([*publish, "--item", "1", *rating]) == 0
    assert run([*publish, "--item", "2", *rating, "--mechanism", "partition"]) == 0
    assert run([*publish, "--item", "word", *rating, "--json-encoding", "--json"]) == 0
    assert run(["replay", "alike.csv", *quiet]) == 0
    for family in ("cell", "laplace"):
        report = ["replay", "alike.csv", *quiet, "--mechanism", family, "--emission", "epoch"]
        journal = ["--journal", f"{family}/device.journal"]
        assert run([*report, "--scope", "scope.txt", *journal]) == 0
    printed = [capsys.readouterr()]
    assert run(["device", "status", "--json"]) == 0
    printed.append(capsys.readouterr())

    # What fails, each in its own way.
    os.chmod(tmp_path / "locked.journal", 0o644)  # noqa: PTH101 (reads as what it is)
    failing = [
        [*publish, "--item", "1", *rating],
        [*publish, "--item", "3", "--rating", ABSURD],
        [*publish, "--item", "3", "--rating", f"{ABSURD}x"],
        [*publish, "--item", "3", "--rating", "nan"],
        [*publish, "--item", "a\0", *rating],
        [*publish, "--item", "x" * 200, *rating],
        ["device", "enrol", "--user", USER, "--budget", "1/1000"],
        ["device", "enrol", "--user", USER, "--raise", "1/1000"],
        [*publish, "--item", "4", *rating, "--mechanism", "cell"],
        [*publish, "--item", "4", *rating, "--mechanism", "ternary"],
        [*publish, "--item", "4", *rating, "--journal", "."],
        [*publish, "--item", "4", *rating, "--journal", "damaged.journal"],
        [*publish, "--item", "4", *rating, "--journal", "locked.journal"],
        [*publish, "--item", "4", *rating, "--prefix", "no-such-prefix"],
        [*publish, "--item", "4", *rating, "--bootstrap", "127.0.0.1:1"],
        [*publish, "--item", "4", *rating, "--epsilon", "0"],
        ["publish", "--user", f"{USER}\0", "--item", "4", *rating, *quiet],
        ["replay", "odd.csv", *where, "--epsilon", QUIET],
        ["replay", "alike.csv", *quiet],
        ["replay", "alike.csv", *quiet, "--mechanism", "cell"],
        ["replay", "none.csv", *quiet],
        ["replay", "alike.csv", *quiet, "--mechanism", "cell", "--emission", "epoch"],
    ]
    codes = {}
    for arguments in failing:
        codes[" ".join(arguments)] = run(arguments)
        printed.append(capsys.readouterr())
    assert not [line for line, code in codes.items() if code == 0]
    assert not [line for line, code in codes.items() if code not in (1, 2)]

    # What others do: a raw rating where none belongs. Only its own record may hold it.
    foreign = careless()
    send(foreign)
    reader = clients.consumer(kafka.connection, group=f"{topics}-ends")
    name = wire.Topics(topics).ratings
    end_offsets = [
        reader.get_watermark_offsets(TopicPartition(name, p), timeout=PATIENCE_SECONDS)[1]
        for p in range(4)
    ]
    reader.close()
    state = worker.wait_for(end_offsets)
    assert state["counts"]["rejected"] >= len(foreign), state["counts"]
    pages = [worker.get(page) for page in ("/metrics", "/state", "/livez", "/readyz")]
    assert run(["ask", "--user", USER, "-k", "3", *where]) == 0
    assert run(["state", "digest", *where]) == 0
    printed.append(capsys.readouterr())

    written_by_us = {record.value for record in foreign}
    places = [("page", page) for page in pages]
    places += [("printed", f"{captured.out} {captured.err}".encode()) for captured in printed]
    places += [("log", record.getMessage().encode()) for record in caplog.records]
    # The clean history, from which this device makes lists: the one file of ours that is raw.
    history = tmp_path / "device" / "device.journal.history"
    assert CANARIES[0].encode() in history.read_bytes()
    assert history.stat().st_mode & 0o777 == 0o600
    places += files(tmp_path, ours | {history})
    topics_seen = [
        (place, value)
        for place, value in records(kafka, topics)
        if not any(own and own in value for own in written_by_us)
    ]
    assert len(topics_seen) > 20
    assert any(place.endswith("worker.log") for place, _ in places)
    assert any(place.endswith("device.journal") for place, _ in places)
    found = [
        f"{what} in {place}"
        for place, value in [*places, *topics_seen]
        for what, pattern in wanted().items()
        if pattern in value
    ]
    assert found == []


def written(folder: Path) -> set[Path]:
    """Write the files that a user has, ratings among them; they are his own."""
    rows = [f"{USER},{item},{CANARIES[2]}" for item in range(100, 300)]
    rows += [f"other,{item},{SCALE[0]}" for item in range(100, 120)]
    rows += ["other,121,73313373"]
    (folder / "alike.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    (folder / "odd.csv").write_text(
        f"user,item,rating\n{USER},1,{ABSURD}\n{USER},2,{CANARIES[0]}x\n,3,{CANARIES[1]}\n"
    )
    (folder / "none.csv").write_text(f"user,item,rating\n{USER},,{ABSURD}y\n")
    (folder / "scope.txt").write_text("\n".join(str(item) for item in range(100, 300)) + "\n")
    (folder / "damaged.journal").write_bytes(b"murmur" * 100)
    (folder / "damaged.journal").chmod(0o600)
    (folder / "locked.journal").write_bytes(b"")
    return {path for path in folder.iterdir() if path.is_file()}


def careless() -> list[Published]:
    """Return records of a device that does not know how: raw ratings where none belong."""
    device = bytes(range(16))
    key = device.hex().encode()
    fields = {"v": 1, "device": device.hex(), "seq": 1, "mechanism": f"rr:5:{QUIET}", "epoch": 1}
    values = [
        json.dumps({**fields, "items": [1], "reports": [float(FOREIGN)]}),
        json.dumps({**fields, "items": [1], "reports": [0], "rating": float(FOREIGN)}),
        json.dumps({**fields, "items": [f"{FOREIGN}" * 20], "reports": [0]}),
        json.dumps({**fields, "mechanism": f"raw:{FOREIGN}", "items": [1], "reports": [0]}),
        f"{FOREIGN} stars",
    ]
    place = partition_of(key)
    found = [Published(place, key, value.encode()) for value in values]
    return [*found, Published(place, FOREIGN.encode(), values[0].encode())]

"""Checkpoints that are damaged, forged, of other settings, or contradicted by a digest report.

The next start continues from an older checkpoint or from the log, with the same digests, or refuses
with one sentence; a checkpoint that it passed over is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from confluent_kafka import Message

from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients, topic_follower
from stream_app.wire import Cut, DigestReport, Topics, encode_message
from stream_app.wire.state_records import (
    UNCHANGED,
    ManifestKey,
    PageKey,
    StateOrigin,
    decode_manifest,
    encode_manifest,
    encode_page,
    page_digest,
)
from tests.conftest import Kafka
from tests.faults.conftest import (
    Command,
    Flow,
    Oracle,
    Proof,
    digests,
    durable_cut,
    only_digest_reports_differ,
    sentence,
    stop,
)
from tests.fixtures.cut_log import cuts
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka
Produce = Callable[[str, bytes | None, bytes | None], None]
WRONG = "0" * 32


@pytest.fixture
def produce(kafka: Kafka) -> Produce:
    """Give a function that writes one record to partition 0, as any authorised client could."""
    producer = clients.producer(kafka.connection)

    def produced(topic: str, key: bytes | None, value: bytes | None) -> None:
        failed: list[object] = []
        producer.produce(
            topic, key=key, value=value, partition=0, on_delivery=lambda e, _: failed.append(e)
        )
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert failed == [None]

    return produced


def held(kafka: Kafka, names: Topics) -> dict[bytes, Message]:
    """Return the newest record of every key of the state topic."""
    found = {}
    for message in topic_follower.records(kafka.connection, names.state):
        found[bytes(message.key() or b"")] = message
    return {key: message for key, message in found.items() if message.value() is not None}


def newest(kafka: Kafka, names: Topics) -> tuple[bytes, bytes]:
    """Return key and value of the manifest from which a start would go on."""
    found = []
    for key, message in held(kafka, names).items():
        if key[:1] == b"M":
            manifest = decode_manifest(message.value())  # type: ignore[arg-type]
            found.append((manifest.generation, manifest.number, key, message.value()))
    return max(found)[2:]  # type: ignore[return-value]


def flipped(value: bytes, rng: np.random.Generator, after: int = 0) -> bytes:
    """Return the bytes with one bit flipped, somewhere behind `after`."""
    changed = bytearray(value)
    changed[int(rng.integers(after, len(value)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


@pytest.fixture(
    params=[
        "a page",
        "every manifest",
        pytest.param("the newest manifest", marks=pytest.mark.nightly),
    ]
)
def damage(
    request: pytest.FixtureRequest,
    kafka: Kafka,
    names: Topics,
    rng: np.random.Generator,
    produce: Produce,
) -> Callable[[], None]:
    """Give a function that flips a bit in the state topic."""

    def done() -> None:
        key, value = newest(kafka, names)
        if request.param == "the newest manifest":
            produce(names.state, key, flipped(value, rng))
        elif request.param == "every manifest":
            for key, message in held(kafka, names).items():
                if key[:1] == b"M":
                    produce(names.state, key, flipped(message.value(), rng))  # type: ignore[arg-type]
        else:
            key = a_page_of(value, rng)
            found = held(kafka, names)[key].value()
            assert found is not None
            produce(names.state, key, flipped(bytes(found), rng, after=9))

    return done


def a_page_of(manifest: bytes, rng: np.random.Generator) -> bytes:
    """Return the key of a page that the manifest names."""
    found = decode_manifest(manifest)
    keys = [
        PageKey(number, page, slot, found.generation).encode()
        for number, array in enumerate(found.arrays)
        for page, slot in enumerate(array.slots)
        if slot != UNCHANGED
    ]
    return keys[int(rng.integers(len(keys)))]


@pytest.mark.thorough
def test_one_flipped_bit_is_found_and_reported_and_costs_only_time(
    start: Start,
    send: Send,
    flow: Flow,
    proof: Proof,
    rng: np.random.Generator,
    damage: Callable[[], None],
) -> None:
    records = [publish(event) for event in events(rng, 400)]
    first = start()
    with flow(records[:300]):
        until(lambda: durable_cut(first) > 0, "a checkpoint")
    first.wait_for(ends_of(records[:300]))
    stop(first)
    damage()
    second = start()
    send(records[300:])
    state = second.wait_for(ends_of(records))
    proof(state)
    assert re.search(r"damaged\W+[1-9]", second.log.read_text())


@pytest.mark.thorough
def test_what_strangers_write_into_the_state_topic_is_ignored_and_counted(
    start: Start,
    send: Send,
    flow: Flow,
    proof: Proof,
    command: Command,
    rng: np.random.Generator,
    kafka: Kafka,
    names: Topics,
    produce: Produce,
) -> None:
    records = [publish(event) for event in events(rng, 300)]
    first = start()
    with flow(records[:100]):
        until(lambda: durable_cut(first) > 0, "a checkpoint")
    strange = list(forged(kafka, names, rng))
    for key, value in strange:
        produce(names.state, key, value)
    send(records[100:200])
    state = first.wait_for(ends_of(records[:200]))
    assert state["clock"]
    stop(first)
    for key, value in strange:
        produce(names.state, key, value)
    second = start()
    assert '"checkpoint": true' in second.log.read_text()
    send(records[200:])
    proof(second.wait_for(ends_of(records)))
    code, output = command("state", "show", "--json")
    assert code == 0, output
    shown = json.loads(output[output.index("{") :])
    assert shown["foreign"] + shown["damaged"] >= 3


def forged(
    kafka: Kafka, names: Topics, rng: np.random.Generator
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Give junk, and a checkpoint that is right in form, of a generation that no worker claimed."""
    yield b"junk", b"junk"
    yield b"", b"a value under an empty key"
    yield rng.bytes(24), rng.bytes(500)
    yield b"P" + b"\xff" * 15, b"\x01"
    manifest = decode_manifest(newest(kafka, names)[1])
    generation = 2**62
    page = rng.bytes(65536)
    arrays = list(manifest.arrays)
    changed = arrays[0].digests
    assert changed
    arrays[0] = type(arrays[0])(
        arrays[0].name,
        arrays[0].dtype,
        arrays[0].shape,
        bytes(len(arrays[0].slots)),
        page_digest(page) * len(arrays[0].slots),
    )
    for number in range(len(arrays[0].slots)):
        yield PageKey(0, number, 0, generation).encode(), encode_page(9, page)
    lie = type(manifest)(
        **{name: getattr(manifest, name) for name in manifest.__struct_fields__}
        | {"generation": generation, "number": 9, "arrays": tuple(arrays), "cut": manifest.cut + 50}
    )
    yield ManifestKey(1, generation).encode(), encode_manifest(lie)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MURMUREC_HASH_SEED", "2"),
        pytest.param("MURMUREC_TUNING_SKETCH_BYTES", "131072", marks=pytest.mark.nightly),
        pytest.param("MURMUREC_MECHANISMS", "rr:5:2", marks=pytest.mark.nightly),
    ],
)
def test_settings_changed_against_a_checkpoint_are_refused_with_the_ways_out(
    start: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
) -> None:
    records = [publish(event) for event in events(rng, 200)]
    first = start()
    send(records[:100])
    first.wait_for(ends_of(records[:100]))
    stop(first)
    with monkeypatch.context() as changed:
        changed.setenv(name, value)
        refusal = sentence(start(ready=False))
    assert name.removeprefix("MURMUREC_").removeprefix("TUNING_").lower() in refusal
    assert "set them back" in refusal
    assert "--rebuild" in refusal
    again = start()
    send(records[100:])
    proof(again.wait_for(ends_of(records)))


@pytest.mark.nightly
@pytest.mark.thorough
def test_a_rebuild_starts_over_with_other_settings_and_stays_with_them(
    start: Start,
    send: Send,
    rng: np.random.Generator,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [publish(event) for event in events(rng, 300)]
    first = start()
    send(records[:100])
    before = first.wait_for(ends_of(records[:100]))
    stop(first)
    monkeypatch.setenv("MURMUREC_HASH_SEED", "2")
    second = start("--rebuild")
    send(records[100:200])
    state = second.wait_for(ends_of(records[:200]))
    assert state["design_digest"] != before["design_digest"]
    stop(second)
    third = start()
    assert '"checkpoint": true' in third.log.read_text()
    send(records[200:])
    state = third.wait_for(ends_of(records))
    assert state["counts"]["applied"] == 300
    code, output = command("state", "digest", "--json")
    assert code == 0, output
    shown = json.loads(output[output.index("{") :])
    assert shown["model_digest"] == state["model_digest"]
    assert command("state", "verify")[0] == 0


@pytest.mark.thorough
def test_a_replica_that_differs_from_a_digest_report_raises_the_alarm_and_ends_right(
    start: Start,
    send: Send,
    flow: Flow,
    oracle: Oracle,
    command: Command,
    rng: np.random.Generator,
    kafka: Kafka,
    names: Topics,
    produce: Produce,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A marked cut and then a digest report of another state, as if this one were corrupt."""
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "data"))
    records = [publish(event) for event in events(rng, 300)]
    worker = start()
    with flow(records[:100]):
        until(lambda: durable_cut(worker) > 0, "a checkpoint")
    worker.wait_for(ends_of(records[:100]))
    marked = [record for record in records[100:] if record.partition == 0][:10]
    lie(kafka, names, produce, worker, len(marked))
    send(marked)
    until(lambda: worker.metrics()["replicas_differ_total"] >= 1, "the alarm")
    rest = [record for record in records[100:] if record not in marked]
    send(rest)
    state = worker.wait_for(ends_of(records))
    assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
    kept = list((tmp_path / "data" / "evidence" / names.prefix).glob("*.npz"))
    assert kept
    log = worker.log.read_text()
    assert "replica.differs" in log
    assert "murmurec state verify" in log
    stop(worker)
    again = start()
    state = again.wait_for(ends_of(records))
    assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
    only_digest_reports_differ(command, again)


def lie(kafka: Kafka, names: Topics, produce: Produce, worker: WorkerProcess, count: int) -> None:
    """Append a marked cut over `count` records to come on partition 0, and its digest report."""
    last = cuts(kafka, names)[-1]
    state = worker.state()
    end_offsets = (last.end_offsets[0] + count, *last.end_offsets[1:])
    design, origin = state["design_digest"], msgspec.convert(state["base"], StateOrigin).digest
    produce(
        names.cuts, None, encode_message(Cut(last.number + 1, end_offsets, 20_000, design, True))
    )
    produce(
        names.cuts,
        None,
        encode_message(DigestReport(last.number + 1, WRONG, WRONG, design, origin)),
    )

"""A writer and a broker without faults, for tests of one step: states of real pages, and
a loop that acknowledges every record at once."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from stream_app.checkpoints.protocol.recovery import Found, Recovery
from stream_app.checkpoints.protocol.streaming import StreamedRecovery
from stream_app.checkpoints.protocol.writer import (
    Acked,
    Durable,
    Event,
    Freeze,
    Frozen,
    FrozenArray,
    LeaseAcquired,
    Writer,
)
from stream_app.wire.state_records import (
    PAGE_BYTES,
    Manifest,
    SmallArray,
    StateOrigin,
    ledger_root,
    model_root,
    page_digest,
)
from tests.simulation.broker import FIRST_OFFSET, Topic
from tests.simulation.pages import BytePages

DESIGN, TOPIC_ID = "d" * 32, "topic"
BASE = StateOrigin(0, (0, 0))


def frozen(arrays: Mapping[str, bytes], cut: int, origin: StateOrigin = BASE) -> Frozen:
    """Return the state of byte arrays at a cut; a page of zeros is as it was at the start."""
    pages = {
        name: [data[at : at + PAGE_BYTES] for at in range(0, len(data), PAGE_BYTES)]
        for name, data in sorted(arrays.items())
    }
    numbered = list(pages.values())
    described = tuple(
        FrozenArray(
            name,
            "|u1",
            (len(arrays[name]),),
            b"".join(map(page_digest, each)),
            bytes(any(page) for page in each),
        )
        for name, each in pages.items()
    )
    ledger = (
        small("absent", (2,), (1, 0)),
        small("ends", (2,), (3 + cut, 4)),
        small("records", (2, 2), (1, 1 + cut, 4, 0)),
    )
    return Frozen(
        DESIGN, TOPIC_ID, cut, (3 + cut, 4), 2 * cut, origin, model_root(DESIGN, described),
        ledger_root(DESIGN, ledger), described, ledger, lambda array, page: numbered[array][page],
    )  # fmt: skip


def small(name: str, shape: tuple[int, ...], numbers: tuple[int, ...]) -> SmallArray:
    """Return an int64 array of the ledger."""
    return SmallArray(name, "<i8", shape, struct.pack(f"<{len(numbers)}q", *numbers))


def drive(writer: Writer, topic: Topic, event: Event) -> list[Manifest]:
    """Pass an event and deliver every record sent; return the durable manifests."""
    outputs, durable = list(writer.step(event)), []
    while outputs:
        output = outputs.pop(0)
        if isinstance(output, Durable):
            durable.append(output.manifest)
        else:
            offset = topic.append(output.key, output.value)
            outputs += writer.step(Acked(output.token, offset))
    return durable


def owner(topic: Topic, name: int = 0, bound: int = 8 << 20) -> Writer:
    """Return a writer that owns a generation of the topic."""
    writer = Writer(bound)
    recovery = read(topic)
    drive(writer, topic, LeaseAcquired(bytes([name]) * 16, f"worker {name}", recovery.keys))
    return writer


def write(writer: Writer, topic: Topic, state: Frozen) -> Manifest:
    """Write a checkpoint to its end."""
    (manifest,) = drive(writer, topic, Freeze(state))
    return manifest


def read(
    topic: Topic, design: str = DESIGN, topic_id: str = TOPIC_ID, partitions: int = 2
) -> Recovery:
    """Return a recovery that has read the whole topic."""
    recovery = Recovery(design, topic_id, partitions)
    for offset, key, value in topic.read(FIRST_OFFSET, topic.end, 10**6):
        recovery.read(offset, key, value)
    return recovery


def placed(topic: Topic, hints: int = 64) -> tuple[Found, BytePages]:
    """Recover as a worker does; the newest manifest is looked for in the last `hints` records."""
    store = BytePages()
    streamed = StreamedRecovery(Recovery(DESIGN, TOPIC_ID, 2), store)
    streamed.hint(topic.records[len(topic.records) - hints :])
    found: Found | int | None = FIRST_OFFSET
    while isinstance(found, int):
        for record in topic.read(found, topic.end, 10**6):
            streamed.read(*record)
        found = streamed.decide()
    assert found is not None
    return found, store


def damage(topic: Topic, at: int, value: bytes | None) -> None:
    """Put another value in the place of record number `at`."""
    topic.records[at] = topic.records[at]._replace(value=value)

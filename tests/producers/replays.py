"""Replaying a data set in a test, and the topic that it is sent to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from producers.datasets.load import Dataset
from producers.device.item_means import ItemTable
from producers.device.requests import ReportSettings
from producers.fleet.population import populate
from producers.fleet.replay import ReplayOptions, ReplayProgress, replay
from producers.journal import Journal, Message
from stream_app import wire
from stream_app.privacy import registry
from tests.producers.conftest import TOPIC

OPEN, RR = registry.parse("none:5:inf"), registry.parse("rr:5:2")


PARTITION, CELL = registry.parse("partition:5:2"), registry.parse("cell:5:2")


INTAKE = wire.Intake(
    {"none:5:inf": 5, "rr:5:2": 5, "partition:5:2": 5}, accept_tests=True,
    masked={"partition:5:2": 5},
)  # fmt: skip


class CrashError(Exception):
    pass


class Topic:
    """The sent messages, decoded as by a server; may crash at the n-th message."""

    def __init__(self, journal: Journal | None = None, crash_at: int | None = None) -> None:
        self.events: list[wire.Event] = []
        self.values: list[bytes] = []
        self.journal = journal
        self.crash_at = crash_at

    def send(self, message: Message) -> None:
        if self.crash_at is not None and len(self.events) >= self.crash_at:
            raise CrashError
        key, value = message.key, message.value
        where = int(wire.partitions_of(np.frombuffer(key, np.uint8).reshape(1, 32), 4)[0])
        self.events.append(wire.decode(key, value, where, INTAKE))
        self.values.append(value)
        if self.journal is not None:
            self.journal.acknowledge(message.number)

    def cells(self) -> list[tuple[bytes, int, int]]:
        return [
            (event.device, int(item), int(report))
            for event in self.events
            for item, report in zip(event.items, event.reports, strict=True)
        ]


def run(data: Dataset, journal: Journal, topic: Topic, **changed: Any) -> Iterator[ReplayProgress]:
    line = ReportSettings(TOPIC, changed.pop("mechanism", OPEN), changed.pop("table", ItemTable()))
    epoch, make_room = changed.pop("epoch", 20_000), changed.pop("make_room", None)
    options = ReplayOptions(**{"chunk": 64} | changed)
    return replay(
        populate(data, journal.key), line, journal=journal, send=topic.send, epoch=epoch,
        options=options, make_room=make_room,
    )  # fmt: skip


def last(steps: Iterator[ReplayProgress]) -> ReplayProgress:
    return list(steps)[-1]

"""Ending an epoch in a test, and an observer of the messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from producers.device.item_means import ItemTable
from producers.device.requests import ReportSettings
from producers.fleet.epoch_emission import EpochProgress, emit
from producers.fleet.epoch_requests import EmissionOptions
from producers.fleet.population import Population
from producers.fleet.replay import Pace
from producers.journal import Journal, Message
from stream_app import wire
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from tests.producers.conftest import TOPIC
from tests.producers.journals import Enrolling

CELL, LOUD = registry.parse("cell:5:2"), registry.parse("cell:5:60")  # 60: hardly any noise


RR, OPEN, PARTITION = (registry.parse(id) for id in ("rr:5:2", "none:5:inf", "partition:5:2"))


INTAKE = wire.Intake(
    {m.id: m.alphabet for m in (CELL, LOUD, RR, OPEN, PARTITION)} | {"cell:5:5/2": 6},
    masked={"partition:5:2": 5},
)


SCOPE = np.arange(60, dtype=np.uint64)


MISSING = 5


@dataclass
class Observer:
    """Records when messages come, from whom and how large they are."""

    now: float = 0.0
    seen: list[tuple[float, bytes, int]] = field(default_factory=list)
    events: list[wire.Event] = field(default_factory=list)
    journal: Journal | None = None
    intake: wire.Intake = INTAKE

    def send(self, message: Message) -> None:
        self.seen.append((self.now, message.device, len(message.value)))
        where = np.frombuffer(message.key, np.uint8).reshape(1, 32)
        partition = int(wire.partitions_of(where, 4)[0])
        self.events.append(wire.decode(message.key, message.value, partition, self.intake))
        if self.journal is not None:
            self.journal.acknowledge(message.number)

    def pace(self, speed: float) -> Pace:
        def pause(seconds: float) -> None:
            self.now += seconds

        return Pace(speed, lambda: self.now, pause)

    def cells(self) -> dict[tuple[bytes, int], int]:
        found = {
            (event.device, int(item)): int(report)
            for event in self.events
            for item, report in zip(event.items, event.reports, strict=True)
        }
        assert len(found) == sum(len(event.items) for event in self.events), "a cell twice"
        return found


def run(
    population: Population, journal: Journal, seen: Observer, mechanism: Mechanism = CELL,
    **changed: Any,
) -> EpochProgress:  # fmt: skip
    line = ReportSettings(TOPIC, mechanism, table=changed.pop("table", ItemTable()))
    hidden = mechanism in (CELL, LOUD) or "sample" in changed
    scope = changed.pop("scope", SCOPE if hidden else None)
    epoch, make_room = changed.pop("epoch", 20_000), changed.pop("make_room", None)
    if isinstance(journal, Enrolling):
        journal.meet(population.devices)
    options = EmissionOptions(**{"scope": scope, "cells": 300} | changed)
    steps = emit(
        population, line, journal=journal, send=seen.send, epoch=epoch, options=options,
        make_room=make_room,
    )  # fmt: skip
    return list(steps)[-1]

"""Journals for tests: two devices, four mechanisms, and a release in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from producers.device import requests as device
from producers.journal import (
    Journal,
    Message,
    Request,
)
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from tests.producers.conftest import TOPIC

ANN, BOB = b"a" * 16, b"b" * 16
RR, HALF, OPEN, CELL = (
    registry.parse(id) for id in ("rr:5:2", "rr:5:1/2", "none:5:inf", "cell:5:2")
)


def ask(who: bytes, *items: int, mechanism: Mechanism = RR, **changed: Any) -> Request:
    given = {"epoch": changed.pop("epoch", 20_000), "republish": changed.pop("republish", False)}
    line = device.ReportSettings(changed.pop("topic", TOPIC), mechanism)
    levels = np.zeros(len(items), np.uint8)
    return device.request(levels, list(items), line, device=who, **given, **changed)


def release(journal: Journal, who: bytes, *items: int, **changed: Any) -> list[Message]:
    return journal.release(ask(who, *items, **changed))


def at(path: Path, **changed: Any) -> Journal:
    return Journal.open(path, **changed)

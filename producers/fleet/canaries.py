"""Canaries of `murmurec audit canary`: accounts of an own journal, released as on any device.

Each input of a mechanism has one account, which rates every item alike. The journal is in a folder
of its own, which is removed, and nothing is sent: no worker can learn a canary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from producers.device.requests import ReportSettings, request
from producers.journal import Journal, Message
from producers.person.enrolment import NO_LIMIT
from producers.pseudonyms import pseudonym
from stream_app.privacy.mechanism import Mechanism

_ITEMS, _EPOCH = 1000, 1  # of one request


def released(
    mechanisms: Sequence[Mechanism], reports: int
) -> tuple[list[Message], dict[bytes, int]]:
    """Return messages of at least so many reports under each mechanism that claims something, and
    the level index of each account, -1 for one that has rated nothing."""
    messages, rated = list[Message](), dict[bytes, int]()
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "device.journal") as journal:
        for mechanism in (each for each in mechanisms if each.epsilon is not None):
            settings, count = ReportSettings("canary", mechanism), -(-reports // mechanism.inputs)
            names = [f"{mechanism.id} {n}" for n in range(mechanism.inputs)]
            devices = [pseudonym(journal.key, name) for name in names]
            journal.enrol(devices, NO_LIMIT, _EPOCH, simulated=True)
            for start in range(0, count, _ITEMS):
                items = np.arange(start, min(start + _ITEMS, count), dtype=np.uint64)
                requests = []
                for n, device in enumerate(devices):
                    raw_levels = np.full(len(items), n, np.uint8)
                    requests += [request(raw_levels, items, settings, device=device, epoch=_EPOCH)]
                messages += (sent := journal.commit(requests))
                for message in sent:
                    journal.acknowledge(message.number)
            rated |= dict(zip(devices, [*range(mechanism.levels), -1], strict=False))
    return messages, rated

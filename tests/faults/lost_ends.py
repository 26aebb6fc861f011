"""Cuts the end off a partition on the disk of a broker that does not run, as a power cut does."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.faults.brokers import Node

_BATCH = struct.Struct(">qi")  # base offset, length of the rest
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT = 23


def cut_off(node: Node, topic: str, partition: int, end: int) -> None:
    """Let a partition end at an offset: batches that reach beyond it are gone."""
    assert not node.running
    folder: Path = node.home / "log" / f"{topic}-{partition}"
    (segment,) = folder.glob("*.log")
    data = segment.read_bytes()
    at = 0
    while at < len(data):
        base, length = _BATCH.unpack_from(data, at)
        (delta,) = _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)
        if base + delta >= end:
            break
        at += _BATCH.size + length
    assert at < len(data), f"{topic}-{partition} ends before offset {end} already"
    with segment.open("r+b") as file:
        file.truncate(at)
    for index in folder.glob("*.*index"):
        index.unlink()

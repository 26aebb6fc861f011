"""Placeholder until the state part lands."""

from __future__ import annotations

from typing import Any


class Change:
    shard: int
    number: int


def decode_change(value: bytes | None, seal: Any) -> Change:
    raise NotImplementedError


def encode_change(change: Change, seal: Any) -> bytes:
    raise NotImplementedError

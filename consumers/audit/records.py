"""A record as an outside observer sees it: bytes, place and time, before anything is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """The topic that a record comes from, by its role in the deployment."""

    RATINGS = "ratings"
    PROFILES = "profiles"
    REPLIES = "recommendations"


@dataclass(frozen=True)
class Record:
    """One record of a topic; `time` in milliseconds since 1970, `headers` counts its headers."""

    source: Source
    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: int = 0
